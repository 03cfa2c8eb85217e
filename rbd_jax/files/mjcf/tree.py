"""Reads the tree of an MJCF file: bodies, joints, inertias, and the passive forces and limits of joints."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import joints
from ..._core.array import with_numpy_leaves
from ...model import Body
from ...spatial.inertia import Inertia
from ...spatial.transform import Transform
from .compiled import BALL, FREE, HINGE, SLIDE, body_names, joint_names, rotation_matrix, unused


def bodies_of(compiled, disabled) -> list[Body]:
    names, hinges = body_names(compiled), joint_names(compiled)
    taken, taken_joints = set(names), set(hinges)
    zero = np.zeros(3)
    bodies = []

    def add(name, parent, joint, rotation, position, inertia, joint_name, **along):
        placement = with_numpy_leaves(Transform.identity, rotation, position)
        bodies.append(Body(name, parent, joint, placement, inertia, joint_name, **along))

    def moving_body(name):
        name = unused(name, taken)
        taken.add(name)
        return name

    def weld(name, parent, rotation, position, inertia):
        joint_name = unused(name, taken_joints)
        taken_joints.add(joint_name)
        add(name, parent, joints.Fixed(), rotation, position, inertia, joint_name)

    for body in range(1, compiled.nbody):
        name, parent = names[body], names[compiled.body_parentid[body]]
        rotation, position = rotation_matrix(compiled.body_quat[body]), np.array(compiled.body_pos[body])
        inertia, count = _inertia(compiled, body), int(compiled.body_jntnum[body])
        first = int(compiled.body_jntadr[body])
        # The moving body of each joint is at the joint's anchor. A slide has no anchor, so its body does not move there.
        anchor = zero
        for joint in range(first, first + count):
            kind = compiled.jnt_type[joint]
            here = np.array(compiled.jnt_pos[joint]) if kind in (BALL, HINGE) else anchor
            moved = np.array(here - anchor)
            anchor = here
            if kind == FREE:  # qpos is the pose in the world
                rotation, position = np.eye(3), zero
            else:
                rotation, position = rotation @ _unturned(compiled, joint), position + rotation @ moved
                position = position + rotation @ _unslid(compiled, joint)
            last = joint == first + count - 1 and not anchor.any()
            above, parent = parent, name if last else moving_body(f"{name}:{hinges[joint]}")
            add(
                parent,
                above,
                _joint(compiled, joint),
                rotation,
                position,
                inertia if last else with_numpy_leaves(Inertia.zero, 0.0, np.zeros(3), np.zeros(6)),
                hinges[joint],
                **_along(compiled, joint, disabled),
            )
            rotation, position = np.eye(3), zero
        if not count or anchor.any():
            weld(name, parent, rotation, position - anchor, inertia)
    return bodies


def _joint(compiled, joint: int) -> joints.Joint:
    kind = compiled.jnt_type[joint]
    if kind == FREE:
        return joints.Free()
    if kind == BALL:
        return joints.Spherical()
    family = joints.Prismatic if kind == SLIDE else joints.Revolute
    return family(np.array(compiled.jnt_axis[joint]))


def _unturned(compiled, joint: int) -> np.ndarray:
    """Returns the rotation of a hinge's frame that makes its coordinate `qpos` instead of `qpos - qpos0`."""
    if compiled.jnt_type[joint] != HINGE:
        return np.eye(3)
    half = -0.5 * compiled.qpos0[compiled.jnt_qposadr[joint]]
    return rotation_matrix(np.array([np.cos(half), *(np.sin(half) * compiled.jnt_axis[joint])]))


def _unslid(compiled, joint: int) -> np.ndarray:
    """Returns the translation of a slide's frame that makes its coordinate `qpos` instead of `qpos - qpos0`."""
    if compiled.jnt_type[joint] != SLIDE:
        return np.zeros(3)
    return -compiled.qpos0[compiled.jnt_qposadr[joint]] * compiled.jnt_axis[joint]


def _along(compiled, joint: int, disabled) -> dict[str, Any]:
    """Returns the passive forces, limits and references of a joint."""
    kind = int(compiled.jnt_type[joint])
    nq, nv = {FREE: (7, 6), BALL: (4, 3)}.get(kind, (1, 1))
    q = compiled.jnt_qposadr[joint] + np.arange(nq)
    v = compiled.jnt_dofadr[joint] + np.arange(nv)
    if kind == FREE:
        v = v[[3, 4, 5, 0, 1, 2]]
    along: dict[str, Any] = {"armature": compiled.dof_armature[v], "reference": compiled.qpos0[q]}
    if "DAMPER" not in disabled:
        along["damping"] = compiled.dof_damping[v]
    if not disabled & {"FRICTIONLOSS", "CONSTRAINT"}:
        along["friction"] = compiled.dof_frictionloss[v]
    if "SPRING" not in disabled and kind != FREE and compiled.jnt_stiffness[joint]:
        along["stiffness"] = np.full(nv, compiled.jnt_stiffness[joint])
        along["spring_reference"] = compiled.qpos_spring[q]
    if not disabled & {"LIMIT", "CONSTRAINT"} and kind in (SLIDE, HINGE) and compiled.jnt_limited[joint]:
        along["lower"], along["upper"] = compiled.jnt_range[joint]
    # Joint limits on actuator forces exist since MuJoCo 3.0.
    if (
        kind in (SLIDE, HINGE)
        and hasattr(compiled, "jnt_actfrclimited")
        and compiled.jnt_actfrclimited[joint]
    ):
        least, most = compiled.jnt_actfrcrange[joint]
        if least == -most:
            along["effort_limit"] = most
    return along


def _inertia(compiled, body: int) -> Inertia:
    mass, com = compiled.body_mass[body], compiled.body_ipos[body]
    axes = rotation_matrix(compiled.body_iquat[body])
    with np.errstate(over="ignore", invalid="ignore"):  # lay_out refuses values that overflow
        about = (axes * compiled.body_inertia[body]) @ axes.T + mass * (
            com @ com * np.eye(3) - np.outer(com, com)
        )
    triangle = np.array([about[i, j] for i in range(3) for j in range(i + 1)])
    return with_numpy_leaves(Inertia.zero, mass, mass * com, triangle)
