"""Writes the tendons of an MJCF file, the inverse of `files/mjcf/tendons.py`."""

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
    """Writes a tendon through sites and around geoms. The tendon's own points become sites."""
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
    """Returns the name of the site at a point of the tendon."""
    if place < 0:
        return tendon.sites[-1 - place]
    body = tendon.own_bodies[place]
    return site_at(out, f"{tendon.name}:{body}", body, tendon.frames[place])


def _tendon(out: Document, kind: str, tendon: Tendon) -> Element:
    """Returns the element with spring and damper. MuJoCo would replace rest lengths -1 by lengths that it computes."""
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
