"""Reads the contact properties of an MJCF file.

These are the contact model, pairs, exclusions, and the solver parameters of limits and dry friction.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...contact.law import ContactLaw
from ...contact.massless import MasslessCenters
from ...contact.pairs import ContactExclusion, ContactPair
from ...contact.soft import Soft
from ...contact.softness import Softness
from ...spatial.attached import Attached
from .compiled import BALL, HINGE, SLIDE, body_names, disabled_effects, joint_names, names_of
from .shapes import shape_names
from .tendons import friction_of, limits_of, tendon_names


#: The custom number by which MJX bounds the number of active contacts of each contact dimension.
MOST = "max_contact_points"

#: The custom number by which MJX bounds the number of geom pairs tested for each combination of two geom types.
PAIRS = "max_geom_pairs"


def contact_of(mujoco, compiled, law: bool, soft: bool) -> list[Attached]:
    """Returns the contact properties of the file.

    Args:
      mujoco: The module.
      compiled: The `MjModel`.
      law: If True, includes the contact model if the file needs one.
      soft: If True, equality constraints are soft.
    """
    is_needed = law and needed(mujoco, compiled, soft)
    found: list[Attached] = [law_of(mujoco, compiled)] if is_needed else []
    found += _pairs(mujoco, compiled)
    bodies = body_names(compiled)
    names = names_of(
        [compiled.exclude(i).name or f"exclude_{i}" for i in range(compiled.nexclude)], compiled.exclude
    )
    excluded = [(bodies[one >> 16], bodies[one & 0xFFFF]) for one in compiled.exclude_signature.tolist()]
    found += [ContactExclusion(*own) for own in zip(names, excluded)]
    known = {frozenset(ends) for ends in excluded}
    found += [one for one in _adjacent(mujoco, compiled, bodies) if frozenset(one.bodies) not in known]
    return [*found, *_softness(mujoco, compiled), *_massless(compiled)]


def _adjacent(mujoco, compiled, bodies: list[str]) -> list[ContactExclusion]:
    """Returns the exclusions between bodies with several joints and their parents, which do not collide in MuJoCo.

    In the model, massless bodies for the other joints separate such a body from its parent.
    """
    if "FILTERPARENT" in disabled_effects(mujoco, compiled):
        return []
    has_geoms = set(compiled.body_weldid[compiled.geom_bodyid].tolist())
    found = []
    for body in np.flatnonzero(compiled.body_jntnum > 1).tolist():
        above = int(compiled.body_weldid[compiled.body_parentid[body]])
        if above and {body, above} <= has_geoms:
            found.append(ContactExclusion(f"{bodies[above]}:{bodies[body]}", (bodies[above], bodies[body])))
    return found


def acts(mujoco, compiled) -> bool:
    """Returns whether the file enables constraints."""
    return "CONSTRAINT" not in disabled_effects(mujoco, compiled)


def needed(mujoco, compiled, soft: bool) -> bool:
    """Returns whether the file needs a contact model: for colliding shapes, limits, dry friction or soft equality constraints."""
    disabled = disabled_effects(mujoco, compiled)
    stops = "LIMIT" not in disabled and np.any(compiled.jnt_limited)
    held = np.any(limits_of(compiled, disabled)) or np.any(friction_of(compiled, disabled))
    rubs = "FRICTIONLOSS" not in disabled and np.any(compiled.dof_frictionloss)
    ties = soft and "EQUALITY" not in disabled and np.any(compiled.eq_active0)
    return acts(mujoco, compiled) and bool(may_touch(mujoco, compiled) or stops or held or rubs or ties)


def may_collide(mujoco, compiled, law: bool, soft: bool) -> bool:
    """Returns whether shapes keep their collision bits.

    If a file disables contact, but needs the contact model for something else, shapes have no bits.
    """
    return not (law and "CONTACT" in disabled_effects(mujoco, compiled) and needed(mujoco, compiled, soft))


def law_of(mujoco, compiled) -> ContactLaw:
    cone = mujoco.mjtCone(compiled.opt.cone).name.removeprefix("mjCONE_").lower()
    numbers = [compiled.numeric(i) for i in range(compiled.nnumeric)]

    def bound(name: str) -> int | None:
        given = (int(one.data[0]) for one in numbers if one.name == name)
        return next((number for number in given if number > 0), None)

    return Soft(cone, compiled.opt.impratio, most=bound(MOST), pairs=bound(PAIRS))


def may_touch(mujoco, compiled) -> bool:
    """Returns whether MuJoCo's filters allow contact between two geoms that can move relative to each other."""
    disabled = disabled_effects(mujoco, compiled)
    if disabled & {"CONTACT", "CONSTRAINT"}:
        return False
    return bool(compiled.npair or len(_filtered(compiled, disabled)))


def _filtered(compiled, disabled: set[str], adjacent: bool = False) -> np.ndarray:
    """Returns the geom pairs that may collide by their bits; if `adjacent`, only pairs on a body and its parent."""
    kind, affinity = compiled.geom_contype, compiled.geom_conaffinity
    touch = (kind[:, None] & affinity) | (affinity[:, None] & kind)
    body = compiled.geom_bodyid
    weld = compiled.body_weldid[body]
    touch = (touch != 0) & (weld[:, None] != weld)
    above = compiled.body_weldid[compiled.body_parentid[weld]]
    next_to = (above[:, None] == weld) & (weld != 0)
    next_to |= next_to.T
    if adjacent:
        touch &= next_to
    elif "FILTERPARENT" not in disabled:
        touch &= ~next_to
    excluded = {(int(one) >> 16, int(one) & 0xFFFF) for one in compiled.exclude_signature}
    pairs = np.argwhere(np.triu(touch))
    ends = body[pairs].tolist()
    kept = [(a, b) not in excluded and (b, a) not in excluded for a, b in ends]
    return pairs[np.array(kept, bool)]


def _pairs(mujoco, compiled) -> list[ContactPair]:
    if "CONTACT" in disabled_effects(mujoco, compiled):
        return []
    shapes = shape_names(compiled)
    names = names_of([compiled.pair(i).name or f"pair_{i}" for i in range(compiled.npair)], compiled.pair)
    found = []
    for i, name in enumerate(names):
        ends = int(compiled.pair_geom1[i]), int(compiled.pair_geom2[i])
        found.append(
            ContactPair(
                name,
                *(shapes[end] for end in ends),
                condim=int(compiled.pair_dim[i]),
                margin=compiled.pair_margin[i],
                gap=compiled.pair_gap[i],
                friction=np.array(compiled.pair_friction[i]),
                solref=np.array(compiled.pair_solref[i]),
                solimp=np.array(compiled.pair_solimp[i]),
            )
        )
    disabled = disabled_effects(mujoco, compiled)
    if "FILTERPARENT" in disabled:  # explicit pairs are the only way to enable them in the model
        known = {frozenset((pair.first, pair.second)) for pair in found}
        for i, j in _filtered(compiled, disabled, adjacent=True).tolist():
            if frozenset((shapes[i], shapes[j])) not in known:
                found.append(ContactPair(f"{shapes[i]}:{shapes[j]}", shapes[i], shapes[j]))
    return found


def _softness(mujoco, compiled) -> list[Softness]:
    """Returns the solver parameters of joints and tendons where they differ from the defaults."""
    hinges, found, disabled = joint_names(compiled), [], disabled_effects(mujoco, compiled)
    for joint, name in enumerate(hinges):
        dof = compiled.jnt_dofadr[joint]
        words = {}
        if compiled.jnt_limited[joint] and compiled.jnt_type[joint] in (SLIDE, HINGE):
            words |= {"solref": compiled.jnt_solref[joint], "solimp": compiled.jnt_solimp[joint]}
            words |= {"margin": compiled.jnt_margin[joint]}
        if compiled.dof_frictionloss[dof]:
            words |= {
                "friction_solref": compiled.dof_solref[dof],
                "friction_solimp": compiled.dof_solimp[dof],
            }
        found.append(_soft(words, joint=name))
    stops, rubs = limits_of(compiled, disabled), friction_of(compiled, disabled)
    for tendon, name in enumerate(tendon_names(compiled)):
        words = {}
        if stops[tendon]:
            words |= {"solref": compiled.tendon_solref_lim[tendon], "margin": compiled.tendon_margin[tendon]}
            words |= {"solimp": compiled.tendon_solimp_lim[tendon]}
        if rubs[tendon]:
            words |= {
                "friction_solref": compiled.tendon_solref_fri[tendon],
                "friction_solimp": compiled.tendon_solimp_fri[tendon],
            }
        found.append(_soft(words, tendon=name))
    return [one for one in found if not one.usual]


def _massless(compiled) -> list[MasslessCenters]:
    """Returns MuJoCo's centers of mass of moving massless bodies, where they differ from the body's origin."""
    moves = (compiled.body_mass == 0) & (compiled.body_weldid != 0)
    bodies = np.flatnonzero(moves & compiled.body_ipos.any(axis=1))
    names = body_names(compiled)
    return [MasslessCenters([names[b] for b in bodies], compiled.body_ipos[bodies])] if len(bodies) else []


def _soft(words: dict[str, Any], joint: str | None = None, tendon: str | None = None) -> Softness:
    return Softness(joint, tendon=tendon, **{key: np.array(value) for key, value in words.items()})


def contact_left_out(mujoco, compiled, law: bool) -> list[str]:
    """Returns descriptions of the contact properties that are not in force, with or without the contact model."""
    found, option = [], compiled.opt
    disabled = disabled_effects(mujoco, compiled)
    law, touch = law and acts(mujoco, compiled), may_touch(mujoco, compiled)
    if touch and not law:
        found.append("contacts between shapes")
    limited = compiled.jnt_limited.astype(bool)
    if not disabled & {"LIMIT", "CONSTRAINT"}:
        if np.any(limited) and not law:
            found.append("limits of joints")
        if np.any(limited & (compiled.jnt_type == BALL)) and law:
            found.append("limits of ball joints")
    if touch and law:
        if option.enableflags & int(mujoco.mjtEnableBit.mjENBL_OVERRIDE):
            found.append("global override of contact parameters")
        if option.noslip_iterations:
            found.append("noslip iterations of the solver")
        if option.disableflags & int(mujoco.mjtDisableBit.mjDSBL_REFSAFE):
            found.append("time constants of contact shorter than two steps")
        if compiled.npair and np.any(compiled.pair_solreffriction):
            found.append("time constants of friction of contact pairs")
    return found
