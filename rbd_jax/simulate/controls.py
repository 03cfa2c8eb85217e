"""What drives a simulation: a table of efforts, a policy, or nothing; on all joints or on some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, SupportsIndex, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._arguments import as_array, instance, names, whole_number
from .._array import sum_rows
from .._errors import UnknownNameError
from ..model import Model
from .state import State
from .systems import Simulated


#: Efforts for every step; or a policy, which is asked at the start of every step: `(t, state) -> effort`, or, if it has a memory,
#: `(t, state, memory) -> (effort, memory)`; or none.
Controls: TypeAlias = Float[Array, "steps nu"] | Callable[..., Any] | None


class Actuation(eqx.Module):
    """Which joints have a motor, so that controls are efforts of those alone: (nu,), in the order of `joints`.

    - `joints`: by name; by default all.
    - `limits`: whether efforts are cut off at the model's `effort_limit`.
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
            controls = jnp.clip(controls, -most, most)
        return sum_rows(controls, dof, model.nv)


class Driver(NamedTuple):
    """How to get the efforts of a step, and what of them comes with the step.

    `ask(t, state, given, memory)` returns tau and what the policy remembers.
    """

    ask: Callable[[Float[Array, ""], State, Any, Any], tuple[Float[Array, "nv"], Any]]
    inputs: Any
    memory: Any
    steps: int


def driver(
    owner: str,
    model: Simulated,
    controls: Controls,
    steps: SupportsIndex | None,
    actuation: Actuation | None,
    memory: Any,
    dtype,
) -> Driver:
    """The controls of a rollout, checked."""
    size, spread = model.nv, lambda u: u
    if actuation is not None:
        instance(owner, "actuation", actuation, Actuation, "an Actuation: rbd.Actuation(joints=[...])")
        if not isinstance(model, Model):
            raise ValueError(
                f"{owner}: actuation is for a Model; the controls of the reduced model {model.name!r} act along its variables"
            )
        size, spread = len(actuation.dof(model)), lambda u: actuation.effort(model, u)
    wanted = "nv" if size == model.nv else "nu"
    steps = _count(owner, model, controls, steps, size, wanted)
    if memory is not None and not callable(controls):
        given = "None" if controls is None else "an array"
        raise ValueError(
            f"{owner}: memory is for a policy (t, state, memory) -> (tau, memory), and controls is {given}"
        )
    if controls is None:
        return Driver(lambda t, state, given, memory: (jnp.zeros(model.nv, dtype), memory), (), None, steps)
    if not callable(controls):
        table = as_array(owner, "controls", controls, "real numbers").astype(dtype)
        return Driver(lambda t, state, given, memory: (spread(given), memory), table, None, steps)

    def effort(value):
        u = as_array(owner, "the result of controls", value, f"an array ({wanted},) with {wanted} = {size}")
        if u.shape != (size,):
            raise ValueError(
                f"{owner}: the result of controls has shape {u.shape}; for model {model.name!r} it must be ({wanted},) with "
                f"{wanted} = {size}"
            )
        return spread(u.astype(dtype))

    if memory is None:
        return Driver(lambda t, state, given, memory: (effort(controls(t, state)), memory), (), None, steps)
    memory = jax.tree.map(jnp.asarray, memory)

    def remembering(t, state, given, memory):
        result = controls(t, state, memory)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ValueError(
                f"{owner}: with a memory, controls returns a pair (tau, memory); it returned a {type(result).__name__}"
            )
        return effort(result[0]), _like(owner, memory, result[1])

    return Driver(remembering, (), memory, steps)


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


def _count(
    owner: str, model: Simulated, controls: Controls, steps: SupportsIndex | None, size: int, wanted: str
) -> int:
    steps = None if steps is None else whole_number(owner, "steps", steps)
    if controls is None or callable(controls):
        if steps is None:
            raise ValueError(f"{owner}: steps is missing; it is needed where controls is not an array")
        return steps
    shape = jnp.shape(controls)
    if len(shape) != 2 or shape[1] != size or shape[0] == 0 or (steps is not None and shape[0] != steps):
        expected = f"({'steps' if steps is None else steps}, {wanted}) with {wanted} = {size}"
        raise ValueError(
            f"{owner}: controls has shape {shape}; for model {model.name!r} it must be {expected}"
        )
    return shape[0]
