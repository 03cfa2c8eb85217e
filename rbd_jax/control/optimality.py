"""Whether a solution is a minimum: what the conditions of first and second order say, apart from the solver that found it.

First order: with multipliers λ of the rows that a motion must keep to, the derivative of the Lagrangian by all that is decided on
vanishes, rows are kept, and a multiplier that is not zero belongs to a row at its bound and pushes inwards. Second order: the exact
second derivative of the Lagrangian by what is decided on is positive on the tangent space of the rows that act. Its smallest
eigenvalue σ there is found by Riccati's recursion, which has a positive pivot in every stage of `H - s I` exactly for s < σ: by
bisection, the rows that act being held by a stiff quadratic (a lower bound of σ, as near as rounding lets it be).
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from .._arguments import instance
from .._array import rowwise, transpose, vecmat
from .._compile import compiled
from .._text import can_be_shown
from ._rows import Held, Rows, most
from ._stages import Point, Stages
from .ddp import DDP, Local, Now, Search
from .lqr import solved
from .problem import Problem
from .solution import Solution


class Optimality(eqx.Module):
    """What the conditions of a minimum say of a solution.

    - `stationarity`: the largest derivative of the Lagrangian by a control, or by the length of the steps where that is free.
    - `violation`: the most that a constraint or bound is broken, or that a step misses the next state.
    - `complementarity`: the largest product of a multiplier and the room to its bound, or multiplier that pushes outwards.
    - `curvature`: the smallest eigenvalue of the second derivative of the Lagrangian by the controls, and by the length of the
      steps where that is free, on the tangent space of the rows that act.
    - `active`: how many rows and bounds act.
    - `scale`: how large derivatives are that add up to zero.
    - `tolerance`: of all that should be zero, as a share of the scale where it is a derivative.
    """

    stationarity: Float[Array, ""]
    violation: Float[Array, ""]
    complementarity: Float[Array, ""]
    curvature: Float[Array, ""]
    active: Int[Array, ""]
    scale: Float[Array, ""]
    tolerance: Float[Array, ""]

    @property
    def first_order(self) -> Bool[Array, ""]:
        """Whether the conditions of first order hold."""
        small = self.tolerance * jnp.maximum(self.scale, 1)
        kept = (self.violation <= self.tolerance) & (self.complementarity <= small)
        return kept & (self.stationarity <= self.tolerance * self.scale)

    @property
    def second_order(self) -> Bool[Array, ""]:
        """Whether those of second order hold: motions nearby that keep to the same rows cost more."""
        return self.curvature > 0

    @property
    def minimum(self) -> Bool[Array, ""]:
        """Whether it is a strict local minimum."""
        return self.first_order & self.second_order

    def __repr__(self) -> str:
        if not can_be_shown(self) or np.ndim(self.curvature):
            return super().__repr__()
        says = "a strict local minimum" if self.minimum else "no minimum that the conditions would show"
        return (
            f"Optimality: {says}\n   stationarity {float(self.stationarity):.2g} of {float(self.scale):.2g}, "
            f"violation {float(self.violation):.2g}, complementarity {float(self.complementarity):.2g}\n   "
            f"smallest curvature {float(self.curvature):.4g}, {int(self.active)} rows active"
        )


#: Rows that act are held ever more stiffly, until the curvature changes by no more than a share.
STIFFER, SAME, TIMES = 100.0, 1e-5, 8
#: The curvature is bracketed to this share of it.
EXACT = 1e-7


def optimality(problem: Problem, solution: Solution, tolerance: float | None = None) -> Optimality:
    """The conditions of a minimum at a solution: whether it is one, and by how much not.

    They are those of the problem with steps as its scheme makes them, whatever solver found it; derivatives of second order are exact.
    It compiles derivatives that a solver may have done without, which can take longer than the solution.

    - `tolerance`: of what should be zero; by default 1e-5, in float32 1e-2.

    >>> model = rbd.load("pendulum")
    >>> problem = rbd.control.Problem(
    ...     model,
    ...     rbd.State(jnp.array([0.5]), jnp.zeros(1)),
    ...     steps=20,
    ...     dt=0.05,
    ...     running=[1e-2 * rbd.control.Effort()],
    ...     terminal=[rbd.control.Posture(jnp.array([1.0])), rbd.control.Velocity()],
    ... )
    >>> found = rbd.control.optimality(problem, rbd.control.solve(problem))
    >>> print(found.minimum)
    True
    """
    owner = "control.optimality"
    instance(owner, "problem", problem, Problem, "a control.Problem")
    instance(owner, "solution", solution, Solution, "a Solution of it")
    eps = float(jnp.finfo(solution.q.dtype).eps)
    allowed = max(1e-5, 30 * eps**0.5) if tolerance is None else tolerance
    return _conditions(problem, solution, jnp.asarray(allowed, solution.q.dtype))


@compiled
def _conditions(problem: Problem, solution: Solution, tolerance) -> Optimality:
    return _Conditions(problem, solution, tolerance).all()


class _Conditions:
    """The problem about a solution, and what is asked of it."""

    def __init__(self, problem: Problem, solution: Solution, tolerance):
        stages = Stages(problem)
        self.stages, self.dtype, self.tolerance = stages, stages.dtype, tolerance
        self.search = Search(DDP(hessian="full"), stages)
        self.keeping = keeping = self.search.keeping
        dt = jnp.broadcast_to(solution.dt, (stages.steps + 1,)).astype(self.dtype)
        points, control = Point(solution.states, dt), solution.control
        before, last = stages.before(points), stages.last(points)

        def at(index, point, control, after):
            gap = stages.difference(stages.advance(index, point, control), after)
            return keeping.at(index, point, control), gap

        rows, gaps = stages.over_stages(at, before, control, stages.after(points))
        rows = Rows(rows, keeping.at(jnp.int32(stages.steps), last, None))
        self.now = Now(points, control, solution.cost, rows, gaps)
        first = self.search.linearized(self.now)
        self.multipliers = self._multipliers(solution.multipliers, first)
        self.local = self.search.exact(self.now, self.multipliers, first)

    def _multipliers(self, given, local: Local) -> Rows:
        """Those that the solution brings, or those that make the derivative of the Lagrangian least."""
        if isinstance(given, Held) and self.keeping.fits(given):
            return given.multipliers
        return jax.tree.map(jnp.zeros_like, self.keeping.lower)

    def all(self) -> Optimality:
        """All conditions."""
        now, keeping, stages = self.now, self.keeping, self.stages
        lower, upper = self.search.lower, self.search.upper
        path, end = keeping.pressed_by(self.multipliers, None, self.local.rows)
        costates, slopes = self.search.adjoint(self.local, path, end)
        moved = jax.vmap(vecmat)(costates[1:], self.local.ahead)[:, stages.nx :]
        scale = jnp.maximum(jnp.max(jnp.abs(moved), initial=0), jnp.max(jnp.abs(slopes - moved), initial=0))
        left = projected(slopes, now.control, lower, upper)
        stationarity = jnp.max(jnp.abs(left), initial=0)
        by_length, length = jnp.zeros((), self.dtype), now.points.dt[0]
        fixed = jnp.array(True)
        if stages.free:
            by_length = projected(costates[0, -1], length, *stages.step_bounds())
            stationarity = jnp.maximum(stationarity, jnp.abs(by_length))
            fixed = jnp.abs(costates[0, -1] - by_length) > self.tolerance * scale
        pushed = jnp.abs(slopes - left) > self.tolerance * scale
        most_of_all = most(self.multipliers, self.dtype)

        def acts(push, equal, low, high):
            there = np.asarray(equal) & (jnp.isfinite(low) | jnp.isfinite(high))
            return there | (jnp.abs(push) > self.tolerance * most_of_all)

        acting = jax.tree.map(acts, self.multipliers, keeping.equal, keeping.lower, keeping.upper)
        violation = jnp.maximum(keeping.violation(now.rows), jnp.max(jnp.abs(now.gaps), initial=0))
        beyond = now.control - jnp.clip(now.control, lower, upper)
        counts = jax.tree.map(lambda x: jnp.sum(x), acting)
        return Optimality(
            stationarity=stationarity,
            violation=jnp.maximum(violation, jnp.max(jnp.abs(beyond), initial=0)),
            complementarity=self.complementarity(),
            curvature=self.curvature(acting, pushed, fixed),
            active=(counts.path + counts.end + jnp.sum(pushed)).astype(jnp.int32),
            scale=scale,
            tolerance=self.tolerance,
        )

    def complementarity(self):
        """The largest product of a multiplier and the room to its bound; where there is no such bound, the multiplier."""

        def product(push, row, low, high, equal):
            room = jnp.where(push > 0, high - row, row - low)
            room = jnp.where(jnp.isfinite(room), jnp.maximum(room, 0), jnp.inf)
            size = jnp.abs(push)
            return jnp.where(np.asarray(equal) | (size == 0), 0, jnp.minimum(size, size * room))

        keeping = self.keeping
        each = jax.tree.map(
            product, self.multipliers, self.now.rows, keeping.lower, keeping.upper, keeping.equal
        )
        return most(each, self.dtype)

    def curvature(self, acting: Rows, pushed, fixed):
        """The smallest eigenvalue on the tangent space: rows that act are held ever more stiffly, as long as that changes it."""
        local = self.local
        size = jnp.maximum(jnp.max(jnp.abs(local.curvature)), jnp.max(jnp.abs(local.end_curvature)))
        if not self.keeping.any:
            return self.least(acting, pushed, fixed, jnp.ones((), self.dtype), size)

        def going_on(carry):
            count, before, now, _ = carry
            return (count < TIMES) & (jnp.abs(now - before) > SAME * jnp.abs(now))

        def stiffer(carry):
            count, _, now, stiff = carry
            return count + 1, now, self.least(acting, pushed, fixed, stiff, size), stiff * STIFFER

        none = jnp.asarray(-jnp.inf, self.dtype)
        carry = jnp.int32(0), none, jnp.zeros((), self.dtype), jnp.maximum(size, 1)
        return lax.while_loop(going_on, stiffer, carry)[2]

    def least(self, acting: Rows, pushed, fixed, stiff, size):
        """A lower bound of the smallest eigenvalue, by bisection."""
        weights = jax.tree.map(lambda one: jnp.where(one, stiff, 0), acting)
        small = size * float(jnp.finfo(self.dtype).eps) * 1e-3

        def going_on(carry):
            low, high, _, count = carry
            near = high - low <= EXACT * jnp.maximum(jnp.abs(low), jnp.abs(high))
            return ~(near | (high - low <= small)) & (count < 200)

        def bisect(carry):
            low, high, trial, count = carry
            positive = self.positive(weights, pushed, fixed, trial)
            low, high = jnp.where(positive, trial, low), jnp.where(positive, high, trial)
            down = jnp.where(high < 0, 16 * high, -small)
            up = jnp.where(low > 0, 16 * low, small)
            same = jnp.sign(low) == jnp.sign(high)
            middle = jnp.where(
                same, jnp.sign(low) * jnp.sqrt(jnp.abs(low) * jnp.abs(high)), 0.5 * (low + high)
            )
            trial = jnp.where(jnp.isinf(low), down, jnp.where(jnp.isinf(high), up, middle))
            return low, high, trial, count + 1

        inf = jnp.asarray(jnp.inf, self.dtype)
        low, *_ = lax.while_loop(going_on, bisect, (-inf, inf, jnp.zeros((), self.dtype), jnp.int32(0)))
        return low

    def positive(self, weights: Rows, pushed, fixed, shift) -> Bool[Array, ""]:
        """Whether the second derivative, less a multiple of the unit matrix, has positive pivots alone: Riccati's recursion."""
        keeping, local, nx = self.keeping, self.local, self.stages.nx
        unit = np.eye(self.stages.nu, dtype=bool)
        path, end = keeping.pressed_by(self.multipliers, weights, local.rows)

        def back(carry, stage):
            P, positive = carry
            F, curvature, pressed, held = stage
            curvature = curvature + keeping.curvature(pressed) if keeping.any else curvature
            H = curvature + rowwise(transpose(F), rowwise(P, F))
            free = ~held
            uu = jnp.where(
                free[:, None] & free[None, :], H[nx:, nx:] - jnp.where(unit, shift, 0), jnp.where(unit, 1, 0)
            )
            ux = jnp.where(free[:, None], H[nx:, :nx], 0)
            K, fine = solved(uu, ux)
            P = H[:nx, :nx] - rowwise(transpose(ux), K)
            return (0.5 * (P + transpose(P)), positive & fine), None

        P = local.end_curvature + keeping.curvature(end) if keeping.any else local.end_curvature
        stages = local.ahead, local.curvature, path, pushed
        (P, positive), _ = lax.scan(back, (P, jnp.array(True)), stages, reverse=True)
        return positive & (fixed | (P[-1, -1] - shift > 0)) if self.stages.free else positive
