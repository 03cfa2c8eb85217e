"""How the geoms of an MJCF file touch: law of contact, pairs and exclusions, and how soft stops and dry friction are."""

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


#: The custom number by which MJX bounds the contacts that act at once, of each number of dimensions.
MOST = "max_contact_points"

#: The one by which it bounds the pairs of geoms of each two kinds that are looked at.
PAIRS = "max_geom_pairs"


def contact_of(mujoco, compiled, law: bool) -> list[Attached]:
    """What there is of it, with the law or without."""
    found: list[Attached] = [law_of(mujoco, compiled)] if law and needed(mujoco, compiled) else []
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
    """Returns the exclusions of bodies with several joints and the bodies that carry them, which do not touch in MuJoCo.

    Here a massless body for each further joint lies between the two.
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
    """Whether the file lets anything touch, or stop, at all."""
    return not disabled_effects(mujoco, compiled) & {"CONTACT", "CONSTRAINT"}


def needed(mujoco, compiled) -> bool:
    """Whether there is anything for a law of contact to do: shapes that touch, stops, dry friction."""
    disabled = disabled_effects(mujoco, compiled)
    stops = "LIMIT" not in disabled and np.any(compiled.jnt_limited)
    held = np.any(limits_of(compiled, disabled)) or np.any(friction_of(compiled, disabled))
    rubs = "FRICTIONLOSS" not in disabled and np.any(compiled.dof_frictionloss)
    return acts(mujoco, compiled) and bool(may_touch(mujoco, compiled) or stops or held or rubs)


def law_of(mujoco, compiled) -> ContactLaw:
    cone = mujoco.mjtCone(compiled.opt.cone).name.removeprefix("mjCONE_").lower()
    numbers = [compiled.numeric(i) for i in range(compiled.nnumeric)]

    def bound(name: str) -> int | None:
        given = (int(one.data[0]) for one in numbers if one.name == name)
        return next((number for number in given if number > 0), None)

    return Soft(cone, compiled.opt.impratio, most=bound(MOST), pairs=bound(PAIRS))


def may_touch(mujoco, compiled) -> bool:
    """Whether the file lets two geoms touch that can move against each other: MuJoCo's filters."""
    disabled = disabled_effects(mujoco, compiled)
    return acts(mujoco, compiled) and bool(compiled.npair or len(_filtered(compiled, disabled)))


def _filtered(compiled, disabled: set[str], adjacent: bool = False) -> np.ndarray:
    """The pairs of geoms that may touch by their bits; with `adjacent` only those on a body and the one that carries it."""
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
    if "FILTERPARENT" in disabled:  # here the only way to let them touch
        known = {frozenset((pair.first, pair.second)) for pair in found}
        for i, j in _filtered(compiled, disabled, adjacent=True).tolist():
            if frozenset((shapes[i], shapes[j])) not in known:
                found.append(ContactPair(f"{shapes[i]}:{shapes[j]}", shapes[i], shapes[j]))
    return found


def _softness(mujoco, compiled) -> list[Softness]:
    """Of those joints and tendons where it is not what it is where nothing is said."""
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
    """What MuJoCo takes for the centers of mass of bodies that move and have none, where it is not their origin."""
    moves = (compiled.body_mass == 0) & (compiled.body_weldid != 0)
    bodies = np.flatnonzero(moves & compiled.body_ipos.any(axis=1))
    names = body_names(compiled)
    return [MasslessCenters([names[b] for b in bodies], compiled.body_ipos[bodies])] if len(bodies) else []


def _soft(words: dict[str, Any], joint: str | None = None, tendon: str | None = None) -> Softness:
    return Softness(joint, tendon=tendon, **{key: np.array(value) for key, value in words.items()})


def contact_left_out(mujoco, compiled, law: bool) -> list[str]:
    """What of it is not in force, in words, with the law or without."""
    found, option = [], compiled.opt
    disabled = disabled_effects(mujoco, compiled)
    law, touch = law and acts(mujoco, compiled), may_touch(mujoco, compiled)
    if touch and not law:
        found.append("contacts between shapes")
    limited = compiled.jnt_limited.astype(bool)
    if not disabled & {"LIMIT", "CONSTRAINT"}:
        if np.any(limited) and not law:
            found.append("stops at the limits of joints")
        if np.any(limited & (compiled.jnt_type == BALL)) and law:
            found.append("stops at the limits of balls")
    if touch and law:
        if option.enableflags & int(mujoco.mjtEnableBit.mjENBL_OVERRIDE):
            found.append("numbers of contact that override all others")
        if option.noslip_iterations:
            found.append("steps against slip after the solver")
        if option.disableflags & int(mujoco.mjtDisableBit.mjDSBL_REFSAFE):
            found.append("time constants of contact shorter than two steps")
        if compiled.npair and np.any(compiled.pair_solreffriction):
            found.append("time constants of friction of contact pairs")
    return found
