"""Sampling-based search: draws controls around a mean, rolls them out, and moves the mean to samples of lower cost.

The search uses no derivatives, so costs and dynamics may be discontinuous: thresholds, switches, rigid contact. Samples are
changes of the controls of all steps, `u = clip(mean + W ε)`: curves W through a few knots, with normal deviates ε at the
knots. The deviates have colored noise along time (power proportional to f^-color). `MPPI` and `CEM` differ in the weights of
samples.
"""

from __future__ import annotations

import abc
from typing import Any, Literal, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from .._core.arguments import choice, number, whole_number
from .._core.array import floating, is_known
from ..optimize.outcome import Code
from ..parallel.batch import batch_map
from ._stages import Point, Stages
from .problem import Problem
from .solution import Solution
from .solver import Solver, Start


#: Interpolation of a control between knots: held, linear, or cubic with continuous slope.
Interpolation: TypeAlias = Literal["zero-order", "linear", "cubic"]

#: Default standard deviation of samples, as a share of the distance between bounds.
SHARE = 0.25


class Draws(eqx.Module):
    """The number of draws so far. A search that continues from an earlier solution draws new samples."""

    count: Int[Array, ""]


class Sampled(NamedTuple):
    """The state of a search.

    - `mean`, `spread`: of the next samples: the control of every step, and standard deviations at the knots.
    - `best`, `best_cost`: the best motion so far, by its cost with penalties.
    - `differs`: the median cost of the last samples minus the cost of the best of them.
    - `violation`: of the best motion.
    - `iteration`, `draws`: the number of iterations of this search, and the total number of draws.
    """

    mean: Float[Array, "steps nu"]
    spread: Float[Array, "knots nu"]
    best: Float[Array, "steps nu"]
    best_cost: Float[Array, ""]
    differs: Float[Array, ""]
    violation: Float[Array, ""]
    iteration: Int[Array, ""]
    draws: Int[Array, ""]


class Judged(NamedTuple):
    """The cost of a motion, without and with penalties, and its largest violation of a constraint or bound."""

    cost: Float[Array, ""]
    penalized: Float[Array, ""]
    violation: Float[Array, ""]


class Sampling(Solver):
    """The base class of sampling-based solvers: see `MPPI` and `CEM`."""

    samples: int = eqx.field(static=True)
    max_iterations: int = eqx.field(static=True)
    knots: int | None = eqx.field(static=True)
    interpolation: Interpolation = eqx.field(static=True)
    color: float = eqx.field(static=True)
    spread: Float[Array, "*nu"] | None
    adaptation: Float[Array, ""]
    least_spread: Float[Array, ""]
    penalty: Float[Array, ""]
    tolerance: Float[Array, ""]
    constraint_tolerance: Float[Array, ""]
    key: Any

    @abc.abstractmethod
    def weights(self, costs: Float[Array, "samples"]) -> Float[Array, "samples"]:
        """Returns the weight of each sample from its cost, which is infinite for a failed sample.

        Weights need not be normalized.
        """

    def _set(self, owner: str, **given: Any) -> None:
        """Checks and sets the common fields."""
        for name in ("samples", "max_iterations"):
            setattr(self, name, whole_number(owner, name, given[name]))
        self.knots = None if given["knots"] is None else whole_number(owner, "knots", given["knots"])
        choices = ("zero-order", "linear", "cubic")
        self.interpolation = choice(owner, "interpolation", given["interpolation"], choices)  # pyright: ignore[reportAttributeAccessIssue]
        self.color = float(number(owner, "color", given["color"], least=0))
        self.spread = None if given["spread"] is None else _spread(owner, given["spread"])
        self.adaptation = number(owner, "adaptation", given["adaptation"], least=0, most=1)
        self.least_spread = number(owner, "least_spread", given["least_spread"], least=0, most=1)
        for name in ("penalty", "tolerance", "constraint_tolerance"):
            setattr(self, name, number(owner, name, given[name], least=0))
        self.key = _key(owner, given["key"])

    def refuse(self, problem: Problem) -> None:
        owner = f"control.{type(self).__name__}"
        if problem.duration is not None:
            raise ValueError(
                f"{owner}: the duration of the problem is free, and the solver samples controls for steps of fixed length; leave "
                "`duration` out, or use another solver"
            )
        if self.knots is not None and self.knots > problem.steps:
            raise ValueError(
                f"{owner}: knots is {self.knots}, and the problem has only {problem.steps} steps"
            )
        pair = problem.bounds.control
        if self.spread is None:
            if pair is None or (is_known(pair) and not all(np.isfinite(side).all() for side in pair)):
                raise ValueError(
                    f"{owner}: spread is missing. Its default requires bounds of all controls, and some controls have none. "
                    "Pass spread, or pass bounds=control.Bounds.of(model) to the problem."
                )
        elif self.spread.ndim and self.spread.shape != (problem.nu,):
            raise ValueError(
                f"{owner}: spread has shape {self.spread.shape}; it must be one number, or one for each of the problem's "
                f"{problem.nu} controls: {', '.join(problem.control_names)}"
            )

    # The search.

    def begin(self, stages: Stages, start: Start) -> Sampled:
        self.refuse(stages.problem)
        mean = _within(start.control, stages.control_bounds())
        knots = stages.steps if self.knots is None else self.knots
        spread = jnp.broadcast_to(self._first_spread(stages), (knots, stages.nu))
        worst, none = jnp.full((), jnp.inf, stages.dtype), jnp.int32(0)
        known = start.multipliers
        draws = known.count if isinstance(known, Draws) else none
        return Sampled(mean, spread, mean, worst, worst, worst, none, draws)

    def going_on(self, search: Sampled) -> Bool[Array, ""]:
        return (search.iteration < self.max_iterations) & ~self._settled(search)

    def iterate(self, stages: Stages, search: Sampled) -> Sampled:
        mean, dtype, limits = search.mean, stages.dtype, stages.control_bounds()
        curves, correlation = self._curves(stages)
        shape = (self.samples, len(correlation), stages.nu)
        deviates = jax.random.normal(jax.random.fold_in(self.key, search.draws), shape, dtype)
        # The first sample is the mean.
        deviates = deviates.at[0].set(0)
        changes = search.spread[None] * _along(correlation, deviates)
        judged = batch_map(lambda change: self._judged(stages, mean, change))(changes)

        costs = jnp.where(jnp.isfinite(judged.penalized), judged.penalized, jnp.inf)
        weights = self._weights(costs)
        controls = _within(mean[None] + _along(curves, changes), limits)
        found = _within(_weighted(weights, controls), limits)
        taken = _along(_inverse(curves), controls - mean[None])
        spread = self._adapted(stages, search.spread, taken, weights)

        least = jnp.argmin(costs)
        better = costs[least] < search.best_cost
        chosen = lambda new, old: jnp.where(better, new, old)
        differs = _median(costs) - costs[least]
        return Sampled(
            found,
            spread,
            chosen(controls[least], search.best),
            chosen(costs[least], search.best_cost),
            jnp.where(jnp.isnan(differs), jnp.inf, differs),
            chosen(judged.violation[least], search.violation),
            search.iteration + 1,
            search.draws + 1,
        )

    def finish(self, stages: Stages, search: Sampled) -> Solution:
        """Returns the better of the last mean, which is not evaluated yet, and the best motion so far."""
        both = jnp.stack([search.best, search.mean])
        none = jnp.zeros_like(search.spread)
        judged, points = lax.map(lambda control: self._rolled_out(stages, control, none), both)
        costs = jnp.where(jnp.isfinite(judged.penalized), judged.penalized, jnp.inf)
        control, judged, points = jax.tree.map(lambda x: x[jnp.argmin(costs)], (both, judged, points))
        within = self._settled(search) & (judged.violation <= self.constraint_tolerance.astype(stages.dtype))
        code = jnp.where(within, Code.CONVERGED, Code.NOT_CONVERGED)
        code = jnp.where(jnp.isfinite(judged.penalized), code, Code.NOT_FINITE)
        times = stages.begin.time + jnp.arange(stages.steps + 1).astype(stages.dtype) * stages.begin.dt
        return Solution(
            t=times,
            q=points.state.q,
            v=points.state.v,
            control=control,
            dt=stages.begin.dt,
            cost=judged.cost,
            code=code.astype(jnp.int32),
            iterations=search.iteration,
            violation=judged.violation,
            stationarity=search.differs,
            gains=None,
            costates=None,
            own=points.state.own,
            multipliers=Draws(search.draws),
        )

    def _settled(self, search: Sampled) -> Bool[Array, ""]:
        """Returns whether the costs of samples no longer differ, and the best motion satisfies the constraints."""
        scale = jnp.abs(search.best_cost)
        same = search.differs <= self.tolerance.astype(scale.dtype) * scale
        return (
            same & jnp.isfinite(scale) & (search.violation <= self.constraint_tolerance.astype(scale.dtype))
        )

    # Samples.

    def _first_spread(self, stages: Stages) -> Float[Array, "nu"]:
        lower, upper = stages.control_bounds()
        given = SHARE * (upper - lower) if self.spread is None else self.spread.astype(stages.dtype)
        return jnp.broadcast_to(given, (stages.nu,))

    def _curves(self, stages: Stages) -> tuple[np.ndarray, np.ndarray]:
        """Returns the matrix from changes at the knots to controls, and a factor of the knots' correlation."""
        steps = stages.steps
        if self.knots is None:
            curves = np.eye(steps)
        else:
            curves = interpolated(self.interpolation, self.knots, steps)
        return curves, coloured(self.color, curves.shape[1])

    def _weights(self, costs: Float[Array, "samples"]) -> Float[Array, "samples"]:
        """Returns weights that add up to one. If all samples failed, the mean has weight one."""
        weights = self.weights(costs)
        weights = jnp.where(jnp.isfinite(costs) & jnp.isfinite(weights), weights, 0)
        total = jnp.sum(weights)
        stay = jnp.zeros_like(costs).at[0].set(1)
        return jnp.where(total > 0, weights / jnp.where(total > 0, total, 1), stay)

    def _adapted(self, stages: Stages, spread, changes, weights) -> Float[Array, "knots nu"]:
        """Moves the spread towards the weighted standard deviation of the samples, of controls clipped to their bounds."""
        # The deviation is about the old mean, as in CMA-ES, so that the spread does not shrink while the mean moves.
        found = jnp.sqrt(_weighted(weights, changes**2))
        rate, least = self.adaptation.astype(stages.dtype), self.least_spread.astype(stages.dtype)
        adapted = (1 - rate) * spread + rate * found
        least = (least * self._first_spread(stages))[None]
        # The spread of a single sample is undefined.
        alone = jnp.max(weights) >= 1
        return jnp.where(alone, spread, jnp.maximum(adapted, least))

    # Costs of samples.

    def _judged(self, stages: Stages, mean, change) -> Judged:
        return self._rolled_out(stages, mean, change, keep=False)[0]

    def _rolled_out(
        self,
        stages: Stages,
        mean: Float[Array, "steps nu"],
        change: Float[Array, "knots nu"],
        keep: bool = True,
    ) -> tuple[Judged, Point | None]:
        """Returns the cost of a motion under the mean control and a change of it, and its points if `keep` is True."""
        dtype, first = stages.dtype, stages.first
        curves = jnp.asarray(self._curves(stages)[0], dtype)
        bounds, limits = stages.control_bounds(), _Limits(stages)

        def advance(carry, given):
            point, judged = carry
            index, held, mean, curve = given
            # A sum stays within the loop over the samples; a matrix product would call out of it.
            control = _within(mean + jnp.sum(curve[:, None] * change, axis=0), bounds)
            judged = self._added(
                judged, stages.running(index, point, control), limits.broken(index, point, control, held)
            )
            point = stages.advance(index, point, control)
            return (point, judged), point if keep else None

        nothing = jnp.zeros((), dtype)
        indices = jnp.arange(stages.steps, dtype=jnp.int32)
        rows = indices, jax.tree.map(lambda x: x[:-1], limits.held), mean, curves
        (last, judged), points = lax.scan(advance, (first, Judged(nothing, nothing, nothing)), rows)
        held = jax.tree.map(lambda x: x[-1], limits.held)
        broken = limits.broken(jnp.int32(stages.steps), last, None, held)
        judged = self._added(judged, stages.terminal(last), broken)
        if not keep:
            return judged, None
        return judged, jax.tree.map(lambda one, many: jnp.concatenate([one[None], many]), first, points)

    def _added(self, judged: Judged, cost, broken: Float[Array, "rows"]) -> Judged:
        # The penalty is exact: it is linear in the violation, so with a large enough factor the optimum violates nothing.
        penalty = self.penalty.astype(cost.dtype) * jnp.sum(broken)
        return Judged(
            judged.cost + cost,
            judged.penalized + cost + penalty,
            jnp.maximum(judged.violation, jnp.max(broken, initial=0)),
        )


class _Limits:
    """Constraints, and bounds of states, at every knot."""

    def __init__(self, stages: Stages):
        self.stages = stages
        self.bounded = stages.problem.bounds.q is not None or stages.problem.bounds.v is not None
        lower, upper, _ = stages.constraint_bounds()
        #: Lower and upper bounds at every knot, (steps + 1, rows).
        self.held = lower, upper
        self.states = stages.state_bounds() if self.bounded else None

    def broken(self, index, point: Point, control, held) -> Float[Array, "rows"]:
        """Returns the violation of each row at a knot. Bounds do not count for the first state, which is given."""
        beyond = lambda x, lower, upper: jnp.maximum(jnp.maximum(lower - x, x - upper), 0)
        rows = jnp.zeros(0, self.stages.dtype)
        if held[0].shape[-1]:
            rows = beyond(self.stages.constrained(index, point, control), *held)
        if self.states is None:
            return rows
        values = self.stages.state_values(point)
        return jnp.concatenate([rows, jnp.where(index > 0, beyond(values, *self.states), 0)])


# Curves and noise.


def interpolated(kind: Interpolation, knots: int, steps: int) -> Float[np.ndarray, "steps knots"]:
    """Returns the matrix from values at equally spaced knots to a control that is held over each step.

    The first knot is at the first step and the last knot at the last step. With "zero-order", each knot covers an equal
    number of steps.
    """
    unit = np.eye(knots)
    if kind == "zero-order":
        return unit[np.arange(steps) * knots // steps]
    places = np.arange(steps) * (knots - 1) / max(steps - 1, 1)
    left = np.clip(np.floor(places).astype(int), 0, max(knots - 2, 0))
    right = np.minimum(left + 1, knots - 1)
    s = (places - left)[:, None]
    if kind == "linear":
        return (1 - s) * unit[left] + s * unit[right]
    # Cubic Hermite interpolation, with slopes from the neighboring knots.
    slope = np.gradient(unit, axis=0) if knots > 1 else np.zeros((1, 1))
    ends = (2 * s**3 - 3 * s**2 + 1) * unit[left] + (3 * s**2 - 2 * s**3) * unit[right]
    return ends + (s**3 - 2 * s**2 + s) * slope[left] + (s**3 - s**2) * slope[right]


def coloured(color: float, knots: int) -> Float[np.ndarray, "knots knots"]:
    """Returns the matrix from independent deviates to deviates of power f^-color and variance one: a factor of their correlation.

    The spectrum has twice as many knots, of which half is used, so that the two ends of a motion are uncorrelated.
    """
    if not color:
        return np.eye(knots)
    count = 2 * knots
    frequency = np.maximum(np.minimum(np.arange(count), count - np.arange(count)), 1)
    lags = np.fft.ifft(frequency.astype(float) ** -color).real
    correlation = (lags / lags[0])[np.abs(np.subtract.outer(np.arange(knots), np.arange(knots)))]
    return np.linalg.cholesky(correlation + 1e-9 * np.eye(knots))


def _within(control: Float[Array, "*rows nu"], bounds: tuple[Array, Array]) -> Float[Array, "*rows nu"]:
    """Returns a control clipped to bounds."""
    lower, upper = (side.reshape((1,) * (control.ndim - 1) + (-1,)) for side in bounds)
    return jnp.clip(control, lower, upper)


def _inverse(curves: np.ndarray) -> np.ndarray:
    """Returns the matrix from a control to the closest values at the knots."""
    return np.linalg.pinv(curves)


def _along(matrix: np.ndarray, rows: Float[Array, "samples n nu"]) -> Float[Array, "samples m nu"]:
    """Returns a matrix times the columns of each sample."""
    size = len(matrix)
    if matrix.shape == (size, size) and np.array_equal(matrix, np.eye(size)):
        return rows
    return jnp.einsum("mn,snu->smu", jnp.asarray(matrix, rows.dtype), rows, precision=lax.Precision.HIGHEST)


def _weighted(weights: Float[Array, "samples"], rows: Float[Array, "samples n nu"]) -> Float[Array, "n nu"]:
    return jnp.einsum("s,snu->nu", weights, rows, precision=lax.Precision.HIGHEST)


def _median(costs: Float[Array, "samples"]) -> Float[Array, ""]:
    """Returns the median of the finite costs; NaN if no cost is finite."""
    return jnp.nanmedian(jnp.where(jnp.isfinite(costs), costs, jnp.nan))


def _positive(numbers: np.ndarray) -> bool:
    """Returns whether all numbers are positive and finite."""
    return bool(((numbers > 0) & np.isfinite(numbers)).all())


def _spread(owner: str, given) -> Array:
    spread = floating(given)
    if spread.ndim > 1 or (is_known(spread) and not _positive(np.asarray(spread))):
        raise ValueError(
            f"{owner}: spread is {spread}; it must be the standard deviation of samples, a positive number or one for each "
            "control"
        )
    return spread


def _key(owner: str, given) -> Any:
    """Returns a random key, from a key or a seed."""
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return jax.random.key(given)
    wrong = (
        f"{owner}: key is {given!r}; it must be a random key, such as jax.random.key(0), or an integer seed"
    )
    if not isinstance(given, jax.Array):
        raise TypeError(wrong)
    if not jnp.issubdtype(given.dtype, jax.dtypes.prng_key) and given.dtype != jnp.uint32:
        raise ValueError(wrong)
    return given
