"""The commutator-free scheme of second order."""

from ._explicit import CommutatorFree


class CommutatorFree2(CommutatorFree):
    """The explicit midpoint rule, `q⁺ = q ⊕ h v_m`: second order, two evaluations.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.CommutatorFree2())
    >>> print(path.q[-1])
    [-0.499]
    """

    stages = (((1 / 2,),),)
    end = ((0, 1),)
