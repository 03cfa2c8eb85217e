"""Costs and constraints of a stage to second order in its point and control, restricted to the parts that they depend on.

A change z of a stage has the parts q, v, own and dt of its point, and u. Most costs and constraints depend on few of these
parts, as their programs show. First and second derivatives are computed for those parts only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import matmul, transpose, vecmat
from ..simulate.state import State
from ._dependence import depends_on
from ._stages import Point, Stages
from .knot import Knot
from .residual import Cost, Residual


class Quadratic(NamedTuple):
    """A function to second order in z."""

    value: Float[Array, ""]
    slope: Float[Array, "z"]
    curvature: Float[Array, "z z"]


class Expansions:
    """Expansions of the stages of a problem. All functions take one stage; at the last knot the control is `None`."""

    def __init__(self, stages: Stages):
        self.stages, self.dtype = stages, stages.dtype
        own = stages.first.state.internal.size
        sizes = {"q": stages.nv, "v": stages.nv, "own": own, "dt": int(stages.free), "u": stages.nu}
        self.sizes = {name: size for name, size in sizes.items() if size}
        self._known: dict = {}

    # Changes.

    def _changed(self, point: Point, control, changes: Mapping[str, Array]):
        """Returns a stage with some parts changed."""
        state, dt, own = point.state, point.dt, point.state.own
        q = self.stages.system.move(state.q, changes["q"]) if "q" in changes else state.q
        v = state.v + changes["v"] if "v" in changes else state.v
        own = own + changes["own"] if own is not None and "own" in changes else own
        dt = dt + changes["dt"][0] if "dt" in changes else dt
        control = control + changes["u"] if control is not None and "u" in changes else control
        return Point(State(q, v, own), dt), control

    def _zeros(self, parts) -> dict[str, Array]:
        return {name: jnp.zeros(self.sizes[name], self.dtype) for name in parts}

    def parts(self, asked: Callable[[Knot], Array], index, point: Point, control) -> tuple[str, ...]:
        """Returns the parts that a function of a knot depends on."""
        key = id(asked), control is None
        if key not in self._known:
            names = [name for name in self.sizes if name != "u" or control is not None]

            def at(*changes):
                moved, told = self._changed(point, control, dict(zip(names, changes, strict=True)))
                return asked(self.stages.knot(index, moved, told))

            found = depends_on(at, *self._zeros(names).values())
            # The entry holds a reference to the object, so that its id is not reused.
            self._known[key] = asked, tuple(name for name, held in zip(names, found, strict=True) if held)
        return self._known[key][1]

    # Residuals.

    def linear(self, residual: Residual, index, point: Point, control) -> tuple[Array, dict[str, Array]]:
        """Returns a residual at a knot, and its derivatives with respect to the parts that it depends on."""
        knot = self.stages.knot(index, point, control)
        parts = self.parts(residual, index, point, control)
        by = {"q": residual.jacobian(knot)} if "q" in parts else {}

        def at(changes):
            moved, told = self._changed(point, control, changes)
            return residual(self.stages.knot(index, moved, told))

        if others := [name for name in parts if name != "q"]:
            by |= jax.jacfwd(at)(self._zeros(others))
        return residual(knot), by

    def jacobian(self, residual: Residual, index, point: Point, control) -> Float[Array, "k z"]:
        """Returns the derivatives of a residual with respect to all parts of a change; at the last knot, of its point."""
        r, by = self.linear(residual, index, point, control)
        names = [name for name in self.sizes if name != "u" or control is not None]
        none = lambda name: jnp.zeros((r.size, self.sizes[name]), self.dtype)
        return jnp.concatenate([by[name] if name in by else none(name) for name in names], axis=1)

    # Costs.

    def running(self, index, point: Point, control) -> Quadratic:
        """Returns the cost of a stage. Least squares contribute only the squares of their first derivatives."""
        stages, sum_ = self.stages, _Sum(self)
        free = stages.free
        for cost in stages.running_costs:
            if isinstance(cost, Cost):
                r, by = self.linear(cost.residual, index, point, control)
                if free:  # each squared row has the factor √dt
                    by["dt"] = by.get("dt", 0) + (r / (2 * point.dt))[:, None]
                sum_.squares(r, by, point.dt * cost.weights(r.size, self.dtype))
            else:
                parts = self.parts(cost, index, point, control)
                parts = [name for name in self.sizes if name in parts or name == "dt"]
                length = lambda knot, dt, cost=cost: dt * cost(knot)
                sum_.function(*self._whole(length, index, point, control, parts))
        duration = self.stages.problem.duration_cost
        sum_.value = sum_.value + point.dt * duration
        if free:
            sum_.slopes["dt"] = sum_.slopes.get("dt", 0) + duration[None]
        return sum_.quadratic(control)

    def terminal(self, point: Point) -> Quadratic:
        """Returns the cost of the last point, in the same way."""
        stages, sum_, last = self.stages, _Sum(self), jnp.int32(self.stages.steps)
        for cost in stages.terminal_costs:
            if isinstance(cost, Cost):
                r, by = self.linear(cost.residual, last, point, None)
                sum_.squares(r, by, cost.weights(r.size, self.dtype))
            else:
                parts = self.parts(cost, last, point, None)
                alone = lambda knot, dt, cost=cost: cost(knot)
                sum_.function(*self._whole(alone, last, point, None, parts))
        return sum_.quadratic(None)

    def _whole(self, function, index, point: Point, control, parts):
        """Returns a function of a knot and the length of its step to second order in some parts."""

        def at(changes):
            moved, told = self._changed(point, control, changes)
            return function(self.stages.knot(index, moved, told), moved.dt)

        if not parts:
            return at({}), {}, {}
        value, slopes = jax.value_and_grad(at)(self._zeros(parts))
        return value, slopes, jax.hessian(at)(self._zeros(parts))


class _Sum:
    """A sum of costs, by parts."""

    def __init__(self, expansions: Expansions):
        self.expansions = expansions
        self.value = jnp.zeros((), expansions.dtype)
        self.slopes: dict[str, Array] = {}
        self.curvatures: dict[tuple[str, str], Array] = {}

    def squares(self, r, by: Mapping[str, Array], weight) -> None:
        """Adds `½ Σ wᵢ rᵢ²`."""
        self.value = self.value + 0.5 * jnp.sum(weight * r**2)
        for name, jacobian in by.items():
            self._slope(name, vecmat(weight * r, jacobian))
            for other in by:
                if self._before(name, other):
                    self._curvature(name, other, matmul(transpose(jacobian), weight[:, None] * by[other]))

    def function(
        self, value, slopes: Mapping[str, Array], curvatures: Mapping[str, Mapping[str, Array]]
    ) -> None:
        """Adds a function."""
        self.value = self.value + value
        for name, slope in slopes.items():
            self._slope(name, slope)
            for other in slopes:
                if self._before(name, other):
                    self._curvature(name, other, curvatures[name][other])

    def _before(self, name: str, other: str) -> bool:
        order = list(self.expansions.sizes)
        return order.index(name) <= order.index(other)

    def _slope(self, name, slope) -> None:
        self.slopes[name] = self.slopes.get(name, 0) + slope

    def _curvature(self, name, other, curvature) -> None:
        self.curvatures[name, other] = self.curvatures.get((name, other), 0) + curvature

    def quadratic(self, control) -> Quadratic:
        """Returns the sum."""
        sizes, dtype = self.expansions.sizes, self.expansions.dtype
        names = [name for name in sizes if name != "u" or control is not None]

        def block(row, column):
            if (row, column) in self.curvatures:
                return self.curvatures[row, column]
            if (column, row) in self.curvatures:
                return transpose(self.curvatures[column, row])
            return jnp.zeros((sizes[row], sizes[column]), dtype)

        slope = [self.slopes.get(name, jnp.zeros(sizes[name], dtype)) for name in names]
        rows = [jnp.concatenate([block(row, column) for column in names], axis=1) for row in names]
        return Quadratic(self.value, jnp.concatenate(slope), jnp.concatenate(rows))
