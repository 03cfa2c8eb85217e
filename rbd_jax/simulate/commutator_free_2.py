"""The commutator-free scheme of second order."""

from ._explicit import CommutatorFree


class CommutatorFree2(CommutatorFree):
    """The explicit midpoint rule, `q⁺ = q ⊕ h v_m`: second order, two evaluations."""

    stages = (((1 / 2,),),)
    end = ((0, 1),)
