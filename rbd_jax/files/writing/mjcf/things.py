"""What is attached to a model, in an MJCF file: a function for each family, in the table `WRITERS`.

A function writes one thing and says whether it could.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree.ElementTree import SubElement

import numpy as np
from numpy.polynomial import Polynomial

from ....loops import Connect, CoordinateCoupling, Weld
from ....model import Keyframe
from ....sensors import FrameAxis
from ....shapes import Shape, Site
from ....spatial import Attached, Transform
from ...placement import quaternion, rotation_matrix
from ..numerals import check_name, text
from ..series import FREE, PLANE
from .document import Document, Written, place, site_at
from .sensors import TAGS, write_sensor
from .shapes import write_shape


def write_things(out: Document) -> None:
    """Everything that is attached, and tell what has no words."""
    for thing in out.model.attached:
        write = WRITERS.get(type(thing))
        if thing.name:
            check_name(thing.role, thing.name)
        if write is None or not write(out, thing):
            out.losses.add(f"{thing.role}s", thing.name or thing.label)


def _site(out: Document, site: Site) -> bool:
    place(SubElement(out.bodies[site.body], "site", name=site.name), site.placement)
    return True


# Constraints.


def _tie(out: Document, kind: str, constraint: Attached, **attributes) -> bool:
    named = {"name": constraint.name} if constraint.name else {}
    SubElement(out.section("equality"), kind, named | attributes)
    return True


def _connect(out: Document, constraint: Connect) -> bool:
    """By sites, which say both points: of two bodies MuJoCo is told one, and finds the other where they stand at first."""
    frames = [Transform.from_position(constraint.frames.position[i]) for i in (0, 1)]
    sites = [
        site_at(out, f"{constraint.label}:{body}", body, frame)
        for body, frame in zip(constraint.bodies, frames)
    ]
    return _tie(out, "connect", constraint, site1=sites[0], site2=sites[1])


def _weld(out: Document, constraint: Weld) -> bool:
    """The position of MuJoCo's `relpose` is where the anchor, a point of the second body, is on the first."""
    a, b = constraint.frames[0], constraint.frames[1]
    relpose = [
        *np.asarray(a.position),
        *quaternion(np.asarray(a.rotation, float) @ np.asarray(b.rotation, float).T),
    ]
    body1, body2 = constraint.bodies
    return _tie(
        out, "weld", constraint, body1=body1, body2=body2, anchor=text(b.position), relpose=text(relpose)
    )


def _coupling(out: Document, constraint: CoordinateCoupling) -> bool:
    """`y - y0 = p(x - x0)` of one or two joints, of which one is there with its first power alone."""
    rows = [Polynomial(np.asarray(row, float)).trim() for row in constraint.coefficients]
    if any(joint not in out.joints for joint in constraint.joints):
        return False
    for y, x in ((0, 1), (1, 0))[: len(rows)]:
        if len(rows) <= 2 and rows[y].degree() == 1 and (len(rows) == 1 or rows[x].degree() <= 4):
            break
    else:
        return _sum(out, constraint, rows)
    references = [float(out.joints[joint].body.reference[0]) for joint in constraint.joints]
    constant, slope = rows[y].coef
    if len(rows) == 1:
        return _tie(
            out,
            "joint",
            constraint,
            joint1=constraint.joints[0],
            polycoef=text([-constant / slope - references[0], 0, 0, 0, 0]),
        )
    p = -(constant + rows[x](Polynomial([references[x], 1]))) / slope - references[y]
    coefficients = np.pad(p.coef, (0, 5 - len(p.coef)))
    return _tie(
        out,
        "joint",
        constraint,
        joint1=constraint.joints[y],
        joint2=constraint.joints[x],
        polycoef=text(coefficients),
    )


def _sum(out: Document, constraint: CoordinateCoupling, rows: list[Polynomial]) -> bool:
    """`Σ c q` of any number of joints, as the length of a tendon that stays."""
    if any(row.degree() > 1 for row in rows):
        return False
    name = out.unused("fixed", constraint.name or constraint.label)
    tendon = SubElement(out.section("tendon"), "fixed", name=name)
    rest = 0.0
    for joint, row in zip(constraint.joints, rows, strict=True):
        constant, slope = np.pad(row.coef, (0, 2 - len(row.coef)))
        SubElement(tendon, "joint", joint=joint, coef=text(slope))
        rest -= constant + slope * float(out.joints[joint].body.reference[0])
    return _tie(out, "tendon", constraint, tendon1=name, polycoef=text([rest, 0, 0, 0, 0]))


# Keyframes.


def _keyframe(out: Document, keyframe: Keyframe) -> bool:
    model = out.model
    q = np.asarray(model.joint_configurations(keyframe.configuration(model)), float)
    v = np.asarray(model.joint_velocities(keyframe.velocity(model)), float)
    qpos, qvel = [], []
    topology = model.topology
    for name in out.joint_names():
        written = out.joints[name]
        index = topology.joint_index(written.body.joint_name)
        own, rates = q[topology.joint_q(index)], v[topology.joint_v(index)]
        rates = _in_parents_axes(written, own, rates)
        qpos += own[list(written.q)].tolist()
        moved = [*written.v[3:], *written.v[:3]] if written.kind == "free" else [*written.v]
        qvel += rates[moved].tolist()
    key = SubElement(
        out.section("keyframe"), "key", name=keyframe.name, time=text(keyframe.time), qpos=text(qpos)
    )
    if np.any(qvel):
        key.set("qvel", text(qvel))
    return True


def _in_parents_axes(written: Written, q, v) -> np.ndarray:
    """Velocities of a joint with the linear ones in the axes of the parent, as slides and MuJoCo's free joints have them."""
    part, v = written.part, v.copy()
    own = list(part.v)
    if part.kind == FREE:
        v[own[3:]] = rotation_matrix(q[list(part.q)][3:]) @ v[own[3:]]
    elif part.kind == PLANE:
        c, s = np.cos(q[part.q[0]]), np.sin(q[part.q[0]])
        v[own[1:]] = np.array([[c, -s], [s, c]]) @ v[own[1:]]
    return v


#: How each family is written; whether it could be.
WRITERS: dict[type, Callable[[Document, Any], bool]] = {
    Site: _site,
    Shape: write_shape,
    Connect: _connect,
    Weld: _weld,
    CoordinateCoupling: _coupling,
    Keyframe: _keyframe,
    FrameAxis: write_sensor,
    **dict.fromkeys(TAGS, write_sensor),
}
