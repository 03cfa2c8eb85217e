"""The commutator-free scheme of third order."""

from ._explicit import CommutatorFree


class CommutatorFree3(CommutatorFree):
    """Third order, three evaluations; the last displacement is two steps (Celledoni, Marthinsen & Owren 2003).

    In a vector space it is Heun's third-order scheme.
    """

    stages = (((1 / 3,),), ((0, 2 / 3),))
    end = ((1 / 3,), (-1 / 12, 0, 3 / 4))
