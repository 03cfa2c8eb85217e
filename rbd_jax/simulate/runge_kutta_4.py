"""The classical Runge–Kutta scheme on the configuration manifold, after Munthe-Kaas.

In a vector space it is the classical scheme, on a manifold the one of Munthe-Kaas (often called RKMK4): the joints' ⊕ tells
which.
"""

from ._explicit import MuntheKaas


class RungeKutta4(MuntheKaas):
    """Fourth order, four evaluations."""

    stages = (((1 / 2,),), ((0, 1 / 2),), ((0, 0, 1),))
    end = ((1 / 6, 1 / 3, 1 / 3, 1 / 6),)
