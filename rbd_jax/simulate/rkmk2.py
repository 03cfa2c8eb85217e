"""The Runge–Kutta–Munthe-Kaas scheme of second order."""

from ._explicit import MuntheKaas


class RKMK2(MuntheKaas):
    """The explicit midpoint rule in the chart at the step's start: second order, two evaluations."""

    stages = (((1 / 2,),),)
    end = ((0, 1),)
