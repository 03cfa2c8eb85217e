"""The controls of a simulation: tables, a policy, or None."""

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


#: Controls of the actuators, or generalized forces, for every step; or a policy, evaluated at the start of every step:
#: `(t, state) -> control`, or with a memory `(t, state, memory) -> (control, memory)`; or None.
Driving: TypeAlias = Controls | Float[Array, "steps nv"] | Callable[..., Any] | None


class Actuation(eqx.Module):
    """The joints that generalized forces act on; controls are then the efforts of these joints alone, in the order of `joints`.

    - `joints`: names of joints; all joints by default.
    - `limits`: whether efforts are clipped to the model's `effort_limit`.

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
            raise ValueError(f"Actuation: joint {twice[0]!r} is named twice; name each joint once")
        if not isinstance(limits, bool):
            raise ValueError(f"Actuation: limits must be True or False, got {limits!r}")
        self.limits = limits

    def dof(self, model: Model) -> np.ndarray:
        """Returns the indices of tau that the controls act on."""
        if self.joints is None:
            return np.arange(model.nv)
        try:
            return np.concatenate([np.arange(model.nv)[model.v_slice(joint)] for joint in self.joints])
        except (UnknownNameError, ValueError) as error:
            raise type(error)(f"Actuation: joints: {error}") from None

    def effort(self, model: Model, controls: Float[Array, "nu"]) -> Float[Array, "nv"]:
        """Returns `tau`: the controls at actuated joints, zero elsewhere."""
        dof = self.dof(model)
        if self.limits:
            most = model.effort_limit[dof].astype(controls.dtype)
            controls = clamped(controls, -most, most)
        return sum_rows(controls, dof, model.nv)


class Driver(NamedTuple):
    """The source of the controls in a rollout.

    - `ask`: a function `(t, state, given, memory)`; it returns the complete control, u and tau, and the new memory of the policy.
    - `inputs`: the table of controls; its rows are `given` step by step.
    - `memory`: the initial memory of the policy.
    - `steps`: the number of steps.
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
    """Checks the controls of a rollout and returns their source.

    Args:
      owner: Name of the calling function, for messages.
      model: The model.
      controls: A table, a policy, or None.
      steps: The number of steps; None to take it from the table.
      actuation: The joints that generalized forces act on; None for all.
      memory: The initial memory of a policy, or None.
      dt: Length of a step.
    """
    size, spread, dtype = model.nv, lambda tau: tau, dt.dtype
    if actuation is not None:
        instance(owner, "actuation", actuation, Actuation, "an Actuation: rbd.Actuation(joints=[...])")
        if not isinstance(model, Model):
            raise ValueError(
                f"{owner}: actuation needs a Model; the controls of the reduced model {model.name!r} act along its variables"
            )
        size, spread = len(actuation.dof(model)), lambda tau: actuation.effort(model, tau)
    wide = _Widths(owner, model.name, tree_of(model).nu, size, model.nv, dtype, spread)
    unsaid, steps = steps is None, _count(owner, controls, steps)
    if memory is not None and not callable(controls):
        given = "None" if controls is None else "an array"
        raise ValueError(
            f"{owner}: memory needs a policy (t, state, memory) -> (tau, memory), but controls is {given}"
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
                f"{owner}: with a memory, controls must return a pair (tau, memory), got a {type(result).__name__}"
            )
        return told(result[0]), _like(owner, memory, result[1])

    return Driver(remembering, (), memory, steps)


@compiled
def arriving(
    model: Model, u: Float[Array, "rows nu"], dt: Float[Array, ""], before: float = 0.0
) -> Float[Array, "rows nu"]:
    """Returns the delayed controls that reach the actuators of a model in each step.

    Each row holds until the next one. A delayed control is the mean over the step of the commands from `delay` seconds
    earlier. It is piecewise linear in the delay, between whole numbers of steps.

    Args:
      model: The model.
      u: The commands, one row per step.
      dt: Length of a step.
      before: The commands before the first and after the last row.
    """
    delays = [one.delay for one in actuators_of(model)]
    late = [i for i, delay in enumerate(delays) if delay is not None]
    if not late:
        return u
    count = len(u)
    # Contiguous slices: on XLA's CPU backend, rows gathered individually became zeros inside the loop over them.
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
    """Raises an error if an actuator has a delay, because earlier commands are unknown here."""
    if not isinstance(given, Controls) or given.u is None:
        return
    late = [one.name for one in actuators_of(tree_of(model)) if one.delay is not None]
    if late:
        raise ValueError(
            f"{owner}: actuator {late[0]!r} of model {model.name!r} has a delay, and its earlier commands are not known here; "
            "pass a table to rbd.rollout, rbd.Controls(u) with a row for each step, or use an actuator with delay=None and "
            "delay its commands"
        )


def control_of(owner: str, model: Simulated, given, dtype) -> Control:
    """Returns the complete control of one step from the given one, or from None."""
    wide = _Widths(owner, model.name, tree_of(model).nu, model.nv, model.nv, dtype, lambda tau: tau)
    return wide.full(Controls(None) if given is None else wide.checked(given, "tau"))


def _like(owner: str, before, after):
    """Returns the new memory of a policy, after a check that it has the structure and shapes of the old one."""
    if jax.tree.structure(before) != jax.tree.structure(after):
        raise ValueError(
            f"{owner}: the policy received a memory {jax.tree.structure(before)} and returned {jax.tree.structure(after)}"
        )

    def leaf(old, new):
        if jnp.shape(new) != old.shape:
            raise ValueError(
                f"{owner}: the policy received a memory of shape {old.shape} and returned {jnp.shape(new)}"
            )
        return jnp.asarray(new).astype(old.dtype)

    return jax.tree.map(leaf, before, after)


class _Widths(NamedTuple):
    """The sizes of controls: `nu` for actuators, `size` for generalized forces, which `spread` maps to all degrees of freedom."""

    owner: str
    model: str
    nu: int
    size: int
    nv: int
    dtype: Any
    spread: Callable

    def checked(self, given, name: str, rows: tuple[int, ...] = (), counted: str = "") -> Controls:
        """Returns checked controls in the precision of the state; an array is tau.

        Args:
          given: The controls.
          name: Their name in messages.
          rows: Leading shape: empty for one step, else the number of steps.
          counted: The leading shape in messages.
        """
        if not isinstance(given, Controls):
            return Controls(None, self._of_shape(given, name, (*rows, self.size), self._tau, rows, counted))
        u = self._of_shape(given.u, f"u of {name}", (*rows, self.nu), "nu", rows, counted)
        if given.tau is None:
            return Controls(u)
        return Controls(
            u, self._of_shape(given.tau, f"tau of {name}", (*rows, self.size), self._tau, rows, counted)
        )

    def full(self, given: Controls) -> Control:
        """Returns the control with zeros for missing parts."""
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
        """Returns whether an array that does not fit as tau would fit as u."""
        return wanted != "nu" and self.nu > 0 and array.shape[-1:] == (self.nu,)


def _count(owner: str, controls: Driving, steps: SupportsIndex | None) -> int:
    """Returns the number of steps: the given one, or the number of rows of a table."""
    steps = None if steps is None else whole_number(owner, "steps", steps)
    given = controls.u if isinstance(controls, Controls) else controls
    if given is None or callable(given):
        if steps is None:
            raise ValueError(f"{owner}: steps is missing; it is required if controls is not an array")
        return steps
    shape = jnp.shape(given)
    return steps if steps is not None else shape[0] if len(shape) == 2 else 1
