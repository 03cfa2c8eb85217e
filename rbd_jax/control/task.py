"""Tasks of controllers: residuals with rates of convergence, as linear equations in accelerations or velocities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import as_array
from .._core.array import is_known
from ..simulate.state import State
from ..simulate.system import System
from ._dependence import depends_on
from .constraint import Constraint
from .knot import Knot
from .residual import Cost, Residual, residual_of


class Task(eqx.Module):
    """A residual that a controller drives to zero.

    The required motion is `ë = -stiffness e - damping ė` for a residual of the configuration, `ė = -rate e` for a residual
    of velocities, and `e = 0` for a residual of the control. Functions that take tasks convert a weight times a residual to
    a task of rate 10.

    - `residual`, or a function `(t, state, control) -> numbers`.
    - `weight`: of the squared error, a number or one for each entry of the residual.
    - `rate`: in 1/s; errors decay like `exp(-rate t)`, without overshoot.
    - `stiffness`, `damping`: by default `rate²` and `2 rate`. With a stiffness only, the damping is critical, and the rate
      is its root.

    >>> hand = rbd.control.Task(rbd.control.Position("tool", (0.4, 0.0, 0.5)), weight=10.0, rate=20.0)
    """

    residual: Residual
    weight: Float[Array, "*k"]
    rate: Float[Array, "*k"]
    stiffness: Float[Array, "*k"]
    damping: Float[Array, "*k"]

    def __init__(
        self,
        residual: Residual | Callable[..., Any],
        weight: Any = 1.0,
        *,
        rate: Any = None,
        stiffness: Any = None,
        damping: Any = None,
    ):
        owner = "control.Task"
        cost = Cost(residual_of(f"{owner}: residual", residual), weight)
        self.residual, self.weight = cost.residual, cost.weight
        if rate is not None and stiffness is not None:
            raise ValueError(
                f"{owner}: rate and stiffness are both given, and each determines the other. Omit one."
            )
        if stiffness is None:
            self.rate = _rates(owner, "rate", 10.0 if rate is None else rate)
            self.stiffness = self.rate**2
        else:
            self.stiffness = _rates(owner, "stiffness", stiffness)
            positive = self.stiffness > 0
            self.rate = jnp.where(positive, jnp.sqrt(jnp.where(positive, self.stiffness, 1)), 0)
        self.damping = 2 * self.rate if damping is None else _rates(owner, "damping", damping)


def _rates(owner: str, name: str, value: Any) -> Array:
    array = as_array(owner, name, value, "a number, or one for each of the residual's")
    if array.ndim > 1:
        raise ValueError(
            f"{owner}: {name} has shape {array.shape}; it must be a number, or one for each entry of the residual"
        )
    if is_known(array) and not bool((np.asarray(array) >= 0).all()):
        raise ValueError(f"{owner}: {name} is {array}; it must not be negative")
    return array


#: Tasks, residuals, weights times residuals, or a function of time that returns them. With a function, moving targets are
#: followed with their velocities and accelerations.
Tasks: TypeAlias = (
    Sequence[Task | Cost | Residual] | Callable[[Float[Array, ""]], Sequence[Task | Cost | Residual]]
)


def tasks_at(owner: str, tasks: Tasks, time: Float[Array, ""]) -> tuple[Task, ...]:
    """Returns the tasks at a time."""
    given = tasks(time) if callable(tasks) and not isinstance(tasks, Residual) else tasks
    if isinstance(given, Task | Cost | Residual):
        given = (given,)
    if not isinstance(given, tuple | list):
        raise TypeError(
            f"{owner}: tasks is {given!r}; it takes a list of tasks, or a function of time that returns one"
        )
    return tuple(_task(owner, one) for one in given)


def _task(owner: str, one: Any) -> Task:
    if isinstance(one, Task):
        return one
    if isinstance(one, Cost):
        return Task(one.residual, one.weight)
    if isinstance(one, Residual) or callable(one):
        return Task(one)
    raise TypeError(
        f"{owner}: tasks has {one!r}; it takes control.Task(residual), residuals, or weights times residuals"
    )


#: Kind of a residual: it depends on the control; else on the velocity; else on the configuration only.
CONTROL, VELOCITY, CONFIGURATION = "control", "velocity", "configuration"


class Moving(NamedTuple):
    """A residual in motion.

    - `order`: the kind of the residual, see above.
    - `value`, `rate`, `bias`: e; its rate at the current velocity and time; and the derivative of this rate without
      acceleration.
    - `jacobian`: of e with respect to the configuration, the velocity or the control, according to its kind.
    """

    order: str
    value: Float[Array, "k"]
    rate: Float[Array, "k"]
    bias: Float[Array, "k"]
    jacobian: Float[Array, "k n"]


def moving(
    system: System,
    time: Float[Array, ""],
    state: State,
    control: Float[Array, "nu"] | None,
    residuals: Callable[[Float[Array, ""]], Sequence[Residual]],
) -> list[Moving]:
    """Returns residuals in a motion of constant velocity. `residuals` returns them as a function of time."""

    def knot(s, v=state.v, control=control):
        q = state.q if s is None else system.move(state.q, s * state.v)
        now = time if s is None else time + s
        return Knot(system, jnp.int32(0), now, State(q, v, state.own), control)

    def along(s):
        return [one(knot(s)) for one in residuals(time + s)]

    start, one = jnp.zeros_like(time), jnp.ones_like(time)
    slope = lambda s: jax.jvp(along, (s,), (one,))
    (values, rates), (_, biases) = jax.jvp(slope, (start,), (one,))
    here, found = knot(None), []
    for residual, value, rate, bias in zip(residuals(time), values, rates, biases, strict=True):
        by = lambda v, control, residual=residual: residual(knot(None, v, control))
        order = _order(by, state.v, control)
        if order == CONFIGURATION:
            jacobian = residual.jacobian(here)
        elif order == VELOCITY:
            jacobian = jax.jacfwd(lambda v, by=by: by(v, control))(state.v)
        else:
            jacobian = jax.jacfwd(lambda control, by=by: by(state.v, control))(control)
        found.append(Moving(order, value, rate, bias, jacobian))
    return found


def _order(by: Callable, v, control) -> str:
    if control is None:
        return VELOCITY if depends_on(lambda v: by(v, None), v)[0] else CONFIGURATION
    of_v, of_control = depends_on(by, v, control)
    return CONTROL if of_control else VELOCITY if of_v else CONFIGURATION


def spread(numbers: Float[Array, "*k"], like: Float[Array, "k"], what: str) -> Float[Array, "k"]:
    """Returns a number for each entry of a residual, from one number or an array."""
    if numbers.ndim and numbers.shape != like.shape:
        raise ValueError(
            f"control.Task: {what} has shape {numbers.shape}; it must be one number, or one for each of the "
            f"{like.size} entries of the residual"
        )
    return jnp.broadcast_to(numbers, like.shape).astype(like.dtype)


def wanted_acceleration(task: Task, at: Moving) -> Float[Array, "k"]:
    """Returns the required `jacobian @ a` or, for a task of the control, `jacobian @ u`."""
    if at.order == CONTROL:
        return -at.value
    if at.order == VELOCITY:
        return -spread(task.rate, at.value, "rate") * at.value - at.rate
    stiffness = spread(task.stiffness, at.value, "stiffness")
    return -stiffness * at.value - spread(task.damping, at.value, "damping") * at.rate - at.bias


def wanted_velocity(task: Task, at: Moving) -> Float[Array, "k"]:
    """Returns the required `jacobian @ v`; the residual is evaluated at rest."""
    if at.order == VELOCITY:
        return -at.value
    return -spread(task.rate, at.value, "rate") * at.value - at.rate


def kept_rows(
    one: Constraint, at: Moving, rate: Float[Array, ""], order: int
) -> tuple[Float[Array, "k n"], Float[Array, "k"], Float[Array, "k"]]:
    """Returns a constraint as rows with bounds on `jacobian @ v` (order 1) or `jacobian @ a` (order 2).

    The approach to a bound slows down with the distance: `ṙ ≥ -rate (r - lower)`, and for accelerations
    `r̈ ≥ -rate² (r - lower) - 2 rate ṙ` (a control barrier function).
    """
    lower, upper = one.sides(at.value.size, at.value.dtype)
    first = at.order == VELOCITY or order == 1
    if at.order == CONTROL:
        return at.jacobian, lower - at.value, upper - at.value
    if at.order == VELOCITY and order == 1:
        return at.jacobian, lower - at.value, upper - at.value
    if first:
        return at.jacobian, rate * (lower - at.value) - at.rate, rate * (upper - at.value) - at.rate
    steady = -2 * rate * at.rate - at.bias
    return at.jacobian, rate**2 * (lower - at.value) + steady, rate**2 * (upper - at.value) + steady
