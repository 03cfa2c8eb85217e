"""Multiple shooting: the states of all knots are unknowns, and constraints connect them by steps of the problem's scheme."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.array import matmul, vecmat
from ._stages import Point, Stages
from .transcription import Stage, Transcription, half_square, square


class Shots(Transcription):
    """A problem by multiple shooting: points are those of its stages, and inputs are its controls."""

    explicit = True

    def __init__(self, stages: Stages):
        free = np.zeros(stages.nx, bool)
        free[stages.nx - stages.free :] = True
        super().__init__(stages, stages.nx, stages.nu, free)
        self.curved = self.nz

    def begun(self, start):
        return start.motion(self.stages), start.control

    def move(self, point: Point, change):
        return self.stages.move(point, change)

    def stage(self, index, point: Point, w, after: Point):
        return Stage(*self.cost(index, point, w), self.defect(index, point, w, after))

    def cost(self, index, point: Point, w):
        """Returns the cost of a stage, in the form of a `Stage`."""
        rows, rest = self.stages.rates(self.stages.knot(index, point, w))
        return jnp.sqrt(point.dt) * rows, point.dt * rest

    def rates(self, index, point: Point, w, after: Point):
        return point.dt * self.stages.rates_of_each(self.stages.knot(index, point, w))

    def defect(self, index, point: Point, w, after: Point):
        """Returns the difference of the next point from the end of a step."""
        return self.stages.difference(after, self.stages.advance(index, point, w))

    def end_cost(self, point: Point):
        return self.stages.terminal_parts(point)

    def rest(self, index, point: Point, w, after: Point):
        return self.cost(index, point, w)[1]

    def linearize_stage(self, index, point: Point, w, after: Point):
        """Linearizes a stage, with the derivatives of steps from `rbd.step_derivatives`."""
        stages, nx = self.stages, self.nx

        def values(change):
            point_, w_ = stages.move(point, change[:nx]), w + change[nx:]
            rows, rest = self.cost(index, point_, w_)
            return (rows, rest, self.held(index, point_, w_)), rows

        nothing = jnp.zeros(self.nz, self.dtype)
        (by_rows, by_rest, held), rows = jax.jacfwd(values, has_aux=True)(nothing)
        # The derivative of the end of a step, as a change of the next point.
        end, (A, B) = stages.advance(index, point, w), stages.linearize(index, point, w)
        by_end = jax.jacfwd(lambda change: stages.difference(after, stages.move(end, change)))(nothing[:nx])
        before = matmul(by_end, jnp.concatenate([A, B], axis=1))
        defect = jnp.concatenate([before, -jnp.eye(nx, dtype=self.dtype)], axis=1)
        slope = vecmat(rows, by_rows) + by_rest
        return jnp.pad(slope, (0, nx)), jnp.pad(square(by_rows), (0, nx)), defect, held

    def lagrangian(
        self,
        index,
        point: Point,
        w,
        after: Point,
        change,
        costate,
        push,
        scale: float | Float[Array, ""] = 1.0,
    ):
        """Returns the Lagrangian of a stage.

        The next point counts in the chart at its current value, so its change is subtracted from the defect.
        """
        nx, nz = self.nx, self.nz
        point, w = self.stages.move(point, change[:nx]), w + change[nx:nz]
        missed = jnp.sum(costate * (self.defect(index, point, w, after) - change[nz:]))
        cost = half_square(*self.cost(index, point, w))
        return scale * cost + missed + jnp.sum(push * self.held(index, point, w))

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
    """Returns a bound of states at all knots, open at the first. The length of the steps is bounded at the end only."""
    rows = jnp.broadcast_to(side, (stages.steps + 1, stages.nx)).at[0].set(open)
    return rows.at[:-1, -1].set(open) if stages.free else rows


def with_open_end(stages: Stages, side, open: float):
    """Returns a bound of controls at all knots, open at the last."""
    return jnp.broadcast_to(side, (stages.steps + 1, stages.nu)).at[-1].set(open)
