"""Search by samples: controls are drawn around a mean, rolled out, and the mean moves to where they cost less.

Nothing is differentiated, so costs and dynamics may jump: thresholds, switches, rigid contact. What is drawn are changes of the
controls of all steps, `u = clip(mean + W ε)`: curves W through a few knots, with normal deviates ε at these, coloured along
time (their power falls with the frequency, f^-color). `MPPI` and `CEM` differ in how samples are weighted by what they cost.
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


#: How a control goes from knot to knot: held, along a line, or along a cubic with continuous slope.
Interpolation: TypeAlias = Literal["zero-order", "linear", "cubic"]

#: A quarter of the way between bounds is the standard deviation of samples, where none is given.
SHARE = 0.25


class Draws(eqx.Module):
    """How many times samples were drawn so far: a search that goes on from an earlier solution draws others."""

    count: Int[Array, ""]


class Sampled(NamedTuple):
    """What a search hands on.

    - `mean`, `spread`: of the next samples: the control of every step, and standard deviations at the knots.
    - `best`, `best_cost`: the best motion so far, by its cost with penalties.
    - `differs`: by how much half of the last samples cost more than the best of them.
    - `violation`: of the best motion.
    - `iteration`, `draws`: how many, of this search and in all.
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
    """What a motion costs, alone and with penalties, and the most by which it breaks a constraint or bound."""

    cost: Float[Array, ""]
    penalized: Float[Array, ""]
    violation: Float[Array, ""]


class Sampling(Solver):
    """What solvers by samples share: see `MPPI` and `CEM`."""

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
        """How much each sample counts, by what it costs, which is infinite where it failed; they need not add up to one."""

    def _set(self, owner: str, **given: Any) -> None:
        """The fields that all have, checked."""
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
                f"{owner}: the duration of the problem is free, and controls are sampled for steps of a given length; leave "
                "`duration` out, or take another solver"
            )
        if self.knots is not None and self.knots > problem.steps:
            raise ValueError(
                f"{owner}: knots is {self.knots}, and the problem has only {problem.steps} steps"
            )
        pair = problem.bounds.control
        if self.spread is None:
            if pair is None or (is_known(pair) and not all(np.isfinite(side).all() for side in pair)):
                raise ValueError(
                    f"{owner}: spread is missing: how far samples lie apart is taken from the bounds of controls, and not all "
                    "controls have bounds; give it, or the problem bounds=control.Bounds.of(model)"
                )
        elif self.spread.ndim and self.spread.shape != (problem.nu,):
            raise ValueError(
                f"{owner}: spread has shape {self.spread.shape}; it is one number, or one for each control, of which there are "
                f"{problem.nu}: {', '.join(problem.control_names)}"
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
        # The mean itself is among them.
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
        """The better of the last mean, which has not been tried yet, and the best motion so far."""
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
        """Whether samples no longer differ in what they cost, and the best may be taken."""
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
        """What changes at the knots make of the controls, (steps, knots), and how deviates at the knots go together."""
        steps = stages.steps
        if self.knots is None:
            curves = np.eye(steps)
        else:
            curves = interpolated(self.interpolation, self.knots, steps)
        return curves, coloured(self.color, curves.shape[1])

    def _weights(self, costs: Float[Array, "samples"]) -> Float[Array, "samples"]:
        """Adding up to one; where all samples have failed, the mean stays what it is."""
        weights = self.weights(costs)
        weights = jnp.where(jnp.isfinite(costs) & jnp.isfinite(weights), weights, 0)
        total = jnp.sum(weights)
        stay = jnp.zeros_like(costs).at[0].set(1)
        return jnp.where(total > 0, weights / jnp.where(total > 0, total, 1), stay)

    def _adapted(self, stages: Stages, spread, changes, weights) -> Float[Array, "knots nu"]:
        """Towards the standard deviation of the samples as they are weighted, of controls as they were cut at their bounds."""
        # About the mean that they were drawn around, as CMA-ES has it: while that still moves, they do not draw together.
        found = jnp.sqrt(_weighted(weights, changes**2))
        rate, least = self.adaptation.astype(stages.dtype), self.least_spread.astype(stages.dtype)
        adapted = (1 - rate) * spread + rate * found
        least = (least * self._first_spread(stages))[None]
        # One sample alone says nothing of how far apart they should lie.
        alone = jnp.max(weights) >= 1
        return jnp.where(alone, spread, jnp.maximum(adapted, least))

    # What a sample costs.

    def _judged(self, stages: Stages, mean, change) -> Judged:
        return self._rolled_out(stages, mean, change, keep=False)[0]

    def _rolled_out(
        self,
        stages: Stages,
        mean: Float[Array, "steps nu"],
        change: Float[Array, "knots nu"],
        keep: bool = True,
    ) -> tuple[Judged, Point | None]:
        """A motion under the mean control and a change of it: what it costs, and its points if they are kept."""
        dtype, first = stages.dtype, stages.first
        curves = jnp.asarray(self._curves(stages)[0], dtype)
        bounds, limits = stages.control_bounds(), _Limits(stages)

        def advance(carry, given):
            point, judged = carry
            index, held, mean, curve = given
            # As a sum it stays within the loop over the samples; a product of matrices is a call out of it.
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
        # Of the size, and not of its square: with a penalty that is large enough what is best then breaks nothing.
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
        """By how much each is broken at a knot; states at the first one are given, and count for nothing."""
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
    """What numbers at equally spaced knots make of a control that is held over each step: the matrix by which it is linear in
    them. The first knot is at the first step and the last at the last; of held ones each is for as many steps."""
    unit = np.eye(knots)
    if kind == "zero-order":
        return unit[np.arange(steps) * knots // steps]
    places = np.arange(steps) * (knots - 1) / max(steps - 1, 1)
    left = np.clip(np.floor(places).astype(int), 0, max(knots - 2, 0))
    right = np.minimum(left + 1, knots - 1)
    s = (places - left)[:, None]
    if kind == "linear":
        return (1 - s) * unit[left] + s * unit[right]
    # Hermite's cubics, with the slope from neighbour to neighbour.
    slope = np.gradient(unit, axis=0) if knots > 1 else np.zeros((1, 1))
    ends = (2 * s**3 - 3 * s**2 + 1) * unit[left] + (3 * s**2 - 2 * s**3) * unit[right]
    return ends + (s**3 - 2 * s**2 + s) * slope[left] + (s**3 - s**2) * slope[right]


def coloured(color: float, knots: int) -> Float[np.ndarray, "knots knots"]:
    """The matrix that makes of independent deviates such of power f^-color, each of variance one: a factor of their correlation.

    The spectrum is of twice as many knots, of which half is taken: both ends of a motion have nothing to do with each other.
    """
    if not color:
        return np.eye(knots)
    count = 2 * knots
    frequency = np.maximum(np.minimum(np.arange(count), count - np.arange(count)), 1)
    lags = np.fft.ifft(frequency.astype(float) ** -color).real
    correlation = (lags / lags[0])[np.abs(np.subtract.outer(np.arange(knots), np.arange(knots)))]
    return np.linalg.cholesky(correlation + 1e-9 * np.eye(knots))


def _within(control: Float[Array, "*rows nu"], bounds: tuple[Array, Array]) -> Float[Array, "*rows nu"]:
    """Cut off at bounds."""
    lower, upper = (side.reshape((1,) * (control.ndim - 1) + (-1,)) for side in bounds)
    return jnp.clip(control, lower, upper)


def _inverse(curves: np.ndarray) -> np.ndarray:
    """The numbers at the knots that come closest to a control."""
    return np.linalg.pinv(curves)


def _along(matrix: np.ndarray, rows: Float[Array, "samples n nu"]) -> Float[Array, "samples m nu"]:
    """A matrix times the columns of each sample."""
    size = len(matrix)
    if matrix.shape == (size, size) and np.array_equal(matrix, np.eye(size)):
        return rows
    return jnp.einsum("mn,snu->smu", jnp.asarray(matrix, rows.dtype), rows, precision=lax.Precision.HIGHEST)


def _weighted(weights: Float[Array, "samples"], rows: Float[Array, "samples n nu"]) -> Float[Array, "n nu"]:
    return jnp.einsum("s,snu->nu", weights, rows, precision=lax.Precision.HIGHEST)


def _median(costs: Float[Array, "samples"]) -> Float[Array, ""]:
    """Of those that are finite; NaN if none is."""
    return jnp.nanmedian(jnp.where(jnp.isfinite(costs), costs, jnp.nan))


def _positive(numbers: np.ndarray) -> bool:
    """Whether all are greater than zero, and finite."""
    return bool(((numbers > 0) & np.isfinite(numbers)).all())


def _spread(owner: str, given) -> Array:
    spread = floating(given)
    if spread.ndim > 1 or (is_known(spread) and not _positive(np.asarray(spread))):
        raise ValueError(
            f"{owner}: spread is {spread}; it is the standard deviation of samples, a number greater than zero or one for each "
            "control"
        )
    return spread


def _key(owner: str, given) -> Any:
    """A random key, or a seed of one."""
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return jax.random.key(given)
    wrong = f"{owner}: key is {given!r}; it is a random key, jax.random.key(0), or a whole number as a seed"
    if not isinstance(given, jax.Array):
        raise TypeError(wrong)
    if not jnp.issubdtype(given.dtype, jax.dtypes.prng_key) and given.dtype != jnp.uint32:
        raise ValueError(wrong)
    return given
