"""A humanoid of the height of a small adult; its parameters are fictitious."""

import math
from typing import Any

import numpy as np

from ..forces.actuators import Position
from ..joints import Free, Revolute, Spherical, Universal
from ..model import Body, Model, ModelBuilder
from ..sensors import ForceSensor, TorqueSensor
from ..shapes.site import Site
from ._links import add, add_floor, add_inertial_unit, add_joint_sensors, at, ball, box, rod


#: Forward angle of the thighs and elbow angle at q = 0, in rad.
LEAN, ELBOW = 0.2, 0.4

THIGH = SHANK = 0.4
UPPER_ARM = FOREARM = 0.27

#: Distance of the hips below the pelvis, and of the soles below the ankles, in m.
HIP, SOLE = 0.05, 0.07


def humanoid() -> Model:
    """Returns a floating humanoid with 35 degrees of freedom, 60 kg and 1.7 m. x is forward, y to its left, z up.

    Hips, shoulders and waist are ball joints; neck, wrists and ankles are universal joints; knees and elbows are hinges. At
    q = 0 it stands on a floor with slightly bent knees and elbows, and the pelvis is at the world's origin.

    Every degree of freedom of a joint has a position servo, called by the joint and the axis, such as `left_hip_x`. Its
    control is the commanded angle. Knees and elbows have sensors of position and velocity, the pelvis has an inertial unit,
    and the ankles have force and torque sensors.

    >>> model = rbd.robots.humanoid()
    >>> print(model.nq, model.nv, model.inertias.mass.sum().round(1))
    41 35 60.5
    """
    builder = ModelBuilder(name="humanoid")
    add(builder, "pelvis", "world", Free(), None, box(9.0, (0.16, 0.3, 0.16), (0, 0, 0.02)))
    strong: dict[str, Any] = {"damping": 1.0, "armature": 0.03, "velocity_limit": 15.0, "effort_limit": 200.0}
    light: dict[str, Any] = {"damping": 0.2, "armature": 0.01, "velocity_limit": 15.0, "effort_limit": 50.0}
    knee, both_ways = Revolute((0, 1, 0)), Universal((0, 1, 0), (1, 0, 0))

    add(
        builder, "torso", "pelvis", Spherical(), at(0, 0, 0.1), box(19.0, (0.2, 0.34, 0.42), (0, 0, 0.22)),
        joint_name="waist", **strong,
    )  # fmt: skip
    add(
        builder, "head", "torso", both_ways, at(0, 0, 0.47), ball(4.5, 0.1, (0.02, 0, 0.15)),
        joint_name="neck", lower=(-0.8, -0.6), upper=(0.8, 0.6), **light,
    )  # fmt: skip
    for side, y in (("left", 1.0), ("right", -1.0)):
        add(
            builder, f"{side}_upper_arm", "torso", Spherical(), at(0, 0.2 * y, 0.4, roll=0.15 * y),
            rod(1.9, (0, 0, 0), (0, 0, -UPPER_ARM), 0.045), joint_name=f"{side}_shoulder", **light,
        )  # fmt: skip
        add(
            builder, f"{side}_forearm", f"{side}_upper_arm", knee, at(0, 0, -UPPER_ARM, pitch=-ELBOW),
            rod(1.2, (0, 0, 0), (0, 0, -FOREARM), 0.035),
            joint_name=f"{side}_elbow", lower=ELBOW - 2.5, upper=ELBOW, **light,
        )  # fmt: skip
        add(
            builder, f"{side}_hand", f"{side}_forearm", both_ways, at(0, 0, -FOREARM),
            box(0.5, (0.08, 0.03, 0.16), (0, 0, -0.08)),
            joint_name=f"{side}_wrist", lower=(-1.2, -0.5), upper=(1.2, 0.5), damping=0.05, armature=0.005,
            velocity_limit=15.0, effort_limit=10.0,
        )  # fmt: skip
    for side, y in (("left", 1.0), ("right", -1.0)):
        add(
            builder, f"{side}_thigh", "pelvis", Spherical(), at(0, 0.1 * y, -HIP, pitch=-LEAN),
            rod(6.5, (0, 0, 0), (0, 0, -THIGH), 0.075), joint_name=f"{side}_hip", **strong,
        )  # fmt: skip
        add(
            builder, f"{side}_shank", f"{side}_thigh", knee, at(0, 0, -THIGH, pitch=2 * LEAN),
            rod(3.0, (0, 0, 0), (0, 0, -SHANK), 0.05),
            joint_name=f"{side}_knee", lower=-2 * LEAN, upper=2.4 - 2 * LEAN, **strong,
        )  # fmt: skip
        add(
            builder, f"{side}_foot", f"{side}_shank", both_ways, at(0, 0, -SHANK, pitch=-LEAN),
            box(0.9, (0.24, 0.09, 0.06), (0.05, 0, -0.04)),
            joint_name=f"{side}_ankle", lower=(-0.8, -0.4), upper=(0.7, 0.4), **light,
        )  # fmt: skip
        builder.add_body(f"{side}_toe", f"{side}_foot", placement=at(0.17, 0, -SOLE))
    for body in list(builder.bodies)[1:]:
        _add_servos(builder, body)
    add_inertial_unit(builder, "pelvis", at(0, 0, 0))
    add_joint_sensors(builder, "left_elbow", "right_elbow", "left_knee", "right_knee")
    for side in ("left", "right"):
        builder.attach(
            Site(f"{side}_sole", f"{side}_foot", (0.05, 0, -SOLE)),
            ForceSensor(f"{side}_foot_force", f"{side}_sole"),
            TorqueSensor(f"{side}_foot_torque", f"{side}_sole"),
        )
    add_floor(builder, -HIP - (THIGH + SHANK) * math.cos(LEAN) - SOLE)
    return builder.build(strict=True)


def _add_servos(builder: ModelBuilder, body: Body) -> None:
    """Adds a servo for each axis of a joint, which reaches its maximum torque at an error of 0.5 rad."""
    axes = {Revolute: ("",), Universal: ("_y", "_x"), Spherical: ("_x", "_y", "_z")}.get(type(body.joint), ())
    for axis, gear in zip(axes, np.eye(len(axes)), strict=True):
        most = float(np.max(body.effort_limit))
        builder.attach(
            Position(
                f"{body.joint_name}{axis}",
                body.joint_name,
                kp=2 * most,
                kv=most / 20,
                gear=gear,
                force_range=(-most, most),
            )
        )
