"""How shapes touch each other, and how soft stops and dry friction are, in an MJCF file."""

from __future__ import annotations

from xml.etree.ElementTree import SubElement

import numpy as np

from ....contact.pairs import ContactExclusion, ContactPair
from ....contact.soft import Soft
from ....contact.softness import Softness
from ...mjcf.contact import MOST, PAIRS
from ..numerals import text
from .document import Document


def write_law(out: Document, law: Soft) -> bool:
    """MuJoCo has no other law, and says of it what is not as usual."""
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
    """With the tendon, or the joint, or all those that are written for it."""
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
