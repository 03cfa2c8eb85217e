"""Writes the contact properties of shapes, and the solver parameters of limits and dry friction, of an MJCF file."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement

import numpy as np

from ....contact.massless import MasslessCenters
from ....contact.pairs import ContactExclusion, ContactPair
from ....contact.soft import Soft
from ....contact.softness import Softness
from ...mjcf.contact import MOST, PAIRS
from ..numerals import text
from .document import Document
from .tree import LEAST


def write_law(out: Document, law: Soft) -> bool:
    """Writes the contact model's deviations from MuJoCo's defaults. MuJoCo has only this contact model."""
    option = out.section("option")
    if law.cone != "pyramidal":
        option.set("cone", law.cone)
    if float(law.impratio) != 1:
        option.set("impratio", text(law.impratio))
    for name, bound in ((MOST, law.most), (PAIRS, law.pairs)):
        if bound is not None:
            custom = out.section("custom")
            said = next((one for one in custom if one.get("name") == name), None)
            said = SubElement(custom, "numeric", name=name) if said is None else said
            said.set("data", str(bound))
    # Without an inertial frame, MuJoCo does not place that of a massless body at the body's origin.
    for name, element in out.bodies.items():
        if name != "world":
            _inertial_of(element)
    return law.limits and law.friction


def write_pair(out: Document, pair: ContactPair) -> bool:
    element = SubElement(out.section("contact"), "pair", name=pair.name, geom1=pair.first, geom2=pair.second)
    if pair.condim is not None:
        element.set("condim", str(pair.condim))
    for word in ("margin", "gap", "friction", "solref", "solimp"):
        if (value := getattr(pair, word)) is not None:
            element.set(word, text(value))
    return True


def write_exclusion(out: Document, exclusion: ContactExclusion) -> bool:
    body1, body2 = exclusion.bodies
    SubElement(out.section("contact"), "exclude", name=exclusion.name, body1=body1, body2=body2)
    return True


def write_softness(out: Document, softness: Softness) -> bool:
    """Writes solver parameters on the tendon, on the joint, or on all joints that are written for it."""
    if softness.tendon is not None:
        elements = [one for one in out.section("tendon") if one.get("name") == softness.tendon]
    else:
        parts = [name for name, written in out.joints.items() if written.body.joint_name == softness.joint]
        elements = [out.named("joint", name) for name in parts]
    usual = Softness("joint")
    words = {
        "margin": (softness.limit[0], usual.limit[0]),
        "solreflimit": (softness.limit[1:3], usual.limit[1:3]),
        "solimplimit": (softness.limit[3:], usual.limit[3:]),
        "solreffriction": (softness.rubbing[:2], usual.rubbing[:2]),
        "solimpfriction": (softness.rubbing[2:], usual.rubbing[2:]),
    }
    for element in elements:
        for word, (value, as_usual) in words.items():
            if not np.array_equal(value, as_usual):
                element.set(word, text(value))
    return bool(elements)


def write_centers(out: Document, centers: MasslessCenters) -> bool:
    for body, point in zip(centers.bodies, np.asarray(centers.frames.position)):
        inertial = None if body == "world" else _inertial_of(out.bodies[body])
        if inertial is not None and float(inertial.attrib["mass"]) <= LEAST:
            inertial.set("pos", text(point))
    return True


def _inertial_of(body: Element) -> Element:
    """Returns the `<inertial>` of a body. Adds a massless one at the body's origin if the body has none."""
    found = body.find("inertial")
    if found is not None:
        return found
    return SubElement(body, "inertial", pos="0 0 0", mass="0", diaginertia="0 0 0")
