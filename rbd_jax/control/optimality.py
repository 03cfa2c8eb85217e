"""Optimality conditions of a solution from any solver.

The motion is a function of the controls only (and of the duration if it is free); the states follow from them. With J the
cost, c the active constraints and bounds, and multipliers μ of the right signs that minimize the norm of

    r = ∇J + μ · ∇c,

the motion is stationary if r is zero. It is a strict minimum if `∇²J + μ · ∇²c` is positive on all changes tangent to the
active constraints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import instance
from .._core.jit import compiled
from ._stages import Point, Stages
from .problem import Problem
from .requirements import Judged, Requirement, judged
from .solution import Solution


#: Curvatures below this power of the machine precision, times the largest curvature, count as zero.
FLAT = 2 / 3
#: Largest number of controls for which the matrix is computed.
MANY = 3000
#: A motion with larger defects does not follow the rules of `rbd.step`.
FOLLOWS = 1e-3


class Optimality(NamedTuple):
    """The optimality conditions of a motion as a function of its controls.

    - `gradient`: stationarity: the largest slope of the Lagrangian by a control, with the best multipliers.
    - `violation`: feasibility: the largest violation of a constraint or bound, or the largest defect of a step.
    - `slack`: complementarity: the largest product of a multiplier and the distance from its bound.
    - `gain`: the remaining decrease of the cost to second order. NaN without positive curvature.
    - `acting`: the number of active constraints and bounds.
    - `curvature`: the least and the largest eigenvalue of the second derivative of the Lagrangian, on changes of controls
      tangent to the active constraints; `None` if no such change exists.
    - `flat`: curvatures below this value cannot be distinguished from zero.

    >>> problem, solver, guess = rbd.control.problems.load("cartpole_swing_up")
    >>> found = rbd.control.optimality(problem, rbd.control.solve(problem, solver, guess))
    >>> print(isinstance(found, rbd.control.Optimality), found.gradient < 1e-3, found.minimum)
    True True True
    """

    gradient: float
    violation: float
    slack: float
    gain: float
    acting: int
    curvature: tuple[float, float] | None
    flat: float

    @property
    def minimum(self) -> bool:
        """True if second derivatives show that a stationary motion is a strict minimum."""
        return self.curvature is None or self.curvature[0] > self.flat

    def __repr__(self) -> str:
        least = (
            "nothing is left to change"
            if self.curvature is None
            else f"least curvature {self.curvature[0]:.4g}"
        )
        says = "a strict minimum" if self.minimum else "no strict minimum"
        return (
            f"Optimality: {says} by second order, {least}, {self.acting} constraints and bounds act\n   "
            f"gradient {self.gradient:.2g}, violation {self.violation:.2g}, slack {self.slack:.2g}, gain {self.gain:.2g}"
        )


def optimality(problem: Problem, solution: Solution) -> Optimality:
    """Evaluates the first- and second-order optimality conditions at a solution.

    Multipliers and curvatures are recomputed in double precision on the host, with a matrix of all controls, of which there
    may be up to 3000.

    Args:
      problem: The problem.
      solution: A finite solution of it, which follows the problem's scheme.

    Returns:
      An `Optimality`.

    Raises:
      ValueError: The solution is a collocation, has too many controls or large defects, or is not finite.

    >>> problem, solver, guess = rbd.control.problems.load("cartpole_swing_up")
    >>> found = rbd.control.optimality(problem, rbd.control.solve(problem, solver, guess))
    >>> found.minimum, found.violation < 1e-6
    (True, True)
    """
    owner = "control.optimality"
    instance(owner, "problem", problem, Problem, "a control.Problem")
    instance(owner, "solution", solution, Solution, "what control.solve returns")
    if solution.control.size > MANY:
        raise ValueError(
            f"{owner}: the problem has {solution.control.size} controls in all; the check requires at most {MANY}"
        )
    if solution.control_nodes is not None:
        raise ValueError(
            f"{owner}: solution is a collocation, which does not follow the problem's scheme. Use control.appraise for its "
            "costs and constraints."
        )
    seen = judged(problem, solution)
    if not seen.finite:
        raise ValueError(f"{owner}: solution is not finite")
    if seen.missed > FOLLOWS:
        raise ValueError(
            f"{owner}: the steps of solution miss the next states by up to {seen.missed:.2g}: it is not a motion of this problem"
        )
    return optimality_at(problem, solution, seen)


class About(NamedTuple):
    """The linearization of a problem about a motion."""

    A: Any
    B: Any
    slope_x: Any
    slope_u: Any
    end_slope: Any
    rows_x: Any  # of constraints at all knots
    rows_u: Any


def about(problem: Problem, solution: Solution) -> About:
    """Returns the linearization of a problem about a solution, as arrays on the host."""
    nx = Stages(problem).nx
    return _numbers(_seen(problem, solution, *_split(problem, np.zeros(nx + problem.nu), nx)))


@compiled
def _seen(problem: Problem, solution: Solution, x: Float[Array, "nx"], u: Float[Array, "nu"]) -> About:
    """Returns the linearization about a motion whose points and controls are all displaced by the same changes."""
    stages = Stages(problem)
    dt = jnp.broadcast_to(solution.dt.astype(stages.dtype), (stages.steps + 1,))
    points = Point(jax.tree.map(lambda x: x.astype(stages.dtype), solution.states), dt)
    points = jax.vmap(lambda point: stages.move(point, x))(points)
    before, control = stages.before(points), solution.control.astype(stages.dtype) + u[None]
    steps, nothing = stages.steps, jnp.zeros(stages.nx, stages.dtype)
    A, B = stages.over_stages(stages.linearize, before, control)

    def slopes(index, point, control):
        moved = lambda change, control: stages.running(index, stages.move(point, change), control)
        return jax.grad(moved, argnums=(0, 1))(nothing, control)

    def row_slopes(index, point, control):
        moved = lambda change, control: stages.constrained(index, stages.move(point, change), control)
        return jax.jacfwd(moved, argnums=(0, 1))(nothing, control)

    last, end = stages.last(points), jnp.int32(steps)
    slope_x, slope_u = stages.over_stages(slopes, before, control)
    end_slope = jax.grad(lambda change: stages.terminal(stages.move(last, change)))(nothing)
    by_x, by_u = stages.over_stages(row_slopes, before, control)
    end_rows = lambda change: stages.constrained(end, stages.move(last, change), None)
    by_x = jnp.concatenate([by_x, jax.jacfwd(end_rows)(nothing)[None]])
    return About(A, B, slope_x, slope_u, end_slope, by_x, by_u)


def optimality_at(problem: Problem, solution: Solution, seen: Judged) -> Optimality:
    """Returns the optimality conditions, as functions of all controls and, if it is free, the length of the steps."""
    local, requirements = about(problem, solution), seen.requirements
    steps, nu = solution.control.shape
    free, nx = problem.duration is not None, local.A.shape[-1]
    size = free + steps * nu
    # The derivatives of points and controls with respect to the free variables.
    S = np.zeros((steps + 1, nx, size))
    S[0, -1, :free] = 1
    E = np.zeros((steps, nu, size))
    for k in range(steps):
        E[k, :, free + k * nu : free + (k + 1) * nu] = np.eye(nu)
        S[k + 1] = local.A[k] @ S[k] + local.B[k] @ E[k]
    gradient = np.einsum("kx,kxn->n", local.slope_x, S[:-1]) + np.einsum("ku,kun->n", local.slope_u, E)
    gradient += local.end_slope @ S[-1]
    slopes, sides, places, rooms = _acting(steps, local, requirements, S, E)
    pressing = _multipliers(gradient, slopes, sides)
    left = gradient + pressing @ slopes
    rows = np.zeros(local.rows_x.shape[:2])
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
    violation = max([seen.missed, *(one.violation for one in requirements)])
    slack = float(np.max(np.abs(pressing * rooms), initial=0))
    gradient = float(np.max(np.abs(left), initial=0))
    return Optimality(gradient, violation, slack, gain, len(slopes), curvature, flat)


def _acting(steps: int, local: About, requirements: Sequence[Requirement], S, E):
    """Returns the active constraints: their slopes, signs (0 for equalities), places, and distances from the bound."""
    slopes, sides, places, rooms = [], [], [], []
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
                rooms.append(min(abs(value - low), abs(value - high)))
    return (
        np.reshape(np.array(slopes), (len(slopes), S.shape[2])),
        np.array(sides, int),
        places,
        np.array(rooms),
    )


def _multipliers(gradient, slopes, sides) -> np.ndarray:
    """Returns the multipliers of the right signs that minimize the norm of the gradient of the Lagrangian."""
    if not len(slopes):
        return np.zeros(0)
    from scipy.optimize import lsq_linear

    # Normalize rows, whose sizes may differ widely.
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


def _costates(local: About, rows, bounded) -> np.ndarray:
    """Returns the derivative of the remaining Lagrangian with respect to the state after each step."""
    last = local.end_slope + rows[-1] @ local.rows_x[-1] + bounded[-1]
    found = [last]
    for k in range(len(local.A) - 1, 0, -1):
        last = last @ local.A[k] + local.slope_x[k] + rows[k] @ local.rows_x[k] + bounded[k]
        found.append(last)
    return np.array(found[::-1])


def _curved(
    problem: Problem, solution: Solution, local: About, costates, rows
) -> tuple[np.ndarray, np.ndarray]:
    """Returns second derivatives of the Lagrangian of each stage by point and control, and of the last point.

    They are central differences of exact first derivatives, accurate to the machine precision to the power 2/3. On a
    manifold, the coordinates of the first derivatives turn with the point; this adds an antisymmetric term, which is
    removed.
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
