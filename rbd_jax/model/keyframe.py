"""Named states of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import names, number
from .._core.errors import ModelError
from ..spatial import Reference, no_frames
from ..spatial.attached import Attached
from ..spatial.transform import Transform
from .configuration import neutral
from .model import Model


class Keyframe(Attached):
    """A named state of a model: positions and velocities of its joints, and controls and activations of its actuators.

    - `q`, `v`: arrays of nq and nv of some joints, by name; the other joints are neutral and at rest.
    - `controls`, `activations`: values of some actuators, by name; by default zero, and the initial state of the actuator.
    - `time`: the time of the state.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.Keyframe("folded", {"elbow": jnp.pi}))
    >>> print(rbd.keyframe(model, "folded").q)
    [0.    3.142]
    """

    name: str = eqx.field(static=True)
    joints: tuple[str, ...] = eqx.field(static=True)
    q: tuple[Float[Array, "nq"] | None, ...]
    v: tuple[Float[Array, "nv"] | None, ...]
    actuators: tuple[str, ...] = eqx.field(static=True)
    controls: tuple[Float[Array, ""] | None, ...]
    activations: tuple[Float[Array, "own"] | None, ...]
    time: Float[Array, ""]

    role = "keyframe"
    scalar_joints = False
    bodies = ()

    def __init__(
        self,
        name: str,
        q: Mapping[str, Any],
        v: Mapping[str, Any] | None = None,
        *,
        controls: Mapping[str, Any] | None = None,
        activations: Mapping[str, Any] | None = None,
        time: Any = 0.0,
    ):
        v, controls, activations = v or {}, controls or {}, activations or {}
        (self.name,) = names("Keyframe", "name", name, 1)
        self.joints = tuple(dict.fromkeys([*q, *v]))
        self.actuators = tuple(dict.fromkeys([*controls, *activations]))
        owner = f"Keyframe {name!r}"
        self.q = tuple(_array(owner, f"q of {joint!r}", q.get(joint)) for joint in self.joints)
        self.v = tuple(_array(owner, f"v of {joint!r}", v.get(joint)) for joint in self.joints)
        self.controls = tuple(
            None if controls.get(one) is None else number(owner, f"control of {one!r}", controls[one])
            for one in self.actuators
        )
        self.activations = tuple(
            _array(owner, f"activation of {one!r}", activations.get(one)) for one in self.actuators
        )
        self.time = number(owner, "time", time)

    @property
    def frames(self) -> Transform:
        return no_frames()

    @property
    def refers(self):
        return tuple(Reference("actuator", name) for name in self.actuators)

    def called(self, name, refers):
        return self.changed(name=name, actuators=tuple(reference.name for reference in refers))

    def attached(self, bodies, frames, joints):
        return self.changed(joints=tuple(joints))

    def locked(self, joints):
        left = [i for i, joint in enumerate(self.joints) if joint not in joints]
        q, v, kept = (tuple(x[i] for i in left) for x in (self.q, self.v, self.joints))
        return self.changed(joints=kept, q=q, v=v)

    def without(self, gone):
        left = [i for i, reference in enumerate(self.refers) if reference not in gone]
        kept = {x: tuple(getattr(self, x)[i] for i in left) for x in ("actuators", "controls", "activations")}
        return self.changed(**kept)

    def configuration(self, model: Model) -> Float[Array, "nq"]:
        """Returns q for the model that carries the keyframe."""
        return self._filled(model, neutral(model), self.q, model.q_slice, "q")

    def velocity(self, model: Model) -> Float[Array, "nv"]:
        """Returns v for the model that carries the keyframe."""
        return self._filled(model, jnp.zeros(model.nv, model.dtype), self.v, model.v_slice, "v")

    def _filled(self, model, x, values, place, what):
        for joint, value in zip(self.joints, values, strict=True):
            if value is None:
                continue
            own = place(joint)
            if value.shape != (own.stop - own.start,):
                raise ModelError(
                    f"Keyframe {self.name!r}: {what} of joint {joint!r} has {value.size} numbers; the joint has "
                    f"n{what} = {own.stop - own.start}"
                )
            x = x.at[own].set(value.astype(x.dtype))
        return x


def _array(owner: str, what: str, value) -> Array | None:
    """Returns a value as an array with one axis, or None."""
    if value is None:
        return None
    shape = np.shape(value)
    return number(owner, what, value, shape if len(shape) == 1 else ()).reshape(-1)
