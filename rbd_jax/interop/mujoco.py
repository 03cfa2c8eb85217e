"""Conversion between this library's conventions and MuJoCo's.

Configurations have the same values (`q = [x y z, w x y z]` for a free joint, `w x y z` for a ball), possibly in another
order of joints. Velocities differ only at free joints. MuJoCo has `qvel = [ṙ; ω]`: the rate of the position in the axes of
the world, and the angular velocity in the axes of the body. This library has `v = [ω; v]`, both in the axes of the body,
with `ṙ = R v`. It follows that `r̈ = R (v̇ + ω × v)`. Forces are dual: `f_world = R f`.

A complete state includes the activations of actuators. Sensor readings are converted to MuJoCo's order.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import joints
from .._core.array import cross, is_known, matvec, pick, transpose
from .._core.errors import ModelError
from ..files.mjcf import actuator_names, control_place, joint_names, sensor_names
from ..files.writing.series import BALL, SLIDE, TURN, Part, in_series, part_names
from ..forces import activation_places, carried_forces
from ..forces.own_state import own_states
from ..lie import quaternion
from ..model import Model
from ..sensors import Readings
from ..sensors.sensing import sensors_of
from ..simulate.control import Controls
from ..simulate.state import State
from ._match import inverse, mismatch, pairs, put, sample, table


#: The joint types for MuJoCo's `jnt_type`: free, ball, slide, hinge.
TYPES = (joints.Free, joints.Spherical, joints.Prismatic, joints.Revolute)

#: The joint types of the parts of a joint that MuJoCo has as several joints.
PARTS = {TURN: joints.Revolute, SLIDE: joints.Prismatic, BALL: joints.Spherical}


class MujocoMap:
    """Converts states of `model` to those of a `mujoco.MjModel` of the same robot, and back.

    Joints are matched by name; `names={"ours": "theirs"}` matches joints whose names differ. A joint that is several joints
    in MuJoCo (a `Universal`, a `Composite` of hinges) is matched with the joints `joint:1`, `joint:2` that `rbd.to_mjcf`
    writes for it. Free joints must attach to the world with the identity as placement, as those of `load_mjcf` and
    `load_urdf` do.

    >>> import mujoco
    >>> model = rbd.load("cartpole")
    >>> theirs = mujoco.MjModel.from_xml_string(rbd.to_mjcf(model))
    >>> between = rbd.interop.MujocoMap(model, theirs)
    >>> print(between.configuration(jnp.array([0.5, 0.1])), between.velocity(jnp.array([0.5, 0.1]), jnp.array([1.0, 2.0])))
    [0.5 0.1] [1. 2.]
    """

    def __init__(self, model: Model, mj_model: Any, names: Mapping[str, str] | None = None):
        self.nq, self.nv = model.nq, model.nv
        if self.nv != mj_model.nv:
            raise ModelError(
                f"model {model.name!r} has nv = {self.nv}, the MuJoCo model {mj_model.nv}: one of them has a "
                "floating base, locked joints or coupled mimic joints that the other does not have"
            )
        theirs = {name: index for index, name in enumerate(joint_names(mj_model))}
        order_q, order_v, free = np.zeros(self.nq, int), np.zeros(self.nv, int), []
        parts = _parts(model)
        for body, name in pairs(model, list(theirs), names, "MuJoCo", lambda body: list(parts[body])):
            index = theirs[name]
            kind = TYPES[int(mj_model.jnt_type[index])]
            part = parts[body].get(name)
            if (type(model.joint(body)) if part is None else PARTS[part.kind]) is not kind:
                raise mismatch(model, body, "MuJoCo", f"a {kind.__name__}")
            q, v = model.topology.joint_q(body), model.topology.joint_v(body)
            if part is not None:
                q, v = q[list(part.q)], v[list(part.v)]
            order_q[mj_model.jnt_qposadr[index] + np.arange(len(q))] = q
            if kind is joints.Free:
                _check_placement(model, body)
                free.append((q[3:], mj_model.jnt_dofadr[index] + np.arange(6)))
                v = np.concatenate([v[3:], v[:3]])
            order_v[mj_model.jnt_dofadr[index] + np.arange(len(v))] = v
        self._order_q, self._back_q = order_q, inverse(order_q)
        self._order_v, self._back_v = order_v, inverse(order_v)
        self._quaternions = table([q for q, _ in free], 4)
        self._linear = table([v[:3] for _, v in free], 3)
        self._angular = table([v[3:] for _, v in free], 3)
        self._name, self._sensors = model.name, sensors_of(model)
        self._sensor_rows = _sensor_rows(mj_model)
        self._nsensordata = int(mj_model.nsensordata)
        self._own = own_states(carried_forces(model))
        self._controls, self._activations = _actuator_places(model, mj_model)
        self._nu, self._na = int(mj_model.nu), int(mj_model.na)

    # Whole states.

    def state(self, data: Any) -> State:
        """Returns the state of a `mujoco.MjData`, with the activations of its actuators."""
        q, own = self.configuration_from(np.array(data.qpos)), self._own
        for ours, theirs in self._activations:
            own = own.at[ours].set(float(data.act[theirs]))
        return State(q, self.velocity_from(q, np.array(data.qvel)), own)

    def controls(self, ctrl) -> Controls:
        """Returns the controls of the model's actuators from MuJoCo's `ctrl`."""
        given = sample("MujocoMap.controls", "ctrl", ctrl, self._nu)
        return Controls(jnp.concatenate([given, jnp.zeros(1, given.dtype)])[self._controls])

    def ctrl(self, controls: Controls) -> Float[Array, "nu"]:
        """Returns MuJoCo's `ctrl`, with zeros for actuators that are missing in the model."""
        u = sample("MujocoMap.ctrl", "controls.u", controls.u, len(self._controls))
        order = np.full(self._nu, len(u))
        known = self._controls < self._nu
        order[self._controls[known]] = np.flatnonzero(known)
        return jnp.concatenate([u, jnp.zeros(1, u.dtype)])[order]

    def to_data(self, state: State, data: Any, tau=None, *, time=None) -> None:
        """Writes a state to a `mujoco.MjData`, with the control and the time if they are given.

        Call `mujoco.mj_forward(mj_model, data)` afterwards to compute the quantities that depend on them.

        Args:
          state: The state.
          data: The `mujoco.MjData` to write to.
          tau: A generalized force, or `rbd.Controls` of the actuators.
          time: The time, in s.
        """
        own = self._own if state.own is None else state.own
        for ours, theirs in self._activations:
            data.act[theirs] = float(own[ours])
        if isinstance(tau, Controls):
            data.ctrl[:] = self.ctrl(tau)
            tau = tau.tau
        data.qpos[:] = self.configuration(state.q)
        data.qvel[:] = self.velocity(state.q, state.v)
        if tau is not None:
            data.qfrc_applied[:] = self.force(state.q, tau)
        if time is not None:
            data.time = float(time)

    def sensordata(self, readings: Readings) -> Float[Array, "nsensordata"]:
        """Returns MuJoCo's `sensordata` in its order of sensors, with NaN for sensors that are missing in the model."""
        read = sample("MujocoMap.sensordata", "readings.vector", readings.vector, sum(readings.sizes))
        order = np.full(self._nsensordata, len(read))
        for name in readings:
            if name in self._sensor_rows:
                order[self._sensor_rows[name]] = np.arange(len(read))[readings.place(name)]
        return jnp.concatenate([read, jnp.full(1, jnp.nan, read.dtype)])[order]

    def readings(self, sensordata) -> Readings:
        """Returns the readings of the model's sensors from `sensordata`, with NaN for sensors that MuJoCo's model lacks."""
        given = sample("MujocoMap.readings", "sensordata", sensordata, self._nsensordata)
        rows = []
        for one in self._sensors:
            own = self._sensor_rows.get(one.name, np.full(one.size, len(given)))
            if len(own) != one.size:
                raise ModelError(
                    f"sensor {one.name!r} of model {self._name!r} reads {one.size} numbers; in the MuJoCo model it reads "
                    f"{len(own)}"
                )
            rows.append(own)
        order = np.concatenate([*rows, np.zeros(0, int)]).astype(int)
        return Readings.of(self._sensors, jnp.concatenate([given, jnp.full(1, jnp.nan, given.dtype)])[order])

    # Single quantities.

    def configuration(self, q) -> Float[Array, "nq"]:
        """Returns MuJoCo's `qpos`. Quaternions are not normalized; MuJoCo normalizes them."""
        return pick(sample("MujocoMap.configuration", "q", q, self.nq), self._order_q)

    def configuration_from(self, qpos) -> Float[Array, "nq"]:
        """Returns the configuration q from `qpos`."""
        return pick(sample("MujocoMap.configuration_from", "qpos", qpos, self.nq), self._back_q)

    def velocity(self, q, v) -> Float[Array, "nv"]:
        """Returns MuJoCo's `qvel` at configuration q."""
        return self._to_theirs(q, sample("MujocoMap.velocity", "v", v, self.nv))

    def velocity_from(self, q, qvel) -> Float[Array, "nv"]:
        """Returns the velocity v at configuration q from `qvel`."""
        return self._to_ours(q, sample("MujocoMap.velocity_from", "qvel", qvel, self.nv))

    def acceleration(self, q, v, a) -> Float[Array, "nv"]:
        """Returns MuJoCo's `qacc` at configuration q and velocity v."""
        a = sample("MujocoMap.acceleration", "a", a, self.nv)[self._order_v]
        return self._turned(self._rotations(q), a + self._carried(v))

    def acceleration_from(self, q, v, qacc) -> Float[Array, "nv"]:
        """Returns the acceleration at configuration q and velocity v from `qacc`."""
        turned = self._turned(
            transpose(self._rotations(q)), sample("MujocoMap.acceleration_from", "qacc", qacc, self.nv)
        )
        return (turned - self._carried(v))[self._back_v]

    def force(self, q, tau) -> Float[Array, "nv"]:
        """Returns MuJoCo's generalized force (`qfrc_...`) of equal power, at configuration q."""
        return self._to_theirs(q, sample("MujocoMap.force", "tau", tau, self.nv))

    def force_from(self, q, qfrc) -> Float[Array, "nv"]:
        """Returns the generalized force at configuration q from MuJoCo's."""
        return self._to_ours(q, sample("MujocoMap.force_from", "qfrc", qfrc, self.nv))

    def velocity_matrix(self, q) -> Float[Array, "nv nv"]:
        """Returns the matrix T with `qvel = T v`.

        With MuJoCo's Jacobian J and mass matrix M, those of this library are `J T` and `Tᵀ M T`.
        """
        q = sample("MujocoMap.velocity_matrix", "q", q, self.nq)
        return jax.vmap(lambda column: self.velocity(q, column), out_axes=1)(jnp.eye(self.nv, dtype=q.dtype))

    @functools.cached_property
    def _to_theirs(self):
        """A function that converts a vector over degrees of freedom to MuJoCo's order and axes, at a configuration."""
        return jax.jit(lambda q, x: self._turned(self._rotations(q), x[self._order_v]))

    @functools.cached_property
    def _to_ours(self):
        return jax.jit(lambda q, x: self._turned(transpose(self._rotations(q)), x)[self._back_v])

    def _rotations(self, q):
        return quaternion.to_matrix(sample("MujocoMap", "q", q, self.nq)[self._quaternions])

    def _turned(self, rotations, x):
        """Returns `x`, in MuJoCo's order, with the linear parts at free joints rotated."""
        return put(x, self._linear, matvec(rotations, x[self._linear]))

    def _carried(self, v):
        """Returns `ω × v` at the linear entries of free joints, in MuJoCo's order, and zero elsewhere."""
        v = sample("MujocoMap", "v", v, self.nv)[self._order_v]
        return put(jnp.zeros_like(v), self._linear, cross(v[self._angular], v[self._linear]))


def _actuator_places(model: Model, mj_model) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Returns the index in `ctrl` of each actuator, and pairs of indices of internal states and of `act`.

    The index is beyond the end of `ctrl` for actuators that are missing in MuJoCo's model.
    """
    theirs = {name: index for index, name in enumerate(actuator_names(mj_model))}
    controls = [
        control_place(mj_model, theirs[one.name]) if one.name in theirs else int(mj_model.nu)
        for one in model.actuators
    ]
    known = [(own, theirs[name]) for name, own in activation_places(model).items() if name in theirs]
    return np.array(controls, int), [(own, int(mj_model.actuator_actadr[i])) for own, i in known]


def _sensor_rows(mj_model) -> dict[str, np.ndarray]:
    """Returns the indices in `sensordata` of each sensor, by its name in the model."""
    places = zip(sensor_names(mj_model), mj_model.sensor_adr, mj_model.sensor_dim, strict=True)
    return {name: start + np.arange(size) for name, start, size in places}


def _parts(model: Model) -> list[dict[str, Part]]:
    """Returns, for each body, the parts of its joint by name if the joint is several joints in series, else an empty dict."""
    found: list[dict[str, Part]] = []
    for body, joint in enumerate(model.joint_names):
        parts = in_series(model.joint(body)) or []
        several = len(parts) > 1 and all(part.kind in PARTS and part.ratio is None for part in parts)
        found.append(dict(zip(part_names(joint, parts), parts)) if several else {})
    return found


def _check_placement(model: Model, body: int) -> None:
    placement = model.placements[body]
    if not is_known(placement.rotation):
        return
    placed = np.allclose(placement.rotation, np.eye(3)) and np.allclose(placement.position, 0)
    if model.topology.parents[body] >= 0 or not placed:
        raise ModelError(
            f"joint {model.joint_names[body]!r} is free but not attached to the world with the "
            "identity as placement, which MuJoCo requires"
        )
