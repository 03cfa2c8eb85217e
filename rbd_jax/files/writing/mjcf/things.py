"""Writes the attachments of a model to an MJCF file, with one function for each family, in the table `WRITERS`.

A function writes one attachment and returns whether that is possible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree.ElementTree import SubElement

import numpy as np
from numpy.polynomial import Polynomial

from ....contact.equality import QuaternionWeld, SoftEquality, SoftTendonEquality
from ....contact.massless import MasslessCenters
from ....contact.pairs import ContactExclusion, ContactPair
from ....contact.soft import Soft
from ....contact.softness import Softness
from ....forces import BoxDrag, EllipsoidDrag, FixedTendon, GravityCompensation, SpatialTendon
from ....forces.actuators import (
    Actuator,
    Cylinder,
    Damper,
    IntegratedVelocity,
    Motor,
    Muscle,
    Position,
    Velocity,
)
from ....loops import Connect, CoordinateCoupling, Weld
from ....model import Keyframe
from ....sensors import FrameAxis
from ....shapes.shape import Shape
from ....shapes.site import Site
from ....spatial import Reference
from ....spatial.attached import Attached
from ....spatial.transform import Transform
from ...placement import quaternion, rotation_matrix
from ..numerals import check_name, text
from ..series import FREE, PLANE
from .actuators import write_actuator
from .contact import write_centers, write_exclusion, write_law, write_pair, write_softness
from .document import Document, Written, place, site_at
from .forces import write_compensation, write_fluid
from .sensors import TAGS, write_sensor
from .shapes import write_shape
from .tendons import write_fixed, write_spatial


#: The order of writing: elements before their references, and before the sites that other elements generate.
ORDER = (
    "site",
    "shape",
    "contact law",
    "contact pair",
    "contact exclusion",
    "tendon",
    "softness",
    "massless centers",
    "constraint",
    "soft equality",
    "force",
    "actuator",
    "sensor",
    "keyframe",
)


def write_things(out: Document) -> None:
    """Writes all attachments and records those that MJCF cannot express, together with the references to them."""
    lost: set[Reference] = set()
    order = {role: place for place, role in enumerate(ORDER)}
    for thing in sorted(out.model.attached, key=lambda thing: order.get(thing.role, len(ORDER))):
        if thing.name:
            check_name(thing.role, thing.name)
        kept = thing.without(lost) if lost & set(thing.refers) else thing
        write = WRITERS.get(type(thing))
        if kept is None or write is None or not write(out, kept):
            out.losses.add(f"{thing.role}s", thing.name or thing.label)
            lost.add(Reference(thing.role, thing.name))


def _site(out: Document, site: Site) -> bool:
    place(SubElement(out.bodies[site.body], "site", name=site.name), site.placement)
    return True


# Constraints.


def _tie(out: Document, kind: str, constraint: Attached, **attributes) -> bool:
    named = {"name": constraint.name} if constraint.name else {}
    SubElement(out.section("equality"), kind, named | attributes)
    return True


def _soft(out: Document, equality: SoftEquality) -> bool:
    """Writes the constraint, and its softness."""
    write = WRITERS.get(type(equality.constraint))
    if write is None or not write(out, equality.constraint):
        return False
    return _soften(out, equality)


def _soften(out: Document, equality: SoftEquality | SoftTendonEquality) -> bool:
    """Adds the softness to the equality constraint that was written last."""
    element = out.section("equality")[-1]
    element.set("solref", text(equality.solref))
    element.set("solimp", text(equality.solimp))
    return True


def _tied_tendons(out: Document, equality: SoftTendonEquality) -> bool:
    named = {f"tendon{number}": name for number, name in enumerate(equality.tendons, 1)}
    # MuJoCo takes the lengths in the configuration of the file as the rest lengths.
    lengths = np.asarray(equality.lengths_in_reference(out.model))
    polynomial = Polynomial(np.asarray(equality.polynomial, float))
    off = np.asarray(equality.rest, float) - lengths
    if len(off) == 2:
        polynomial = polynomial(Polynomial([-off[1], 1]))
    else:
        polynomial = Polynomial([polynomial.coef[0]])
    coefficients = np.pad((polynomial + off[0]).coef, (0, 5))[:5]
    SubElement(out.section("equality"), "tendon", named | {"polycoef": text(coefficients)})
    return _soften(out, equality)


def _quaternion_weld(out: Document, constraint: QuaternionWeld) -> bool:
    _weld(out, constraint)
    out.section("equality")[-1].set("torquescale", text(constraint.torquescale))
    return True


def _connect(out: Document, constraint: Connect) -> bool:
    """Writes a connect between two sites. With bodies, MuJoCo would compute the second point from the initial configuration."""
    frames = [Transform.from_position(constraint.frames.position[i]) for i in (0, 1)]
    sites = [
        site_at(out, f"{constraint.label}:{body}", body, frame)
        for body, frame in zip(constraint.bodies, frames)
    ]
    return _tie(out, "connect", constraint, site1=sites[0], site2=sites[1])


def _weld(out: Document, constraint: Weld | QuaternionWeld) -> bool:
    """Writes a weld. The position of MuJoCo's `relpose` is that of the anchor, a point of the second body, on the first."""
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
    """Writes `y - y0 = p(x - x0)` of one or two joints, where y appears only linearly."""
    rows = [Polynomial(np.asarray(row, float)).trim() for row in constraint.coefficients]
    if any(joint not in out.joints for joint in constraint.joints):
        return False
    if _tendon_of(out, constraint, rows) is not None:
        return _sum(out, constraint, rows)
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
    """Writes `Σ c q` of any number of joints as a tendon of constant length."""
    if any(row.degree() > 1 for row in rows):
        return False
    name = _tendon_of(out, constraint, rows)
    terms = [(joint, np.pad(row.coef, (0, 2 - len(row.coef)))) for joint, row in zip(constraint.joints, rows)]
    if name is None:
        name = out.unused("fixed", constraint.name or constraint.label)
        tendon = SubElement(out.section("tendon"), "fixed", name=name)
        for joint, (_, slope) in terms:
            SubElement(tendon, "joint", joint=joint, coef=text(slope))
    rest = -sum(
        constant + slope * float(out.joints[joint].body.reference[0]) for joint, (constant, slope) in terms
    )
    return _tie(out, "tendon", constraint, tendon1=name, polycoef=text([rest, 0, 0, 0, 0]))


def _tendon_of(out: Document, constraint: CoordinateCoupling, rows: list[Polynomial]) -> str | None:
    """Returns the tendon of the model whose length is the sum up to a constant, or None."""
    slopes = {joint: row.coef[1:].tolist() for joint, row in zip(constraint.joints, rows)}
    for tendon in out.model.tendons:
        if isinstance(tendon, FixedTendon):
            own = dict(zip(tendon.joints, tendon.coefficients.reshape(-1, 1).tolist()))
            if own == slopes:
                return tendon.name
    return None


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
    starts = {one.name: one.activation for one in model.actuators if isinstance(one, Actuator)}
    told = dict(zip(keyframe.actuators, zip(keyframe.controls, keyframe.activations)))
    ctrl, act = [], []
    for element in out.section("actuator"):
        name = element.attrib["name"]
        control, activation = told.get(name, (None, None))
        ctrl.append(0.0 if control is None else float(control))
        activation = starts[name] if activation is None else activation
        if activation is not None:
            act.append(float(np.ravel(activation)[0]))
    for word, numbers in (("ctrl", ctrl), ("act", act)):
        if np.any(numbers):
            key.set(word, text(numbers))
    return True


def _in_parents_axes(written: Written, q, v) -> np.ndarray:
    """Returns joint velocities with linear parts in the axes of the parent, as for slides and MuJoCo's free joints."""
    part, v = written.part, v.copy()
    own = list(part.v)
    if part.kind == FREE:
        v[own[3:]] = rotation_matrix(q[list(part.q)][3:]) @ v[own[3:]]
    elif part.kind == PLANE:
        c, s = np.cos(q[part.q[0]]), np.sin(q[part.q[0]])
        v[own[1:]] = np.array([[c, -s], [s, c]]) @ v[own[1:]]
    return v


#: The function that writes each family, and returns whether that is possible.
WRITERS: dict[type, Callable[[Document, Any], bool]] = {
    Site: _site,
    Shape: write_shape,
    Connect: _connect,
    Weld: _weld,
    QuaternionWeld: _quaternion_weld,
    SoftEquality: _soft,
    SoftTendonEquality: _tied_tendons,
    CoordinateCoupling: _coupling,
    Keyframe: _keyframe,
    FixedTendon: write_fixed,
    SpatialTendon: write_spatial,
    **dict.fromkeys(
        (Actuator, Motor, Position, Velocity, IntegratedVelocity, Damper, Cylinder, Muscle), write_actuator
    ),
    GravityCompensation: write_compensation,
    BoxDrag: write_fluid,
    EllipsoidDrag: write_fluid,
    Soft: write_law,
    ContactPair: write_pair,
    ContactExclusion: write_exclusion,
    Softness: write_softness,
    MasslessCenters: write_centers,
    FrameAxis: write_sensor,
    **dict.fromkeys(TAGS, write_sensor),
}
