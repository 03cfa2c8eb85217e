"""A problem as a nonlinear program on stages, with unknowns of each stage and constraints between stages.

    minimize    Σ l_k(X_k, w_k, X_{k+1}) + l_N(X_N)
    subject to  d_k(X_k, w_k, X_{k+1}) = 0,   lower_k ≤ r_k(X_k, w_k) ≤ upper_k

A point X_k lies on a manifold, an input w_k is a vector. A part of the first point is given. Rows with equal bounds are
equalities. Directly bounded entries of points and inputs have separate rows after the others, the box.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._core.array import matmul, matvec, transpose, vecmat
from ._stages import Hessian, Point, Stages
from .lqr import LinearQuadratic, Policy


class Stage(NamedTuple):
    """A stage of a program.

    - `rows`, `rest`: the cost: half the sum of squares of the rows, and the remaining cost.
    - `defect`: the difference of the next point from the end of the step; zero on a motion.
    """

    rows: Float[Array, "rows"]
    rest: Float[Array, ""]
    defect: Float[Array, "nx"]

    @property
    def cost(self) -> Float[Array, ""]:
        """The total cost."""
        return half_square(self.rows, self.rest)


class Values(NamedTuple):
    """Costs, defects and rows of a motion, by stage.

    - `costs`: (N + 1,), the last of the end.
    - `defects`: (N, nx). `rows`: (N + 1, m + nx + nw).
    """

    costs: Float[Array, "M"]
    defects: Float[Array, "N nx"]
    rows: Float[Array, "M rows"]


class Expanded(NamedTuple):
    """A program to second order. A change of a stage has n = nx + nw + nx entries: of its point, its input and the next point.

    - `slope`, `curvature`: of the cost, and of the Lagrangian: (N, n) and (N, n, n).
    - `defects`: the derivatives of the defects, (N, nx, n).
    - `rows`: the derivatives of the rows without the box, with respect to point and input, (N + 1, m, nx + nw).
    - `end_slope`, `end_curvature`: of the end, (nx,) and (nx, nx).
    """

    slope: Float[Array, "N n"]
    curvature: Float[Array, "N n n"]
    defects: Float[Array, "N nx n"]
    rows: Float[Array, "M m z"]
    end_slope: Float[Array, "nx"]
    end_curvature: Float[Array, "nx nx"]


class Transcription(abc.ABC):
    """A problem as a program on stages. A subclass defines the unknowns; functions take one stage.

    - `nx`, `nw`: the sizes of a change of a point, and of an input.
    - `free`: mask of the entries of the first point's change that are unknowns; the others are zero.
    - `alike`: mask of the entries of a point that are equal for all points, and bounded at the last.
    - `m`: the number of rows without the box.
    - `curved`: the number of leading entries of a stage's change that have second derivatives.
    """

    nw: int

    def __init__(self, stages: Stages, nx: int, nw: int, free: np.ndarray):
        self.stages, self.steps, self.dtype = stages, stages.steps, stages.dtype
        self.nx, self.nw, self.free = nx, nw, free
        self.alike = np.zeros((1, nx), bool)
        self.alike[0, stages.nx - stages.free : stages.nx] = True
        self.m = sum(stages.constraint_sizes)
        self.nz = nx + nw
        self.curved = self.nz + nx

    @abc.abstractmethod
    def begun(self, start) -> tuple[Any, Float[Array, "N nw"]]:
        """Returns the points and inputs of a `Start`."""

    @abc.abstractmethod
    def states(self, points) -> Point:
        """Returns the points of the problem's stages."""

    @abc.abstractmethod
    def controls(self, points, inputs: Float[Array, "N nw"]) -> tuple[Array, Array | None]:
        """Returns the controls of the steps and, if they are not held, the controls of the nodes."""

    @abc.abstractmethod
    def feedback(self, policy: Policy) -> Float[Array, "N nu nx"]:
        """Returns the derivative of the control of each step with respect to the state."""

    @abc.abstractmethod
    def move(self, point: Any, change: Float[Array, "nx"]) -> Any:
        """Returns a point after a change."""

    @abc.abstractmethod
    def stage(self, index: Int[Array, ""], point, w: Float[Array, "nw"], after) -> Stage:
        """Returns the cost of a stage, and the defect of its step."""

    @abc.abstractmethod
    def rates(self, index: Int[Array, ""], point, w: Float[Array, "nw"], after) -> Float[Array, "costs"]:
        """Returns each running cost of a stage, and the cost of its duration."""

    @abc.abstractmethod
    def end_cost(self, point) -> tuple[Array, Array]:
        """Returns the cost of the last point: rows, with half their squared norm as cost, and the remaining cost."""

    @abc.abstractmethod
    def held(self, index: Int[Array, ""], point, w: Float[Array, "nw"]) -> Float[Array, "m"]:
        """Returns the residuals of the constraints at a knot before the last."""

    @abc.abstractmethod
    def end_held(self, point) -> Float[Array, "m"]:
        """Returns the residuals of the constraints at the last knot."""

    @abc.abstractmethod
    def box(self, point) -> Float[Array, "nx"]:
        """Returns the directly bounded entries of a point; they change as the point does."""

    @abc.abstractmethod
    def box_bounds(self) -> tuple[Float[Array, "M nz"], Float[Array, "M nz"]]:
        """Returns the bounds of these entries and of the inputs."""

    # Linearized steps.

    #: True if the derivative of every defect with respect to the next point is minus the unit matrix.
    explicit = False

    def steps_of(self, expanded: Expanded, defects: Float[Array, "N nx"]) -> Steps:
        """Returns the steps of an expansion, solved for the next point."""
        nx, nz = self.nx, self.nz
        before, after = expanded.defects[..., :nz], expanded.defects[..., nz:]
        if self.explicit:
            return Steps(before[..., :nx], before[..., nx:], defects, after)
        solved = -jnp.linalg.solve(after, jnp.concatenate([before, defects[..., None]], axis=-1))
        return Steps(solved[..., :nx], solved[..., nx:-1], solved[..., -1], after)

    def costates_of(self, steps: Steps, pull: Float[Array, "N nx"]) -> Float[Array, "N nx"]:
        """Returns the multipliers of the defects, from the other slopes with respect to the next points."""
        return pull if self.explicit else -jnp.linalg.solve(transpose(steps.after), pull[..., None])[..., 0]

    # All stages.

    def bounds(self) -> tuple[Float[Array, "M rows"], Float[Array, "M rows"]]:
        """Returns the bounds of all rows of all knots."""
        lower, upper, _ = self.stages.constraint_bounds()
        low, high = self.box_bounds()
        return jnp.concatenate([lower, low], axis=1), jnp.concatenate([upper, high], axis=1)

    def boxed(self, points, inputs: Float[Array, "N nw"]) -> Float[Array, "M nz"]:
        """Returns the entries of the box at all knots."""
        values = jax.vmap(self.box)(points)
        return jnp.concatenate([values, _with_end(inputs)], axis=1)

    def evaluate(self, points, inputs: Float[Array, "N nw"]) -> Values:
        """Returns costs, defects and rows of a motion."""
        stages = self.stages

        def each(index, point, w, after):
            stage = self.stage(index, point, w, after)
            return stage.cost, stage.defect, self.held(index, point, w)

        costs, defects, held = stages.over_stages(each, stages.before(points), inputs, stages.after(points))
        last = stages.last(points)
        costs = jnp.concatenate([costs, half_square(*self.end_cost(last))[None]])
        held = jnp.concatenate([held, self.end_held(last)[None]])
        return Values(costs, defects, jnp.concatenate([held, self.boxed(points, inputs)], axis=1))

    def costs(self, points, inputs: Float[Array, "N nw"]) -> Float[Array, "costs"]:
        """Returns each cost of a motion: running costs, the cost of the duration, and terminal costs."""
        stages = self.stages
        each = stages.over_stages(self.rates, stages.before(points), inputs, stages.after(points))
        end = stages.terminal_of_each(stages.last(self.states(points)))
        return jnp.concatenate([jnp.sum(each, axis=0), end])

    def linearized(self, points, inputs: Float[Array, "N nw"]) -> Expanded:
        """Returns the program to first order around a motion. Curvatures are those of Gauss-Newton."""
        stages = self.stages
        around = stages.before(points), inputs, stages.after(points)
        slope, squares, defects, rows = stages.over_stages(self.linearize_stage, *around)
        end_slope, end_squares, end_rows = self.linearize_end(stages.last(points))
        end_rows = jnp.concatenate([end_rows, jnp.zeros((self.m, self.nw), self.dtype)], axis=1)
        rows = jnp.concatenate([rows, end_rows[None]])
        return Expanded(slope, squares, defects, rows, end_slope, end_squares)

    def expand(
        self,
        points,
        inputs: Float[Array, "N nw"],
        costates: Float[Array, "N nx"],
        pushes: Float[Array, "M m"],
        scale: float | Float[Array, ""],
        hessian: Hessian,
        linear: Expanded | None = None,
    ) -> Expanded:
        """Returns the program to second order around a motion.

        The second derivatives are of the scaled cost, and of the constraints with the given multipliers. Slopes are without
        the scale.

        Args:
          points, inputs: The motion.
          costates: Multipliers of the defects.
          pushes: Multipliers of the rows without the box.
          scale: Factor on the cost.
          hessian: "full", or "gauss-newton" for squares with linear rows.
          linear: The result of `linearized` there, if known.
        """
        stages, last = self.stages, self.stages.last(points)
        linear = self.linearized(points, inputs) if linear is None else linear
        n = self.nz + self.nx

        def bend(index, point, w, after, costate, push):
            full = lambda change: self.lagrangian(index, point, w, after, change, costate, push, scale)
            rest = lambda change: scale * self.rest(index, *self.moved(point, w, after, change))
            return second_derivatives(full if hessian == "full" else rest, n, self.curved, self.dtype)

        full_end = lambda change: self.end_lagrangian(last, change, pushes[-1], scale)
        rest_end = lambda change: scale * self.end_cost(self.move(last, change))[1]
        around = stages.before(points), inputs, stages.after(points)
        bends = stages.over_stages(bend, *around, costates, pushes[:-1])
        end_bends = second_derivatives(
            full_end if hessian == "full" else rest_end, self.nx, self.nx, self.dtype
        )
        if hessian == "gauss-newton":
            bends, end_bends = scale * linear.curvature + bends, scale * linear.end_curvature + end_bends
        return linear._replace(curvature=bends, end_curvature=end_bends)

    def moved(self, point, w, after, change: Float[Array, "n"]):
        """Returns a stage's point, its input and the next point, after a change."""
        nx, nz = self.nx, self.nz
        return self.move(point, change[:nx]), w + change[nx:nz], self.move(after, change[nz:])

    def lagrangian(
        self,
        index,
        point,
        w,
        after,
        change: Float[Array, "n"],
        costate,
        push,
        scale: float | Float[Array, ""] = 1.0,
    ):
        """Returns the Lagrangian of a stage, without the box, after a change of its point, its input and the next point."""
        point, w, after = self.moved(point, w, after, change)
        stage = self.stage(index, point, w, after)
        missed = jnp.sum(costate * stage.defect)
        return scale * stage.cost + missed + jnp.sum(push * self.held(index, point, w))

    def end_lagrangian(self, point, change: Float[Array, "nx"], push, scale: float | Float[Array, ""] = 1.0):
        """Returns the Lagrangian of the end."""
        point = self.move(point, change)
        return scale * half_square(*self.end_cost(point)) + jnp.sum(push * self.end_held(point))

    def rest(self, index, point, w, after) -> Float[Array, ""]:
        """Returns the cost of a stage beside its squares."""
        return self.stage(index, point, w, after).rest

    def linearize_stage(self, index, point, w, after):
        """Returns the slope, the curvature of the squares, and the derivatives of the defect and the rows of one stage."""

        def values(change):
            point_, w_, after_ = self.moved(point, w, after, change)
            stage = self.stage(index, point_, w_, after_)
            return (*stage, self.held(index, point_, w_)), stage.rows

        nothing = jnp.zeros(self.nz + self.nx, self.dtype)
        (by_rows, by_rest, defect, held), rows = jax.jacfwd(values, has_aux=True)(nothing)
        return vecmat(rows, by_rows) + by_rest, square(by_rows), defect, held[:, : self.nz]

    def linearize_end(self, point):
        """Returns the slope, the curvature of the squares, and the derivatives of the rows at the end."""

        def values(change):
            there = self.move(point, change)
            rows, rest = self.end_cost(there)
            return (rows, rest, self.end_held(there)), rows

        (by_rows, by_rest, held), rows = jax.jacfwd(values, has_aux=True)(jnp.zeros(self.nx, self.dtype))
        return vecmat(rows, by_rows) + by_rest, square(by_rows), held


class Steps(NamedTuple):
    """Linearized steps, `δX⁺ = A δX + B δw + c`, and the derivative of the defects with respect to the next point."""

    A: Float[Array, "N nx nx"]
    B: Float[Array, "N nx nw"]
    c: Float[Array, "N nx"]
    after: Float[Array, "N nx nx"]


def condensed(
    steps: Steps,
    curvature: Float[Array, "N n n"],
    slope: Float[Array, "N n"],
    end_curvature: Float[Array, "nx nx"],
    end_slope: Float[Array, "nx"],
) -> LinearQuadratic:
    """Returns a linear-quadratic problem in the changes of points and inputs, with the next point eliminated."""
    A, B, c, _ = steps
    nx, nz = A.shape[-1], A.shape[-1] + B.shape[-1]
    ahead = jnp.concatenate([A, B], axis=-1)
    own, cross, after = curvature[..., :nz, :nz], curvature[..., nz:, :nz], curvature[..., nz:, nz:]
    mixed = matmul(transpose(ahead), cross)
    own = own + mixed + transpose(mixed) + matmul(transpose(ahead), matmul(after, ahead))
    pull = slope[..., nz:] + matvec(after, c)
    slope = slope[..., :nz] + vecmat(pull, ahead) + vecmat(c, cross)
    return LinearQuadratic(
        A,
        B,
        c=c,
        Q=jnp.concatenate([own[:, :nx, :nx], end_curvature[None]]),
        q=jnp.concatenate([slope[:, :nx], end_slope[None]]),
        R=own[:, nx:, nx:],
        S=own[:, nx:, :nx],
        r=slope[:, nx:],
    )


def half_square(rows, rest):
    return 0.5 * jnp.sum(rows**2) + rest


def square(matrix):
    """Returns the transposed matrix times the matrix."""
    return matmul(transpose(matrix), matrix)


def second_derivatives(function: Callable, size: int, some: int, dtype) -> Float[Array, "n n"]:
    """Returns second derivatives at zero of a function of `size` numbers that is linear in all but the first `some`."""
    of = lambda change: function(jnp.pad(change, (0, size - some)))
    matrix = jax.jacfwd(jax.grad(of))(jnp.zeros(some, dtype))
    return jnp.pad(0.5 * (matrix + transpose(matrix)), (0, size - some))


def _with_end(rows):
    """Returns rows of stages with zeros for the end."""
    return jnp.concatenate([rows, jnp.zeros_like(rows[:1])])
