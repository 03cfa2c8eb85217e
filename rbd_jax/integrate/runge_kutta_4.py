"""The classical Runge–Kutta scheme on the configuration manifold, after Munthe-Kaas: `RungeKutta4`, also called `RKMK4`.

In a vector space it is the classical scheme, on a manifold the one of Munthe-Kaas; the joints' ⊕ tells which. So there is
one scheme with two names: the one that everybody looks for, and its place in the family.
"""

from ._explicit import MuntheKaas


class RungeKutta4(MuntheKaas):
    """Fourth order, four evaluations."""

    stages = (((1 / 2,),), ((0, 1 / 2),), ((0, 0, 1),))
    end = ((1 / 6, 1 / 3, 1 / 3, 1 / 6),)


RKMK4 = RungeKutta4
