"""The commutator-free scheme of third order."""

from ._explicit import CommutatorFree


class CommutatorFree3(CommutatorFree):
    """Third order, three evaluations; the last displacement consists of two steps (Celledoni, Marthinsen & Owren 2003).

    In a vector space it is Heun's third-order scheme.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.CommutatorFree3())
    >>> print(path.q[-1])
    [-0.499]
    """

    stages = (((1 / 3,),), ((0, 2 / 3),))
    end = ((1 / 3,), (-1 / 12, 0, 3 / 4))
