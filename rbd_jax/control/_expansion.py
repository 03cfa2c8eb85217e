"""What a stage costs and keeps to, to second order in the changes of its point and its control, by the parts that it depends on.

A change z of a stage has the parts q, v, own and dt, which are those of its point, and u. Costs and constraints depend on few of
them, as their programs say: what is differentiated by, and what of the second derivatives is worked out, is that alone.
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
    """Expansions of the stages of a problem. All functions take one stage; at the last knot the control is None."""

    def __init__(self, stages: Stages):
        self.stages, self.dtype = stages, stages.dtype
        own = stages.first.state.internal.size
        sizes = {"q": stages.nv, "v": stages.nv, "own": own, "dt": int(stages.free), "u": stages.nu}
        self.sizes = {name: size for name, size in sizes.items() if size}
        self._known: dict = {}

    # Changes.

    def _changed(self, point: Point, control, changes: Mapping[str, Array]):
        """A stage with some parts changed."""
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
        """The parts that something that is asked at a knot depends on."""
        key = id(asked), control is None
        if key not in self._known:
            names = [name for name in self.sizes if name != "u" or control is not None]

            def at(*changes):
                moved, told = self._changed(point, control, dict(zip(names, changes, strict=True)))
                return asked(self.stages.knot(index, moved, told))

            found = depends_on(at, *self._zeros(names).values())
            # The key is of an object that has to stay.
            self._known[key] = asked, tuple(name for name, held in zip(names, found, strict=True) if held)
        return self._known[key][1]

    # Residuals.

    def linear(self, residual: Residual, index, point: Point, control) -> tuple[Array, dict[str, Array]]:
        """A residual at a knot, and its derivatives by the parts that it depends on."""
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
        """The derivatives of a residual by all of a change; at the last knot, of its point."""
        r, by = self.linear(residual, index, point, control)
        names = [name for name in self.sizes if name != "u" or control is not None]
        none = lambda name: jnp.zeros((r.size, self.sizes[name]), self.dtype)
        return jnp.concatenate([by[name] if name in by else none(name) for name in names], axis=1)

    # Costs.

    def running(self, index, point: Point, control) -> Quadratic:
        """The cost of a stage: of least squares the squares of first derivatives alone."""
        stages, sum_ = self.stages, _Sum(self)
        free = stages.free
        for cost in stages.running_costs:
            if isinstance(cost, Cost):
                r, by = self.linear(cost.residual, index, point, control)
                if free:  # what is squared is times the root of the length of the step
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
        """The cost of the last point, likewise."""
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
        """A function of a knot and the length of its step to second order in some parts."""

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
        """Add `½ Σ wᵢ rᵢ²`."""
        self.value = self.value + 0.5 * jnp.sum(weight * r**2)
        for name, jacobian in by.items():
            self._slope(name, vecmat(weight * r, jacobian))
            for other in by:
                if self._before(name, other):
                    self._curvature(name, other, matmul(transpose(jacobian), weight[:, None] * by[other]))

    def function(
        self, value, slopes: Mapping[str, Array], curvatures: Mapping[str, Mapping[str, Array]]
    ) -> None:
        """Add a function."""
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
        """The sum."""
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
