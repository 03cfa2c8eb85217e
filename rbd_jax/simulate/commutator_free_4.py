"""The commutator-free scheme of fourth order."""

from ._explicit import CommutatorFree


class CommutatorFree4(CommutatorFree):
    """Fourth order, four evaluations (Celledoni, Marthinsen & Owren 2003).

    The displacements of the last stage and of the end consist of two steps each.
    In a vector space it is the classical Runge–Kutta scheme.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.CommutatorFree4())
    >>> print(path.q[-1])
    [-0.499]
    """

    stages = (((1 / 2,),), ((0, 1 / 2),), ((1 / 2,), (-1 / 2, 0, 1)))
    end = ((3 / 12, 2 / 12, 2 / 12, -1 / 12), (-1 / 12, 2 / 12, 2 / 12, 3 / 12))
