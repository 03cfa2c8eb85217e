"""Differential dynamic programming, and its variant without second derivatives of the dynamics, iterative LQR.

Each iteration expands the problem about a motion and solves it by Riccati's recursion with bounds on the controls. It then
rolls the resulting feedback out through the dynamics (Mayne 1966; Li & Todorov 2004; bounds: Tassa, Mansard & Todorov 2014).
A guess may have gaps between the end of a step and the next state. The search closes these gaps as it converges (Giftthaler
et al. 2018; Mastalli et al. 2020). Augmented Lagrangians handle all other constraints (Conn, Gould & Toint 1991): with r the
residual of a row, λ its multiplier and ρ its penalty, the cost of the row is

    (ρ / 2) ‖z - clip(z, lower, upper)‖²,    z = r + λ / ρ,

and at a minimum under these costs the update is λ ← ρ (z - clip(z)).

The curvature is that of the costs; least squares contribute only the squares of their first derivatives. The remaining terms
are steps along their costates, constraints along their multipliers, and residuals along themselves. When the search is slow
without them, they are computed by differences of first derivatives.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from .._core.arguments import choice, whole_number
from .._core.array import is_known, matvec, rowwise, transpose, vecmat
from ..optimize.outcome import Code
from ._expansion import Expansions
from ._rows import Held, Keeping, Pressed, Rows, most
from ._stages import Point, Stages, joined
from .lqr import minimized
from .solution import Solution
from .solver import Solver, Start


#: Maximum number of trial shares of a step, each half of the previous share.
SHARES = 12
#: Share of the predicted decrease that an accepted step must achieve.
KEPT = 1e-4
#: Regularization, relative to the curvature with respect to controls: smallest nonzero value, growth factor, and maximum.
LEAST, FACTOR, BEYOND = 1e-6, 10.0, 1e10
#: Regularization above this value notably reduces the predicted decrease of a step.
SOFT = 1e-3
#: Multipliers are updated if the next step promises less than this share of the penalty of the remaining errors.
SHARE_OF_PENALTY = 0.1
#: The search is slow if the predicted decrease exceeds this share of the previous one.
SLOW = 0.25
#: The code of a search that continues.
SEARCHING = -1


class DDP(Solver):
    """Differential dynamic programming for problems with bounds and constraints.

    The search starts from controls, or from states with gaps between them (a `Guess` with `states`). If the duration of the
    problem is free, the search includes it.

    - `hessian`: "gauss-newton" uses second derivatives of the costs only, and for least squares the squares of first
      derivatives (iterative LQR). "full" uses the second derivatives of costs, dynamics and constraints in every iteration.
      These take as long as the first derivatives of 1 + nx + nu motions. "auto" computes them when the search has become
      slow, and reuses them until it is slow again.
    - `tolerance`: the search has converged if the predicted decrease of the cost is less than this share of the cost; by
      default the machine precision to the power 2/3. The effect of rounding errors of states on the cost is added to it.
    - `constraint_tolerance`: largest allowed violation of constraints; by default 1e-6, in float32 1e-4.
    - `max_iterations`: maximum number of steps.
    - `penalty`: initial penalty of constraints; by default the violation then costs about ten times as much as the motion.

    >>> solver = rbd.control.DDP(max_iterations=50)
    """

    tolerance: float | None
    constraint_tolerance: float | None
    penalty: float | None
    hessian: Literal["auto", "gauss-newton", "full"] = eqx.field(static=True)
    max_iterations: int = eqx.field(static=True)

    def __init__(
        self,
        *,
        hessian: Literal["auto", "gauss-newton", "full"] = "auto",
        max_iterations: int = 500,
        tolerance: float | None = None,
        constraint_tolerance: float | None = None,
        penalty: float | None = None,
    ):
        owner = "control.DDP"
        choice(owner, "hessian", hessian, ("auto", "gauss-newton", "full"))
        self.hessian = hessian
        self.max_iterations = whole_number(owner, "max_iterations", max_iterations)
        for name, value in (
            ("tolerance", tolerance),
            ("constraint_tolerance", constraint_tolerance),
            ("penalty", penalty),
        ):
            if value is not None and is_known(value) and not 0 < value < np.inf:
                raise ValueError(f"{owner}: {name} is {value!r}; it is a positive number, or None")
        self.tolerance, self.constraint_tolerance, self.penalty = tolerance, constraint_tolerance, penalty

    def begin(self, stages: Stages, start: Start) -> Carry:
        return Search(self, stages).begin(start)

    def going_on(self, search: Carry) -> Bool[Array, ""]:
        ended = (search.code != SEARCHING) & (search.code != Code.NOT_CONVERGED)
        return ~ended & ~((search.code == Code.NOT_CONVERGED) & self.spent(search))

    def spent(self, search: Carry) -> Bool[Array, ""]:
        """Returns whether the iteration limit is reached. Iterations that take no step have a separate, larger limit."""
        most = self.max_iterations
        return (search.iterations >= most) | (search.turns >= 4 * most + 100)

    def iterate(self, stages: Stages, search: Carry) -> Carry:
        return Search(self, stages).turn(search)

    def finish(self, stages: Stages, search: Carry) -> Solution:
        return Search(self, stages).finish(search)


class Now(NamedTuple):
    """The current motion: points and controls, the cost, the constraint rows, and, for a guess of states, the gaps."""

    points: Point
    control: Float[Array, "steps nu"]
    cost: Float[Array, ""]
    rows: Rows
    gaps: Float[Array, "steps nx"] | None


class Local(NamedTuple):
    """The problem about a motion, in changes z of a point and its control.

    - `ahead`: derivatives of the steps. `slope`, `curvature`: of the costs. `rows`: Jacobians of the dense rows.
    - `end_slope`, `end_curvature`: of the cost of the last point.
    """

    ahead: Float[Array, "steps nx z"]
    slope: Float[Array, "steps z"]
    curvature: Float[Array, "steps z z"]
    end_slope: Float[Array, "nx"]
    end_curvature: Float[Array, "nx nx"]
    rows: Rows


class Missing(NamedTuple):
    """The terms that the curvatures of `Local` omit, as last computed.

    - `known`: whether they were computed at all. `fresh`: whether they were computed for this motion.
    - `slow`: number of slow iterations since then.
    """

    path: Float[Array, "steps z z"]
    end: Float[Array, "nx nx"]
    known: Bool[Array, ""]
    fresh: Bool[Array, ""]
    slow: Int[Array, ""]


class Direction(NamedTuple):
    """A search direction: a feedback, the change of the length of steps, and the predicted decrease.

    - `decrease`: predicted decrease of the quadratic model. `noise`: rounding error of the cost.
    - `slope`, `bend`: first and second derivative of the cost along the direction. `slope` includes the closing of gaps.
    - `positive`: whether the model has a minimum.
    """

    K: Float[Array, "steps nu nx"]
    k: Float[Array, "steps nu"]
    dt: Float[Array, ""]
    decrease: Float[Array, ""]
    noise: Float[Array, ""]
    slope: Float[Array, ""]
    bend: Float[Array, ""]
    positive: Bool[Array, ""]


class Verdict(NamedTuple):
    """The state of a search: its code, and whether multipliers are due for an update."""

    code: Int[Array, ""]
    update: Bool[Array, ""]


class Carry(NamedTuple):
    """The state of a search between iterations.

    - `regularization`: share of each control's curvature that is added to it.
    - `missing`: the omitted curvature, or None if the solver does not use it.
    - `gap_weight`: the cost per unit of gaps. `promised`: predicted decrease of the last step with the same multipliers,
      else infinite.
    - `iterations`: number of steps taken, -1 before the guess is evaluated. `turns`: number of directions computed.
    - `gains`: the feedback of the last direction.
    """

    now: Now
    local: Local
    missing: Missing | None
    held: Held
    gains: Float[Array, "steps nu nx"]
    regularization: Float[Array, ""]
    gap_weight: Float[Array, ""]
    promised: Float[Array, ""]
    code: Int[Array, ""]
    iterations: Int[Array, ""]
    turns: Int[Array, ""]


class Search:
    """The operations of a search for the solution of a problem."""

    def __init__(self, solver: DDP, stages: Stages):
        self.solver, self.stages, self.dtype = solver, stages, stages.dtype
        self.eps = eps = float(jnp.finfo(self.dtype).eps)
        number = lambda value, default: jnp.asarray(default if value is None else value, self.dtype)
        self.tolerance = number(solver.tolerance, eps ** (2 / 3))
        self.allowed = number(solver.constraint_tolerance, max(1e-6, eps**0.5 / 3))
        self.boxed = stages.problem.bounds.control is not None
        self.lower, self.upper = stages.control_bounds()
        self.expansions = Expansions(stages)
        self.keeping = Keeping(stages, self.expansions)

    def begin(self, start: Start) -> Carry:
        """Returns the initial state. The forward pass of the first iteration rolls the guess out."""
        stages, dtype = self.stages, self.dtype
        N, nx, nu = stages.steps, stages.nx, stages.nu
        control = jnp.clip(start.control, self.lower[None], self.upper[None]) if self.boxed else start.control
        points = start.points
        if points is None:
            points = jax.tree.map(lambda x: jnp.broadcast_to(x, (N + 1, *x.shape)), start.first)
        zeros = lambda *shape: jnp.zeros(shape, dtype)
        z, dense = nx + nu, self.keeping.dense
        gaps = None if start.points is None else zeros(N, nx)
        rows = jax.tree.map(jnp.zeros_like, self.keeping.lower)
        now = Now(points, control, jnp.asarray(jnp.inf, dtype), rows, gaps)
        jacobians = Rows(zeros(N, dense.path, z), zeros(dense.end, nx))
        local = Local(zeros(N, nx, z), zeros(N, z), zeros(N, z, z), zeros(nx), zeros(nx, nx), jacobians)
        missing = None
        if self.solver.hessian != "gauss-newton":
            missing = Missing(zeros(N, z, z), zeros(nx, nx), jnp.array(False), jnp.array(False), jnp.int32(0))
        return Carry(
            now,
            local,
            missing,
            self.keeping.begin(start.multipliers),
            gains=zeros(N, nu, nx),
            regularization=zeros(),
            gap_weight=jnp.ones((), dtype),
            promised=jnp.asarray(jnp.inf, dtype),
            code=jnp.int32(SEARCHING),
            iterations=jnp.int32(-1),
            turns=jnp.int32(0),
        )

    def turn(self, carry: Carry) -> Carry:
        """Computes a direction and, unless the search ends, takes a step along it and expands about the new motion."""
        first, now, held, local = carry.iterations < 0, carry.now, carry.held, carry.local
        found = self.directed(carry)
        # The first iteration only evaluates the motion of the guess, without a direction.
        direction = jax.tree.map(lambda x: jnp.where(first, jnp.zeros_like(x), x), found)
        verdict = self.judged(carry, direction)
        going = first | ((verdict.code == SEARCHING) & direction.positive & ~verdict.update)
        gap_weight = self.weighed(carry, direction)
        stay = lambda: (jnp.array(False), jnp.zeros((), self.dtype), now)
        taken, share, now = lax.cond(
            going, lambda: self.searched(carry._replace(gap_weight=gap_weight), direction), stay
        )
        if self.keeping.any:
            started = self.keeping.started(held, now.rows, now.cost, self.solver.penalty)
            updated = self.keeping.updated(now.rows, held, self.allowed)
            held = _chosen(first, started, _chosen(verdict.update, updated, held))
        asked, missing = self.asked(carry, direction, taken, verdict)
        local, missing = lax.cond(
            taken | asked, lambda: self.expanded(now, held, local, missing, asked), lambda: (local, missing)
        )
        finite = (
            jnp.isfinite(now.cost)
            & jnp.all(jnp.isfinite(local.ahead))
            & jnp.all(jnp.isfinite(local.curvature))
        )
        code = jnp.where(finite | ~taken, verdict.code, Code.NOT_FINITE)
        after = Carry(
            now,
            local,
            missing,
            held,
            gains=direction.K,
            regularization=self.regularized(carry.regularization, first, verdict.update, taken, share),
            gap_weight=gap_weight,
            promised=jnp.where(taken & ~first, direction.decrease, jnp.inf),
            code=code.astype(jnp.int32),
            iterations=carry.iterations + taken.astype(jnp.int32),
            turns=carry.turns + 1,
        )
        # If only the iteration limit ends the search, its state stays unchanged, and it can resume with a larger limit.
        paused = carry._replace(gains=direction.K, code=after.code)
        return _chosen(verdict.code == Code.NOT_CONVERGED, paused, after)

    def asked(self, carry: Carry, direction: Direction, taken, verdict: Verdict):
        """Returns whether to compute the omitted curvature, and the updated counts of slow iterations.

        The computation takes as long as half as many steps as it has columns. It is due after that number of slow
        iterations, so the search takes at most twice as long as with the best choice known in advance.
        """
        missing, going_on = carry.missing, (carry.iterations >= 0) & (verdict.code == SEARCHING)
        if missing is None:
            return jnp.array(False), None
        if self.solver.hessian == "full":
            return taken | (going_on & verdict.update), missing
        stale = ~missing.fresh | taken
        slow = (direction.decrease > SLOW * carry.promised) | ~taken
        count = missing.slow + (slow & going_on & ~verdict.update).astype(jnp.int32)
        asked = going_on & stale & (count >= missing.path.shape[-1] // 2)
        return asked, missing._replace(slow=jnp.where(asked, 0, count))

    def regularized(self, before, first, update, taken, share):
        """Returns more regularization after a failed or very short step, and less after a long step."""
        more = jnp.maximum(before * FACTOR, LEAST)
        less = jnp.where(before > LEAST, before / FACTOR, 0)
        after = jnp.where(share >= 0.25, less, jnp.where(share < 0.05, more, before))
        return jnp.where(first | update, 0, jnp.where(taken, after, more))

    # Forward.

    def searched(self, carry: Carry, direction: Direction):
        """Returns the first share of the step that reduces the merit sufficiently, and the motion there."""
        first = carry.iterations < 0
        before = self.merit(carry.now, carry.held, carry.gap_weight)
        slope = direction.slope
        if carry.now.gaps is not None:
            slope = slope - carry.gap_weight * jnp.sum(jnp.abs(carry.now.gaps))
        noise = 10 * self.eps * jnp.abs(before) + direction.noise

        def going_on(state):
            taken, share, _ = state
            return ~taken & (share > 0.5 ** (SHARES - 0.5))

        def attempt(state):
            _, share, _ = state
            share = jnp.where(share > 1, 1, share / 2)
            now = self.forward(carry, direction, share)
            after = self.merit(now, carry.held, carry.gap_weight)
            return first | (after <= before + KEPT * share * slope + noise), share, now

        start = jnp.array(False), jnp.asarray(2, self.dtype), carry.now
        taken, share, now = lax.while_loop(going_on, attempt, start)
        return taken, share, jax.tree.map(lambda new, old: jnp.where(taken, new, old), now, carry.now)

    def merit(self, now: Now, held: Held, gap_weight):
        """Returns the merit function of the line search."""
        merit = now.cost + self.keeping.cost(now.rows, held)
        return merit if now.gaps is None else merit + gap_weight * jnp.sum(jnp.abs(now.gaps))

    def forward(self, carry: Carry, direction: Direction, share) -> Now:
        """Returns the motion under a share of the step and its feedback; in the first iteration, the motion of the guess."""
        stages, (points, control, *_, gaps) = self.stages, carry.now
        first = carry.iterations < 0
        start = stages.lengthened(stages.first_of(points), share * direction.dt)

        def advance(point, given):
            index, old, after, u, gap, k, K = given
            change = stages.difference(old, point)
            if gap is None:  # without guessed points there is no change
                change = jnp.where(first, 0, change)
            u = u + share * k + matvec(K, change)
            u = jnp.clip(u, self.lower, self.upper) if self.boxed else u
            cost, rows = stages.running(index, point, u), self.keeping.at(index, point, u)
            new = stages.advance(index, point, u)
            if gap is not None:
                moved = stages.move(new, (1 - share) * gap)
                moved = jax.tree.map(lambda a, b: jnp.where(first, a, b), after, moved)
                new, gap = moved, stages.difference(new, moved)
            return new, (new, u, gap, cost, rows)

        indices = jnp.arange(stages.steps, dtype=jnp.int32)
        given = indices, stages.before(points), stages.after(points), control, gaps, direction.k, direction.K
        end, (rest, control, gaps, costs, rows) = lax.scan(advance, start, given)
        last = self.keeping.at(jnp.int32(stages.steps), end, None)
        cost = jnp.sum(costs) + stages.terminal(end)
        return Now(joined(start, rest), control, cost, Rows(rows, last), gaps)

    # Expansion.

    def expanded(self, now: Now, held: Held, before: Local, missing: Missing | None, asked):
        """Returns the problem about the current motion and, if `asked`, the omitted curvature there.

        A single loop processes the motion itself, and then the motions with one entry of all stages displaced. `before`, the
        previous expansion, only provides the shapes of the result.
        """
        if missing is None:
            return self.linearized(now), None
        stages, keeping = self.stages, self.keeping
        pressing = keeping.pressing(now.rows, held)
        sizes = jax.vmap(stages.sizes)(now.points)
        if stages.free:
            sizes = sizes.at[:, -1].set(now.points.dt)
        by_control = jnp.maximum(jnp.abs(now.control), 1)
        by_control = jnp.concatenate([by_control, by_control[-1:]])
        sizes = self.eps**0.5 * jnp.concatenate([sizes, by_control], axis=1)
        count = sizes.shape[1]

        def slopes(local, costates):
            """Returns the derivatives of the Lagrangian of each stage, with multipliers held fixed."""
            dense = keeping.dense
            path = local.slope + jax.vmap(vecmat)(costates[1:], local.ahead)
            path = path + jax.vmap(vecmat)(pressing.path[:, : dense.path], local.rows.path)
            return path, local.end_slope + vecmat(pressing.end[: dense.end], local.rows.end)

        def look(carry):
            which, local, costates, base, found = carry
            own = which < 0
            change = jnp.where(np.arange(count, dtype=np.int32)[None] == which, sizes, 0)
            points = jax.vmap(stages.move)(now.points, change[:, : stages.nx])
            there = self.linearized(
                now._replace(points=points, control=now.control + change[:-1, stages.nx :])
            )
            local = _chosen(own, there, local)
            costates = jnp.where(
                own, self.adjoint(local, *keeping.pressed_by(pressing, None, local.rows))[0], costates
            )
            at = slopes(there, costates)
            base = _chosen(own, at, base)
            column = lambda all, x, x0, size: lax.dynamic_update_index_in_dim(
                all, (x - x0) / size, jnp.maximum(which, 0), -1
            )
            size = jnp.sum(change, axis=1)
            size = jnp.where(own, 1, size)
            path = column(found.path, at[0], base[0], size[:-1, None])
            end = jnp.where(which < stages.nx, column(found.end, at[1], base[1], size[-1]), found.end)
            return which + 1, local, costates, base, Rows(path, end)

        zeros = jax.tree.map(jnp.zeros_like, Rows(missing.path, missing.end))
        empty = jax.tree.map(jnp.zeros_like, before)
        costates = jnp.zeros((stages.steps + 1, stages.nx), self.dtype)
        start = jnp.int32(-1), empty, costates, (empty.slope, empty.end_slope), zeros
        last = jnp.where(asked, count, 0)
        _, local, _, _, found = lax.while_loop(lambda carry: carry[0] < last, look, start)
        symmetric = lambda x: 0.5 * (x + transpose(x))
        now_missing = Missing(
            symmetric(found.path) - local.curvature,
            symmetric(found.end) - local.end_curvature,
            jnp.array(True),
            jnp.array(True),
            missing.slow,
        )
        return local, _chosen(asked, now_missing, missing._replace(fresh=jnp.array(False)))

    def linearized(self, now: Now) -> Local:
        """Returns the expansion with first derivatives, and second derivatives of costs, Gauss-Newton's for least squares."""
        stages, keeping, expansions = self.stages, self.keeping, self.expansions

        def at(index, point, control):
            ahead = jnp.concatenate(stages.linearize(index, point, control), axis=1)
            running = expansions.running(index, point, control)
            return ahead, running.slope, running.curvature, keeping.jacobian(index, point, control)

        last = stages.last(now.points)
        ahead, slope, curvature, path = stages.over_stages(at, stages.before(now.points), now.control)
        terminal, end = expansions.terminal(last), keeping.jacobian(jnp.int32(stages.steps), last, None)
        return Local(ahead, slope, curvature, terminal.slope, terminal.curvature, Rows(path, end))

    # Backward.

    def directed(self, carry: Carry) -> Direction:
        """Returns the direction of the exact quadratic model if it has a minimum, else of the Gauss-Newton model."""
        missing, local = carry.missing, carry.local
        if missing is None:
            return self.backward(local, carry.now, carry.held, carry.regularization)

        def attempt(state):
            share, _ = state
            curved = local._replace(
                curvature=local.curvature + share * missing.path,
                end_curvature=local.end_curvature + share * missing.end,
            )
            return share - 1, self.backward(curved, carry.now, carry.held, carry.regularization)

        shapes = jax.eval_shape(attempt, (jnp.ones((), self.dtype), None))[1]
        empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        start = missing.known.astype(self.dtype), empty
        return lax.while_loop(lambda state: (state[0] >= 0) & ~state[1].positive, attempt, start)[1]

    def backward(self, local: Local, now: Now, held: Held, regularization) -> Direction:
        """Returns the optimal feedback of the quadratic model, with bounds on the controls."""
        stages, keeping, nx, dtype = self.stages, self.keeping, self.stages.nx, self.dtype
        unit = np.eye(stages.nu, dtype=bool)
        path, end = keeping.pressed(now.rows, held, local.rows)

        def back(carry, stage):
            P, p, decrease, noise, positive = carry
            F, slope, curvature, gap, pressed, point, u = stage
            if keeping.any:
                slope, curvature = slope + keeping.slope(pressed), curvature + keeping.curvature(pressed)
            ahead, closing = p, jnp.zeros((), dtype)
            if gap is not None:  # a full step closes the gap
                ahead, closing = p - matvec(P, gap), -jnp.sum(p * gap)
            H = curvature + rowwise(transpose(F), rowwise(P, F))
            h = slope + vecmat(ahead, F)
            xx, ux, uu, qx, qu = H[:nx, :nx], H[nx:, :nx], H[nx:, nx:], h[:nx], h[nx:]
            size = jnp.abs(jnp.diagonal(uu))
            added = jnp.where(unit, regularization * (size + 1e-3 * jnp.max(size)), 0)
            limits = (self.lower - u, self.upper - u) if self.boxed else None
            k, K, fine = minimized(uu + added, qu, ux, limits)
            uuk = matvec(uu, k)
            P = xx + rowwise(transpose(K), rowwise(uu, K) + 2 * ux)
            P = 0.5 * (P + transpose(P))
            p = qx + vecmat(uuk + qu, K) + vecmat(k, ux)
            along, bend = jnp.sum(k * qu), jnp.sum(k * uuk)
            decrease = decrease - along - 0.5 * (bend + jnp.sum(k**2 * jnp.diagonal(added)))
            noise = noise + self.rounding(P, p, point)
            return (P, p, decrease, noise, positive & fine), (K, k, along + closing, bend)

        none = jnp.zeros((), dtype)
        P, p = local.end_curvature, local.end_slope
        if keeping.any:
            P, p = P + keeping.curvature(end), p + keeping.slope(end)
        start = P, p, none, self.rounding(P, p, stages.last(now.points)), jnp.array(True)
        stages_before = stages.before(now.points)
        given = local.ahead, local.slope, local.curvature, now.gaps, path, stages_before, now.control
        (P, p, decrease, noise, positive), (K, k, slopes, bends) = lax.scan(back, start, given, reverse=True)
        slope, bend, dt = jnp.sum(slopes), jnp.sum(bends), none
        if stages.free:
            dt, more = self.best_length(P[-1, -1], p[-1], now.points.dt[0], regularization)
            decrease = decrease + more
            slope, bend = slope + p[-1] * dt, bend + P[-1, -1] * dt**2
        return Direction(K, k, dt, decrease, noise, slope, bend, positive & jnp.isfinite(decrease))

    def rounding(self, P, p, point: Point):
        """Returns the effect of a point's rounding error on the cost."""
        sizes = self.eps * self.stages.sizes(point)
        return jnp.sum(jnp.abs(p) * sizes + 0.5 * jnp.abs(jnp.diagonal(P)) * sizes**2)

    def best_length(self, bend, slope, now, regularization):
        """Returns the change of the length of steps that minimizes the first stage's value within bounds, and its decrease."""
        shortest, longest = self.stages.step_bounds()
        low, high = shortest - now, longest - now
        span = jnp.maximum(longest - shortest, self.eps * longest)
        stiff = bend + regularization * (jnp.abs(bend) + jnp.abs(slope) / span)
        value = lambda change: slope * change + 0.5 * stiff * change**2
        at_end = jnp.where(value(low) < value(high), low, high)
        change = jnp.where(stiff > 0, jnp.clip(-slope / jnp.where(stiff > 0, stiff, 1), low, high), at_end)
        return change, -value(change)

    def weighed(self, carry: Carry, direction: Direction):
        """Returns the weight of gaps that makes the direction one of descent (Nocedal and Wright 2006)."""
        if carry.now.gaps is None:
            return carry.gap_weight
        open = jnp.sum(jnp.abs(carry.now.gaps))
        needed = (direction.slope + 0.5 * jnp.maximum(direction.bend, 0)) / (
            0.5 * jnp.where(open > 0, open, 1)
        )
        return jnp.where((open > 0) & (needed > carry.gap_weight), 2 * needed, carry.gap_weight)

    # Termination.

    def open(self, now: Now) -> Float[Array, ""]:
        """Returns the largest gap between a step and the next point."""
        return jnp.zeros((), self.dtype) if now.gaps is None else jnp.max(jnp.abs(now.gaps))

    def judged(self, carry: Carry, direction: Direction) -> Verdict:
        """Returns whether the search has converged or failed, or multipliers are due for an update."""
        now, held, keeping = carry.now, carry.held, self.keeping
        first, stuck = carry.iterations < 0, carry.regularization > BEYOND
        gaps = self.open(now)
        penalty = keeping.missed(now.rows, held) if keeping.any else jnp.zeros((), self.dtype)
        scale = jnp.abs(now.cost) + penalty
        # Regularization shortens steps and reduces their predicted decrease.
        promised = direction.decrease * (1 + carry.regularization / SOFT)
        below = lambda size: direction.positive & (promised <= size + direction.noise)
        least = self.tolerance * scale
        error, update, hopeless = jnp.zeros((), self.dtype), jnp.array(False), jnp.array(False)
        if keeping.any:
            error = most(keeping.errors(now.rows, held), self.dtype)
            stepped = jnp.isfinite(carry.promised)
            enough = (below(least) | (stepped & below(SHARE_OF_PENALTY * penalty))) & (gaps <= 1e-2)
            update = ~first & (error > self.allowed) & (stuck | enough)
            hopeless = update & enough & keeping.hopeless(held)
        solved = ~first & below(least) & (gaps <= self.allowed) & (error <= self.allowed)
        code = jnp.int32(SEARCHING)
        for case, name in (
            (self.solver.spent(carry), Code.NOT_CONVERGED),
            (stuck & ~update, Code.STALLED),
            (hopeless, Code.INFEASIBLE),
            (solved, Code.CONVERGED),
        ):
            code = jnp.where(case, jnp.int32(name), code)
        return Verdict(code, update & (code == SEARCHING))

    # The end.

    def adjoint(self, local: Local, path: Pressed, end: Pressed):
        """Returns the multipliers of the steps, and the derivatives of the Lagrangian with respect to the controls."""
        nx, keeping = self.stages.nx, self.keeping

        def back(costate, stage):
            F, slope, pressed = stage
            slope = slope + vecmat(costate, F)
            slope = slope + keeping.slope(pressed) if keeping.any else slope
            return slope[:nx], (slope[:nx], slope[nx:])

        last = local.end_slope + keeping.slope(end) if keeping.any else local.end_slope
        _, (costates, slopes) = lax.scan(back, last, (local.ahead, local.slope, path), reverse=True)
        return jnp.concatenate([costates, last[None]]), slopes

    def finish(self, carry: Carry) -> Solution:
        """Returns the solution, with the multipliers of the steps and the remaining derivatives."""
        stages, now, held, keeping = self.stages, carry.now, carry.held, self.keeping
        costates, left = self.adjoint(carry.local, *keeping.pressed(now.rows, held, carry.local.rows))
        if self.boxed:
            left = projected(left, now.control, self.lower[None], self.upper[None])
        stationarity = jnp.max(jnp.abs(left), initial=0)
        dt = now.points.dt[0]
        if stages.free:
            by_length = projected(costates[0, -1], dt, *stages.step_bounds())
            stationarity = jnp.maximum(stationarity, jnp.abs(by_length))
        violation = self.open(now)
        if keeping.any:
            violation = jnp.maximum(violation, keeping.violation(now.rows))
            held = held._replace(multipliers=keeping.pressing(now.rows, held))
        state, indices = now.points.state, jnp.arange(stages.steps + 1, dtype=jnp.int32)
        return Solution(
            t=jax.vmap(stages.time)(indices, now.points),
            q=state.q,
            v=state.v,
            own=state.own,
            control=now.control,
            dt=dt,
            cost=now.cost,
            code=jnp.where(carry.code == SEARCHING, Code.NOT_CONVERGED, carry.code).astype(jnp.int32),
            iterations=jnp.maximum(carry.iterations, 0),
            violation=violation,
            stationarity=stationarity,
            gains=carry.gains,
            costates=costates,
            multipliers=held if keeping.any else None,
        )


def projected(slope, x, lower, upper):
    """Returns the part of a slope that bounds do not balance."""
    slope = jnp.where(x <= lower, jnp.minimum(slope, 0), slope)
    return jnp.where(x >= upper, jnp.maximum(slope, 0), slope)


def _chosen(which, one, other):
    return jax.tree.map(lambda a, b: jnp.where(which, a, b), one, other)
