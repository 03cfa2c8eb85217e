"""The Runge–Kutta–Munthe-Kaas scheme of third order."""

from ._explicit import MuntheKaas


class RKMK3(MuntheKaas):
    """Kutta's scheme in the chart at the step's start: third order, three evaluations.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.RKMK3())
    >>> print(path.q[-1])
    [-0.499]
    """

    stages = (((1 / 2,),), ((-1, 2),))
    end = ((1 / 6, 2 / 3, 1 / 6),)
