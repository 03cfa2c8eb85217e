"""The cross-entropy method: each iteration samples around the best samples of the last one (Rubinstein 1999, Kobilarov 2012)."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from .._core.arguments import whole_number
from ._sampling import Interpolation, Sampling


class CEM(Sampling):
    """Sampling-based search with the mean and standard deviation of the best samples of the last iteration.

    Samples, bounds, constraints, the solution and its code are as for `MPPI`. The mean of the next samples is the mean of
    the `elites`, and their spread approaches the spread of the elites.

    Args:
      samples, max_iterations: Number of motions in each iteration, and maximum number of iterations.
      elites: Number of best samples; by default a tenth of the samples, and at least two.
      adaptation: Share by which the spread moves to that of the elites in each iteration.
      spread, knots, interpolation, color, least_spread, penalty, tolerance, constraint_tolerance, key: As for `MPPI`.

    >>> model = rbd.load("cartpole")
    >>> problem = rbd.control.Problem(
    ...     model,
    ...     rbd.State(jnp.array([0.0, jnp.pi]), jnp.zeros(2)),
    ...     steps=50,
    ...     dt=0.02,
    ...     terminal=[rbd.control.Posture(), 0.1 * rbd.control.Velocity()],
    ...     bounds=rbd.control.Bounds(control=(-10.0, 10.0)),
    ... )
    >>> solution = rbd.control.solve(problem, rbd.control.CEM(samples=64, max_iterations=10, knots=6))
    >>> solution.control.shape
    (50, 1)
    """

    elites: int = eqx.field(static=True)

    def __init__(
        self,
        *,
        samples: int = 256,
        max_iterations: int = 30,
        elites: int | None = None,
        spread: Any = None,
        knots: int | None = None,
        interpolation: Interpolation = "cubic",
        color: float = 0.0,
        adaptation: Any = 0.8,
        least_spread: Any = 1e-3,
        penalty: Any = 1e3,
        tolerance: Any = 1e-3,
        constraint_tolerance: Any = 1e-3,
        key: Any = 0,
    ):
        self._set(
            "control.CEM",
            samples=samples,
            max_iterations=max_iterations,
            spread=spread,
            knots=knots,
            interpolation=interpolation,
            color=color,
            adaptation=adaptation,
            least_spread=least_spread,
            penalty=penalty,
            tolerance=tolerance,
            constraint_tolerance=constraint_tolerance,
            key=key,
        )
        self.elites = (
            max(2, self.samples // 10) if elites is None else whole_number("control.CEM", "elites", elites)
        )
        if self.elites > self.samples:
            raise ValueError(
                f"control.CEM: elites is {self.elites}, and there are only {self.samples} samples"
            )

    def weights(self, costs: Float[Array, "samples"]) -> Float[Array, "samples"]:
        _, best = lax.top_k(-costs, self.elites)
        return jnp.zeros_like(costs).at[best].set(1)
