"""Residuals: functions that should be zero, or within bounds, in costs, constraints, inverse kinematics and controllers."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._core.arguments import function_tree, number
from .._core.array import is_known
from .knot import Knot


class Residual(eqx.Module):
    """A function of a knot of a motion whose values should be zero, or within bounds.

    A weight times a residual is a cost: `10 * Position("tool", target)` is `10 · ½ ‖r‖²`, see `Cost`. A subclass defines
    `__call__`. Its arrays (targets) are leaves, which can be batched and differentiated.

    >>> class Balance(rbd.control.Residual):
    ...     def __call__(self, knot):
    ...         return rbd.center_of_mass(knot.model, knot.state.q)[:1]
    >>> model = rbd.load("double_pendulum")
    >>> system = rbd.simulate.system_of(model, jnp.zeros(2))
    >>> knot = rbd.control.Knot(system, jnp.int32(0), jnp.array(0.0), rbd.State(jnp.array([0.1, 0.0]), jnp.zeros(2)), None)
    >>> print(Balance()(knot))
    [-0.15]
    """

    __array_ufunc__ = None  # so that NumPy arrays leave the product to `__rmul__`

    @abc.abstractmethod
    def __call__(self, knot: Knot) -> Float[Array, "k"]:
        """Returns the values, of shape (k,)."""

    def jacobian(self, knot: Knot) -> Float[Array, "k nv"]:
        """Returns the derivative of the values with respect to a step of the configuration, `q ⊕ step`, at step zero.

        The default is automatic differentiation; subclasses may have a faster method.
        """
        still = jnp.zeros_like(knot.state.v)
        return jax.jacfwd(lambda step: self(knot.moved(step)))(still)

    def __mul__(self, weight) -> Cost:
        return Cost(self, weight)

    __rmul__ = __mul__


class Function(Residual):
    """A function `(t, state, control) -> numbers` as a residual.

    >>> upright = rbd.control.Function(lambda t, state, control: 1 - jnp.cos(state.q[1]))
    """

    function: Callable[..., Any]

    def __init__(self, function: Callable[..., Any]):
        if not callable(function):
            raise TypeError(
                f"control.Function: function is {function!r}; it takes a function (t, state, control) -> numbers"
            )
        self.function = function_tree(function)

    def __call__(self, knot):
        return jnp.ravel(jnp.asarray(self.function(*_asked(knot))))


class Along(Residual):
    """A residual whose targets change from knot to knot: the arrays of `rows` have a leading axis of steps + 1 knots.

    - `first`: the row of the first knot. Between two rows the residual is interpolated; beyond the last row it is that of
      the last row. By default each knot has the row of its index.

    >>> path = jnp.linspace(0.0, 1.0, 101)[:, None] * jnp.ones((1, 7))  # (knots, nq)
    >>> follow = rbd.control.Along(rbd.control.Posture(path))
    """

    rows: Residual
    first: Float[Array, ""] | None

    def __init__(self, rows: Residual, first: Any = None):
        if not isinstance(rows, Residual):
            raise TypeError(
                f"control.Along: rows is {rows!r}; it takes a residual whose arrays have a row for each knot"
            )
        self.rows = rows
        self.first = None if first is None else number("control.Along", "first", first)

    def __call__(self, knot):
        return self._between(knot, lambda residual: residual(knot))

    def jacobian(self, knot):
        return self._between(knot, lambda residual: residual.jacobian(knot))

    def _between(self, knot: Knot, of: Callable[[Residual], Array]) -> Array:
        """Returns a function of the residuals of rows, interpolated at a knot."""
        if self.first is None:
            return of(self.row(knot.index))
        last = min(len(x) for x in jax.tree.leaves(self.rows)) - 1
        place = jnp.clip(self.first + knot.index.astype(self.first.dtype), 0, last)
        before = jnp.floor(place)
        left = before.astype(jnp.int32)
        here, next = of(self.row(left)), of(self.row(jnp.minimum(left + 1, last)))
        return here + (place - before).astype(here.dtype) * (next - here)

    def row(self, index: Int[Array, ""]) -> Residual:
        """Returns the residual of one row."""
        return jax.tree.map(lambda x: x[index], self.rows)


def residual_of(owner: str, value: Any) -> Residual:
    """Returns a residual, from a residual or a function."""
    if isinstance(value, Residual):
        return value
    if callable(value):
        return Function(value)
    raise TypeError(
        f"{owner} is {value!r}; it takes a residual, or a function (t, state, control) -> numbers"
    )


def _asked(knot: Knot):
    """Returns the arguments of a user's function: `None` is the control at the last knot."""
    return knot.time, knot.state, knot.control if knot.has_control else None


class Cost(eqx.Module):
    """The cost `½ Σ wᵢ rᵢ²` of a residual r. Solvers can approximate its second derivatives by `Jᵀ W J` (Gauss-Newton).

    - `residual`, or a function `(t, state, control) -> numbers`.
    - `weight`: w, a number or one for each entry of the residual, not negative.

    >>> reach = rbd.control.Cost(rbd.control.Position("tool", jnp.array([0.4, 0.0, 0.5])), weight=jnp.array([10.0, 10.0, 1.0]))
    """

    residual: Residual
    weight: Float[Array, "*k"]

    def __init__(self, residual: Residual | Callable[..., Any], weight: Any = 1.0):
        self.residual = residual_of("control.Cost: residual", residual)
        self.weight = _weight("control.Cost", weight)

    def __call__(self, knot: Knot) -> Float[Array, ""]:
        return 0.5 * jnp.sum(self.rows(knot) ** 2)

    def rows(self, knot: Knot) -> Float[Array, "k"]:
        """Returns `√w r`. The cost is half its squared norm."""
        r = self.residual(knot)
        weight = self.weights(r.size, r.dtype)
        root = jnp.sqrt(jnp.where(weight > 0, weight, 1))
        return jnp.where(weight > 0, root, 0) * r

    def weights(self, size: int, dtype) -> Float[Array, "k"]:
        """Returns the weight of each of the residual's `size` entries."""
        if self.weight.ndim and self.weight.shape != (size,):
            raise ValueError(
                f"control.Cost: weight has shape {self.weight.shape}; it must be one number, or one for each of the "
                f"{size} numbers of {type(self.residual).__name__}"
            )
        return jnp.broadcast_to(self.weight, (size,)).astype(dtype)


class Value(eqx.Module):
    """A cost that is not a sum of squares: a function `(t, state, control) -> number`. Solvers use its second derivatives.

    >>> lifted = rbd.control.Value(lambda t, state, control: -state.q[0])
    """

    function: Callable[..., Any]
    weight: Float[Array, ""]

    def __init__(self, function: Callable[..., Any], weight: Any = 1.0):
        if not callable(function):
            raise TypeError(
                f"control.Value: function is {function!r}; it takes a function (t, state, control) -> number"
            )
        self.function, self.weight = function_tree(function), _weight("control.Value", weight)

    def __call__(self, knot: Knot) -> Float[Array, ""]:
        value = jnp.asarray(self.function(*_asked(knot)))
        if value.shape != ():
            raise ValueError(
                f"control.Value: function returned an array of shape {value.shape}; it must return one number"
            )
        return self.weight.astype(value.dtype) * value


def _weight(owner: str, weight) -> Array:
    weight = jnp.asarray(weight)
    if weight.ndim > 1 or not jnp.issubdtype(weight.dtype, jnp.number):
        raise ValueError(
            f"{owner}: weight is {weight!r}; it must be a number, or one for each entry of a residual"
        )
    weight = (
        weight.astype(jnp.result_type(float)) if not jnp.issubdtype(weight.dtype, jnp.floating) else weight
    )
    if is_known(weight) and not bool((np.asarray(weight) >= 0).all()):
        raise ValueError(f"{owner}: weight is {weight}; weights must not be negative")
    return weight


def cost_of(owner: str, value: Any) -> Cost | Value:
    """Returns a cost, from a cost or a residual with weight one."""
    if isinstance(value, Cost | Value):
        return value
    if isinstance(value, Residual):
        return Cost(value)
    raise TypeError(
        f"{owner} has {value!r}; it takes costs: a weight times a residual, a residual, or control.Value(function)"
    )
