"""Reads the sensors of an MJCF file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from ... import sensors
from ...sensors import OnBody, OnShape, Sensor
from ...sensors.places import Place
from ...shapes import Box, Capsule, Cylinder, Ellipsoid, Geometry, Sphere
from ...spatial.transform import Transform
from .actuators import actuator_names, known_actuators
from .compiled import BALL, FREE, body_names, disabled_effects, joint_names, names_of, rotation_matrix
from .contact import acts
from .shapes import shape_names
from .sites import site_names
from .tendons import tendon_names


#: Sensors of joints, by the name of MuJoCo's sensor type.
JOINTS: dict[str, Any] = {
    "JOINTPOS": sensors.JointPosition,
    "JOINTVEL": sensors.JointVelocity,
    "JOINTACTFRC": sensors.JointForce,
    "BALLQUAT": sensors.JointOrientation,
    "BALLANGVEL": sensors.JointAngularVelocity,
}

#: Sensors of actuators and of tendons.
ACTUATORS: dict[str, Any] = {
    "ACTUATORPOS": sensors.ActuatorPosition,
    "ACTUATORVEL": sensors.ActuatorVelocity,
    "ACTUATORFRC": sensors.ActuatorForce,
}
TENDONS: dict[str, Any] = {
    "TENDONPOS": sensors.TendonPosition,
    "TENDONVEL": sensors.TendonVelocity,
    "TENDONACTFRC": sensors.TendonForce,
}

#: Sensors of joint limits.
LIMITS: dict[str, Any] = {
    "JOINTLIMITPOS": sensors.JointLimitPosition,
    "JOINTLIMITVEL": sensors.JointLimitVelocity,
}

#: Sensors at sites.
SITES: dict[str, Any] = {
    "ACCELEROMETER": sensors.Accelerometer,
    "VELOCIMETER": sensors.Velocimeter,
    "GYRO": sensors.Gyro,
    "FORCE": sensors.ForceSensor,
    "TORQUE": sensors.TorqueSensor,
}

#: Sensors of a frame relative to another frame.
FRAMES: dict[str, Any] = {
    "FRAMEPOS": sensors.FramePosition,
    "FRAMEQUAT": sensors.FrameOrientation,
    "FRAMELINVEL": sensors.FrameLinearVelocity,
    "FRAMEANGVEL": sensors.FrameAngularVelocity,
}

#: Sensors of the acceleration of a frame, in the axes of the world.
ACCELERATIONS: dict[str, Any] = {
    "FRAMELINACC": sensors.FrameLinearAcceleration,
    "FRAMEANGACC": sensors.FrameAngularAcceleration,
}

#: Geometries of sites, which are the zones of touch sensors.
ZONES: dict[str, Any] = {
    "SPHERE": Sphere,
    "CAPSULE": Capsule,
    "CYLINDER": Cylinder,
    "BOX": Box,
    "ELLIPSOID": Ellipsoid,
}

#: Sensors of a body and its subtree.
SUBTREES: dict[str, Any] = {
    "SUBTREECOM": sensors.SubtreeCenterOfMass,
    "SUBTREELINVEL": sensors.SubtreeLinearVelocity,
    "SUBTREEANGMOM": sensors.SubtreeAngularMomentum,
}

#: Sensors of the complete model.
WHOLE: dict[str, Any] = {
    "E_POTENTIAL": sensors.PotentialEnergy,
    "E_KINETIC": sensors.KineticEnergy,
    "CLOCK": sensors.Clock,
}


def sensor_names(compiled) -> list[str]:
    """Returns the name of each sensor of an `MjModel` in the model: `sensor_3`, by MuJoCo's index, if it has none."""
    count = compiled.nsensor
    return names_of([compiled.sensor(i).name or f"sensor_{i}" for i in range(count)], compiled.sensor)


def sensors_of(mujoco, compiled, contact: bool) -> list[Sensor]:
    """Returns the supported sensors, in the order of the file."""
    if "SENSOR" in disabled_effects(mujoco, compiled):
        return []
    made = (_maker(mujoco, compiled, index, contact) for index in range(compiled.nsensor))
    return [
        make(name, **_options(compiled, index))
        for index, (name, make) in enumerate(zip(sensor_names(compiled), made, strict=True))
        if make is not None
    ]


def not_measured(mujoco, compiled, contact: bool) -> list[str]:
    """Returns descriptions of the unsupported sensors."""
    if "SENSOR" in disabled_effects(mujoco, compiled):
        return []
    by_kind: dict[str, list[str]] = {}
    for index, name in enumerate(sensor_names(compiled)):
        if _maker(mujoco, compiled, index, contact) is None:
            by_kind.setdefault(_kind(mujoco, compiled, index).lower(), []).append(name)
    found = [f"sensors ({kind}) {', '.join(map(repr, names))}" for kind, names in by_kind.items()]
    if compiled.nsensor and hasattr(compiled, "sensor_interval"):  # since MuJoCo 3.5
        rare = np.asarray(compiled.sensor_interval).reshape(compiled.nsensor, -1)[:, 0] > 0
        if rare.any():
            listed = [repr(name) for name, one in zip(sensor_names(compiled), rare, strict=True) if one]
            found.append(f"intervals between readings of sensors {', '.join(listed)}")
    return found


def _maker(mujoco, compiled, index: int, contact: bool) -> Callable[..., Sensor] | None:
    """Returns a function that creates the sensor from its name and options, or None if the kind is unsupported."""
    kind, own = _kind(mujoco, compiled, index), int(compiled.sensor_objid[index])
    if kind in JOINTS:
        return lambda name, **options: JOINTS[kind](name, joint_names(compiled)[own], **options)
    if kind in LIMITS and compiled.jnt_type[own] not in (FREE, BALL):
        margin = compiled.jnt_margin[own]
        return lambda name, **options: LIMITS[kind](name, joint_names(compiled)[own], margin, **options)
    if kind in TENDONS:
        return lambda name, **options: TENDONS[kind](name, tendon_names(compiled)[own], **options)
    if kind in ACTUATORS:
        if own not in known_actuators(mujoco, compiled):
            return None
        return lambda name, **options: ACTUATORS[kind](name, actuator_names(compiled)[own], **options)
    if kind in SUBTREES:
        return lambda name, **options: SUBTREES[kind](name, body_names(compiled)[own], **options)
    if kind in WHOLE:
        return lambda name, **options: WHOLE[kind](name, **options)
    if kind == "RANGEFINDER":
        if not _reads_a_distance(mujoco, compiled, index):
            return None
        site, ignored = site_names(compiled)[own], _looked_through(compiled, int(compiled.site_bodyid[own]))
        return lambda name, **options: sensors.RangeFinder(name, site, ignored, **options)
    if kind == "TOUCH":
        if not (contact and acts(mujoco, compiled)):
            return None
        zone = _zone(mujoco, compiled, own)
        return lambda name, **options: sensors.Touch(name, site_names(compiled)[own], zone, **options)
    axis = kind.removeprefix("FRAME").removesuffix("AXIS").lower()
    if kind not in SITES | FRAMES | ACCELERATIONS and kind != "MAGNETOMETER" and axis not in ("x", "y", "z"):
        return None
    place = _place(mujoco, compiled, int(compiled.sensor_objtype[index]), own)
    if place is None:
        return None
    if kind == "MAGNETOMETER":
        field = np.array(compiled.opt.magnetic)
        return lambda name, **options: sensors.Magnetometer(name, place, field, **options)
    if kind in SITES | ACCELERATIONS:
        return lambda name, **options: (SITES | ACCELERATIONS)[kind](name, place, **options)
    other, seen = int(compiled.sensor_refid[index]), None
    if other >= 0:
        seen = _place(mujoco, compiled, int(compiled.sensor_reftype[index]), other)
        if seen is None:
            return None
    if kind in FRAMES:
        return lambda name, **options: FRAMES[kind](name, place, seen, **options)
    return lambda name, **options: sensors.FrameAxis(name, place, axis, seen, **options)


def _zone(mujoco, compiled, site: int) -> Geometry:
    """Returns the geometry of a site, which is the zone of a touch sensor."""
    kind = mujoco.mjtGeom(int(compiled.site_type[site])).name.removeprefix("mjGEOM_")
    size = np.array(compiled.site_size[site])
    of = ZONES[kind]
    return of(*size[:2]) if of in (Capsule, Cylinder) else of(size[0] if of is Sphere else size)


def _reads_a_distance(mujoco, compiled, index: int) -> bool:
    """Returns whether a range finder is at a site and outputs distance only. Other outputs exist since MuJoCo 3.5."""
    asked = int(compiled.sensor_intprm[index, 0]) if hasattr(compiled, "sensor_intprm") else 0
    return compiled.sensor_objtype[index] == mujoco.mjtObj.mjOBJ_SITE and asked in (0, 1)


def _looked_through(compiled, body: int) -> list[str]:
    """Returns the geoms that a range finder on a body ignores.

    These are the geoms of the body and fully transparent geoms. The material sets the opacity if there is one.
    """
    material = compiled.geom_matid
    opacity = np.array(compiled.geom_rgba[:, 3])
    opacity[material >= 0] = compiled.mat_rgba[material[material >= 0], 3]
    through = (compiled.geom_bodyid == body) | (opacity == 0)
    return [name for name, one in zip(shape_names(compiled), through, strict=True) if one]


def _kind(mujoco, compiled, index: int) -> str:
    return mujoco.mjtSensor(int(compiled.sensor_type[index])).name.removeprefix("mjSENS_")


def _place(mujoco, compiled, kind: int, index: int) -> Place | None:
    """Returns the frame that a sensor measures, or None for tracking cameras and unsupported objects."""
    objects = mujoco.mjtObj
    if kind == objects.mjOBJ_SITE:
        return site_names(compiled)[index]
    if kind in (objects.mjOBJ_BODY, objects.mjOBJ_XBODY):
        name = body_names(compiled)[index]
        inertial = kind == objects.mjOBJ_BODY
        return _on(name, compiled.body_iquat[index], compiled.body_ipos[index]) if inertial else OnBody(name)
    if kind == objects.mjOBJ_GEOM:
        return OnShape(shape_names(compiled)[index])
    if kind == objects.mjOBJ_CAMERA and compiled.cam_mode[index] == mujoco.mjtCamLight.mjCAMLIGHT_FIXED:
        body = body_names(compiled)[compiled.cam_bodyid[index]]
        return _on(body, compiled.cam_quat[index], compiled.cam_pos[index])
    return None


def _on(body: str, turn, position) -> OnBody:
    return OnBody(body, Transform(jnp.asarray(rotation_matrix(turn)), jnp.asarray(np.array(position))))


def _options(compiled, index: int) -> dict[str, Any]:
    """Returns the options common to all sensors. MuJoCo does not apply the noise either. Delays exist since MuJoCo 3.5."""
    options: dict[str, Any] = {}
    for option in ("noise", "cutoff", "delay"):
        known = getattr(compiled, f"sensor_{option}", None)
        if known is not None and known[index] > 0:
            options[option] = known[index]
    return options
