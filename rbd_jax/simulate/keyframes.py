"""Keyframes of a model: named states, and the controls of its actuators in them."""

from __future__ import annotations

import jax.numpy as jnp

from .._core.arguments import a_model
from ..forces import activation_places, carried_forces
from ..forces.own_state import own_states
from ..model import Keyframe, Model
from .control import Controls
from .state import State


def keyframe(model: Model, name: str) -> State:
    """Returns the state of a keyframe of a model.

    Args:
      model: The model.
      name: The name of the keyframe.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.Keyframe("up", {"shoulder": [3.0]}))
    >>> rbd.keyframe(model, "up")
    State(q=[3 0], v=[0 0])
    """
    known = _found("keyframe", model, name)
    own = own_states(carried_forces(model)).astype(model.dtype)
    for actuator, value in zip(known.actuators, known.activations, strict=True):
        if value is not None:
            own = own.at[activation_places(model)[actuator]].set(value[0].astype(own.dtype))
    return State(known.configuration(model), known.velocity(model), own)


def keyframe_controls(model: Model, name: str) -> Controls:
    """Returns the controls of a model's actuators in a keyframe; zero for actuators that it does not list.

    Args:
      model: The model.
      name: The name of the keyframe.

    >>> motor = rbd.actuators.Motor("motor", "elbow")
    >>> model = rbd.attach(rbd.load("double_pendulum"), motor, rbd.Keyframe("up", {}, controls={"motor": 0.5}))
    >>> print(rbd.keyframe_controls(model, "up").u)
    [0.5]
    """
    known = _found("keyframe_controls", model, name)
    u, place = jnp.zeros(model.nu, model.dtype), {one.name: i for i, one in enumerate(model.actuators)}
    for actuator, value in zip(known.actuators, known.controls, strict=True):
        if value is not None:
            u = u.at[place[actuator]].set(value.astype(u.dtype))
    return Controls(u)


def _found(owner: str, model: Model, name: str) -> Keyframe:
    a_model(owner, model)
    return model.named("keyframe", name)  # pyright: ignore[reportReturnType]
