"""Reads the tendons of an MJCF file."""

from __future__ import annotations

import numpy as np

from ...forces import Around, FixedTendon, Pulley, SpatialTendon, Tendon
from .compiled import body_names, disabled_effects, geom_frame, joint_names, names_of
from .sites import site_names


def tendon_names(compiled) -> list[str]:
    """Returns the name of each tendon of an `MjModel` in the model: `tendon_3`, by MuJoCo's index, if it has none."""
    return names_of(
        [compiled.tendon(i).name or f"tendon_{i}" for i in range(compiled.ntendon)], compiled.tendon
    )


def limits_of(compiled, disabled: set[str]) -> np.ndarray:
    """Returns which tendons have limits."""
    return compiled.tendon_limited.astype(bool) & (not disabled & {"LIMIT", "CONSTRAINT"})


def friction_of(compiled, disabled: set[str]) -> np.ndarray:
    """Returns the dry friction of each tendon."""
    return np.array(compiled.tendon_frictionloss) * (not disabled & {"FRICTIONLOSS", "CONSTRAINT"})


def tendons_of(mujoco, compiled) -> list[Tendon]:
    bodies, hinges, sites = body_names(compiled), joint_names(compiled), site_names(compiled)
    kinds, disabled = mujoco.mjtWrap, disabled_effects(mujoco, compiled)
    stops, rubs = limits_of(compiled, disabled), friction_of(compiled, disabled)
    found: list[Tendon] = []
    for tendon, name in enumerate(tendon_names(compiled)):
        start, count = compiled.tendon_adr[tendon], compiled.tendon_num[tendon]
        places = range(start, start + count)
        stiffness, damping = compiled.tendon_stiffness[tendon], compiled.tendon_damping[tendon]
        acts = {
            "spring_constant": stiffness if stiffness and "SPRING" not in disabled else None,
            "rest_length": np.array(compiled.tendon_lengthspring[tendon]),
            "damping_constant": damping if damping and "DAMPER" not in disabled else None,
            "limits": np.array(compiled.tendon_range[tendon]) if stops[tendon] else None,
            "friction": rubs[tendon] if rubs[tendon] else None,
        }
        if compiled.wrap_type[start] == kinds.mjWRAP_JOINT:
            coefficients: dict[str, float] = {}
            for place in places:
                joint = hinges[compiled.wrap_objid[place]]
                coefficients[joint] = coefficients.get(joint, 0.0) + compiled.wrap_prm[place]
            found.append(FixedTendon(name, coefficients, **acts))
            continue
        path: list = []
        for place in places:
            kind, index, number = (
                compiled.wrap_type[place],
                compiled.wrap_objid[place],
                compiled.wrap_prm[place],
            )
            if kind == kinds.mjWRAP_PULLEY:
                path.append(Pulley(number))
            elif kind == kinds.mjWRAP_SITE:
                path.append(sites[index])
            else:
                frame = geom_frame(compiled, index)
                side = sites[round(number)] if number >= 0 else None
                surface = "sphere" if kind == kinds.mjWRAP_SPHERE else "cylinder"
                path.append(
                    Around(
                        bodies[compiled.geom_bodyid[index]],
                        frame,
                        compiled.geom_size[index, 0],
                        surface,
                        side,
                    )
                )
        found.append(SpatialTendon(name, path, **acts))
    return found
