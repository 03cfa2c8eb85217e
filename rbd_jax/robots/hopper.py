"""A leg that hops in a plane: the simplest robot that has to keep its balance."""

import math
from typing import Any

from ..forces.actuators import Motor
from ..joints import Composite, Prismatic, Revolute
from ..model import Model, ModelBuilder
from ._links import add, add_floor, add_joint_sensors, at, ball, rod


#: The lengths of trunk, thigh, shank and foot, and the radius of the balls at heel and toe.
TRUNK, THIGH, SHANK, FOOT, BALL = 0.4, 0.35, 0.4, 0.26, 0.03

#: How far the knee is bent at q = 0: the thigh leans forward by half of it, and the shank back by as much.
BENT = 0.6

#: How high the hip is above the floor then.
HEIGHT = (THIGH + SHANK) * math.cos(BENT / 2) + BALL


def hopper() -> Model:
    """A trunk, a thigh, a shank and a foot with a heel and a toe, in the plane of x and z. 8 kg, 1.2 m.

    The trunk slides along x and z and turns about y, so that q = (x, z, pitch, hip, knee, ankle). At q = 0 it stands on a floor,
    the knee a little bent, and the hip is in the world's origin. x is forward, z is up. All angles are about y: pitch leans
    forward, hip and knee swing back what is below them, and the ankle points the toe down. Hip, knee and ankle have motors, of at
    most 40, 40 and 20 Nm, and sensors.

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
    # From the shank, below the ankle, a third of the foot is behind.
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
