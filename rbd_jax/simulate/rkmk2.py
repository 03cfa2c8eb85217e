"""The Runge–Kutta–Munthe-Kaas scheme of second order."""

from ._explicit import MuntheKaas


class RKMK2(MuntheKaas):
    """The explicit midpoint rule in the chart at the step's start: second order, two evaluations.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.RKMK2())
    >>> print(path.q[-1])
    [-0.499]
    """

    stages = (((1 / 2,),),)
    end = ((0, 1),)
