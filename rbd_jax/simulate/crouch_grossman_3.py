"""The Crouch–Grossman scheme of third order."""

from ._explicit import CommutatorFree


class CrouchGrossman3(CommutatorFree):
    """Third order, three evaluations; each successive step follows the velocity of a single stage.

    The coefficients are those of Owren & Marthinsen (1999), as in Hairer, Lubich & Wanner §IV.8.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.CrouchGrossman3())
    >>> print(path.q[-1])
    [-0.499]
    """

    stages = (((3 / 4,),), ((119 / 216,), (0, 17 / 108)))
    end = ((13 / 51,), (0, -2 / 3), (0, 0, 24 / 17))
