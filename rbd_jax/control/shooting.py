"""Multiple shooting: states of all knots are decided on, and the steps of the problem's own scheme must meet them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from .._array import matmul, transpose, vecmat
from ._stages import Hessian, Point, Stages
from .interior_point import InteriorPoint
from .solver import Start
from .transcription import Stage, Transcription, half_square, symmetric


class Shooting(InteriorPoint):
    """Multiple shooting by an interior-point method.

    States and controls of all knots are unknowns. The step from each knot is that of the problem's scheme, and must end at the
    next one: the search may begin with states that do not follow on each other, and passes through such. Arguments are those of
    `InteriorPoint`.

    >>> model = rbd.load("pendulum")
    >>> problem = rbd.control.Problem(
    ...     model,
    ...     rbd.State(jnp.zeros(1), jnp.zeros(1)),
    ...     steps=20,
    ...     dt=0.05,
    ...     running=[0.1 * rbd.control.Effort()],
    ...     constraints=[rbd.control.Constraint(rbd.control.Posture(jnp.array([1.0])), at="end")],
    ... )
    >>> solution = rbd.control.solve(problem, rbd.control.Shooting())
    >>> print(solution.q[-1], solution.code)
    [1.] 0
    """

    def transcribed(self, stages):
        return Shots(stages)


class Shots(Transcription):
    """A problem by multiple shooting: points are those of its stages, inputs its controls."""

    def __init__(self, stages: Stages):
        free = np.zeros(stages.nx, bool)
        free[stages.nx - stages.free :] = True
        super().__init__(stages, stages.nx, stages.nu, free)

    def begun(self, start: Start):
        return start.motion(self.stages), start.control

    def move(self, point: Point, change):
        return self.stages.move(point, change)

    def stage(self, index, point: Point, w, after: Point):
        return Stage(*self.cost(index, point, w), self.defect(index, point, w, after))

    def cost(self, index, point: Point, w):
        """What a stage costs, as in a `Stage`."""
        rows, rest = self.stages.rates(self.stages.knot(index, point, w))
        return jnp.sqrt(point.dt) * rows, point.dt * rest

    def defect(self, index, point: Point, w, after: Point):
        """By how much a step misses the point after."""
        return self.stages.difference(after, self.stages.advance(index, point, w))

    def end_cost(self, point: Point):
        return self.stages.terminal_parts(point)

    def expand_stage(self, index, point: Point, w, after: Point, costate, push, scale, hessian: Hessian):
        """As for all programs, but steps as `rbd.step_derivatives` has them, and without what second derivatives by the point
        after are: these are zero where steps meet, and what they add along linearized steps is.
        """
        stages, nx = self.stages, self.nx
        at = lambda change: (stages.move(point, change[:nx]), w + change[nx:])

        def linear(change):
            point, w = at(change)
            rows, rest = self.cost(index, point, w)
            return (rows, rest, self.held(index, point, w)), rows

        def lagrangian(change):
            point, w = at(change)
            missed = (
                0 if hessian == "gauss-newton" else jnp.sum(costate * self.defect(index, point, w, after))
            )
            return (
                scale * half_square(*self.cost(index, point, w))
                + missed
                + jnp.sum(push * self.held(index, point, w))
            )

        nothing = jnp.zeros(self.nz, self.dtype)
        (by_rows, by_rest, held), rows = jax.jacfwd(linear, has_aux=True)(nothing)
        if hessian == "full":
            curvature = jax.jacfwd(jax.grad(lagrangian))(nothing)
        else:
            of_rest = jax.jacfwd(jax.grad(lambda change: self.cost(index, *at(change))[1]))(nothing)
            curvature = scale * (matmul(transpose(by_rows), by_rows) + of_rest)
        # The end of a step by what it starts from, as a change of the point after.
        end = stages.advance(index, point, w)
        A, B = stages.linearize(index, point, w)
        by_after, by_end = self.apart(after, end)
        defect = jnp.concatenate([matmul(by_end, jnp.concatenate([A, B], axis=1)), by_after], axis=1)
        slope = jnp.concatenate([vecmat(rows, by_rows) + by_rest, jnp.zeros_like(costate)])
        curvature = jnp.pad(symmetric(curvature), (0, nx))
        return slope, curvature, defect, held

    def apart(self, after: Point, end: Point):
        """The derivatives of how far the end of a step is from the point after, by this one and by that."""
        stages, nothing = self.stages, jnp.zeros(self.nx, self.dtype)
        apart = lambda after_by, end_by: stages.difference(
            stages.move(after, after_by), stages.move(end, end_by)
        )
        return jax.jacfwd(apart, argnums=(0, 1))(nothing, nothing)

    def held(self, index, point: Point, w):
        return self.stages.constrained(index, point, w)

    def end_held(self, point: Point):
        return self.stages.constrained(jnp.int32(self.steps), point, None)

    def box(self, point: Point):
        return self.stages.state_values(point)

    def box_bounds(self):
        stages = self.stages
        return tuple(
            jnp.concatenate(
                [point_bounds(stages, state, open), with_open_end(stages, control, open)],
                axis=1,
            )
            for state, control, open in zip(
                stages.state_bounds(), stages.control_bounds(), (-np.inf, np.inf), strict=True
            )
        )

    def states(self, points):
        return points

    def controls(self, points, inputs):
        return inputs, None

    def feedback(self, policy):
        return policy.K


def point_bounds(stages: Stages, side, open: float):
    """A bound of the numbers of a state at all knots: none at the first. The length of the steps is bounded once, at the end."""
    rows = jnp.broadcast_to(side, (stages.steps + 1, stages.nx)).at[0].set(open)
    return rows.at[:-1, -1].set(open) if stages.free else rows


def with_open_end(stages: Stages, side, open: float):
    """A bound of controls at all knots, with none at the last."""
    return jnp.broadcast_to(side, (stages.steps + 1, stages.nu)).at[-1].set(open)
