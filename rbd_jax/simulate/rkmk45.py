"""The Runge–Kutta–Munthe-Kaas scheme of fifth order with an error estimate of fourth (Dormand & Prince 1980)."""

import functools

import equinox as eqx

from ._adaptive import AdaptiveScheme, Pair, tolerance


DORMAND_PRINCE = Pair(
    stages=(
        ((1 / 5,),),
        ((3 / 40, 9 / 40),),
        ((44 / 45, -56 / 15, 32 / 9),),
        ((19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),),
        ((9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),),
        ((35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),),
    ),
    end=((35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),),
    error=((71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40),),
    order=5,
)


class RKMK45(AdaptiveScheme):
    """The pair of Dormand & Prince in the chart at the start of each step, with adaptive steps within the tolerances.

    `max_steps` limits the number of attempted steps within one interval of the rollout.

    Between the times of the rollout, `Trajectory.at` returns the cubic through its rows, not the steps of the scheme. Its error
    depends on the interval `dt`, not on the tolerances. Events are also checked at the rows only.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.5, steps=2, scheme=rbd.RKMK45(rtol=1e-6, atol=1e-9))
    >>> print(path.q[:, 0])
    [ 0.5    0.015 -0.499]
    """

    rtol: float = eqx.field(static=True, converter=functools.partial(tolerance, "rtol"), default=1e-6)
    atol: float = eqx.field(static=True, converter=functools.partial(tolerance, "atol"), default=1e-9)
    max_steps: int = eqx.field(static=True, default=1000)

    @property
    def pair(self):
        return DORMAND_PRINCE
