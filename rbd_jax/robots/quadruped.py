"""A four-legged robot of the size of a dog; its parameters are fictitious."""

import math
from typing import Any

from ..forces.actuators import Position
from ..joints import Free, Revolute
from ..model import Model, ModelBuilder
from ._links import add, add_floor, add_inertial_unit, add_joint_sensors, at, ball, box, rod


#: Backward angle of a thigh at q = 0, in rad. The shank leans forward by the same angle, so the foot is below the hip.
LEAN = 0.7

THIGH = SHANK = 0.21

#: The radius of a foot.
FOOT = 0.02

#: Gains of the servos, in Nm/rad and Nm s/rad.
STIFFNESS, DAMPING = 80.0, 2.0


def quadruped() -> Model:
    """Returns a floating trunk with four legs, of 14 kg. FL, FR, RL and RR are front or rear, left or right.

    Each leg has a hip that moves it sideways, a thigh and a calf that swing in its plane, and a foot. At q = 0 it stands on
    a floor with bent knees. The trunk is at the world's origin, 0.32 m above the feet. x is forward, z is up.

    Every joint of a leg has a position servo with the same name, whose control is the commanded position, and sensors of
    position and velocity. The trunk has an inertial unit.

    >>> model = rbd.robots.quadruped()
    >>> print(model.nq, model.nv, model.inertias.mass.sum().round(1))
    19 18 14.0
    """
    builder = ModelBuilder(name="quadruped")
    add(builder, "trunk", "world", Free(), None, box(6.4, (0.38, 0.2, 0.11)))
    motor: dict[str, Any] = {"damping": 0.05, "armature": 0.01, "velocity_limit": 25.0, "effort_limit": 25.0}
    for end, x in (("F", 0.19), ("R", -0.19)):
        for side, y in (("L", 1.0), ("R", -1.0)):
            leg = end + side
            add(
                builder,
                f"{leg}_hip",
                "trunk",
                Revolute((1, 0, 0)),
                at(x, 0.05 * y, 0),
                rod(0.7, (0, 0, 0), (0, 0.06 * y, 0), 0.045),
                lower=-0.9,
                upper=0.9,
                **motor,
            )
            add(
                builder,
                f"{leg}_thigh",
                f"{leg}_hip",
                Revolute((0, 1, 0)),
                at(0, 0.08 * y, 0, pitch=LEAN),
                rod(0.95, (0, 0, 0), (0, 0, -THIGH), 0.03),
                lower=-1.5 - LEAN,
                upper=3.0 - LEAN,
                **motor,
            )
            add(
                builder,
                f"{leg}_calf",
                f"{leg}_thigh",
                Revolute((0, 1, 0)),
                at(0, 0, -THIGH, pitch=-2 * LEAN),
                rod(0.2, (0, 0, 0), (0, 0, -SHANK), 0.012),
                lower=-2.7 + 2 * LEAN,
                upper=-0.5 + 2 * LEAN,
                **motor,
            )
            add(builder, f"{leg}_foot", f"{leg}_calf", None, at(0, 0, -SHANK), ball(0.06, FOOT))
    joints = [f"{leg}_{part}" for leg in ("FL", "FR", "RL", "RR") for part in ("hip", "thigh", "calf")]
    builder.attach(*(Position(joint, joint, kp=STIFFNESS, kv=DAMPING) for joint in joints))
    add_inertial_unit(builder, "trunk", at(0, 0, 0))
    add_joint_sensors(builder, *joints)
    add_floor(builder, -(THIGH + SHANK) * math.cos(LEAN) - FOOT)
    return builder.build(strict=True)
