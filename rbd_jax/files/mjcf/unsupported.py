"""Lists the elements of an MJCF file that have no effect in the model."""

from __future__ import annotations

import numpy as np

from .actuators import not_driven
from .compiled import FREE, SLIDE, body_names, disabled_effects, joint_names
from .constraints import JOINT, TENDON, couples_coordinates
from .contact import acts, contact_left_out
from .sensors import not_measured
from .tendons import friction_of, limits_of, tendon_names


def not_in_force(mujoco, compiled, contact: bool, soft: bool) -> list[str]:
    """Returns descriptions of contacts and limits that are not in force; they change nothing until one becomes active."""
    found, disabled = contact_left_out(mujoco, compiled, contact), disabled_effects(mujoco, compiled)
    if not soft and not disabled & {"EQUALITY", "CONSTRAINT"} and np.any(compiled.eq_active0):
        found.append("softness of equality constraints")
    if compiled.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICIT:
        found.append("Coriolis derivatives of the integrator implicit")
    return found


def left_out(mujoco, compiled, contact: bool, soft: bool) -> list[str]:
    """Returns descriptions of the elements that would change the motion of the tree."""
    found, disabled = [], disabled_effects(mujoco, compiled)
    hinges, bodies = joint_names(compiled), body_names(compiled)

    def among(what, names, which):
        listed = [repr(name) for name, is_one in zip(names, which, strict=True) if is_one]
        if listed:
            found.append(f"{what} {', '.join(listed)}")

    def nonzero(*fields):
        """Returns which rows are nonzero in one of the fields that this MuJoCo version has."""
        values = [np.asarray(getattr(compiled, field)) for field in fields if hasattr(compiled, field)]
        return np.any([value.reshape(len(value), -1).any(axis=1) for value in values], axis=0)

    if not disabled & {"EQUALITY", "CONSTRAINT"}:
        for kind in range(JOINT + 1, 8):
            which = (compiled.eq_type == kind) & compiled.eq_active0.astype(bool)
            for equality in np.flatnonzero(which).tolist() if kind == TENDON else ():
                which[equality] = not soft and not couples_coordinates(mujoco, compiled, equality)
            if which.any():
                label = mujoco.mjtEq(kind).name.removeprefix("mjEQ_").lower()
                names = [compiled.eq(i).name or f"equality_{i}" for i in range(compiled.neq)]
                among(f"equality constraints ({label})", names, which)
    if compiled.ntendon:
        names = tendon_names(compiled)
        if not (contact and acts(mujoco, compiled)):
            among("dry friction of tendons", names, friction_of(compiled, disabled) > 0)
            among("limits of tendons", names, limits_of(compiled, disabled))
        for fields, what in (
            (("stiffnesspoly", "dampingpoly"), "nonlinear springs or dampers of tendons"),
            (("armature",), "armature of tendons"),
            (("actfrclimited",), "limits of actuator forces on tendons"),
        ):
            fields = [f"tendon_{field}" for field in fields if hasattr(compiled, f"tendon_{field}")]
            if fields:
                among(what, names, nonzero(*fields))
    if compiled.njnt:
        free = (compiled.jnt_type == FREE) & (compiled.jnt_stiffness != 0)
        among("springs at free joints", hinges, free)
        heavy = np.zeros(compiled.njnt, bool)
        heavy[compiled.dof_jntid[compiled.dof_armature != 0]] = True
        among("Coriolis forces of the armature of free joints", hinges, heavy & (compiled.jnt_type == FREE))
        if hasattr(compiled, "jnt_actfrclimited"):
            uneven = compiled.jnt_actfrcrange[:, 0] != -compiled.jnt_actfrcrange[:, 1]
            uneven |= compiled.jnt_type < SLIDE
            among(
                "limits of actuator forces on joints",
                hinges,
                compiled.jnt_actfrclimited.astype(bool) & uneven,
            )
        if hasattr(compiled, "jnt_actgravcomp") and np.any(compiled.body_gravcomp):
            which = compiled.jnt_actgravcomp.astype(bool)
            among(
                "gravity compensation counted as actuator force, of joints",
                hinges,
                which,
            )
        curved = (
            nonzero("jnt_stiffnesspoly")
            if hasattr(compiled, "jnt_stiffnesspoly")
            else np.zeros(compiled.njnt, bool)
        )
        if hasattr(compiled, "dof_dampingpoly"):
            curved[compiled.dof_jntid[np.asarray(compiled.dof_dampingpoly).any(axis=1)]] = True
        if hasattr(compiled, "jnt_plasticadr"):
            curved |= compiled.jnt_plasticadr >= 0
        among("nonlinear springs or dampers of joints", hinges, curved)
    if compiled.nflex:
        found.append(f"{compiled.nflex} flexible bodies")
    if compiled.nplugin:
        found.append(f"{compiled.nplugin} plugins")
    among("motion of mocap bodies", bodies, compiled.body_mocapid >= 0)
    return found + not_driven(mujoco, compiled) + not_measured(mujoco, compiled, contact)
