"""Model predictive path integral control: samples count by the exponential of what they cost (Williams et al. 2017)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import number
from ._sampling import Interpolation, Sampling, _median


#: The temperature where none is given: such a share of what half of the samples cost more than the best one.
COLD = 0.1


class MPPI(Sampling):
    """Samples of controls, averaged with weights `exp(-(J - J_least) / temperature)` of their costs J.

    Nothing is differentiated: for costs that jump, for rigid contact, for many samples on a GPU. In each iteration `samples`
    motions are rolled out (`batch_map`), under controls `clip(mean + W ε)` drawn around the mean; the mean moves to their
    average. Those that fail count for nothing.

    Bounds of controls are kept exactly: what is drawn is cut off there. Constraints and bounds of states are penalized by what
    they are broken by, `penalty` times the sum over all knots, and `Solution.violation` is by how much they were in the end. The
    duration cannot be free.

    The solution is the best of all motions that were tried, and the last mean. Its `code` is `CONVERGED` if samples no
    longer differ: half of the last ones cost no more than `tolerance` beyond the best of them, as a share of the cost, and the
    violation is at most `constraint_tolerance`. That is a minimum as far as samples can tell, not a proof of one. Else
    it is `NOT_CONVERGED`, or `NOT_FINITE` where every motion failed. `stationarity` is by how much they differ, in units of the
    cost; there are no `gains` and no `costates`.

    **Arguments**

    - `samples`, `max_iterations`: how many motions in each iteration, and of these at most how many.
    - `spread`: the standard deviation of samples, a number or one for each control; by default a quarter of what lies between
      the bounds of the controls.
    - `temperature`: in units of the cost: the lower, the fewer samples count. By default a tenth of what half of the
      samples cost more than the best one, in every iteration anew.
    - `knots`: through so many knots goes the change of a control, and each is drawn: fewer make smooth motions, and a shorter
      search. By default every step has its own.
    - `interpolation`: between knots: "zero-order", "linear" or "cubic".
    - `color`: the exponent β of the noise along time, whose power falls as f^-β: 0 is white, 2 wanders about.
    - `adaptation`: the share by which in each iteration the spread follows that of the samples as they are weighted; with zero
      it stays.
    - `least_spread`: the spread does not become less than this share of what it was.
    - `penalty`: the cost of a unit of violation.
    - `key`: a random key or a seed. The same key gives the same solution, but from a guess that is a solution by samples
      itself, the search goes on with other samples.

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
        # All alike: all count.
        above = costs - least
        return jnp.exp(-above / jnp.where(temperature > 0, temperature, 1))
