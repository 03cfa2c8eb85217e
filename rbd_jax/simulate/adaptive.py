"""Explicit Runge–Kutta schemes of diffrax on the configuration manifold, with adaptive steps."""

from __future__ import annotations

import functools
from typing import Any

import equinox as eqx

from ._adaptive import AdaptiveScheme, Pair, tolerance


class Adaptive(AdaptiveScheme):
    """The scheme of a diffrax solver such as `diffrax.Dopri8()` in the chart at the start of each step, after Munthe-Kaas.

    The scheme uses only the coefficients of the solver; stages, charts and step size control are the same as in `RKMK45`.
    `max_steps` limits the number of attempted steps within one interval of the rollout.

    Between the times of the rollout, `Trajectory.at` returns the cubic through its rows, not the steps of the scheme. Its error
    depends on the interval `dt`, not on the tolerances. Events are also checked at the rows only.

    >>> import diffrax
    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.5, steps=2, scheme=rbd.Adaptive(diffrax.Bosh3(), rtol=1e-5))
    >>> print(path.q[:, 0])
    [ 0.5    0.015 -0.499]
    """

    solver: Any = eqx.field(static=True)
    rtol: float = eqx.field(static=True, converter=functools.partial(tolerance, "rtol"))
    atol: float = eqx.field(static=True, converter=functools.partial(tolerance, "atol"))
    max_steps: int = eqx.field(static=True)

    def __init__(self, solver, rtol: float = 1e-6, atol: float = 1e-9, max_steps: int = 1000):
        try:
            import diffrax
        except ImportError:
            raise ImportError(
                "Adaptive: diffrax is not installed: pip install 'rbd_jax[adaptive]' (RKMK45 does not need it)"
            ) from None
        if not isinstance(solver, diffrax.AbstractERK):
            raise ValueError(
                f"Adaptive: solver must be an explicit Runge–Kutta solver of diffrax, as diffrax.Dopri8(), got {solver!r}"
            )
        self.solver = solver
        self.rtol, self.atol, self.max_steps = rtol, atol, max_steps

    @property
    def pair(self):
        tableau = self.solver.tableau
        rows = [
            tuple(float(share) for share in row) for row in (*tableau.a_lower, tableau.b_sol, tableau.b_error)
        ]
        *stages, end, error = ((row,) for row in rows)
        return Pair(tuple(stages), end, error, self.solver.order(None))
