"""The Runge–Kutta–Munthe-Kaas scheme of third order."""

from ._explicit import MuntheKaas


class RKMK3(MuntheKaas):
    """Kutta's scheme in the chart at the step's start: third order, three evaluations."""

    stages = (((1 / 2,),), ((-1, 2),))
    end = ((1 / 6, 2 / 3, 1 / 6),)
