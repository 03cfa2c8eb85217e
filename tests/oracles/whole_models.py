"""A complete model of an MJCF file compared with MuJoCo: random states and controls, without constraints."""

from __future__ import annotations

import warnings
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from oracle_robots import STATES, Worst, compiled, folder, mjcf_files

import rbd_jax as rbd
from rbd_jax.files.mjcf import actuator_names, body_names, control_place
from rbd_jax.forces.actuators.drive import actuators_of


#: Packages with files, in addition to mujoco-mjx and brax.
PACKAGES = (
    ("dm_control", "suite"),
    ("dm_control", "locomotion"),
    ("gymnasium", "envs"),
    ("gymnasium_robotics", "envs"),
)

#: Entries of `model.unsupported`, and the quantities that are then not compared.
NOT_COMPARED = {
    "armature of tendons": ("M", "qacc", "sensors"),
    "Coriolis forces of the armature": ("qacc", "sensors"),
    "springs at free joints": ("qfrc_passive", "qacc", "sensors"),
    "nonlinear springs": ("qfrc_passive", "qacc", "sensors"),
    "armature of actuators": ("M", "qacc", "sensors"),
    "damping of actuators": ("qfrc_passive", "qacc", "sensors"),
    "actuators (": ("qfrc_actuator", "qacc", "sensors"),
    "delays of actuators": ("actuator_force", "qfrc_actuator", "qacc", "sensors"),
    "early activation": ("actuator_force", "qfrc_actuator", "qacc", "sensors"),
    "limits of actuator forces": ("actuator_force", "qfrc_actuator", "qacc", "sensors"),
    "flexible bodies": ("qfrc_passive", "qacc", "sensors"),
    "plugins": ("qfrc_passive", "qacc", "sensors"),
    "gravity compensation": ("qfrc_passive", "qfrc_actuator", "sensors"),
    "mocap": (),
}


def files() -> dict[str, Path]:
    """Returns the files by package and path."""
    found = dict(mjcf_files())
    for place in PACKAGES:
        root = folder(*place)
        paths = sorted(root.rglob("*.xml")) if root else ()
        found |= {f"{'/'.join(place)}/{path.relative_to(root)}": path for path in paths}
    return found


#: Accelerations are not compared above this condition number of the mass matrix.
SINGULAR = 1e12


class Refused(Exception):
    """A file that MuJoCo or this library does not load; the message has the library and the reason."""


def compared(path: Path) -> tuple[rbd.Model, Worst, tuple[str, ...]]:
    """Returns the model, the errors of all quantities, and the quantities omitted because of unsupported features."""
    try:
        mj_model = mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        raise Refused(f"MuJoCo: {str(error).splitlines()[0][:100]}") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rbd.ModelWarning)
        try:
            model = rbd.load_mjcf(path, contact=False)
        except rbd.ModelError as error:
            raise Refused(f"rbd: {str(error)[:200]}") from None
    model = rbd.constraints.without_constraints(model)
    model = eqx.tree_at(lambda m: m.friction, model, jnp.zeros_like(model.friction))
    off, on = mujoco.mjtDisableBit, mujoco.mjtEnableBit
    mj_model.opt.disableflags |= int(off.mjDSBL_CONSTRAINT)
    mj_model.opt.enableflags |= int(on.mjENBL_ENERGY)
    if mj_model.nv == 0:
        raise Refused("nothing in it moves")
    left_out = tuple(
        quantity
        for said in model.unsupported
        for key, all_of in NOT_COMPARED.items()
        if said.startswith(key) or f" {key}" in said
        for quantity in all_of
    )
    worst = Worst()
    with np.errstate(all="ignore"):
        for name, ours, theirs in _pairs(model, mj_model):
            if name not in left_out:
                worst.compare(name, ours, theirs)
    return model, worst, left_out


def _pairs(model: rbd.Model, mj_model):
    """Yields the name of each quantity, our value and MuJoCo's, in every state."""
    to, data, random = (
        rbd.interop.MujocoMap(model, mj_model),
        mujoco.MjData(mj_model),
        np.random.default_rng(0),
    )
    known = [actuator_names(mj_model).index(one.name) for one in actuators_of(model)]
    controls = [control_place(mj_model, i) for i in known]
    ask = None
    bodies = [model.body_index(name) for name in body_names(mj_model)[1:]]
    for _ in range(STATES):
        mujoco.mj_resetData(mj_model, data)
        data.qpos[:] = mj_model.qpos0 + 0.3 * random.normal(size=mj_model.nq)
        mujoco.mj_normalizeQuat(mj_model, data.qpos)
        data.qvel[:] = random.normal(size=mj_model.nv)
        data.ctrl[controls] = random.normal(size=len(controls))
        data.act[:] = random.uniform(0.1, 0.9, mj_model.na)
        data.time = 1.0
        mujoco.mj_forward(mj_model, data)
        mujoco.mj_forward(mj_model, data)  # its kinetic energy is that of the previous call
        state, control = to.state(data), to.controls(data.ctrl)
        if ask is None:
            ask = compiled(lambda model, state, u: _ours(model, to, state, u), model, state, control.u)
        found = ask(model, state, control.u)
        full = np.zeros((mj_model.nv, mj_model.nv))
        mujoco.mj_fullM(mj_model, data, full)
        yield "xpos", found["position"][np.array(bodies, int)], data.xpos[1:]
        yield "xmat", found["rotation"][np.array(bodies, int)].reshape(-1, 9), data.xmat[1:]
        yield "M", found["M"], full
        yield "qfrc_passive", found["passive"], data.qfrc_passive
        if mj_model.nsite:
            yield "site_xpos", found["site"], data.site_xpos
        if mj_model.ngeom:
            yield "geom_xpos", found["shape"].position, data.geom_xpos
            yield "geom_xmat", found["shape"].rotation.reshape(-1, 9), data.geom_xmat
        if mj_model.ntendon:
            yield "ten_length", found["ten_length"], data.ten_length
            yield "ten_velocity", found["ten_velocity"], data.ten_velocity
            yield "ten_J", found["ten_J"], _tendon_moments(mj_model, data)
        if known:
            yield "actuator_length", found["actuator_length"], data.actuator_length[known]
            yield "actuator_velocity", found["actuator_velocity"], data.actuator_velocity[known]
            yield "actuator_moment", found["actuator_moment"], _actuator_moments(mj_model, data)[known]
            yield "actuator_force", found["actuator_force"], data.actuator_force[known]
            yield "qfrc_actuator", found["qfrc_actuator"], data.qfrc_actuator
            active = [mj_model.actuator_actadr[i] for i in known if mj_model.actuator_actadr[i] >= 0]
            if active:
                yield "act_dot", found["act_dot"], data.act_dot[active]
        if np.linalg.cond(full) > SINGULAR:  # MuJoCo's result is then arbitrary
            continue
        yield "qacc", found["qacc"], data.qacc
        if model.sensors:
            ours, theirs = found["readings"], to.readings(np.array(data.sensordata))
            for sensor in model.sensors:
                a, b = np.ravel(ours[sensor.name]), np.ravel(theirs[sensor.name])
                yield "sensors", a * (-1 if sensor.unit and sensor.size == 4 and a @ b < 0 else 1), b


def _ours(model: rbd.Model, to, state: rbd.State, u):
    q, v = state.q, state.v
    motion = rbd.dynamics.Motion(model, q, v)
    carried = rbd.forces.own_state.holding(rbd.forces.carried_forces(model, u), state.internal)
    drives = [force for force in carried if isinstance(force, rbd.actuators.Drive)]
    others = [force for force in carried if not isinstance(force, rbd.actuators.Drive)]
    passive = rbd.passive_force(model, q, v) + sum(
        (f.generalized_force(motion) for f in others), jnp.zeros(model.nv)
    )
    driven = sum((f.generalized_force(motion) for f in drives), jnp.zeros(model.nv))
    frames = rbd.forward_kinematics(model, q)
    turn = jnp.linalg.inv(to.velocity_matrix(q))
    as_theirs = lambda rows: jax.vmap(lambda row: to.force(q, row))(rows)
    found = {
        "position": frames.position,
        "rotation": frames.rotation,
        "M": turn.T @ rbd.mass_matrix(model, q) @ turn,
        "passive": to.force(q, passive),
        "qacc": to.acceleration(q, v, rbd.forward_dynamics(model, q, v, passive + driven)),
        "site": rbd.site_frames(model, q).position,
        "shape": rbd.shape_frames(model, q),
        "qfrc_actuator": to.force(q, driven),
    }
    if model.tendons:
        found["ten_length"] = rbd.forces.tendon_lengths(model, q)
        found["ten_velocity"] = rbd.forces.tendon_velocities(model, q, v)
        found["ten_J"] = as_theirs(rbd.forces.tendon_moments(model, q))
    if drives:
        (drive,) = drives
        found["actuator_length"] = rbd.actuators.actuator_lengths(model, q)
        found["actuator_velocity"] = rbd.actuators.actuator_velocities(model, q, v)
        found["actuator_moment"] = as_theirs(rbd.actuators.actuator_moments(model, q))
        found["actuator_force"] = drive.forces(motion)
        found["act_dot"] = drive.own_rate(motion)
    if model.sensors:
        found["readings"] = rbd.sense(model, state, rbd.Controls(u), time=1.0)
    return found


def _tendon_moments(mj_model, data) -> np.ndarray:
    if np.shape(data.ten_J) == (mj_model.ntendon, mj_model.nv):
        return np.array(data.ten_J)
    places = [
        getattr(source, f"ten_J_{what}")
        for what in ("rownnz", "rowadr", "colind")
        for source in (data, mj_model)
        if hasattr(source, f"ten_J_{what}")
    ]
    dense = np.zeros((mj_model.ntendon, mj_model.nv))
    mujoco.mju_sparse2dense(dense, np.ravel(data.ten_J), *places[:3])
    return dense


def _actuator_moments(mj_model, data) -> np.ndarray:
    dense = np.zeros((len(data.actuator_length), mj_model.nv))
    mujoco.mju_sparse2dense(
        dense, data.actuator_moment, data.moment_rownnz, data.moment_rowadr, data.moment_colind
    )
    return dense
