"""Helpers shared by the readers of an `MjModel`: names in the model, MuJoCo's enumerations, and rotations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.array import from_numpy
from ...spatial.transform import Transform
from ..placement import rotation_matrix as rotation_matrix


#: MuJoCo's `geom_sameframe`: the frame, or only its axes, that a geom shares with its body.
BODY, INERTIAL, BODY_AXES, INERTIAL_AXES = range(1, 5)

#: MuJoCo's `jnt_type`.
FREE, BALL, SLIDE, HINGE = range(4)


def joint_names(compiled: Any) -> list[str]:
    """Returns the name of each joint of an `MjModel` in the model."""
    return names_of([compiled.joint(i).name or f"joint_{i}" for i in range(compiled.njnt)], compiled.joint)


def body_names(compiled: Any) -> list[str]:
    """Returns the name of each body of an `MjModel` in the model, the world first."""
    return names_of([compiled.body(i).name or f"body_{i}" for i in range(compiled.nbody)], compiled.body)


def names_of(wanted: list[str], lookup) -> list[str]:
    """Returns distinct names: given names unchanged, generated names with underscores appended until they are unused."""
    taken = {lookup(i).name for i in range(len(wanted))}
    names = []
    for i, name in enumerate(wanted):
        name = name if lookup(i).name else unused(name, taken)
        taken.add(name)
        names.append(name)
    return names


def unused(name: str, taken) -> str:
    while name in taken:
        name += "_"
    return name


def geom_frame(compiled, geom) -> Transform:
    """Returns the frame of a geom in its body. MuJoCo snaps geoms near the frame of the body or its inertia to that frame."""
    near, body = compiled.geom_sameframe[geom], compiled.geom_bodyid[geom]
    position, turn = compiled.geom_pos[geom], compiled.geom_quat[geom]
    if near in (INERTIAL, INERTIAL_AXES):
        turn = compiled.body_iquat[body]
    if near == INERTIAL:
        position = compiled.body_ipos[body]
    rotation = np.eye(3) if near in (BODY, BODY_AXES) else rotation_matrix(turn)
    return Transform(from_numpy(rotation), from_numpy(np.zeros(3) if near == BODY else np.array(position)))


def carrier_of(compiled, body: int) -> int:
    """Returns the body that a body is welded to: the nearest ancestor (or itself) with a joint, or the world."""
    while body and not compiled.body_jntnum[body]:
        body = compiled.body_parentid[body]
    return int(body)


def disabled_effects(mujoco, compiled) -> set[str]:
    """Returns the names of the effects that the file disables."""
    flags = (
        "GRAVITY",
        "SPRING",
        "DAMPER",
        "PASSIVE",
        "FRICTIONLOSS",
        "LIMIT",
        "CONSTRAINT",
        "EQUALITY",
        "CONTACT",
        "FILTERPARENT",
        "SENSOR",
        "ACTUATION",
        "CLAMPCTRL",
    )
    found = set()
    for flag in flags:
        bit = getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag}", None)
        if bit is not None and compiled.opt.disableflags & int(bit):
            found.add(flag)
    # Before MuJoCo 3.3.3 springs and dampers had one flag for both.
    return found | ({"SPRING", "DAMPER"} if "PASSIVE" in found else set())
