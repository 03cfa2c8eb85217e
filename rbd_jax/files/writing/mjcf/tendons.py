"""The tendons of an MJCF file: what `files/mjcf/tendons.py` reads, the other way round."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement

import numpy as np

from ....forces import FixedTendon, SpatialTendon, Tendon
from ..numerals import text
from .document import Document, site_at, wrapped_at


def write_fixed(out: Document, tendon: FixedTendon) -> bool:
    if any(joint not in out.joints for joint in tendon.joints):
        return False
    element = _tendon(out, "fixed", tendon)
    for joint, coefficient in zip(tendon.joints, tendon.coefficients, strict=True):
        SubElement(element, "joint", joint=joint, coef=text(coefficient))
    return True


def write_spatial(out: Document, tendon: SpatialTendon) -> bool:
    """Through sites, of which its own points become some, and around geoms."""
    radii = np.asarray(tendon.radii)
    if any(piece.surface is not None and not radius for piece, radius in zip(tendon.pieces, radii)):
        return False
    element = _tendon(out, "spatial", tendon)
    last, divisor = None, 1.0
    for piece, radius, share in zip(tendon.pieces, radii, np.asarray(tendon.divisors), strict=True):
        if share != divisor or (last is not None and piece.start != last):
            SubElement(element, "pulley", divisor=text(share))
            last = None
        if last is None:
            SubElement(element, "site", site=_site(out, tendon, piece.start))
        if piece.surface is not None:
            kind = "sphere" if piece.is_sphere else "cylinder"
            body, frame = tendon.own_bodies[piece.surface], tendon.frames[piece.surface]
            name = wrapped_at(out, f"{tendon.name}:{body}", body, frame, kind, float(radius))
            geom = SubElement(element, "geom", geom=name)
            if piece.side is not None:
                geom.set("sidesite", _site(out, tendon, piece.side))
        SubElement(element, "site", site=_site(out, tendon, piece.end))
        last, divisor = piece.end, share
    return True


def _site(out: Document, tendon: SpatialTendon, place: int) -> str:
    """The name of the site at one of a tendon's places."""
    if place < 0:
        return tendon.sites[-1 - place]
    body = tendon.own_bodies[place]
    return site_at(out, f"{tendon.name}:{body}", body, tendon.frames[place])


def _tendon(out: Document, kind: str, tendon: Tendon) -> Element:
    """With the spring and the damper. Of two rest lengths -1 MuJoCo would find others."""
    rest = np.asarray(tendon.rest_length, float)
    if (rest == -1).all():
        rest = np.nextafter(rest, 0)
    element = SubElement(out.section("tendon"), kind, name=tendon.name, springlength=text(rest))
    if tendon.spring_constant is not None:
        element.set("stiffness", text(tendon.spring_constant))
    if tendon.damping_constant is not None:
        element.set("damping", text(tendon.damping_constant))
    if tendon.limits is not None:
        element.set("range", text(tendon.limits))
    if tendon.friction is not None:
        element.set("frictionloss", text(tendon.friction))
    return element
