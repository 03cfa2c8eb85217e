"""Differential dynamic programming, and its form without second derivatives of the dynamics, the iterative LQR.

The problem is expanded about a motion, solved by Riccati's recursion with bounds on the controls, and the feedback that comes out
is rolled out through the dynamics themselves (Mayne 1966; Li & Todorov 2004; bounds: Tassa, Mansard & Todorov 2014). States of a
guess need not follow on each other: the gaps between them close along with the search (Giftthaler et al. 2018; Mastalli et al.
2020). All else that a motion must keep to is held by augmented Lagrangians (Conn, Gould & Toint 1991): with r the residual of a
row, λ its multiplier and ρ its penalty, the cost of the row is

    (ρ / 2) ‖z - clip(z, lower, upper)‖²,    z = r + λ / ρ,

and where a minimum under these costs is found, λ ← ρ (z - clip(z)).
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from .._arguments import choice, whole_number
from .._array import is_known, matmul, matvec, transpose, vecmat
from ._rows import Held, Rows
from ._stages import Expansion, Hessian, Point, Stages, joined
from .lqr import minimized
from .solution import Code, Solution
from .solver import Solver, Start


#: Shares of a step that are tried, each a half of the one before.
SHARES = 12
#: What of the promised decrease a step has to keep.
KEPT = 1e-4
#: Regularization begins at and ends with the first, and beyond the last there is no use in more.
LEAST, MOST, FACTOR = 1e-9, 1e10, 10.0


class DDP(Solver):
    """Differential dynamic programming for problems with bounds and constraints.

    From controls, or from states that need not follow on each other (a `Guess` with `states`). The free duration of a problem is
    part of what is searched for.

    - `hessian`: "gauss-newton" takes second derivatives of costs alone, and of least squares the squares of first ones (the
      iterative LQR); "full" those of costs, dynamics and constraints, which are dear and needed where multipliers are large.
    - `tolerance`: it has converged where the next step promises to lessen the cost by less than this share of it; by default the
      precision to the power of two thirds. What the rounding of states makes of the cost is added to it.
    - `constraint_tolerance`: by how much constraints may be violated; by default 1e-6, in float32 1e-4.
    - `max_iterations`: how many steps it may take.
    - `penalty`: where the penalties of constraints begin; by default as much as makes the violation weigh as the cost does.

    >>> solver = rbd.control.DDP(max_iterations=50)
    """

    tolerance: float | None
    constraint_tolerance: float | None
    penalty: float | None
    hessian: Hessian = eqx.field(static=True)
    max_iterations: int = eqx.field(static=True)

    def __init__(
        self,
        *,
        hessian: Hessian = "gauss-newton",
        max_iterations: int = 500,
        tolerance: float | None = None,
        constraint_tolerance: float | None = None,
        penalty: float | None = None,
    ):
        owner = "control.DDP"
        choice(owner, "hessian", hessian, ("gauss-newton", "full"))
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
        return _Search(self, stages).begin(start)

    def going_on(self, search: Carry) -> Bool[Array, ""]:
        # A turn that finds no step, or changes multipliers alone, is not counted among the iterations.
        most = 4 * self.max_iterations + 100
        unfinished = search.code == Code.NOT_CONVERGED
        return unfinished & (search.iterations < self.max_iterations) & (search.turns < most)

    def iterate(self, stages: Stages, search: Carry) -> Carry:
        return _Search(self, stages).turn(search)

    def finish(self, stages: Stages, search: Carry) -> Solution:
        return _Search(self, stages).finish(search)


class Now(NamedTuple):
    """Where a search is: points and controls, the cost, the rows that are held, and what is left open between the points, if the
    guess was of points."""

    points: Point
    control: Float[Array, "steps nu"]
    gaps: Float[Array, "steps nx"] | None
    cost: Float[Array, ""]
    rows: Float[Array, "knots rows"]


class Local(NamedTuple):
    """The problem about a motion: how points follow on each other, costs to second order, rows to first order."""

    A: Float[Array, "steps nx nx"]
    B: Float[Array, "steps nx nu"]
    running: Expansion
    terminal: Expansion
    rows_x: Float[Array, "knots rows nx"]
    rows_u: Float[Array, "steps rows nu"]


class Direction(NamedTuple):
    """Where to go: feedback, the change of the length of steps, and what that promises.

    - `decrease`: by how much the quadratic model falls along it.
    - `slope`: the derivative of cost along it, without what it is for gaps.
    - `positive`: whether the model has a minimum.
    """

    K: Float[Array, "steps nu nx"]
    k: Float[Array, "steps nu"]
    dt: Float[Array, ""]
    decrease: Float[Array, ""]
    slope: Float[Array, ""]
    curvature: Float[Array, ""]
    positive: Bool[Array, ""]


class Carry(NamedTuple):
    """What is handed on from turn to turn."""

    now: Now
    local: Local
    direction: Direction
    held: Held
    regularization: Float[Array, ""]
    gap_weight: Float[Array, ""]
    aim: Float[Array, ""]
    code: Int[Array, ""]
    iterations: Int[Array, ""]
    turns: Int[Array, ""]


class _Search:
    """What happens in a search for the solution of a problem."""

    def __init__(self, solver: DDP, stages: Stages):
        self.solver, self.stages = solver, stages
        self.dtype = dtype = stages.dtype
        eps = float(jnp.finfo(dtype).eps)
        self.eps = eps
        number = lambda value, default: jnp.asarray(default if value is None else value, dtype)
        self.tolerance = number(solver.tolerance, eps ** (2 / 3))
        self.allowed = number(solver.constraint_tolerance, max(1e-6, eps**0.5 / 3))
        self.boxed = stages.problem.bounds.control is not None
        self.lower, self.upper = stages.control_bounds()
        self.rows = Rows(stages)

    # The loop.

    def begin(self, start: Start) -> Carry:
        """Before the first turn. Its forward pass rolls the guess out."""
        stages, dtype = self.stages, self.dtype
        N, nx, nu = stages.steps, stages.nx, stages.nu
        control = jnp.clip(start.control, self.lower, self.upper) if self.boxed else start.control
        points = start.points
        if points is None:
            points = jax.tree.map(lambda x: jnp.broadcast_to(x, (N + 1, *x.shape)), start.first)
        zeros = lambda *shape: jnp.zeros(shape, dtype)
        m = self.rows.count
        blank = lambda *rows: Expansion(
            zeros(*rows),
            zeros(*rows, nx),
            zeros(*rows, nu),
            zeros(*rows, nx, nx),
            zeros(*rows, nu, nx),
            zeros(*rows, nu, nu),
        )
        gaps = None if start.points is None else zeros(N, nx)
        now = Now(points, control, gaps, jnp.asarray(jnp.inf, dtype), zeros(N + 1, m))
        local = Local(
            zeros(N, nx, nx),
            zeros(N, nx, nu),
            blank(N),
            blank(),
            zeros(N + 1, self.rows.dense, nx),
            zeros(N, self.rows.dense, nu),
        )
        direction = Direction(
            zeros(N, nu, nx), zeros(N, nu), zeros(), zeros(), zeros(), zeros(), jnp.array(True)
        )
        return Carry(
            now,
            local,
            direction,
            self.rows.begin(start.multipliers),
            jnp.asarray(0, dtype),
            jnp.asarray(1, dtype),
            jnp.asarray(1e-2 if self.rows.count else 0, dtype),
            jnp.int32(Code.NOT_CONVERGED),
            jnp.int32(-1),
            jnp.int32(0),
        )

    def turn(self, carry: Carry) -> Carry:
        """Go along the direction, expand about where that led, and find the next direction."""
        first = carry.iterations < 0
        ready = first | carry.direction.positive
        taken, share, now = lax.cond(ready, self.searched, self.stay, carry)
        finite = jnp.isfinite(now.cost) & jnp.all(jnp.isfinite(now.rows))
        local = lax.cond(
            taken & finite, self.expanded, lambda now, held, local: local, now, carry.held, carry.local
        )
        held = (
            lax.cond(first, self.rows.started, lambda held, now: held, carry.held, now)
            if self.rows.count
            else carry.held
        )
        # More regularization where a step failed, less where it went well.
        failed = (ready & ~taken) | ~ready
        more = jnp.maximum(carry.regularization * FACTOR, LEAST * FACTOR**3)
        less = jnp.where(carry.regularization > LEAST, carry.regularization / FACTOR, 0)
        regularization = jnp.where(
            failed, more, jnp.where(share >= 0.25, less, jnp.where(share < 0.05, more, carry.regularization))
        )
        regularization = jnp.where(first, carry.regularization, regularization)
        direction = self.backward(local, now, held, regularization)
        carry = carry._replace(
            now=now,
            local=local,
            direction=direction,
            held=held,
            regularization=regularization,
            iterations=carry.iterations + taken,
            turns=carry.turns + 1,
        )
        carry = carry._replace(gap_weight=self.weighed(carry))
        return self.judged(carry, finite, first)

    def stay(self, carry: Carry):
        return jnp.array(False), jnp.zeros((), self.dtype), carry.now

    # Forward.

    def searched(self, carry: Carry):
        """The first share of the step that lessens the merit as it should."""
        first = carry.iterations < 0
        before = self.merit(carry.now, carry.held, carry.gap_weight)
        noise = 10 * self.eps * jnp.abs(before)
        direction = carry.direction
        slope = direction.slope
        if carry.now.gaps is not None:
            slope = slope - carry.gap_weight * jnp.sum(jnp.abs(carry.now.gaps))

        def going_on(state):
            taken, share, _ = state
            return ~taken & (share > 0.5 ** (SHARES - 0.5))

        def attempt(state):
            _, share, _ = state
            share = jnp.where(share > 1, 1, share / 2)
            now = self.forward(carry, share)
            after = self.merit(now, carry.held, carry.gap_weight)
            taken = first | (after <= before + KEPT * share * slope + noise)
            return taken, share, now

        start = jnp.array(False), jnp.asarray(2, self.dtype), carry.now
        taken, share, now = lax.while_loop(going_on, attempt, start)
        keep = lambda new, old: jnp.where(taken, new, old)
        return taken, share, jax.tree.map(keep, now, carry.now)

    def merit(self, now: Now, held: Held, gap_weight):
        """What a step is to lessen."""
        merit = now.cost + self.rows.cost(now.rows, held)
        return merit if now.gaps is None else merit + gap_weight * jnp.sum(jnp.abs(now.gaps))

    def forward(self, carry: Carry, share) -> Now:
        """The motion under a share of the step and its feedback. In the first turn that of the guess."""
        stages, (points, control, gaps, *_), direction = self.stages, carry.now, carry.direction
        first = carry.iterations < 0
        start = stages.first_moved(stages.before_first(points), share * direction.dt)
        lower, upper = self.lower, self.upper

        def advance(point, given):
            index, old, after, u, gap, k, K = given
            if gap is not None:
                change = stages.difference(old, point)
            else:  # there is no guess of points
                change = jnp.where(first, 0, stages.difference(old, point))
            u = u + share * k + matvec(K, change)
            u = jnp.clip(u, lower, upper) if self.boxed else u
            cost, rows = stages.running(index, point, u), self.rows.at(index, point, u)
            new = stages.advance(index, point, u)
            if gap is not None:
                moved = stages.move(new, (1 - share) * gap)
                moved = jax.tree.map(lambda a, b: jnp.where(first, a, b), after, moved)
                gap = stages.difference(new, moved)
                new = moved
            return new, (new, u, gap, cost, rows)

        indices = jnp.arange(stages.steps, dtype=jnp.int32)
        given = indices, stages.before(points), stages.after(points), control, gaps, direction.k, direction.K
        end, (rest, control, gaps, costs, rows) = lax.scan(advance, start, given)
        last = self.rows.at(jnp.int32(stages.steps), end, None)
        cost = jnp.sum(costs) + stages.terminal(end)
        return Now(joined(start, rest), control, gaps, cost, jnp.concatenate([rows, last[None]]))

    # Expansion.

    def expanded(self, now: Now, held: Held, local: Local) -> Local:
        """The problem about where the search is."""
        stages = self.stages
        before = stages.before(now.points)
        A, B = stages.over_stages(stages.linearize, before, now.control)
        expand = lambda *given: stages.expand_running(*given, "gauss-newton")
        running = stages.over_stages(expand, before, now.control)
        terminal = stages.expand_terminal(stages.last(now.points), "gauss-newton")
        rows_x, rows_u = self.rows.jacobians(now.points, now.control)
        return Local(A, B, running, terminal, rows_x, rows_u)

    # Backward.

    def backward(self, local: Local, now: Now, held: Held, regularization) -> Direction:
        """The feedback of least cost of the quadratic model, with bounds on the controls."""
        stages, dtype = self.stages, self.dtype
        eye_u = jnp.eye(stages.nu, dtype=dtype)
        running, terminal = self.rows.added(local, now.rows, held)

        def back(carry, stage):
            P, p, decrease, positive = carry
            A, B, gap, cost, u, start = stage
            ahead = p + matvec(P, gap) if gap is not None else p
            PA, PB = matmul(P, A), matmul(P, B)
            xx = cost.xx + matmul(transpose(A), PA)
            uu = cost.uu + matmul(transpose(B), PB)
            ux = cost.ux + matmul(transpose(B), PA)
            qx, qu = cost.x + vecmat(ahead, A), cost.u + vecmat(ahead, B)
            size = jnp.abs(jnp.diagonal(uu))
            stiff = uu + eye_u * (regularization * (size + 1e-3 * jnp.max(size)))
            limits = (self.lower - u, self.upper - u) if self.boxed else None
            k, K, fine = minimized(stiff, qu, ux, limits, start)
            uuk, uuK = matvec(uu, k), matmul(uu, K)
            P = xx + matmul(transpose(K), uuK + 2 * ux)
            P = 0.5 * (P + transpose(P))
            p = qx + vecmat(uuk + qu, K) + vecmat(k, ux)
            fall = -(jnp.sum(k * qu) + 0.5 * jnp.sum(k * matvec(stiff, k)))
            return (P, p, decrease + fall, positive & fine), (K, k, jnp.sum(k * qu), jnp.sum(k * uuk))

        start = terminal.xx, terminal.x, jnp.zeros((), dtype), jnp.array(True)
        # The last step on the same feedback is where the search for the bounds that act begins.
        given = local.A, local.B, now.gaps, running, now.control, jnp.zeros_like(now.control)
        (P, p, decrease, positive), (K, k, slopes, curved) = lax.scan(back, start, given, reverse=True)
        slope, curvature = jnp.sum(slopes), jnp.sum(curved)
        dt = jnp.zeros((), dtype)
        if stages.free:
            dt, more, fine = self.best_length(P[-1, -1], p[-1], now.points.dt[0], regularization)
            decrease, positive = decrease + more, positive & fine
            slope, curvature = slope + p[-1] * dt, curvature + P[-1, -1] * dt**2
        positive = positive & jnp.isfinite(decrease)
        return Direction(K, k, dt, decrease, slope, curvature, positive)

    def best_length(self, curvature, slope, now, regularization):
        """The change of the length of steps with which the first stage's value is least."""
        shortest, longest = self.stages.step_bounds()
        stiff = curvature + regularization * jnp.abs(curvature)
        fine = stiff > 0
        change = jnp.clip(-slope / jnp.where(fine, stiff, 1), shortest - now, longest - now)
        return change, -(slope * change + 0.5 * stiff * change**2), fine

    def weighed(self, carry: Carry):
        """What gaps cost: as much as makes the direction one of descent (Nocedal & Wright eq. 18.36)."""
        if carry.now.gaps is None:
            return carry.gap_weight
        open = jnp.sum(jnp.abs(carry.now.gaps))
        slope, curvature = carry.direction.slope, jnp.maximum(carry.direction.curvature, 0)
        needed = (slope + 0.5 * curvature) / (0.5 * jnp.where(open > 0, open, 1))
        return jnp.where((open > 0) & (needed > carry.gap_weight), 2 * needed, carry.gap_weight)

    def open(self, now: Now) -> Float[Array, ""]:
        """The most that a step misses the next point."""
        return jnp.zeros((), self.dtype) if now.gaps is None else jnp.max(jnp.abs(now.gaps))

    # Judgement.

    def judged(self, carry: Carry, finite, first) -> Carry:
        """Whether it has converged, or multipliers are due, or nothing helps any more."""
        now, direction, held = carry.now, carry.direction, carry.held
        scale = jnp.abs(now.cost) + self.rows.cost(now.rows, held)
        noise = self.rounding(carry)
        small = direction.decrease <= self.tolerance * scale + noise
        gaps = self.open(now)
        soft = carry.regularization <= 1e-3
        stuck = carry.regularization > MOST
        solved = direction.positive & small & soft & (gaps <= self.allowed)
        code = carry.code
        if not self.rows.count:
            code = jnp.where(solved, Code.CONVERGED, code)
        else:
            near = (
                direction.positive & (direction.decrease <= carry.aim * scale + noise) & soft & (gaps <= 1e-2)
            )
            error = self.rows.error(now.rows, held)
            code = jnp.where(solved & (error <= self.allowed), Code.CONVERGED, code)
            update = (near | stuck) & (code == Code.NOT_CONVERGED) & (error > self.allowed)
            hopeless = update & self.rows.hopeless(now.rows, held, self.allowed)
            code = jnp.where(hopeless, Code.INFEASIBLE, code)
            held = lax.cond(
                update & ~hopeless, lambda: self.rows.updated(now.rows, held, self.allowed), lambda: held
            )
            aim = jnp.where(update, jnp.maximum(carry.aim * 0.1, self.tolerance), carry.aim)
            aim = jnp.where(error <= self.allowed, self.tolerance, aim)
            # The direction was found for other multipliers.
            direction = direction._replace(positive=direction.positive & ~update)
            regularization = jnp.where(update, 0, carry.regularization)
            stuck = stuck & ~update
            carry = carry._replace(held=held, aim=aim, direction=direction, regularization=regularization)
        code = jnp.where(stuck & (code == Code.NOT_CONVERGED), Code.STALLED, code)
        code = jnp.where(first & ~finite, Code.NOT_FINITE, code)
        return carry._replace(code=code.astype(jnp.int32))

    def rounding(self, carry: Carry):
        """What the rounding of states and controls makes of the cost."""
        running, terminal = self.rows.added(carry.local, carry.now.rows, carry.held)
        sizes = jax.vmap(self.stages.sizes)(carry.now.points) * self.eps
        slope = jnp.sum(jnp.abs(running.x) * sizes[:-1]) + jnp.sum(jnp.abs(terminal.x) * sizes[-1])
        curved = jnp.sum(jnp.diagonal(running.xx, axis1=1, axis2=2) * sizes[:-1] ** 2)
        curved = curved + jnp.sum(jnp.diagonal(terminal.xx) * sizes[-1] ** 2)
        return slope * self.eps + jnp.maximum(curved, 0)

    # The end.

    def finish(self, carry: Carry) -> Solution:
        """The solution: multipliers of the steps by a pass back, and what is left of the derivatives."""
        stages, now, local = self.stages, carry.now, carry.local
        running, terminal = self.rows.added(local, now.rows, carry.held)

        def back(costate, stage):
            A, B, x, u = stage
            slope = u + vecmat(costate, B)
            costate = x + vecmat(costate, A)
            return costate, (costate, slope)

        _, (costates, slopes) = lax.scan(
            back, terminal.x, (local.A, local.B, running.x, running.u), reverse=True
        )
        left = slopes
        if self.boxed:
            left = jnp.where(now.control <= self.lower, jnp.minimum(left, 0), left)
            left = jnp.where(now.control >= self.upper, jnp.maximum(left, 0), left)
        stationarity = jnp.max(jnp.abs(left), initial=0)
        if stages.free:
            shortest, longest = stages.step_bounds()
            by_dt, length = costates[0, -1], now.points.dt[0]
            by_dt = jnp.where(length <= shortest, jnp.minimum(by_dt, 0), by_dt)
            by_dt = jnp.where(length >= longest, jnp.maximum(by_dt, 0), by_dt)
            stationarity = jnp.maximum(stationarity, jnp.abs(by_dt))
        violation = jnp.maximum(self.open(now), self.rows.violation(now.rows))
        state, dt = now.points.state, now.points.dt[0]
        indices = jnp.arange(stages.steps + 1, dtype=jnp.int32)
        return Solution(
            t=jax.vmap(stages.time)(indices, now.points),
            q=state.q,
            v=state.v,
            own=state.own,
            control=now.control,
            dt=dt,
            cost=now.cost,
            code=carry.code,
            iterations=jnp.maximum(carry.iterations, 0),
            violation=violation,
            stationarity=stationarity,
            gains=carry.direction.K,
            costates=jnp.concatenate([costates, terminal.x[None]]),
            multipliers=self.rows.final(now.rows, carry.held),
        )
