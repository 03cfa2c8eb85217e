"""Model predictive path integral control: the weight of a sample is the exponential of its cost (Williams et al. 2017)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import number
from ._sampling import Interpolation, Sampling, _median


#: Default temperature, as a share of the difference of the median cost from the least cost of the samples.
COLD = 0.1


class MPPI(Sampling):
    """Sampling-based search that averages controls with weights `exp(-(J - J_least) / temperature)` of their costs J.

    The search uses no derivatives: it suits discontinuous costs, rigid contact, and many samples on a GPU. Each iteration
    rolls out `samples` motions (`batch_map`), under controls `clip(mean + W ε)` around the mean. The mean then moves to
    their weighted average. Failed samples have weight zero.

    Bounds of controls hold exactly, by clipping. Constraints and bounds of states are penalized: the penalty is `penalty`
    times the sum of the violations over all knots. `Solution.violation` is the remaining violation. The duration cannot be
    free.

    The solution is the best of all evaluated motions and the last mean. Its `code` is `CONVERGED` if samples no longer
    differ: the median of the last costs exceeds the least cost by at most the share `tolerance` of it, and the violation is
    at most `constraint_tolerance`. Convergence suggests a minimum, but does not prove it. Otherwise the code is
    `NOT_CONVERGED`, or `NOT_FINITE` if every motion failed. `stationarity` is the difference of these costs; `gains` and
    `costates` are `None`.

    Args:
      samples, max_iterations: Number of motions in each iteration, and maximum number of iterations.
      spread: Standard deviation of samples, a number or one for each control; by default a quarter of the distance between
        the bounds of the controls.
      temperature: In units of the cost; a lower temperature concentrates the weights on fewer samples. By default a tenth of
        the difference of the median cost from the least cost, recomputed in each iteration.
      knots: Number of knots of the change of a control, each with random values. Fewer knots give smoother motions and a
        shorter search. By default every step is a knot.
      interpolation: Between knots: "zero-order", "linear" or "cubic".
      color: The exponent β of the noise along time, whose power is proportional to f^-β: 0 is white noise, 2 a random walk.
      adaptation: Share by which the spread moves to that of the weighted samples in each iteration; zero keeps it constant.
      least_spread: Lower limit of the spread, as a share of its initial value.
      penalty: The cost of a unit of violation.
      tolerance, constraint_tolerance: Tolerances of convergence, see above.
      key: A random key or a seed. The same key gives the same solution. If the guess is a solution of a sampling-based
        solver, the search continues with new samples.

    >>> model = rbd.load("pendulum")
    >>> problem = rbd.control.Problem(
    ...     model,
    ...     rbd.State(jnp.zeros(1), jnp.zeros(1)),
    ...     steps=50,
    ...     dt=0.02,
    ...     running=[rbd.control.Value(lambda t, state, control: jnp.where(jnp.abs(state.q[0] - 1) > 0.1, 1.0, 0.0))],
    ...     bounds=rbd.control.Bounds(control=(-20.0, 20.0)),
    ... )
    >>> solution = rbd.control.solve(problem, rbd.control.MPPI(samples=64, max_iterations=10, knots=6, key=1))
    >>> solution.control.shape
    (50, 1)
    """

    temperature: Float[Array, ""] | None

    def __init__(
        self,
        *,
        samples: int = 256,
        max_iterations: int = 30,
        spread: Any = None,
        temperature: Any = None,
        knots: int | None = None,
        interpolation: Interpolation = "cubic",
        color: float = 0.0,
        adaptation: Any = 0.5,
        least_spread: Any = 1e-3,
        penalty: Any = 1e3,
        tolerance: Any = 1e-3,
        constraint_tolerance: Any = 1e-3,
        key: Any = 0,
    ):
        self._set(
            "control.MPPI",
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
        self.temperature = (
            None if temperature is None else number("control.MPPI", "temperature", temperature, above=0)
        )

    def weights(self, costs: Float[Array, "samples"]) -> Float[Array, "samples"]:
        least = jnp.min(costs)
        if self.temperature is None:
            temperature = COLD * (_median(costs) - least)
        else:
            temperature = self.temperature.astype(costs.dtype)
        # Equal costs give equal weights.
        above = costs - least
        return jnp.exp(-above / jnp.where(temperature > 0, temperature, 1))
