"""Reads the keyframes of an MJCF file."""

from __future__ import annotations

import numpy as np

from ...model import Keyframe
from .actuators import actuator_names, control_place, known_actuators
from .compiled import BALL, FREE, joint_names, names_of, rotation_matrix


def keyframes_of(mujoco, compiled) -> list[Keyframe]:
    """Returns the keyframes. A keyframe without a name is called `key_3`, by MuJoCo's index."""
    names = names_of([compiled.key(i).name or f"key_{i}" for i in range(compiled.nkey)], compiled.key)
    joints = joint_names(compiled)
    actuators, known = actuator_names(compiled), known_actuators(mujoco, compiled)
    active = [i for i in known if compiled.actuator_actadr[i] >= 0]
    return [
        Keyframe(
            name,
            {joint: _configuration(compiled, index, k) for k, joint in enumerate(joints)},
            {joint: _velocity(compiled, index, k) for k, joint in enumerate(joints)},
            controls={actuators[i]: compiled.key_ctrl[index, control_place(compiled, i)] for i in known},
            activations={
                actuators[i]: compiled.key_act[index, [compiled.actuator_actadr[i]]] for i in active
            },
            time=compiled.key_time[index],
        )
        for index, name in enumerate(names)
    ]


def _configuration(compiled, key: int, joint: int) -> np.ndarray:
    start = compiled.jnt_qposadr[joint]
    size = {FREE: 7, BALL: 4}.get(int(compiled.jnt_type[joint]), 1)
    return np.array(compiled.key_qpos[key, start : start + size])


def _velocity(compiled, key: int, joint: int) -> np.ndarray:
    """Returns the velocity in the model's coordinates: `[ω; v]` in the axes of the body for a free joint."""
    start, kind = compiled.jnt_dofadr[joint], int(compiled.jnt_type[joint])
    if kind != FREE:
        return np.array(compiled.key_qvel[key, start : start + (3 if kind == BALL else 1)])
    linear, angular = np.split(np.array(compiled.key_qvel[key, start : start + 6]), 2)
    rotation = rotation_matrix(_configuration(compiled, key, joint)[3:])
    return np.concatenate([angular, rotation.T @ linear])
