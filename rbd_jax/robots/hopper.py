"""A leg that hops in a plane: the simplest robot that has to balance."""

import math
from typing import Any

from ..forces.actuators import Motor
from ..joints import Composite, Prismatic, Revolute
from ..model import Model, ModelBuilder
from ._links import add, add_floor, add_joint_sensors, at, ball, rod


#: The lengths of trunk, thigh, shank and foot, and the radius of the balls at heel and toe.
TRUNK, THIGH, SHANK, FOOT, BALL = 0.4, 0.35, 0.4, 0.26, 0.03

#: Knee angle at q = 0, in rad: the thigh leans forward by half of it, and the shank back by the same angle.
BENT = 0.6

#: Height of the hip above the floor at q = 0, in m.
HEIGHT = (THIGH + SHANK) * math.cos(BENT / 2) + BALL


def hopper() -> Model:
    """Returns a planar hopper in the x-z plane: trunk, thigh, shank and foot with heel and toe; 8 kg, 1.2 m.

    The trunk translates along x and z and rotates about y, so q = (x, z, pitch, hip, knee, ankle). At q = 0 it stands on a
    floor with slightly bent knee, and the hip is at the world's origin. x is forward, z is up. All angles are about y: pitch
    leans forward, hip and knee swing the links below them back, and the ankle points the toe down. Hip, knee and ankle have
    sensors, and motors of at most 40, 40 and 20 Nm.

    >>> model = rbd.robots.hopper()
    >>> print(model.nv, model.joint_names)
    6 ('root', 'hip', 'knee', 'ankle', 'heel', 'toe')
    """
    builder = ModelBuilder(name="hopper")
    root = Composite((Prismatic((1, 0, 0)), Prismatic((0, 0, 1)), Revolute((0, 1, 0))))
    trunk = rod(3.5, (0, 0, 0), (0, 0, TRUNK), 0.05)
    add(builder, "trunk", "world", root, None, trunk, joint_name="root")
    bend: dict[str, Any] = {"damping": 0.5, "armature": 0.02}
    turn, half = Revolute((0, 1, 0)), BENT / 2
    thigh, shank = rod(2.0, (0, 0, 0), (0, 0, -THIGH), 0.045), rod(1.3, (0, 0, 0), (0, 0, -SHANK), 0.035)
    # A third of the foot's length is behind the ankle.
    heel, toe = (-FOOT / 3, 0, 0), (2 * FOOT / 3, 0, 0)
    add(
        builder, "thigh", "trunk", turn, at(0, 0, 0, pitch=-half), thigh,
        joint_name="hip", lower=-1.5, upper=0.9, effort_limit=40.0, **bend,
    )  # fmt: skip
    add(
        builder, "shank", "thigh", turn, at(0, 0, -THIGH, pitch=BENT), shank,
        joint_name="knee", lower=-0.55, upper=1.6, effort_limit=40.0, **bend,
    )  # fmt: skip
    add(
        builder, "foot", "shank", turn, at(0, 0, -SHANK, pitch=-half), rod(0.8, heel, toe, 0.02),
        joint_name="ankle", lower=-0.8, upper=0.8, effort_limit=20.0, **bend,
    )  # fmt: skip
    add(builder, "heel", "foot", None, at(*heel), ball(0.2, BALL))
    add(builder, "toe", "foot", None, at(*toe), ball(0.2, BALL))
    for joint, most in (("hip", 40.0), ("knee", 40.0), ("ankle", 20.0)):
        builder.attach(Motor(joint, joint, control_range=(-most, most)))
    add_joint_sensors(builder, "hip", "knee", "ankle")
    add_floor(builder, -HEIGHT)
    return builder.build(strict=True)
