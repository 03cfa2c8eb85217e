"""What drives a simulation: tables of controls, a policy, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, SupportsIndex, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import as_array, instance, names, whole_number
from .._core.array import clamped, sum_rows
from .._core.errors import UnknownNameError
from .._core.jit import compiled
from ..forces.actuators.drive import actuators_of
from ..model import Model
from .control import Control, Controls
from .state import State
from .systems import Simulated, tree_of


#: Controls of the actuators, or generalized forces, for every step; or a policy, which is asked at the start of every step:
#: `(t, state) -> control`, or, if it has a memory, `(t, state, memory) -> (control, memory)`; or none.
Driving: TypeAlias = Controls | Float[Array, "steps nv"] | Callable[..., Any] | None


class Actuation(eqx.Module):
    """Which joints generalized forces are for: they are then efforts of those alone, in the order of `joints`.

    - `joints`: by name; by default all.
    - `limits`: whether efforts are cut off at the model's `effort_limit`.

    >>> model = rbd.load("cartpole")
    >>> cart_only = rbd.Actuation("slide")
    >>> print(cart_only.effort(model, jnp.array([3.0])))
    [3. 0.]
    """

    joints: tuple[str, ...] | None = eqx.field(static=True)
    limits: bool = eqx.field(static=True)

    def __init__(self, joints: str | Sequence[str] | None = None, limits: bool = False):
        self.joints = None if joints is None else names("Actuation", "joints", joints)
        given = self.joints or ()
        if twice := [joint for joint in given if given.count(joint) > 1]:
            raise ValueError(f"Actuation: joint {twice[0]!r} is named twice; it has one motor")
        if not isinstance(limits, bool):
            raise ValueError(f"Actuation: limits is {limits!r}; it is True or False")
        self.limits = limits

    def dof(self, model: Model) -> np.ndarray:
        """The entries of tau that controls are for."""
        if self.joints is None:
            return np.arange(model.nv)
        try:
            return np.concatenate([np.arange(model.nv)[model.v_slice(joint)] for joint in self.joints])
        except (UnknownNameError, ValueError) as error:
            raise type(error)(f"Actuation: joints: {error}") from None

    def effort(self, model: Model, controls: Float[Array, "nu"]) -> Float[Array, "nv"]:
        """`tau`: the controls where there are motors, zero elsewhere."""
        dof = self.dof(model)
        if self.limits:
            most = model.effort_limit[dof].astype(controls.dtype)
            controls = clamped(controls, -most, most)
        return sum_rows(controls, dof, model.nv)


class Driver(NamedTuple):
    """How to get the controls of a step, and what of them comes with the step.

    `ask(t, state, given, memory)` returns them in full, u and tau, and what the policy remembers.
    """

    ask: Callable[[Float[Array, ""], State, Any, Any], tuple[Control, Any]]
    inputs: Any
    memory: Any
    steps: int


def driver(
    owner: str,
    model: Simulated,
    controls: Driving,
    steps: SupportsIndex | None,
    actuation: Actuation | None,
    memory: Any,
    dt: Float[Array, ""],
) -> Driver:
    """The controls of a rollout, checked."""
    size, spread, dtype = model.nv, lambda tau: tau, dt.dtype
    if actuation is not None:
        instance(owner, "actuation", actuation, Actuation, "an Actuation: rbd.Actuation(joints=[...])")
        if not isinstance(model, Model):
            raise ValueError(
                f"{owner}: actuation is for a Model; the controls of the reduced model {model.name!r} act along its variables"
            )
        size, spread = len(actuation.dof(model)), lambda tau: actuation.effort(model, tau)
    wide = _Widths(owner, model.name, tree_of(model).nu, size, model.nv, dtype, spread)
    unsaid, steps = steps is None, _count(owner, controls, steps)
    if memory is not None and not callable(controls):
        given = "None" if controls is None else "an array"
        raise ValueError(
            f"{owner}: memory is for a policy (t, state, memory) -> (tau, memory), and controls is {given}"
        )
    if controls is None:
        return Driver(lambda t, state, given, memory: (wide.full(Controls(None)), memory), (), None, steps)
    if not callable(controls):
        table = wide.checked(controls, "controls", (steps,), "steps" if unsaid else str(steps))
        if table.u is not None:
            table = Controls(arriving(tree_of(model), table.u, dt), table.tau)
        return Driver(lambda t, state, given, memory: (wide.full(given), memory), table, None, steps)

    def told(value):
        checked = wide.checked(value, "the result of controls")
        refuse_delays(owner, model, checked)
        return wide.full(checked)

    if memory is None:
        return Driver(lambda t, state, given, memory: (told(controls(t, state)), memory), (), None, steps)
    memory = jax.tree.map(jnp.asarray, memory)

    def remembering(t, state, given, memory):
        result = controls(t, state, memory)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ValueError(
                f"{owner}: with a memory, controls returns a pair (tau, memory); it returned a {type(result).__name__}"
            )
        return told(result[0]), _like(owner, memory, result[1])

    return Driver(remembering, (), memory, steps)


@compiled
def arriving(
    model: Model, u: Float[Array, "rows nu"], dt: Float[Array, ""], before: float = 0.0
) -> Float[Array, "rows nu"]:
    """What reaches the actuators of a model in each of some steps, of what they are told in these: the mean over the step of
    what was told earlier by their `delay`, each row held until the next. It is linear in the delay from step to step.

    - `before`: what is beyond the rows; actuators are told zero before they are told anything.
    """
    delays = [one.delay for one in actuators_of(model)]
    late = [i for i, delay in enumerate(delays) if delay is not None]
    if not late:
        return u
    count = len(u)
    # Slices, which are contiguous: rows gathered one by one came out as zeros of the loop over them, on XLA's CPU.
    beyond = jnp.full(count + 1, before, u.dtype)

    def delayed(column, steps):
        whole = jnp.floor(steps)
        rows = jnp.concatenate([beyond, column, beyond])
        first = count - jnp.clip(whole, -count - 1, count).astype(jnp.int32)
        earlier = jax.lax.dynamic_slice_in_dim(rows, first, count + 1)
        return earlier[1:] + (steps - whole) * (earlier[:-1] - earlier[1:])

    steps = jnp.stack([delay for delay in delays if delay is not None]).astype(u.dtype) / dt
    columns = jax.vmap(delayed, in_axes=(1, 0), out_axes=1)(u[:, np.array(late)], steps)
    return u.at[:, np.array(late)].set(columns)


def refuse_delays(owner: str, model: Simulated, given) -> None:
    """Where it is not known what actuators were told before."""
    if not isinstance(given, Controls) or given.u is None:
        return
    late = [one.name for one in actuators_of(tree_of(model)) if one.delay is not None]
    if late:
        raise ValueError(
            f"{owner}: actuator {late[0]!r} of model {model.name!r} has a delay, and what it was told before is not known here; "
            "rbd.rollout of a table, rbd.Controls(u) with a row for each step, knows. Or take an actuator with delay=None, and "
            "tell it later"
        )


def control_of(owner: str, model: Simulated, given, dtype) -> Control:
    """The control of one step as it is given, or none, in full."""
    wide = _Widths(owner, model.name, tree_of(model).nu, model.nv, model.nv, dtype, lambda tau: tau)
    return wide.full(Controls(None) if given is None else wide.checked(given, "tau"))


def _like(owner: str, before, after):
    """What a policy remembers next, if it is of the same structure and shapes as before."""
    if jax.tree.structure(before) != jax.tree.structure(after):
        raise ValueError(
            f"{owner}: the policy was given a memory {jax.tree.structure(before)} and returned {jax.tree.structure(after)}"
        )

    def leaf(old, new):
        if jnp.shape(new) != old.shape:
            raise ValueError(
                f"{owner}: the policy was given a memory of shape {old.shape} and returned {jnp.shape(new)}"
            )
        return jnp.asarray(new).astype(old.dtype)

    return jax.tree.map(leaf, before, after)


class _Widths(NamedTuple):
    """How many numbers controls have, of actuators (`nu`) and of generalized forces, and how the latter are spread over all."""

    owner: str
    model: str
    nu: int
    size: int
    nv: int
    dtype: Any
    spread: Callable

    def checked(self, given, name: str, rows: tuple[int, ...] = (), counted: str = "") -> Controls:
        """Of one step, or of as many as `rows` says (and `counted` in words), in the precision of the state; an array is tau."""
        if not isinstance(given, Controls):
            return Controls(None, self._of_shape(given, name, (*rows, self.size), self._tau, rows, counted))
        u = self._of_shape(given.u, f"u of {name}", (*rows, self.nu), "nu", rows, counted)
        if given.tau is None:
            return Controls(u)
        return Controls(
            u, self._of_shape(given.tau, f"tau of {name}", (*rows, self.size), self._tau, rows, counted)
        )

    def full(self, given: Controls) -> Control:
        """With zeros for what is not given."""
        u = jnp.zeros(self.nu, self.dtype) if given.u is None else given.u
        tau = jnp.zeros(self.nv, self.dtype) if given.tau is None else self.spread(given.tau)
        return Control(u, tau)

    @property
    def _tau(self) -> str:
        return "nv" if self.size == self.nv else "nu"

    def _of_shape(
        self, value, name: str, shape: tuple[int, ...], wanted: str, rows, counted: str
    ) -> Float[Array, "..."]:
        array = as_array(self.owner, name, value, f"an array of {wanted} = {shape[-1]} real numbers")
        if array.shape != shape or 0 in rows:
            expected = f"({counted}, {wanted})" if rows else f"({wanted},)"
            expected = f"{expected} with {wanted} = {shape[-1]}"
            hint = "; controls of its actuators are rbd.Controls(u)" if self._meant(array, wanted) else ""
            raise ValueError(
                f"{self.owner}: {name} has shape {array.shape}; for model {self.model!r} it must be {expected}{hint}"
            )
        return array.astype(self.dtype)

    def _meant(self, array, wanted: str) -> bool:
        """Whether an array that does not fit as tau would as u."""
        return wanted != "nu" and self.nu > 0 and array.shape[-1:] == (self.nu,)


def _count(owner: str, controls: Driving, steps: SupportsIndex | None) -> int:
    """The number of steps: as it is given, or that of the rows of a table."""
    steps = None if steps is None else whole_number(owner, "steps", steps)
    given = controls.u if isinstance(controls, Controls) else controls
    if given is None or callable(given):
        if steps is None:
            raise ValueError(f"{owner}: steps is missing; it is needed where controls is not an array")
        return steps
    shape = jnp.shape(given)
    return steps if steps is not None else shape[0] if len(shape) == 2 else 1
