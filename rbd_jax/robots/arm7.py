"""An arm with seven joints, of the size of common collaborative arms; its parameters are fictitious."""

import math
from typing import Any

from ..joints import Revolute
from ..model import Model, ModelBuilder
from ._links import add, at, box, rod


#: Bend angles of shoulder, elbow and wrist at q = 0, in rad: the arm reaches forward, and the hand points down.
BENT = (0.5, 1.7, math.pi - 2.2)


def arm7() -> Model:
    """Returns an arm with a hand on a pedestal, of 22.5 kg and 1 m reach. Rotations about z and about y alternate.

    At q = 0 it is bent, with the hand in front of it and pointing down. The joints have damping, and the inertia of geared
    rotors as armature.

    >>> model = rbd.robots.arm7()
    >>> print(model.nv, rbd.forward_kinematics(model, jnp.zeros(7))[model.body_index("tool")].position)
    7 [0.499 0.    0.247]
    """
    shoulder, elbow, wrist = BENT
    strong: dict[str, Any] = {"damping": 0.5, "armature": 0.2, "velocity_limit": 2.2}
    light: dict[str, Any] = {"damping": 0.1, "armature": 0.05, "velocity_limit": 2.6, "effort_limit": 20.0}
    turn, bend = Revolute((0, 0, 1)), Revolute((0, 1, 0))

    builder = ModelBuilder(name="arm7")
    add(builder, "base", "world", None, None, rod(3.5, (0, 0, 0), (0, 0, 0.15), 0.08))

    def link(name, parent, joint, placement, solid, lower, upper, **along):
        add(
            builder, f"link{name}", parent, joint, placement, solid,
            joint_name=f"joint{name}", lower=lower, upper=upper, **along,
        )  # fmt: skip

    link(
        1,
        "base",
        turn,
        at(0, 0, 0.15),
        rod(4.0, (0, 0, 0), (0, 0, 0.2), 0.07),
        -2.9,
        2.9,
        effort_limit=120,
        **strong,
    )
    link(
        2, "link1", bend, at(0, 0, 0.2, pitch=shoulder), rod(3.8, (0, 0, -0.05), (0, 0, 0.2), 0.06),
        -1.8 - shoulder, 1.8 - shoulder, effort_limit=120, **strong,
    )  # fmt: skip
    link(
        3,
        "link2",
        turn,
        at(0, 0, 0.2),
        rod(3.2, (0, 0, 0), (0, 0, 0.2), 0.055),
        -2.9,
        2.9,
        effort_limit=90,
        **strong,
    )
    link(
        4, "link3", bend, at(0, 0, 0.2, pitch=elbow), rod(3.0, (0, 0, -0.05), (0, 0, 0.2), 0.05),
        -elbow, 2.9 - elbow, effort_limit=90, **strong,
    )  # fmt: skip
    link(5, "link4", turn, at(0, 0, 0.2), rod(2.4, (0, 0, 0), (0, 0, 0.18), 0.045), -2.9, 2.9, **light)
    link(
        6, "link5", bend, at(0, 0, 0.18, pitch=wrist), rod(1.4, (0, 0, -0.04), (0, 0, 0.09), 0.045),
        -2.0 - wrist, 2.0 - wrist, **light,
    )  # fmt: skip
    link(7, "link6", turn, at(0, 0, 0.09), rod(0.5, (0, 0, 0), (0, 0, 0.04), 0.04), -2.9, 2.9, **light)
    palm = box(0.7, (0.04, 0.18, 0.07), (0, 0, 0.04))
    add(builder, "hand", "link7", None, at(0, 0, 0.04), palm)
    builder.add_body("tool", "hand", placement=at(0, 0, 0.1))
    return builder.build(strict=True)
