"""A solution in words: how the search ended, and what is violated by how much and where."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from .._arguments import instance
from .._compile import compiled
from ..model import Model
from ._configurations import flat_entries
from ._stages import Point, Stages
from .naming import dof_names
from .problem import Problem
from .residual import Along, Function, Residual
from .residuals import CenterOfMass, Clearance, Orientation, Position
from .solution import Code, Solution


#: So many violations are told of, the worst first.
TOLD = 5

_ENDED = {
    Code.CONVERGED: "converged",
    Code.NOT_CONVERGED: "not converged: as many iterations as allowed",
    Code.STALLED: "stalled: no step makes it better, and it is no minimum yet",
    Code.NOT_FINITE: "not finite: the motion, its cost or their derivatives are not finite",
    Code.INFEASIBLE: "infeasible: what is violated cannot be made less from here",
}


def explain(problem: Problem, solution: Solution, tolerance: float | None = None) -> str:
    """How a search ended, in words: the code, the cost, and which constraints and bounds are violated, by how much and where.

    - `tolerance`: violations below it are not told; by default 1e-6, in float32 1e-4.

    >>> model = rbd.load("reacher")
    >>> problem = rbd.control.Problem(
    ...     model,
    ...     rbd.State(jnp.zeros(2), jnp.zeros(2)),
    ...     steps=10,
    ...     dt=0.05,
    ...     running=[1e-2 * rbd.control.Effort()],
    ...     bounds=rbd.control.Bounds(control=(-1.0, 1.0)),
    ... )
    >>> print(rbd.control.explain(problem, rbd.control.solve(problem)))
    converged after 0 iterations, at a cost of 0
    """
    owner = "control.explain"
    instance(owner, "problem", problem, Problem, "a control.Problem")
    instance(owner, "solution", solution, Solution, "a Solution of it")
    if np.ndim(solution.code):
        raise ValueError(f"{owner}: solution is a batch of {np.size(solution.code)}; explain one of them")
    code = Code(int(solution.code))
    count = int(solution.iterations)
    first = f"{_ENDED[code]}, after {count} iterations, at a cost of {float(solution.cost):.6g}"
    if code == Code.CONVERGED:
        first = first.replace(", after", " after", 1)
    if code == Code.STALLED:
        first += f"; derivatives are left of up to {float(solution.stationarity):.2g}"
    if not np.isfinite(np.asarray(solution.cost)):
        return first + _where_not_finite(solution)
    eps = float(jnp.finfo(solution.q.dtype).eps)
    allowed = max(1e-6, eps**0.5 / 3) if tolerance is None else tolerance
    broken = [line for size, line in sorted(_violations(problem, solution, allowed), reverse=True)]
    more = [f"and {len(broken) - TOLD} more"] if len(broken) > TOLD else []
    return "\n".join([first, *(f"- {line}" for line in (*broken[:TOLD], *more))])


def _where_not_finite(solution: Solution) -> str:
    finite = np.isfinite(np.asarray(solution.q)).all(axis=1) & np.isfinite(np.asarray(solution.v)).all(axis=1)
    if finite.all():
        return "\n- the states are finite, and so it is the cost that is not: see what is asked of them"
    knot = int(np.argmin(finite))
    return f"\n- from knot {knot} on, t = {float(solution.t[knot]):.4g} s: start from smaller controls or shorter steps"


def _violations(problem: Problem, solution: Solution, allowed: float):
    """Sizes and words of what is violated."""
    found = []
    rows, lower, upper, gaps = (np.asarray(x) for x in _looked_at(problem, solution))
    t, start = np.asarray(solution.t), 0
    stages = Stages(problem)
    for number, (one, size) in enumerate(zip(problem.constraints, stages.constraint_sizes, strict=True)):
        part = slice(start, start + size)
        start += size
        beyond = rows[:, part] - np.clip(rows[:, part], lower[:, part], upper[:, part])
        if not size or not (np.abs(beyond) > allowed).any():
            continue
        worst = np.abs(beyond).max(axis=1)
        knot = int(np.argmax(worst))
        many = int((worst > allowed).sum())
        found.append(
            (
                worst[knot],
                f"constraint {number}, {_missed(one.residual, one.equality, beyond[knot], t, knot, many)}",
            )
        )
    found += _bounds(problem, solution, stages, allowed)
    if gaps.size and (most := np.abs(gaps).max(axis=1)).max() > allowed:
        knot = int(np.argmax(most))
        found.append(
            (most[knot], f"the step from knot {knot} misses the next state by up to {most[knot]:.3g}")
        )
    return found


def _missed(
    residual: Residual, equality: bool, beyond: np.ndarray, t: np.ndarray, knot: int, many: int
) -> str:
    """What a constraint misses at the knot where it is worst."""
    inner = residual.rows if isinstance(residual, Along) else residual
    name, size = type(inner).__name__, np.linalg.norm(beyond)
    if isinstance(inner, Function):
        name = getattr(getattr(inner.function, "func", inner.function), "__name__", name)
    place = getattr(inner, "place", None)
    name = f"{name} of {place.name!r}" if place is not None else name
    end = knot == len(t) - 1
    where = f"at the end, t = {t[knot]:.4g} s" if end else f"at knot {knot}, t = {t[knot]:.4g} s"
    if many > 1:
        where += f", and at {many - 1} other{'s' if many > 2 else ''}"
    if isinstance(inner, Position | CenterOfMass) and equality:
        return f"{name}: the goal is out of reach by {size:.3g} m {where}"
    if isinstance(inner, Clearance):
        return f"{name}: too near by {size:.3g} m {where}"
    unit = (
        " rad"
        if isinstance(inner, Orientation)
        else " m"
        if isinstance(inner, Position | CenterOfMass)
        else ""
    )
    row = int(np.argmax(np.abs(beyond)))
    side = "off" if equality else "beyond its upper bound" if beyond[row] > 0 else "beyond its lower bound"
    number = f", number {row} of {len(beyond)}" if len(beyond) > 1 else ""
    return f"{name}{number}: {side} by {abs(beyond[row]):.3g}{unit} {where}"


def _bounds(problem: Problem, solution: Solution, stages: Stages, allowed: float):
    """What is beyond bounds on controls and states."""
    t, found = np.asarray(solution.t), []

    def look(values, lower, upper, names, what, first):
        beyond = values - np.clip(values, lower, upper)
        for column in range(values.shape[1]):
            knot = int(np.argmax(np.abs(beyond[:, column])))
            size = beyond[knot, column]
            if abs(size) > allowed:
                side, bound = ("upper", upper[column]) if size > 0 else ("lower", lower[column])
                line = f"{what} of {names[column]!r}: {values[knot, column]:.4g} is beyond its {side} bound {bound:.4g} by {abs(size):.3g}"
                found.append((abs(size), f"{line} at knot {knot + first}, t = {t[knot + first]:.4g} s"))

    lower, upper = (np.asarray(side) for side in stages.control_bounds())
    look(np.asarray(solution.control), lower, upper, problem.control_names, "the control", 0)
    lower, upper = (np.asarray(side) for side in stages.state_bounds())
    names, nv = dof_names(problem.model), problem.model.nv
    places = flat_entries(problem.model)
    q = np.where(places >= 0, np.asarray(solution.q)[1:, np.maximum(places, 0)], 0)
    look(q, lower[:nv], upper[:nv], names, "the position", 1)
    look(np.asarray(solution.v)[1:], lower[nv : 2 * nv], upper[nv : 2 * nv], names, "the velocity", 1)
    if problem.duration is not None:
        shortest, longest = (float(one) for one in problem.duration)
        length = float(solution.dt) * problem.steps
        over = length - min(max(length, shortest), longest)
        if abs(over) > allowed:
            found.append(
                (
                    abs(over),
                    f"it takes {length:.4g} s, and the duration is from {shortest:.4g} to {longest:.4g} s",
                )
            )
    return found


@compiled
def _looked_at(problem: Problem, solution: Solution):
    """The rows of the constraints at all knots with their bounds, and what the steps miss."""
    stages = Stages(problem)
    dt = jnp.broadcast_to(solution.dt, (stages.steps + 1,)).astype(stages.dtype)
    points = Point(solution.states, dt)
    before, last = stages.before(points), stages.last(points)

    def at(index, point, control, after):
        gap = stages.difference(stages.advance(index, point, control), after)
        return stages.constrained(index, point, control), gap

    rows, gaps = stages.over_stages(at, before, solution.control, stages.after(points))
    end = stages.constrained(jnp.int32(stages.steps), last, None)
    lower, upper, _ = stages.constraint_bounds()
    return jnp.concatenate([rows, end[None]]), lower, upper, gaps
