"""A problem as stages, for solvers: points, steps between points, and the costs and constraints of each stage.

A point is a state and, if the duration is free, the length of the steps. A change of a point is a vector: changes of q on
the tangent space, of v, of the internal states of forces, and of the length of the steps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from .._core.array import is_known, with_precision
from .._core.platform import is_cpu
from ..optimize.implicit import recomputed
from ..parallel.fastest import in_fastest_form
from ..simulate.state import State
from ..simulate.steps import linearized, stepped
from ._configurations import flat_entries
from .knot import Knot
from .problem import Problem
from .residual import Cost


#: Second derivatives of least squares: the squares of first derivatives only, or complete.
Hessian: TypeAlias = Literal["gauss-newton", "full"]


class Point(NamedTuple):
    """The point of a stage: a state, and the length of the step from there."""

    state: State
    dt: Float[Array, ""]


#: Points of all knots, of a problem or of a program derived from it, whose points may have more parts.
Points = TypeVar("Points")


class Stages:
    """The stages of a problem. All functions take one stage; `over_stages` maps them.

    - `nx`, `nu`: the sizes of a change of a point, and of the control.
    - `steps`: the number of stages with a control.
    """

    def __init__(self, problem: Problem):
        begin = problem.begin
        self.problem, self.steps, self.nu = problem, problem.steps, problem.nu
        self.begin = begin._replace(system=begin.system.prepared())
        self.system, self.dtype = self.begin.system, begin.dt.dtype
        self.nv, self.free = problem.model.nv, problem.duration is not None
        self.nx = 2 * self.nv + begin.state.internal.size + self.free
        self.first = Point(begin.state, begin.dt)
        # A single cast puts the costs in the precision of the motion.
        costs = with_precision((problem.running, problem.terminal, problem.constraints), self.dtype)
        self.running_costs, self.terminal_costs, self.constraints = costs

    # Points.

    def time(self, index: Int[Array, ""], point: Point) -> Float[Array, ""]:
        """Returns the time at which a stage begins."""
        return self.begin.time + jnp.asarray(index, self.dtype) * point.dt

    def move(self, point: Point, change: Float[Array, "nx"]) -> Point:
        """Returns a point after a change."""
        state, nv = point.state, self.nv
        own = None if state.own is None else state.own + change[2 * nv : self.nx - self.free]
        moved = State(self.system.move(state.q, change[:nv]), state.v + change[nv : 2 * nv], own)
        return Point(moved, point.dt + change[-1] if self.free else point.dt)

    def lengthened(self, point: Point, change: Float[Array, ""]) -> Point:
        """Returns the first point with another length of the steps; its state is given."""
        return point._replace(dt=point.dt + change) if self.free else point

    def difference(self, start: Point, end: Point) -> Float[Array, "nx"]:
        """Returns the change from one point to another."""
        parts = [self.system.difference(start.state.q, end.state.q), end.state.v - start.state.v]
        parts.append(end.state.internal - start.state.internal)
        return jnp.concatenate([*parts, *([(end.dt - start.dt)[None]] if self.free else [])])

    def knot(
        self,
        index: Int[Array, ""],
        point: Point,
        control: Float[Array, "nu"] | None,
        time: Float[Array, ""] | None = None,
    ) -> Knot:
        """Returns the knot of a stage, the argument of costs and constraints. By default its time is the start of the stage."""
        time = self.time(index, point) if time is None else time
        return Knot(self.system, index, time, point.state, control)

    # Steps between points.

    def _begin(self, index, point: Point):
        return self.begin._replace(state=point.state, time=self.time(index, point), dt=point.dt)

    def advance(self, index, point: Point, control: Float[Array, "nu"]) -> Point:
        """Returns the point after a step."""
        begin = self._begin(index, point)
        return Point(stepped(begin, point.state, self.problem.told(control)), point.dt)

    def linearize(
        self, index, point: Point, control: Float[Array, "nu"]
    ) -> tuple[Float[Array, "nx nx"], Float[Array, "nx nu"]]:
        """Returns the derivatives of the point after a step with respect to the point before and the control."""
        told, given = jax.linearize(self.problem.told, control)
        by_u = self.problem.told_actuators
        by_state, by_told = linearized(self._begin(index, point), told, (by_u, not by_u))
        # Derivatives of the model's control with respect to the decision variables.
        columns = jax.vmap(given, out_axes=-1)(jnp.eye(self.nu, dtype=self.dtype))
        by_control = by_told if by_u else by_told @ columns.tau
        if not self.free:
            return by_state, by_control
        end = lax.stop_gradient(stepped(self._begin(index, point), point.state, told))

        def at(dt):
            later = stepped(self._begin(index, Point(point.state, dt)), point.state, told)
            return self.difference(Point(end, point.dt), Point(later, point.dt))[:-1]

        by_dt = jax.jvp(at, (point.dt,), (jnp.ones_like(point.dt),))[1]
        upper = jnp.concatenate([by_state, by_dt[:, None]], axis=1)
        last = jnp.zeros((1, self.nx), self.dtype).at[0, -1].set(1)
        still = jnp.zeros((1, self.nu), self.dtype)
        return jnp.concatenate([upper, last]), jnp.concatenate([by_control, still])

    # Costs.

    def rates(self, knot: Knot) -> tuple[Float[Array, "rows"], Float[Array, ""]]:
        """Returns the running costs per second at a knot: rows, with half their squared norm as cost, and the other costs."""
        return self._parts(self.running_costs, knot, self.problem.duration_cost)

    def terminal_parts(self, point: Point) -> tuple[Float[Array, "rows"], Float[Array, ""]]:
        """Returns the cost of the last point, in the same form."""
        knot = self.knot(jnp.int32(self.steps), point, None)
        return self._parts(self.terminal_costs, knot, jnp.zeros((), self.dtype))

    def _parts(self, costs, knot: Knot, start: Array) -> tuple[Array, Array]:
        rows = [cost.rows(knot) for cost in costs if isinstance(cost, Cost)]
        rest = functools.reduce(jnp.add, [cost(knot) for cost in costs if not isinstance(cost, Cost)], start)
        return jnp.concatenate([jnp.zeros(0, self.dtype), *rows]), rest

    def running(self, index, point: Point, control: Float[Array, "nu"]) -> Float[Array, ""]:
        """Returns the cost of a stage: the rate of the running costs, times the length of the step."""
        knot = self.knot(index, point, control)
        rate = sum((cost(knot) for cost in self.running_costs), start=self.problem.duration_cost)
        return point.dt * rate

    def terminal(self, point: Point) -> Float[Array, ""]:
        """Returns the cost of the last point."""
        knot = self.knot(jnp.int32(self.steps), point, None)
        return sum((cost(knot) for cost in self.terminal_costs), start=jnp.zeros((), self.dtype))

    def total(self, points: Point, controls: Float[Array, "steps nu"]) -> Float[Array, ""]:
        """Returns the cost of a motion."""
        each = self.over_stages(self.running, self.before(points), controls)
        return jnp.sum(each) + self.terminal(self.last(points))

    def rates_of_each(self, knot: Knot) -> Float[Array, "costs"]:
        """Returns each running cost per second at a knot, and the cost of a second."""
        each = [*(cost(knot) for cost in self.running_costs), self.problem.duration_cost.astype(self.dtype)]
        return jnp.stack(each)

    def terminal_of_each(self, point: Point) -> Float[Array, "costs"]:
        """Returns each terminal cost at the last point."""
        knot = self.knot(jnp.int32(self.steps), point, None)
        each = [cost(knot)[None] for cost in self.terminal_costs]
        return jnp.concatenate([jnp.zeros(0, self.dtype), *each])

    # Constraints.

    def constrained(self, index, point: Point, control: Float[Array, "nu"] | None) -> Float[Array, "rows"]:
        """Returns the residuals of the constraints at a knot; zeros for constraints that do not hold there."""
        knot, found = self.knot(index, point, control), []
        for one, size in zip(self.constraints, self.constraint_sizes, strict=True):
            held = one.knots(self.steps)
            ask = held[:-1].any() if knot.has_control else held[-1]
            found.append(one.residual(knot) if ask else jnp.zeros(size, self.dtype))
        return jnp.concatenate([jnp.zeros(0, self.dtype), *found])

    @property
    def constraint_sizes(self) -> list[int]:
        """The number of rows of each constraint."""
        sizes, first = [], self.first
        for one in self.constraints:
            held = one.knots(self.steps)
            ask = jnp.zeros(self.nu, self.dtype) if held[:-1].any() else None
            residual = lambda point, control, one=one: one.residual(self.knot(jnp.int32(0), point, control))
            sizes.append(jax.eval_shape(residual, first, ask).shape[0])
        return sizes

    def constraint_bounds(self) -> tuple[Array, Array, np.ndarray]:
        """Returns bounds of the residuals at every knot.

        If a constraint does not hold at a knot, its bounds there are infinite, also for equalities.

        Returns:
          Lower and upper bounds, (steps + 1, rows), and which rows are equalities, (rows,).
        """
        lower, upper, equal = [], [], []
        for one, size in zip(self.constraints, self.constraint_sizes, strict=True):
            held = jnp.asarray(one.knots(self.steps))[:, None]
            low, high = one.sides(size, self.dtype)
            lower.append(jnp.where(held, low[None], -jnp.inf))
            upper.append(jnp.where(held, high[None], jnp.inf))
            equal += [one.equality] * size
        none = jnp.zeros((self.steps + 1, 0), self.dtype)
        joined = lambda sides: jnp.concatenate([none, *sides], axis=1)
        return joined(lower), joined(upper), np.array(equal, bool)

    def control_bounds(self) -> tuple[Float[Array, "nu"], Float[Array, "nu"]]:
        """Returns lower and upper bounds of the control of each step; infinite without a bound."""
        pair = self.problem.bounds.control
        return _pair("control", pair, self.nu, self.dtype, "one number, or one for each control")

    def state_bounds(self) -> tuple[Float[Array, "nx"], Float[Array, "nx"]]:
        """Returns lower and upper bounds of `state_values` at each knot; infinite without a bound.

        They do not apply to the first knot, whose state is given.
        """
        bounds, topology = self.problem.bounds, "one number, or one for each entry of"
        q = _pair("q", bounds.q, self.first.state.q.size, self.dtype, f"{topology} q")
        v = _pair("v", bounds.v, self.nv, self.dtype, f"{topology} v")
        places = flat_entries(self.problem.model)
        for side, missing in zip(q, (-np.inf, np.inf), strict=True):
            if is_known(side) and (np.delete(np.asarray(side), places[places >= 0]) != missing).any():
                raise ValueError(
                    "control.Bounds: q has finite bounds for a joint whose configuration is not a vector (a ball, a free body). "
                    "Use a Constraint for it."
                )
        own = self.first.state.internal.size
        lower, upper = (
            jnp.concatenate(
                [
                    jnp.where(places >= 0, qs[np.maximum(places, 0)], missing),
                    vs,
                    jnp.full(own, missing, self.dtype),
                    *([length[None] / self.steps] if self.free else []),
                ]
            )
            for qs, vs, missing, length in zip(
                q, v, (-np.inf, np.inf), self.problem.duration or (jnp.zeros(()), jnp.zeros(())), strict=True
            )
        )
        return lower.astype(self.dtype), upper.astype(self.dtype)

    def step_bounds(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Returns lower and upper bounds of the length of the steps, if the duration is free."""
        duration = self.problem.duration
        assert duration is not None
        shortest, longest = (one.astype(self.dtype) / self.steps for one in duration)
        return shortest, longest

    def sizes(self, point: Point) -> Float[Array, "nx"]:
        """Returns the magnitudes of the entries of a point, at least one, as scales of rounding errors."""
        state = point.state
        q = jnp.full(self.nv, jnp.max(jnp.abs(state.q), initial=1))
        parts = [q, jnp.maximum(jnp.abs(state.v), 1), jnp.maximum(jnp.abs(state.internal), 1)]
        return jnp.concatenate([*parts, *([jnp.ones(1, self.dtype)] if self.free else [])])

    def state_values(self, point: Point) -> Float[Array, "nx"]:
        """Returns the entries of a point that `state_bounds` refers to. Bounded entries change as the point does."""
        state, places = point.state, flat_entries(self.problem.model)
        q = jnp.where(places >= 0, state.q[np.maximum(places, 0)], 0)
        return jnp.concatenate([q, state.v, state.internal, *([point.dt[None]] if self.free else [])])

    # All stages.

    def over_stages(self, function: Callable[..., Any], *rows: Any) -> Any:
        """Returns `function(index, ...)` of each stage, for rows with a leading axis of stages."""
        indices = jnp.arange(self.steps, dtype=jnp.int32)
        if is_cpu():
            one = recomputed(lambda given: function(*given))
            return in_fastest_form("over_stages", one, (indices, *rows), None, None, self.steps, "cpu")
        return jax.vmap(function)(indices, *rows)

    def before(self, points: Points) -> Points:
        """Returns the points at which stages begin, from all steps + 1 points."""
        return jax.tree.map(lambda x: x[:-1], points)

    def first_of(self, points: Points) -> Points:
        """Returns the first point."""
        return jax.tree.map(lambda x: x[0], points)

    def after(self, points: Points) -> Points:
        """Returns the points at which stages end."""
        return jax.tree.map(lambda x: x[1:], points)

    def last(self, points: Points) -> Points:
        """Returns the last point."""
        return jax.tree.map(lambda x: x[-1], points)

    def rolled_out(self, first: Point, controls: Float[Array, "steps nu"]) -> Point:
        """Returns the points of a motion under controls, including the first point."""

        def advance(point, given):
            index, control = given
            point = self.advance(index, point, control)
            return point, point

        _, rest = lax.scan(advance, first, (jnp.arange(self.steps, dtype=jnp.int32), controls))
        return joined(first, rest)


def joined(first: Any, rest: Any):
    """Returns rows with another row before them."""
    return jax.tree.map(lambda one, many: jnp.concatenate([one[None], many]), first, rest)


def _pair(name: str, pair, size: int, dtype, what: str) -> tuple[Array, Array]:
    if pair is None:
        return jnp.full(size, -jnp.inf, dtype), jnp.full(size, jnp.inf, dtype)
    for side in pair:
        if side.ndim > 1 or (side.ndim and side.shape != (size,)):
            raise ValueError(
                f"control.Bounds: {name} has shape {side.shape}; it is {what}, of which there are {size}"
            )
    return tuple(jnp.broadcast_to(side, (size,)).astype(dtype) for side in pair)  # pyright: ignore[reportReturnType]
