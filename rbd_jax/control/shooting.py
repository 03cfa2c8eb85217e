"""Multiple shooting: states of all knots are decided on, and the steps of the problem's own scheme must meet them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from ._stages import Point, Stages
from .interior_point import InteriorPoint
from .solver import Start
from .transcription import Transcription


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

    def cost(self, index, point: Point, w, after: Point):
        rows, rest = self.stages.rates(self.stages.knot(index, point, w))
        return jnp.sqrt(point.dt) * rows, point.dt * rest

    def end_cost(self, point: Point):
        return self.stages.terminal_parts(point)

    def defect(self, index, point: Point, w, after: Point):
        return self.stages.difference(after, self.stages.advance(index, point, w))

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
