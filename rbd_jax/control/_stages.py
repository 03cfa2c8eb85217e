"""A problem as solvers see it: stages with a point each, how points follow on each other, and what all that costs, expanded.

A point is a state and the length of the steps, which is part of it where it is free; a change of a point is a vector: changes
of q on the tangent space, of v, of what forces remember, and of the length of the steps.
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


#: Second derivatives of least squares: of the squares alone, or all.
Hessian: TypeAlias = Literal["gauss-newton", "full"]


class Point(NamedTuple):
    """Where a stage is: a state, and the length of the step from there."""

    state: State
    dt: Float[Array, ""]


#: Points of all knots: of a problem, or of a program made of it, which may have more to them.
Points = TypeVar("Points")


class Stages:
    """The stages of a problem. All functions take one stage; `over_stages` maps them.

    - `nx`, `nu`: how many numbers change a point, and are decided on.
    - `steps`: the number of stages where something is decided.
    """

    def __init__(self, problem: Problem):
        begin = problem.begin
        self.problem, self.steps, self.nu = problem, problem.steps, problem.nu
        self.begin = begin._replace(system=begin.system.prepared())
        self.system, self.dtype = self.begin.system, begin.dt.dtype
        self.nv, self.free = problem.model.nv, problem.duration is not None
        self.nx = 2 * self.nv + begin.state.internal.size + self.free
        self.first = Point(begin.state, begin.dt)
        # What is given is cast once: costs are then in the precision of the motion.
        costs = with_precision((problem.running, problem.terminal, problem.constraints), self.dtype)
        self.running_costs, self.terminal_costs, self.constraints = costs

    # Points.

    def time(self, index: Int[Array, ""], point: Point) -> Float[Array, ""]:
        """When a stage begins."""
        return self.begin.time + jnp.asarray(index, self.dtype) * point.dt

    def move(self, point: Point, change: Float[Array, "nx"]) -> Point:
        """A point changed."""
        state, nv = point.state, self.nv
        own = None if state.own is None else state.own + change[2 * nv : self.nx - self.free]
        moved = State(self.system.move(state.q, change[:nv]), state.v + change[nv : 2 * nv], own)
        return Point(moved, point.dt + change[-1] if self.free else point.dt)

    def lengthened(self, point: Point, change: Float[Array, ""]) -> Point:
        """The first point with another length of the steps; its state is given."""
        return point._replace(dt=point.dt + change) if self.free else point

    def difference(self, start: Point, end: Point) -> Float[Array, "nx"]:
        """The change from one point to another."""
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
        """What costs and constraints are asked with; the time is that at which the stage begins, if nothing is said."""
        time = self.time(index, point) if time is None else time
        return Knot(self.system, index, time, point.state, control)

    # How points follow on each other.

    def _begin(self, index, point: Point):
        return self.begin._replace(state=point.state, time=self.time(index, point), dt=point.dt)

    def advance(self, index, point: Point, control: Float[Array, "nu"]) -> Point:
        """The point after a step."""
        begin = self._begin(index, point)
        return Point(stepped(begin, point.state, self.problem.told(control)), point.dt)

    def linearize(
        self, index, point: Point, control: Float[Array, "nu"]
    ) -> tuple[Float[Array, "nx nx"], Float[Array, "nx nu"]]:
        """How the point after a step changes with the point before, and with the control."""
        told, given = jax.linearize(self.problem.told, control)
        by_u = self.problem.told_actuators
        by_state, by_told = linearized(self._begin(index, point), told, (by_u, not by_u))
        # What is decided on, in terms of what the model is told.
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

    # What it costs.

    def rates(self, knot: Knot) -> tuple[Float[Array, "rows"], Float[Array, ""]]:
        """The running costs per second at a knot: numbers of whose squares they are half the sum, and the rest."""
        return self._parts(self.running_costs, knot, self.problem.duration_cost)

    def terminal_parts(self, point: Point) -> tuple[Float[Array, "rows"], Float[Array, ""]]:
        """What the last point costs, likewise."""
        knot = self.knot(jnp.int32(self.steps), point, None)
        return self._parts(self.terminal_costs, knot, jnp.zeros((), self.dtype))

    def _parts(self, costs, knot: Knot, start: Array) -> tuple[Array, Array]:
        rows = [cost.rows(knot) for cost in costs if isinstance(cost, Cost)]
        rest = functools.reduce(jnp.add, [cost(knot) for cost in costs if not isinstance(cost, Cost)], start)
        return jnp.concatenate([jnp.zeros(0, self.dtype), *rows]), rest

    def running(self, index, point: Point, control: Float[Array, "nu"]) -> Float[Array, ""]:
        """What a stage costs: the rate of the running costs, times the length of the step."""
        knot = self.knot(index, point, control)
        rate = sum((cost(knot) for cost in self.running_costs), start=self.problem.duration_cost)
        return point.dt * rate

    def terminal(self, point: Point) -> Float[Array, ""]:
        """What the last point costs."""
        knot = self.knot(jnp.int32(self.steps), point, None)
        return sum((cost(knot) for cost in self.terminal_costs), start=jnp.zeros((), self.dtype))

    def total(self, points: Point, controls: Float[Array, "steps nu"]) -> Float[Array, ""]:
        """The cost of a motion."""
        each = self.over_stages(self.running, self.before(points), controls)
        return jnp.sum(each) + self.terminal(self.last(points))

    def rates_of_each(self, knot: Knot) -> Float[Array, "costs"]:
        """What each of the running costs is per second at a knot, and what a second costs."""
        each = [*(cost(knot) for cost in self.running_costs), self.problem.duration_cost.astype(self.dtype)]
        return jnp.stack(each)

    def terminal_of_each(self, point: Point) -> Float[Array, "costs"]:
        """What each of the terminal costs is at the last point."""
        knot = self.knot(jnp.int32(self.steps), point, None)
        each = [cost(knot)[None] for cost in self.terminal_costs]
        return jnp.concatenate([jnp.zeros(0, self.dtype), *each])

    # What it must keep to.

    def constrained(self, index, point: Point, control: Float[Array, "nu"] | None) -> Float[Array, "rows"]:
        """The residuals of the constraints at a knot; zeros of those that do not hold there."""
        knot, found = self.knot(index, point, control), []
        for one, size in zip(self.constraints, self.constraint_sizes, strict=True):
            held = one.knots(self.steps)
            ask = held[:-1].any() if knot.has_control else held[-1]
            found.append(one.residual(knot) if ask else jnp.zeros(size, self.dtype))
        return jnp.concatenate([jnp.zeros(0, self.dtype), *found])

    @property
    def constraint_sizes(self) -> list[int]:
        """How many rows each constraint has."""
        sizes, first = [], self.first
        for one in self.constraints:
            held = one.knots(self.steps)
            ask = jnp.zeros(self.nu, self.dtype) if held[:-1].any() else None
            residual = lambda point, control, one=one: one.residual(self.knot(jnp.int32(0), point, control))
            sizes.append(jax.eval_shape(residual, first, ask).shape[0])
        return sizes

    def constraint_bounds(self) -> tuple[Array, Array, np.ndarray]:
        """Lower and upper bounds of the residuals at every knot, (steps + 1, rows), and which rows are equalities (rows).

        Where a constraint does not hold its bounds are infinite, those of equalities too.
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
        """Lower and upper bounds of the control of each step, infinite where there are none."""
        pair = self.problem.bounds.control
        return _pair("control", pair, self.nu, self.dtype, "one number, or one for each control")

    def state_bounds(self) -> tuple[Float[Array, "nx"], Float[Array, "nx"]]:
        """Lower and upper bounds of `state_values` at each knot but the first, which is given, infinite where there are none."""
        bounds, topology = self.problem.bounds, "one number, or one for each entry of"
        q = _pair("q", bounds.q, self.first.state.q.size, self.dtype, f"{topology} q")
        v = _pair("v", bounds.v, self.nv, self.dtype, f"{topology} v")
        places = flat_entries(self.problem.model)
        for side, missing in zip(q, (-np.inf, np.inf), strict=True):
            if is_known(side) and (np.delete(np.asarray(side), places[places >= 0]) != missing).any():
                raise ValueError(
                    "control.Bounds: q has finite bounds for a joint whose configuration is no vector (a ball, a free body); "
                    "bound what you mean by a Constraint"
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
        """Lower and upper bounds of the length of the steps, where it is free."""
        duration = self.problem.duration
        assert duration is not None
        shortest, longest = (one.astype(self.dtype) / self.steps for one in duration)
        return shortest, longest

    def sizes(self, point: Point) -> Float[Array, "nx"]:
        """How large the numbers of a point are: what rounding is a share of, at least one."""
        state = point.state
        q = jnp.full(self.nv, jnp.max(jnp.abs(state.q), initial=1))
        parts = [q, jnp.maximum(jnp.abs(state.v), 1), jnp.maximum(jnp.abs(state.internal), 1)]
        return jnp.concatenate([*parts, *([jnp.ones(1, self.dtype)] if self.free else [])])

    def state_values(self, point: Point) -> Float[Array, "nx"]:
        """The numbers of a point that `state_bounds` are for: they change as the point does, where they are bounded."""
        state, places = point.state, flat_entries(self.problem.model)
        q = jnp.where(places >= 0, state.q[np.maximum(places, 0)], 0)
        return jnp.concatenate([q, state.v, state.internal, *([point.dt[None]] if self.free else [])])

    # All stages.

    def over_stages(self, function: Callable[..., Any], *rows: Any) -> Any:
        """`function(index, ...)` of each stage, of rows with a leading axis of stages."""
        indices = jnp.arange(self.steps, dtype=jnp.int32)
        if is_cpu():
            one = recomputed(lambda given: function(*given))
            return in_fastest_form("over_stages", one, (indices, *rows), None, None, self.steps, "cpu")
        return jax.vmap(function)(indices, *rows)

    def before(self, points: Points) -> Points:
        """The points at which stages begin, of all steps + 1."""
        return jax.tree.map(lambda x: x[:-1], points)

    def first_of(self, points: Points) -> Points:
        """The first point."""
        return jax.tree.map(lambda x: x[0], points)

    def after(self, points: Points) -> Points:
        """The points at which stages end."""
        return jax.tree.map(lambda x: x[1:], points)

    def last(self, points: Points) -> Points:
        """The last point."""
        return jax.tree.map(lambda x: x[-1], points)

    def rolled_out(self, first: Point, controls: Float[Array, "steps nu"]) -> Point:
        """The points of a motion under controls, the first one first."""

        def advance(point, given):
            index, control = given
            point = self.advance(index, point, control)
            return point, point

        _, rest = lax.scan(advance, first, (jnp.arange(self.steps, dtype=jnp.int32), controls))
        return joined(first, rest)


def joined(first: Any, rest: Any):
    """Rows with another one before them."""
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
