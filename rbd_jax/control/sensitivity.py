"""Derivatives of a solution with respect to its problem, from the optimality conditions instead of the iterations.

At a solution the slopes of the Lagrangian, the defects, and the held rows are zero (see `Transcription`). With active rows
held and the other rows released, a change of the problem changes points, inputs and multipliers by the solution of the
linear equations

    [ H  Dᵀ Jᵀ ] [ δz ]     [ ∂(∇L) ]
    [ D        ] [ δλ ] = - [ ∂d    ]
    [ J        ] [ δy ]     [ ∂r    ]

with H the complete second derivatives of the Lagrangian. This is a linear-quadratic problem, solved by Riccati's recursion.
The matrix is symmetric, so reverse mode solves with the same matrix. The multipliers are computed from the slopes of the
cost at the solution, so the derivatives do not depend on the method that found it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import zero_from_primal
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from .._core.array import matmul, matvec, transpose, vecmat
from .._core.derivatives import custom_jvp
from ..optimize.implicit import moving_arguments
from ._stages import Point, Stages
from .lqr import solved
from .problem import Problem
from .solution import Solution
from .solver import Guess, Solver, Start
from .transcription import Expanded, Transcription


def with_sensitivities(
    search: Callable[[Problem, Solver, Guess], Solution], problem: Problem, solver: Solver, guess: Guess
) -> Solution:
    """Returns the result of a search, differentiable with respect to the problem, but not to the solver and the guess."""
    numbers, others = eqx.partition(problem, eqx.is_inexact_array)
    around, kept = eqx.partition((solver, guess), eqx.is_inexact_array)
    whole = lambda numbers: eqx.combine(numbers, others)

    @custom_jvp
    def found(numbers, around):
        return search(whole(numbers), *eqx.combine(around, kept))

    def rule(primals, tangents):
        numbers, around = primals
        solution = found(numbers, around)
        moving = moving_arguments((numbers,), (tangents[0],))
        still = jax.tree.map(zero_from_primal, solution)
        if moving is None:
            return solution, still
        rebuilt, values, changes = moving
        of = lambda *values: whole(rebuilt(*values)[0])
        return solution, changed(of, values, changes, solver, solution, still)

    found.defjvp(rule, symbolic_zeros=True)
    return found(numbers, around)


class Unknowns(NamedTuple):
    """Changes of points, inputs and multipliers, or the residuals of their equations."""

    x: Float[Array, "M nx"]
    w: Float[Array, "N nw"]
    costates: Float[Array, "N nx"]
    rows: Float[Array, "M rows"]


def changed(
    of: Callable[..., Problem],
    values: list,
    changes: list,
    solver: Solver,
    solution: Solution,
    still: Solution,
) -> Solution:
    """Returns the change of a solution with some data of its problem.

    Args:
      of: Returns the problem for given data.
      values: The data.
      changes: The tangents of the data.
      solver: The solver of the solution.
      solution: The solution.
      still: A zero tangent of the solution.
    """
    program = solver.transcribed(Stages(of(*values)))
    points, inputs = placed(program, solution)
    linear = program.linearized(points, inputs)
    act, side, multipliers = acting(program, points, inputs, linear)
    costates, rows = multipliers.costates, jnp.where(act, multipliers.rows, 0)
    expanded = program.expand(points, inputs, costates, rows[:, : program.m], 1.0, "full", linear)

    def faults(*values):
        """Returns the residuals of the optimality conditions for other data, and other quantities that depend on the data."""
        program = solver.transcribed(Stages(of(*values)))
        points, _ = placed(program, solution)
        return missed(program, points, inputs, costates, rows, act, side)

    (_, costs_ahead, _), (missing, ahead, cost) = jax.jvp(faults, values, changes)
    system = System(program, expanded, act)
    change = system.solve(jax.tree.map(jnp.negative, missing))

    def outputs(values, x, w):
        program = solver.transcribed(Stages(of(*values)))
        points, _ = placed(program, solution)
        points = jax.vmap(program.move)(points, x)
        return described(program, points, inputs + w)

    nothing = jnp.zeros_like(change.x), jnp.zeros_like(change.w)
    described_change = jax.jvp(
        lambda values, x, w: outputs(values, x, w), (values, *nothing), (changes, change.x, change.w)
    )[1]
    described_change["cost"] = cost + system.costing(change)
    nx = program.stages.nx
    turn = jax.vmap(lambda *at: turned(program.stages, *at))
    basis = turn(program.states(points), change.x[:, :nx], costs_ahead[:, :nx])
    costate_change = (ahead + system.ahead(change))[:, :nx] + basis
    return eqx.tree_at(
        lambda s: tuple(getattr(s, name) for name in (*described_change, "costates")),
        still,
        (*described_change.values(), costate_change),
        is_leaf=lambda x: x is None,
    )


def turned(stages: Stages, point: Point, change: Float[Array, "nx"], costate: Float[Array, "nx"]):
    """Returns the change of a costate's components because its basis turns with the point: rotations do not commute."""
    zeros = jnp.zeros_like(costate)
    from_there = lambda x, further: stages.difference(point, stages.move(stages.move(point, x), further))
    components = lambda x: jax.grad(lambda further: jnp.vdot(costate, from_there(x, further)))(zeros)
    return jax.jvp(components, (zeros,), (change,))[1]


def placed(program: Transcription, solution: Solution) -> tuple[Any, Array]:
    """Returns the points and inputs of a solution in the form of a program. The problem provides the initial state."""
    stages, first = program.stages, program.stages.first
    state = jax.tree.map(lambda one, many: many.at[0].set(one), first.state, solution.states)
    dt = solution.dt if stages.free else first.dt
    points = Point(state, jnp.broadcast_to(dt, (stages.steps + 1,)))
    return program.begun(Start(first, solution.control, points, solution.control_nodes))


def described(program: Transcription, points, inputs) -> dict[str, Array]:
    """Returns the fields of a solution that describe the motion, except the cost."""
    stages = program.stages
    own = program.states(points)
    control, nodes = program.controls(points, inputs)
    indices = jnp.arange(stages.steps + 1, dtype=jnp.int32)
    values = {
        "t": jax.vmap(stages.time)(indices, own),
        "q": own.state.q,
        "v": own.state.v,
        "own": own.state.own,
        "control": control,
        "control_nodes": nodes,
        "dt": own.dt[0],
    }
    return {name: value for name, value in values.items() if value is not None}


def missed(
    program: Transcription, points, inputs, costates, rows, act, side
) -> tuple[Unknowns, Array, Array]:
    """Returns the residuals of the optimality conditions, the part of their slopes from the stages ahead, and the cost."""
    stages, nx, nz, m = program.stages, program.nx, program.nz, program.m

    def slope(index, point, w, after, costate, push):
        at = lambda change: program.lagrangian(index, point, w, after, change, costate, push)
        return jax.grad(at)(jnp.zeros(nz + nx, program.dtype))

    around = stages.before(points), inputs, stages.after(points)
    slopes = stages.over_stages(slope, *around, costates, rows[:-1, :m])
    at_end = lambda change: program.end_lagrangian(stages.last(points), change, rows[-1, :m])
    end = jax.grad(at_end)(jnp.zeros(nx, program.dtype))
    ahead = jnp.concatenate([slopes[:, :nx], end[None]]) + rows[:, m : m + nx]
    by_points = ahead.at[1:].add(slopes[:, nz:])
    by_inputs = slopes[:, nx:nz] + rows[:-1, m + nx :]
    values = program.evaluate(points, inputs)
    lower, upper = program.bounds()
    bound = jnp.where(act & (side < 0), lower, jnp.where(act, upper, 0))
    beyond = jnp.where(act, values.rows - bound, 0)
    by_points = by_points.at[0].set(jnp.where(program.free, by_points[0], 0))
    return Unknowns(by_points, by_inputs, values.defects, beyond), ahead, jnp.sum(values.costs)


#: A row may be active if it is this close to a bound.
NEAR = 1e-3


def acting(
    program: Transcription, points, inputs, linear: Expanded
) -> tuple[Bool[Array, "M rows"], Array, Unknowns]:
    """Returns the active rows, their sides, and the multipliers at a solution; `linear` is the program to first order there."""
    dtype = program.dtype
    lower, upper = program.bounds()
    rows = program.evaluate(points, inputs).rows
    equal = lower == upper
    finite = lambda side: jnp.where(jnp.isfinite(side), side, 0)
    to_low = jnp.where(jnp.isfinite(lower), rows - finite(lower), jnp.inf)
    to_high = jnp.where(jnp.isfinite(upper), finite(upper) - rows, jnp.inf)
    side = jnp.where(to_low < to_high, -1, 1).astype(dtype)
    gap = jnp.maximum(jnp.minimum(to_low, to_high), 0)
    size = jnp.maximum(1, jnp.abs(jnp.where(side < 0, finite(lower), finite(upper))))
    near = equal | (gap <= NEAR * size)
    # At a minimum the multipliers do not depend on the second derivatives, so these may be replaced by convex ones.
    steepest = jnp.maximum(jnp.max(jnp.abs(linear.slope)), jnp.max(jnp.abs(linear.end_slope), initial=0))
    stiff = jnp.maximum(steepest, 1e-3)
    unit = lambda size: stiff * jnp.eye(size, dtype=dtype)
    convex = linear._replace(
        curvature=linear.curvature + unit(linear.curvature.shape[-1])[None],
        end_curvature=linear.end_curvature + unit(program.nx),
    )
    still = jnp.zeros((program.steps, program.nx), dtype)
    pull = Unknowns(*slopes_of(program, linear), still, jnp.zeros_like(rows))
    found = System(program, convex, near).solve(jax.tree.map(jnp.negative, pull))
    return near & (equal | (side * found.rows > gap)), side, found


def slopes_of(program: Transcription, expanded: Expanded) -> tuple[Array, Array]:
    """Returns the slopes of the cost with respect to points and inputs."""
    nx, nz = program.nx, program.nz
    by_points = jnp.concatenate([expanded.slope[:, :nx], expanded.end_slope[None]])
    by_points = by_points.at[1:].add(expanded.slope[:, nz:])
    by_points = by_points.at[0].set(jnp.where(program.free, by_points[0], 0))
    return by_points, expanded.slope[:, nx:nz]


#: Number of steps of iterative refinement, against rounding and regularization.
REFINED = 2


class System:
    """The linear equations of the optimality conditions, with some rows held."""

    def __init__(self, program: Transcription, expanded: Expanded, held: Bool[Array, "M rows"]):
        self.program, self.expanded, self.held = program, expanded, held
        self.nx, self.nz, self.m = program.nx, program.nz, program.m
        self.soft = float(jnp.finfo(program.dtype).eps) ** 0.5
        self.factor()

    # The matrix.

    def along(self, x, w):
        """Returns the change of the rows."""
        z = jnp.concatenate([x, jnp.concatenate([w, jnp.zeros_like(w[:1])])], axis=1)
        return jnp.concatenate([matvec(self.expanded.rows, z), z], axis=1)

    def pushed(self, rows):
        """Returns the derivative of the rows, times their multipliers, with respect to points and inputs."""
        return vecmat(rows[:, : self.m], self.expanded.rows) + rows[:, self.m :]

    def ahead(self, change: Unknowns):
        """Returns the change of the slopes with respect to each point, of the stages from there on."""
        nx = self.nx
        z = jnp.concatenate([change.x[:-1], change.w, change.x[1:]], axis=1)
        own = matvec(self.expanded.curvature, z) + vecmat(change.costates, self.expanded.defects)
        end = matvec(self.expanded.end_curvature, change.x[-1])
        held = self.pushed(jnp.where(self.held, change.rows, 0))
        return jnp.concatenate([own[:, :nx], end[None]]) + held[:, :nx]

    def costing(self, change: Unknowns):
        """Returns the change of the cost."""
        by_points, by_inputs = slopes_of(self.program, self.expanded)
        return jnp.sum(by_points * change.x) + jnp.sum(by_inputs * change.w)

    def times(self, change: Unknowns) -> Unknowns:
        """Returns the matrix times a change. Given entries of the first point and released rows have unit diagonals."""
        nx, nz, free = self.nx, self.nz, self.program.free
        x, w, costates, rows = change
        inside = x.at[0].set(jnp.where(free, x[0], 0))
        z = jnp.concatenate([inside[:-1], w, inside[1:]], axis=1)
        own = matvec(self.expanded.curvature, z) + vecmat(costates, self.expanded.defects)
        pushed = self.pushed(jnp.where(self.held, rows, 0))
        end = matvec(self.expanded.end_curvature, x[-1])
        by_x = jnp.concatenate([own[:, :nx], end[None]]) + pushed[:, :nx]
        by_x = by_x.at[1:].add(own[:, nz:])
        by_x = by_x.at[0].set(jnp.where(free, by_x[0], x[0]))
        by_w = own[:, nx:nz] + pushed[:-1, nx:]
        along = self.along(inside, w)
        return Unknowns(by_x, by_w, matvec(self.expanded.defects, z), jnp.where(self.held, along, -rows))

    # Its inverse.

    def factor(self):
        """Computes the factors, which do not depend on the right-hand side, with held rows slightly softened."""
        nx, nz, m, expanded = self.nx, self.nz, self.m, self.expanded
        defects, dtype = expanded.defects, self.program.dtype
        unit = jnp.broadcast_to(jnp.eye(nx, dtype=dtype), defects[..., nz:].shape)
        self.back = unit if self.program.explicit else -jnp.linalg.solve(defects[..., nz:], unit)
        self.A, self.B = matmul(self.back, defects[..., :nx]), matmul(self.back, defects[..., nx:nz])
        self.steps = jnp.concatenate([self.A, self.B], axis=-1)
        self.weight = jnp.where(self.held, 1 / self.soft, 0)
        stiff = jnp.einsum(
            "kri,kr,krj->kij", expanded.rows, self.weight[:, :m], expanded.rows, precision="highest"
        )
        stiff = stiff + self.weight[:, m:, None] * jnp.eye(nz, dtype=dtype)[None]
        curvature = expanded.curvature.at[:, :nz, :nz].add(stiff[:-1])
        self.curvature = curvature
        mixed = matmul(transpose(self.steps), curvature[:, nz:, :nz])
        own = curvature[:, :nz, :nz] + mixed + transpose(mixed)
        own = own + matmul(transpose(self.steps), matmul(curvature[:, nz:, nz:], self.steps))
        end = expanded.end_curvature + stiff[-1, :nx, :nx]

        def back(P, stage):
            A, B, own = stage
            PA, PB = matmul(P, A), matmul(P, B)
            uu = own[nx:, nx:] + matmul(transpose(B), PB)
            ux = own[nx:, :nx] + matmul(transpose(B), PA)
            inverse = solved(uu, jnp.eye(len(uu), dtype=dtype))[0]
            K = -matmul(inverse, ux)
            before = own[:nx, :nx] + matmul(transpose(A), PA) + matmul(transpose(ux), K)
            return 0.5 * (before + transpose(before)), (P, K, inverse)

        first, (self.P, self.K, self.inverse) = lax.scan(back, end, (self.A, self.B, own), reverse=True)
        self.end = end
        at = self.program.free.nonzero()[0]
        self.free_at, self.first = at, first[at][:, at]

    def once(self, missing: Unknowns) -> Unknowns:
        """Returns the solution with held rows softened."""
        nx, nz = self.nx, self.nz
        c = -matvec(self.back, missing.costates)
        lifted = self.pushed(-self.weight * missing.rows)
        slope = lifted[:-1].at[:, :nx].add(-missing.x[:-1]).at[:, nx:].add(-missing.w)
        after = matvec(self.curvature[:, nz:, nz:], c)
        slope = slope + vecmat(after, self.steps) + vecmat(c, self.curvature[:, nz:, :nz])
        end = lifted[-1, :nx] - missing.x[-1]

        def back(p, stage):
            A, B, P, K, inverse, c, slope = stage
            ahead = p + matvec(P, c)
            u = slope[nx:] + vecmat(ahead, B)
            before = slope[:nx] + vecmat(ahead, A) + vecmat(u, K)
            return before, (p, -matvec(inverse, u))

        stages = self.A, self.B, self.P, self.K, self.inverse, c, slope
        p, (ps, k) = lax.scan(back, end, stages, reverse=True)
        start = jnp.zeros_like(missing.x[0])
        if len(self.free_at):
            at = self.free_at
            start = start.at[at].set(-jnp.linalg.solve(self.first, p[at]))

        def ahead(x, stage):
            A, B, K, c, k = stage
            w = k + matvec(K, x)
            return matvec(A, x) + matvec(B, w) + c, (x, w)

        last, (x, w) = lax.scan(ahead, start, (self.A, self.B, self.K, c, k))
        x = jnp.concatenate([x, last[None]])
        z = jnp.concatenate([x[:-1], w, x[1:]], axis=1)
        pull = matvec(self.P, x[1:]) + ps + matvec(self.curvature[:, nz:], z)
        costates = vecmat(pull, self.back)
        rows = jnp.where(self.held, self.weight * (self.along(x, w) - missing.rows), -missing.rows)
        given = jnp.where(self.program.free, x[0], missing.x[0])
        return Unknowns(x.at[0].set(given), w, costates, rows)

    def solve(self, missing: Unknowns) -> Unknowns:
        """Returns the change whose product with the matrix is `missing`."""

        # A single vector can be transposed even if only some of its parts depend on the data.
        vector, parts = ravel_pytree(missing)
        flat = lambda change: ravel_pytree(change)[0]

        def refined(_, vector):
            missing = parts(vector)
            found = self.once(missing)
            for _ in range(REFINED):
                left = jax.tree.map(jnp.subtract, missing, self.times(found))
                found = jax.tree.map(jnp.add, found, self.once(left))
            return flat(found)

        times = lambda vector: flat(self.times(parts(vector)))
        return parts(lax.custom_linear_solve(times, vector, refined, symmetric=True))
