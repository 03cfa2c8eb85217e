"""What a solution is worth, whoever found it: what it costs and by what, what it keeps to, and whether it is a minimum.

The motion is seen as a function of the controls alone (and of the duration where that is free), with the states that follow from
them. With J the cost, c the constraints and bounds that act, and multipliers μ of the right signs that leave the least of

    r = ∇J + μ · ∇c,

it is stationary where r is zero, and a strict minimum where `∇²J + μ · ∇²c` is positive on all changes that keep to what acts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._arguments import instance
from .._compile import compiled
from ._stages import Point, Stages
from .constraint import Constraint
from .naming import dof_names
from .problem import Problem
from .residual import Along, Cost, Function, Residual, Value
from .solution import Solution


#: What is as near to a bound as this, in units of the bound or one, acts.
ACTS = 1e-5
#: A curvature counts as none below this share of the largest; and below the precision to this power.
FLAT = 2 / 3
#: A matrix of more controls than this is not looked at.
MANY = 3000
#: A motion whose steps miss the next states by more than this follows other rules than `rbd.step`.
FOLLOWS = 1e-3


class Share(NamedTuple):
    """What one of the costs comes to.

    - `name`: where it is in the problem, and what it is of.
    """

    name: str
    value: float


class Requirement(NamedTuple):
    """Numbers that are to be zero or within bounds, and how far they are.

    - `name`: which constraint or bound, and of what.
    - `values`, `lower`, `upper`: at the knots or steps `at`: (rows, k); bounds may be infinite.
    - `times`: of these rows, in s.
    - `parts`: names of the k numbers.
    - `kind`, `columns`: what they are of: "constraint", "control", "state" or "duration", and which numbers of all of that kind.
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

    @property
    def beyond(self) -> np.ndarray:
        """By how much each is broken."""
        return np.maximum(np.maximum(self.lower - self.values, self.values - self.upper), 0)

    @property
    def violation(self) -> float:
        """The most by which one is broken; NaN if one is not a number."""
        return float(np.max(self.beyond, initial=0))

    @property
    def acting(self) -> np.ndarray:
        """Which of them are at their bounds."""
        near = lambda bound: np.abs(self.values - bound) <= ACTS * np.maximum(np.abs(bound), 1)
        with np.errstate(invalid="ignore"):
            return near(self.lower) | near(self.upper) | (self.beyond > 0)

    def __repr__(self) -> str:
        return f"Requirement({self.name!r}: {self.values.size} numbers, broken by up to {self.violation:.2g})"

    def worst(self) -> str:
        """The one that is broken most, in words."""
        row, part = np.unravel_index(np.argmax(self.beyond), self.beyond.shape)
        value, low, high = (x[row, part] for x in (self.values, self.lower, self.upper))
        side = "" if low == high else "at least " if value < low else "at most "
        bound = low if value < low else high
        return (
            f"{self.parts[part]} is {value:.6g} at {self.times[row]:.4g} s and should be {side}{bound:.6g}: off by "
            f"{self.beyond[row, part]:.2g}"
        )


class Optimality(NamedTuple):
    """Whether a motion is a minimum, as a function of its controls.

    - `gradient`: the largest slope of the Lagrangian by a control that is left with the best multipliers.
    - `gain`: by how much the cost would still fall, by second order: what is left to find near by. NaN without curvatures.
    - `acting`: how many constraints and bounds act.
    - `curvature`: the least and the largest eigenvalue of the second derivative of the Lagrangian, on the changes of controls
      that keep to what acts; `None` where nothing is left to change.
    - `flat`: below this a curvature is zero as far as can be told.
    """

    gradient: float
    gain: float
    acting: int
    curvature: tuple[float, float] | None
    flat: float

    @property
    def minimum(self) -> bool:
        """Whether second derivatives say that it is a strict minimum."""
        return self.curvature is None or self.curvature[0] > self.flat


class Appraisal(NamedTuple):
    """What `appraise` found.

    - `costs`: what each cost comes to.
    - `requirements`: constraints and bounds, each with its numbers.
    - `missed`: the most that a step of the problem's scheme misses the next state.
    - `optimality`: None where states do not follow from the controls, or there are more than 3000 of these.
    """

    costs: tuple[Share, ...]
    requirements: tuple[Requirement, ...]
    missed: float
    optimality: Optimality | None

    def broken(self, tolerance: float) -> tuple[str, ...]:
        """What is broken by more than a tolerance, each in words."""
        return tuple(
            f"{one.name}: {one.worst()}" for one in self.requirements if not one.violation <= tolerance
        )


def appraise(problem: Problem, solution: Solution) -> Appraisal:
    """What a solution costs and by what, what it keeps to, and whether it is a minimum; whatever found it.

    It takes the second derivatives of all stages and a matrix of all controls, in double precision on the host.

    >>> problem, solver, guess = rbd.control.problems.load("cartpole_swing_up")
    >>> found = rbd.control.appraise(problem, rbd.control.solve(problem, solver, guess))
    >>> found.optimality.minimum, [one.name for one in found.costs]
    (True, ['running[0]: Effort'])
    """
    owner = "control.appraise"
    instance(owner, "problem", problem, Problem, "a control.Problem")
    instance(owner, "solution", solution, Solution, "what control.solve returns")
    nx, nu = Stages(problem).nx, problem.nu
    local = _numbers(_seen(problem, solution, *_split(problem, np.zeros(nx + nu), nx)))
    requirements = _requirements(problem, solution, local)
    missed = float(np.max(np.abs(local.missed), initial=0))
    motion = local._replace(lower=None, upper=None)
    finite = all(np.isfinite(x).all() for x in jax.tree.leaves(motion))
    optimality = None
    if finite and missed <= FOLLOWS and solution.control.size <= MANY:
        optimality = _optimality(problem, solution, local, requirements)
    return Appraisal(_costs(problem, local), requirements, missed, optimality)


class _Local(NamedTuple):
    """A problem about a motion."""

    missed: Any
    A: Any
    B: Any
    running: Any  # each cost, over the steps
    terminal: Any
    slope_x: Any
    slope_u: Any
    end_slope: Any
    rows: Any  # of constraints at all knots
    rows_x: Any
    rows_u: Any
    values: Any  # the numbers of the states that are bounded
    lower: Any
    upper: Any


@compiled
def _seen(problem: Problem, solution: Solution, x: Float[Array, "nx"], u: Float[Array, "nu"]) -> _Local:
    """A problem about a motion of which all points and all controls are displaced, each on its own."""
    stages = Stages(problem)
    dt = jnp.broadcast_to(solution.dt.astype(stages.dtype), (stages.steps + 1,))
    points = Point(jax.tree.map(lambda x: x.astype(stages.dtype), solution.states), dt)
    points = jax.vmap(lambda point: stages.move(point, x))(points)
    before, control = stages.before(points), solution.control.astype(stages.dtype) + u[None]
    steps, nothing = stages.steps, jnp.zeros(stages.nx, stages.dtype)
    after = stages.over_stages(stages.advance, before, control)
    A, B = stages.over_stages(stages.linearize, before, control)

    def costs(index, point, control):
        knot = stages.knot(index, point, control)
        found = [cost(knot) for cost in stages.running_costs] + [
            stages.problem.duration_cost.astype(stages.dtype)
        ]
        return point.dt * jnp.stack(found)

    def slopes(index, point, control):
        moved = lambda change, control: stages.running(index, stages.move(point, change), control)
        return jax.grad(moved, argnums=(0, 1))(nothing, control)

    def rows(index, point, control):
        return stages.constrained(index, point, control)

    def row_slopes(index, point, control):
        moved = lambda change, control: stages.constrained(index, stages.move(point, change), control)
        return jax.jacfwd(moved, argnums=(0, 1))(nothing, control)

    last, end = stages.last(points), jnp.int32(steps)
    knot = stages.knot(end, last, None)
    terminal = jnp.stack([jnp.zeros((), stages.dtype), *(cost(knot) for cost in stages.terminal_costs)])
    slope_x, slope_u = stages.over_stages(slopes, before, control)
    end_slope = jax.grad(lambda change: stages.terminal(stages.move(last, change)))(nothing)
    by_x, by_u = stages.over_stages(row_slopes, before, control)
    end_rows = lambda change: stages.constrained(end, stages.move(last, change), None)
    append = lambda many, one: jnp.concatenate([many, one[None]])
    lower, upper, _ = stages.constraint_bounds()
    return _Local(
        jax.vmap(stages.difference)(stages.after(points), after),
        A,
        B,
        jnp.sum(stages.over_stages(costs, before, control), axis=0),
        terminal[1:],
        slope_x,
        slope_u,
        end_slope,
        append(stages.over_stages(rows, before, control), end_rows(nothing)),
        append(by_x, jax.jacfwd(end_rows)(nothing)),
        by_u,
        jax.vmap(stages.state_values)(points),
        lower,
        upper,
    )


# What it costs and keeps to.


def _costs(problem: Problem, local: _Local) -> tuple[Share, ...]:
    named = [f"running[{i}]: {_name(one)}" for i, one in enumerate(problem.running)]
    shares = list(zip([*named, "duration_cost"], local.running))
    if not float(problem.duration_cost):
        shares.pop()
    shares += [
        (f"terminal[{i}]: {_name(one)}", value)
        for i, (one, value) in enumerate(zip(problem.terminal, local.terminal))
    ]
    return tuple(Share(name, float(value)) for name, value in shares)


def _name(thing: Cost | Value | Constraint | Residual) -> str:
    """What a cost or a constraint is of, in a word or two."""
    if isinstance(thing, Cost | Constraint):
        return _name(thing.residual)
    if isinstance(thing, Along):
        return f"{_name(thing.rows)} along a path"
    if isinstance(thing, Function | Value):
        function: Any = thing.function
        name = getattr(getattr(function, "func", function), "__name__", type(function).__name__)
        return type(thing).__name__ if name == "<lambda>" else name
    place = getattr(thing, "place", None)
    of = [place.name] if place is not None else list(getattr(thing, "joints", None) or ())
    return type(thing).__name__ + (f" of {', '.join(of)}" if of else "")


def _requirements(problem: Problem, solution: Solution, local: _Local) -> tuple[Requirement, ...]:
    stages, steps, t = Stages(problem), problem.steps, np.asarray(solution.t, float)
    found, start = [], 0
    for i, (one, size) in enumerate(zip(problem.constraints, stages.constraint_sizes, strict=True)):
        at, columns = np.flatnonzero(one.knots(steps)), np.arange(start, start + size)
        start += size
        here = np.ix_(at, columns)
        parts = tuple(_name(one) + (f"[{k}]" if size > 1 else "") for k in range(size))
        name, sides = f"constraints[{i}] ({_where(one)})", (local.lower[here], local.upper[here])
        found.append(Requirement(name, at, t[at], local.rows[here], *sides, parts, "constraint", columns))

    def bounded(name: str, kind, at, values, sides, parts, first: int = 0) -> None:
        """The columns that have bounds, if some have."""
        lower, upper = (np.asarray(side, float) for side in sides)
        some = np.flatnonzero(np.isfinite(lower) | np.isfinite(upper))
        if len(some):
            low, high = (np.broadcast_to(side[some], (len(at), len(some))) for side in (lower, upper))
            named = tuple(parts[i] for i in some)
            found.append(Requirement(name, at, t[at], values[:, some], low, high, named, kind, first + some))

    control, names, nv = np.asarray(solution.control, float), dof_names(problem.model), stages.nv
    bounded(
        "bounds.control", "control", np.arange(steps), control, stages.control_bounds(), problem.control_names
    )
    for name, first in (("bounds.q", 0), ("bounds.v", nv)):
        which = slice(first, first + nv)
        parts = [f"{name[-1]} {one}" for one in names]
        sides = [side[which] for side in stages.state_bounds()]
        bounded(name, "state", np.arange(1, steps + 1), local.values[1:, which], sides, parts, first)
    if problem.duration is not None:
        whole, ends = solution.dt * steps, [jnp.reshape(one, 1) for one in problem.duration]
        whole = np.reshape(np.asarray(whole, float), (1, 1))
        bounded("duration", "duration", np.array([steps]), whole, ends, ("the duration",))
    return tuple(found)


def _where(one: Constraint) -> str:
    if isinstance(one.at, str):
        return {"path": "along the way", "end": "at the end", "all": "at all knots"}[one.at]
    return f"at knot{'s' * (len(one.at) > 1)} {', '.join(map(str, one.at))}"


# Whether it is a minimum.


def _optimality(problem: Problem, solution: Solution, local: _Local, requirements) -> Optimality:
    """As a function of what is free: the controls of all steps, and the length of the steps before them where that is free."""
    steps, nu = solution.control.shape
    free, nx = problem.duration is not None, local.A.shape[-1]
    size = free + steps * nu
    # How points and controls change with what is free.
    S = np.zeros((steps + 1, nx, size))
    S[0, -1, :free] = 1
    E = np.zeros((steps, nu, size))
    for k in range(steps):
        E[k, :, free + k * nu : free + (k + 1) * nu] = np.eye(nu)
        S[k + 1] = local.A[k] @ S[k] + local.B[k] @ E[k]
    gradient = np.einsum("kx,kxn->n", local.slope_x, S[:-1]) + np.einsum("ku,kun->n", local.slope_u, E)
    gradient += local.end_slope @ S[-1]
    slopes, sides, places = _acting(steps, local, requirements, S, E)
    pressing = _multipliers(gradient, slopes, sides)
    left = gradient + pressing @ slopes
    rows = np.zeros(local.rows.shape)
    bounded = np.zeros((steps + 1, nx))
    for force, (kind, knot, column) in zip(pressing, places, strict=True):
        if kind == "constraint":
            rows[knot, column] += force
        elif kind == "state":
            bounded[knot, column] += force
    curvature, gain = None, 0.0
    dtype = problem.dt.dtype
    hessians, end_hessian = _curved(problem, solution, local, _costates(local, rows, bounded), rows)
    H = S[-1].T @ end_hessian @ S[-1]
    for k in range(steps):
        both = np.concatenate([S[k], E[k]])
        H += both.T @ hessians[k] @ both
    _, singular, across = (
        np.linalg.svd(slopes, full_matrices=True) if len(slopes) else (0, np.zeros(0), np.eye(size))
    )
    held = int(np.sum(singular > 1e-9 * np.max(singular, initial=0)))
    ways = across[held:].T
    flat = float(jnp.finfo(dtype).eps) ** FLAT
    if ways.shape[1]:
        values, directions = np.linalg.eigh(ways.T @ (0.5 * (H + H.T)) @ ways)
        curvature = float(values[0]), float(values[-1])
        flat = flat * float(np.max(np.abs(values)))
        along = directions.T @ (ways.T @ left)
        gain = float(0.5 * np.sum(along**2 / values)) if values[0] > flat else np.nan
    return Optimality(float(np.max(np.abs(left), initial=0)), gain, len(slopes), curvature, flat)


def _acting(steps: int, local: _Local, requirements: Sequence[Requirement], S, E):
    """What acts: its slopes by what is free, whether it may press down, up or both ways, and which it is."""
    slopes, sides, places = [], [], []
    for one in requirements:
        for row, part in np.argwhere(one.acting):
            knot, column = int(one.at[row]), int(one.columns[part])
            if one.kind == "duration":
                slope = S[0, -1]
            elif one.kind == "control":
                slope = E[knot, column]
            elif one.kind == "state":
                slope = S[knot, column]
            else:
                slope = local.rows_x[knot, column] @ S[knot]
                if knot < steps:
                    slope = slope + local.rows_u[knot, column] @ E[knot]
            if np.any(slope):
                value, low, high = (x[row, part] for x in (one.values, one.lower, one.upper))
                slopes.append(slope)
                sides.append(0 if low == high else -1 if abs(value - low) <= abs(value - high) else 1)
                places.append((one.kind, knot, column))
    return np.reshape(np.array(slopes), (len(slopes), S.shape[2])), np.array(sides, int), places


def _multipliers(gradient, slopes, sides) -> np.ndarray:
    """Multipliers of the right signs that leave the least of the gradient."""
    if not len(slopes):
        return np.zeros(0)
    from scipy.optimize import lsq_linear

    # Rows of very different sizes: all are made one.
    sizes = np.linalg.norm(slopes, axis=1)
    bounds = np.where(sides > 0, 0, -np.inf), np.where(sides < 0, 0, np.inf)
    found = lsq_linear(
        (slopes / sizes[:, None]).T,
        -gradient,
        bounds,
        tol=1e-14,
        method="bvls" if len(sizes) < 400 else "trf",
    )
    return found.x / sizes


def _costates(local: _Local, rows, bounded) -> np.ndarray:
    """The derivative of what remains of the Lagrangian by the states after each step."""
    last = local.end_slope + rows[-1] @ local.rows_x[-1] + bounded[-1]
    found = [last]
    for k in range(len(local.A) - 1, 0, -1):
        last = last @ local.A[k] + local.slope_x[k] + rows[k] @ local.rows_x[k] + bounded[k]
        found.append(last)
    return np.array(found[::-1])


def _curved(
    problem: Problem, solution: Solution, local: _Local, costates, rows
) -> tuple[np.ndarray, np.ndarray]:
    """Second derivatives of the Lagrangian of each stage by point and control, and of the last by its point.

    By central differences of first ones, which are exact: to the precision to the power of two thirds. The coordinates of
    a manifold, in which a first derivative is taken, turn with the point; what that adds is antisymmetric.
    """
    nx, nu = local.A.shape[-1], local.B.shape[-1]
    step = float(jnp.finfo(problem.dt.dtype).eps) ** (1 / 3)
    sizes = np.concatenate(
        [np.ones(nx), np.maximum(np.abs(np.asarray(solution.control, float)).max(axis=0), 1)]
    )
    if problem.duration is not None:
        sizes[nx - 1] = float(solution.dt)

    def slopes(change):
        at = _numbers(_seen(problem, solution, *_split(problem, change, nx)))
        of_points = (
            at.slope_x
            + np.einsum("kx,kxy->ky", costates, at.A)
            + np.einsum("kr,krx->kx", rows[:-1], at.rows_x[:-1])
        )
        of_controls = (
            at.slope_u
            + np.einsum("kx,kxu->ku", costates, at.B)
            + np.einsum("kr,kru->ku", rows[:-1], at.rows_u)
        )
        return np.concatenate([of_points, of_controls], axis=1), at.end_slope + rows[-1] @ at.rows_x[-1]

    columns, ends = [], []
    for size, direction in zip(step * sizes, np.eye(nx + nu), strict=True):
        (more, end_more), (less, end_less) = slopes(size * direction), slopes(-size * direction)
        columns.append((more - less) / (2 * size))
        ends.append((end_more - end_less) / (2 * size))
    symmetric = lambda x: 0.5 * (x + np.swapaxes(x, -1, -2))
    return symmetric(np.stack(columns, axis=-1)), symmetric(np.stack(ends[:nx], axis=-1))


def _split(problem: Problem, change, nx: int):
    dtype = problem.dt.dtype
    return jnp.asarray(change[:nx], dtype), jnp.asarray(change[nx:], dtype)


def _numbers(tree):
    return jax.tree.map(lambda x: np.asarray(x, float), tree)
