"""Constraints and bounds of a motion as arrays, and descriptions of the violations in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from .._core.jit import compiled
from ._stages import Stages
from .collocation import followed_by
from .constraint import Constraint
from .naming import dof_names
from .problem import Problem
from .residual import Along, Cost, Function, Residual, Value
from .residuals import CenterOfMass, Position
from .sensitivity import placed
from .solution import Solution


#: A bound is active within this distance, in units of the bound or one.
ACTS = 1e-5
#: The name of the cost of the duration.
DURATION = "duration_cost"


class Requirement(NamedTuple):
    """Values that must be zero or within bounds.

    - `name`: the constraint or bound.
    - `values`, `lower`, `upper`: at the knots or steps `at`: (rows, k); bounds may be infinite.
    - `times`: of these rows, in s.
    - `parts`: names of the k values.
    - `kind`, `columns`: "constraint", "control", "state" or "duration", and the columns among all values of that kind.
    - `goal`: for a constraint that puts a point at a target, the name of the point; the values are then one distance, in m.
    """

    name: str
    at: np.ndarray
    times: np.ndarray
    values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    parts: tuple[str, ...]
    kind: Literal["constraint", "control", "state", "duration"]
    columns: np.ndarray
    goal: str | None = None

    @property
    def beyond(self) -> np.ndarray:
        """The violation of each value."""
        return np.maximum(np.maximum(self.lower - self.values, self.values - self.upper), 0)

    @property
    def violation(self) -> float:
        """The largest violation; NaN if a value is NaN."""
        return float(np.max(self.beyond, initial=0))

    @property
    def acting(self) -> np.ndarray:
        """A mask of the values at their bounds."""
        size = lambda bound: np.where(np.isfinite(bound), np.maximum(np.abs(bound), 1), 0)
        near = lambda bound: np.abs(self.values - bound) <= ACTS * size(bound)
        return near(self.lower) | near(self.upper) | (self.beyond > 0)

    @property
    def not_finite(self) -> list[str]:
        """Descriptions of values that are not finite, the first of each part."""
        bad = ~np.isfinite(self.values)
        return [
            f"{self.name}: {self.parts[part]} is {self.values[row, part]:g} {self._when(row)}"
            for part, row in (
                (int(part), int(np.argmax(bad[:, part]))) for part in np.flatnonzero(bad.any(axis=0))
            )
        ]

    def __repr__(self) -> str:
        return f"Requirement({self.name!r}: {self.values.size} numbers, broken by up to {self.violation:.2g})"

    def worst(self) -> str:
        """Returns a description of the largest violation."""
        if self.goal is not None:
            far = np.linalg.norm(self.beyond, axis=1)
            row = int(np.argmax(far))
            return f"the goal is out of reach of {self.goal} by {far[row]:.3g} m, {self._when(row)}"
        row, part = (int(i) for i in np.unravel_index(np.argmax(self.beyond), self.beyond.shape))
        value, low, high = (x[row, part] for x in (self.values, self.lower, self.upper))
        side = "" if low == high else "at least " if value < low else "at most "
        bound = low if value < low else high
        return (
            f"{self.parts[part]} is {value:.6g} {self._when(row)} and should be {side}{bound:.6g}: off by "
            f"{self.beyond[row, part]:.2g}"
        )

    def _when(self, row: int) -> str:
        return f"at {self.times[row]:.4g} s (knot {self.at[row]})"


def name_of(thing: Cost | Value | Constraint | Residual) -> str:
    """Returns a short name of a cost or a constraint."""
    if isinstance(thing, Cost | Constraint):
        return name_of(thing.residual)
    if isinstance(thing, Along):
        return f"{name_of(thing.rows)} along a path"
    if isinstance(thing, Function | Value):
        function: Any = thing.function
        name = getattr(getattr(function, "func", function), "__name__", type(function).__name__)
        return type(thing).__name__ if name == "<lambda>" else name
    place = getattr(thing, "place", None)
    of = [place.name] if place is not None else list(getattr(thing, "joints", None) or ())
    return type(thing).__name__ + (f" of {', '.join(of)}" if of else "")


def cost_names(problem: Problem) -> list[str]:
    """Returns the names of the costs, in the order of `Transcription.costs`."""
    return [
        *(f"running[{i}]: {name_of(one)}" for i, one in enumerate(problem.running)),
        DURATION,
        *(f"terminal[{i}]: {name_of(one)}" for i, one in enumerate(problem.terminal)),
    ]


def broken_by(requirements: Sequence[Requirement], tolerance: float) -> list[str]:
    """Returns descriptions of violations larger than a tolerance, the largest first."""
    found = [one for one in requirements if not one.violation <= tolerance]
    return [f"{one.name}: {one.worst()}" for one in sorted(found, key=lambda one: -one.violation)]


class Judged(NamedTuple):
    """Costs, constraints and bounds of a solution, valid or not.

    - `costs`: names and values: running costs, the cost of the duration, and terminal costs.
    - `requirements`: the constraints of the problem in their order, followed by the bounds.
    - `misses`: the largest defect of each step, under the problem's scheme or the rule of a collocation.
    """

    costs: list[tuple[str, float]]
    requirements: tuple[Requirement, ...]
    misses: np.ndarray

    @property
    def missed(self) -> float:
        """The largest defect of a step."""
        return float(np.max(self.misses, initial=0))

    @property
    def finite(self) -> bool:
        """True if all values are finite."""
        numbers = [value for _, value in self.costs], self.misses, *(one.values for one in self.requirements)
        return all(np.isfinite(x).all() for x in numbers)


def judged(problem: Problem, solution: Solution) -> Judged:
    """Evaluates a solution of a problem, as arrays on the host."""
    costs, rows, values, lower, upper, defects = (np.asarray(x, float) for x in _looked_at(problem, solution))
    costs = list(zip(cost_names(problem), map(float, costs), strict=True))
    misses = np.abs(defects).max(axis=1, initial=0)
    return Judged(costs, _requirements(problem, solution, rows, values, lower, upper), misses)


@compiled
def _looked_at(problem: Problem, solution: Solution):
    """Returns costs, constraints at all knots, bounded entries of states, bounds of constraints, and defects."""
    stages = Stages(problem)
    program = followed_by(stages, solution)
    points, inputs = placed(program, solution)
    seen, m = program.evaluate(points, inputs), program.m
    lower, upper, _ = stages.constraint_bounds()
    return (
        program.costs(points, inputs),
        seen.rows[:, :m],
        seen.rows[:, m : m + stages.nx],
        lower,
        upper,
        seen.defects,
    )


def _requirements(
    problem: Problem,
    solution: Solution,
    rows: np.ndarray,
    values: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
) -> tuple[Requirement, ...]:
    """Returns the constraints of a problem in their order, followed by the bounds.

    - `rows`, `lower`, `upper`: residuals of all constraints at all knots, and their bounds.
    - `values`: the entries of states with bounds, in the order of `Stages`.
    """
    stages, steps, t = Stages(problem), problem.steps, np.asarray(solution.t, float)
    found, start = [], 0
    for i, (one, size) in enumerate(zip(problem.constraints, stages.constraint_sizes, strict=True)):
        at, columns = np.flatnonzero(one.knots(steps)), np.arange(start, start + size)
        start += size
        here = np.ix_(at, columns)
        parts = tuple(name_of(one) + (f"[{k}]" if size > 1 else "") for k in range(size))
        name, sides = f"constraints[{i}] ({_where(one)})", (lower[here], upper[here])
        goal = _goal(one)
        found.append(Requirement(name, at, t[at], rows[here], *sides, parts, "constraint", columns, goal))

    def bounded(name: str, kind, at, times, values, sides, parts, first: int = 0) -> None:
        """Adds the columns that have bounds, if any."""
        sides = [np.asarray(side, float) for side in sides]
        some = np.flatnonzero(np.isfinite(sides[0]) | np.isfinite(sides[1]))
        if len(some):
            low, high = (np.broadcast_to(side[some], (len(at), len(some))) for side in sides)
            named = tuple(parts[i] for i in some)
            found.append(Requirement(name, at, times, values[:, some], low, high, named, kind, first + some))

    # A collocation bounds the controls of the nodes, not their means.
    decided = solution.control if solution.control_nodes is None else solution.control_nodes
    decided, names, nv = np.asarray(decided, float), dof_names(problem.model), stages.nv
    knots = np.arange(len(decided)) // max((len(decided) - 1) // steps, 1)
    times = np.linspace(t[0], t[-1], len(decided)) if len(decided) > steps else t[:-1]
    sides = stages.control_bounds()
    bounded("bounds.control", "control", knots, times, decided, sides, problem.control_names)
    for name, first in (("bounds.q", 0), ("bounds.v", nv)):
        which = slice(first, first + nv)
        parts = [f"{name[-1]} {one}" for one in names]
        sides = [side[which] for side in stages.state_bounds()]
        bounded(name, "state", np.arange(1, steps + 1), t[1:], values[1:, which], sides, parts, first)
    if problem.duration is not None:
        whole, ends = solution.dt * steps, [jnp.reshape(one, 1) for one in problem.duration]
        whole = np.reshape(np.asarray(whole, float), (1, 1))
        bounded("duration", "duration", np.array([steps]), t[-1:], whole, ends, ("the duration",))
    return tuple(found)


def _goal(one: Constraint) -> str | None:
    """Returns the name of the point that a constraint puts at a target, or None for other constraints."""
    inner = one.residual.rows if isinstance(one.residual, Along) else one.residual
    if not one.equality or not isinstance(inner, Position | CenterOfMass):
        return None
    return inner.place.name if isinstance(inner, Position) else "the center of mass"


def _where(one: Constraint) -> str:
    if isinstance(one.at, str):
        return {"path": "along the way", "end": "at the end", "all": "at all knots"}[one.at]
    return f"at knot{'s' * (len(one.at) > 1)} {', '.join(map(str, one.at))}"
