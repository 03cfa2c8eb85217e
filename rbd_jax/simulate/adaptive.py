"""Any explicit Runge–Kutta scheme of diffrax on the configuration manifold, with steps of its own choice."""

from __future__ import annotations

import functools
from typing import Any

import equinox as eqx

from ._adaptive import AdaptiveScheme, Pair, tolerance


class Adaptive(AdaptiveScheme):
    """The scheme of a diffrax solver such as `diffrax.Dopri8()` in the chart at each step's start, after Munthe-Kaas.

    Of the solver its coefficients are taken; stages, charts and the choice of steps are those of `RKMK45`.
    `max_steps` bounds the number of tried steps within one interval of the rollout. Between the rollout's times
    `Trajectory.at` gives the cubic through its rows, not the scheme's own steps: the error there is of their distance
    `dt`, not of the tolerances. Events are looked for at the rows, too.

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
                "Adaptive takes its schemes from diffrax, which is not installed: pip install 'rbd_jax[adaptive]' "
                "(RKMK45 needs no diffrax)"
            ) from None
        if not isinstance(solver, diffrax.AbstractERK):
            raise ValueError(
                f"Adaptive: solver is {solver!r}; it is an explicit Runge–Kutta solver of diffrax, as diffrax.Dopri8()"
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
