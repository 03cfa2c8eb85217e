"""Direct collocation: the equations of motion hold in continuous time, by a quadrature rule on each step.

Let `y = (ξ, v, own)`, with ξ the change of q from the left knot on the tangent space. Then `ẏ = f(t, y, u)` is a vector
equation on each step for any manifold: `ξ̇` is the rate of that chart (see `rbd_jax.simulate.system`), `v̇` the
acceleration. The Hermite-Simpson rule is the compressed form of Betts (2010), with the state in the middle
`½ (y₀ + y₁) + h/8 (f₀ - f₁)`.

Controls are continuous: a point of the program is a knot's state with its control, and an input is the control of the next
knot. The steps then have the form of a linear-quadratic problem.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .._core.arguments import choice
from ..simulate.state import State
from ._stages import Point, Stages
from .interior_point import InteriorPoint
from .knot import Knot
from .residual import Along
from .shots import Shots, point_bounds
from .solution import Solution
from .solver import Start
from .transcription import Stage, Transcription


#: Quadrature rules.
Rule: TypeAlias = Literal["trapezoid", "hermite-simpson"]


class Collocation(InteriorPoint):
    """Direct collocation with an interior-point method.

    - `rule`: "trapezoid" has controls linear between knots, and errors of order dt². "hermite-simpson" has an additional
      control in the middle of each step, controls that are parabolas through the three values, and errors of order dt⁴.

    The acceleration is that of continuous time: the solver ignores the problem's scheme, and controls are not held over a
    step. Running costs use the same rule. Constraints hold at the knots; bounds of controls also hold in the middles. In the
    solution `control_nodes` are the controls at the knots and in the middles, and `control` is their mean over each step.
    The other arguments are those of `InteriorPoint`.

    >>> model = rbd.load("pendulum")
    >>> problem = rbd.control.Problem(
    ...     model,
    ...     rbd.State(jnp.zeros(1), jnp.zeros(1)),
    ...     steps=20,
    ...     dt=0.05,
    ...     running=[0.1 * rbd.control.Effort()],
    ...     constraints=[rbd.control.Constraint(rbd.control.Posture(jnp.array([1.0])), at="end")],
    ... )
    >>> solution = rbd.control.solve(problem, rbd.control.Collocation())
    >>> print(solution.q[-1], solution.code)
    [1.] 0
    """

    rule: Rule = eqx.field(static=True)

    def __init__(self, rule: Rule = "hermite-simpson", **options: Any):
        choice("control.Collocation", "rule", rule, ("trapezoid", "hermite-simpson"))
        super().__init__(**options)
        self.rule = rule

    def refuse(self, problem):
        if problem.begin.system.jumps:
            raise ValueError(
                f"control.Collocation: the contact model of {problem.model.name!r} makes velocities jump, so they have no rate "
                "to collocate. Use control.Shooting() or control.DDP(), whose steps find the events."
            )

    def transcribed(self, stages):
        return Collocated(stages, self.rule)


class Node(NamedTuple):
    """A knot: its point, and the control there."""

    point: Point
    control: Float[Array, "nu"]


class StepMotion(NamedTuple):
    """A motion at the nodes of a step: at its start, at its end and in its middle.

    - `y`, `rates`: (ξ, v, internal states of forces), and its rate.
    """

    y: Float[Array, "nodes n"]
    rates: Float[Array, "nodes n"]


#: Weights of both knots' y and of the rates of previous nodes times the step in the y of each node; times of nodes in the
#: step.
_NODES = (
    np.array([[1, 0], [0, 1], [0.5, 0.5]]),
    np.array([[0, 0, 0], [0, 0, 0], [0.125, -0.125, 0]]),
    np.array([0, 1, 0.5]),
)


class Collocated(Transcription):
    """A problem by collocation, with `Node`s as points.

    An input is the control of the next node and, for "hermite-simpson", of the middle.
    """

    def __init__(self, stages: Stages, rule: Rule):
        self.simpson, self.nu, self.state_size = rule == "hermite-simpson", stages.nu, stages.nx
        free = np.zeros(stages.nx + stages.nu, bool)
        free[stages.nx - stages.free :] = True
        super().__init__(stages, stages.nx + stages.nu, (1 + self.simpson) * stages.nu, free)
        # `Along` has targets at knots only: in the middle the cost is the mean of the costs with the targets of both knots.
        self.along = any(_has_rows(cost) for cost in stages.running_costs)

    def begun(self, start: Start):
        between = start.control
        ends = jnp.concatenate([between[:1], 0.5 * (between[:-1] + between[1:]), between[-1:]])
        if start.nodes is not None:
            many = len(start.nodes) > self.steps + 1
            ends = start.nodes[:: 1 + many]
            between = start.nodes[1::2] if many else 0.5 * (ends[:-1] + ends[1:])
        inputs = [ends[1:], between] if self.simpson else [ends[1:]]
        return Node(start.motion(self.stages), ends), jnp.concatenate(inputs, axis=1)

    def move(self, point: Node, change):
        size = self.state_size
        return Node(self.stages.move(point.point, change[:size]), point.control + change[size:])

    # Steps.

    def rate(self, time, left: Float[Array, "nq"], step, v, own, control):
        """Returns `ẏ` where q is a step from the left knot."""
        system = self.stages.system.with_control(self.stages.problem.told(control))
        moved = system.evaluate(time, State(system.move(left, step), v, own)).accelerated()
        return jnp.concatenate([system.chart_rate(left, step, v), moved.acceleration, moved.own_change])

    def motion(self, index, node: Node, w, after: Node) -> StepMotion:
        """Returns y and its rate at the nodes of a step: at both knots, and in the middle if it is a node."""
        system, (start, h) = self.stages.system, node.point
        end, time = after.point.state, self.stages.time(index, node.point)
        ends = jnp.stack(
            [
                jnp.concatenate([jnp.zeros_like(start.v), start.v, start.internal]),
                jnp.concatenate([system.difference(start.q, end.q), end.v, end.internal]),
            ]
        )
        controls = [node.control, after.control, *([w[self.nu :]] if self.simpson else [])]

        # A loop over the nodes compiles the dynamics once.
        def at(rates, row):
            (shares, slopes, place, own), control = row
            y = jnp.sum(shares[:, None] * ends, axis=0) + h * jnp.sum(slopes[:, None] * rates, axis=0)
            step, v, internal = self.split(y)
            found = self.rate(time + place * h, start.q, step, v, self.own(start, internal), control)
            return jnp.where(own[:, None], found[None], rates), y

        count = len(controls)
        shares, slopes, places = (table[:count].astype(self.dtype) for table in _NODES)
        rows = (shares, slopes[:, :count], places, np.eye(count, dtype=bool)), jnp.stack(controls)
        rates, y = lax.scan(at, jnp.zeros((count, ends.shape[1]), ends.dtype), rows)
        return StepMotion(y, rates)

    def split(self, y):
        """Returns ξ, v and the internal states of forces."""
        nv = self.stages.nv
        return y[:nv], y[nv : 2 * nv], y[2 * nv :]

    @staticmethod
    def own(like: State, internal):
        """Returns internal states in the form of a state: None without any."""
        return None if like.own is None else internal

    def costly(self, index, point: Node, w, after: Node, motion: StepMotion) -> list[tuple[float, Knot]]:
        """Returns the knots at which a stage has costs, with the share of its length for each."""
        stages, (start, h) = self.stages, point.point
        found = [(1.0, stages.knot(index, *point)), (1.0, stages.knot(index + 1, *after))]
        if self.simpson:
            step, v, own = self.split(motion.y[2])
            state = State(stages.system.move(start.q, step), v, self.own(start, own))
            time, control = stages.time(index, point.point) + 0.5 * h, w[self.nu :]
            numbers = (index, index + 1) if self.along else (index,)
            found += [
                (4.0 / len(numbers), stages.knot(number, Point(state, h), control, time))
                for number in numbers
            ]
        whole = sum(weight for weight, _ in found)
        return [(weight / whole, knot) for weight, knot in found]

    def stage(self, index, point: Node, w, after: Node):
        stages, h = self.stages, point.point.dt
        motion = self.motion(index, point, w, after)
        weights = np.array([1, 1, 4] if self.simpson else [1, 1])
        mean = jnp.sum((weights / weights.sum()).astype(self.dtype)[:, None] * motion.rates, axis=0)
        missed = h * mean - (motion.y[1] - motion.y[0])
        of_length = [(h - after.point.dt)[None]] if stages.free else []
        defect = jnp.concatenate([missed, *of_length, w[: self.nu] - after.control])
        found = [(share, *stages.rates(knot)) for share, knot in self.costly(index, point, w, after, motion)]
        rows = jnp.concatenate([jnp.sqrt(share * h) * rows for share, rows, _ in found])
        return Stage(rows, h * sum(share * rest for share, _, rest in found), defect)

    # Costs and constraints.

    def rates(self, index, point: Node, w, after: Node):
        at = self.costly(index, point, w, after, self.motion(index, point, w, after))
        return point.point.dt * sum(share * self.stages.rates_of_each(knot) for share, knot in at)

    def end_cost(self, point: Node):
        return self.stages.terminal_parts(point.point)

    def held(self, index, point: Node, w):
        return self.stages.constrained(index, *point)

    def end_held(self, point: Node):
        return self.stages.constrained(jnp.int32(self.steps), point.point, None)

    def box(self, point: Node):
        return jnp.concatenate([self.stages.state_values(point.point), point.control])

    def box_bounds(self):
        stages = self.stages

        def side(state, control, open):
            controls = jnp.broadcast_to(control, (self.steps + 1, self.nu))
            nothing = jnp.full_like(controls, open)
            between = [controls.at[-1].set(open)] if self.simpson else []
            return jnp.concatenate([point_bounds(stages, state, open), controls, nothing, *between], axis=1)

        bounds = zip(stages.state_bounds(), stages.control_bounds(), (-np.inf, np.inf), strict=True)
        return tuple(side(*each) for each in bounds)

    # Results.

    def states(self, points: Node):
        return points.point

    def controls(self, points: Node, inputs):
        ends = points.control
        if not self.simpson:
            return 0.5 * (ends[:-1] + ends[1:]), ends
        between = inputs[:, self.nu :]
        nodes = jnp.stack([ends[:-1], between], axis=1).reshape(2 * self.steps, self.nu)
        mean = (ends[:-1] + 4 * between + ends[1:]) / 6
        return mean, jnp.concatenate([nodes, ends[-1:]])

    def feedback(self, policy):
        """Returns the feedback from the state to the control of a knot, as if the control were chosen there."""
        size = self.state_size
        own, cross = policy.P[:-1, size:, size:], policy.P[:-1, size:, :size]
        return -jnp.linalg.solve(own, cross)


def followed_by(stages: Stages, solution: Solution) -> Transcription:
    """Returns the program that a solution belongs to: the steps of the problem or, for a solution with nodes, a collocation."""
    if solution.control_nodes is None:
        return Shots(stages)
    simpson = len(solution.control_nodes) > stages.steps + 1
    return Collocated(stages, "hermite-simpson" if simpson else "trapezoid")


def _has_rows(cost) -> bool:
    """Returns whether a cost has values that change from knot to knot."""
    found = []
    jax.tree.map(
        lambda part: found.append(isinstance(part, Along)), cost, is_leaf=lambda x: isinstance(x, Along)
    )
    return any(found)
