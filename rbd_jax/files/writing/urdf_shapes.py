"""Writes shapes as the `<visual>` and `<collision>` of URDF links."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from ...shapes import Box, Capsule, Cylinder, Mesh, Sphere
from ...shapes.mesh import MeshFile
from ...shapes.shape import Shape
from ..resources import PACKAGES
from ..shapes import GREY
from .contact import contact_numbers
from .losses import Losses
from .numerals import angles, check_name, text


#: The geometries with URDF elements, and the element and attributes of each.
SIZES = {
    Sphere: lambda one: ("sphere", {"radius": one.radius}),
    Cylinder: lambda one: ("cylinder", {"radius": one.radius, "length": 2 * one.half_length}),
    Capsule: lambda one: ("capsule", {"radius": one.radius, "length": 2 * one.half_length}),
    Box: lambda one: ("box", {"size": 2 * one.half_sizes}),
}


def write_shapes(robot: Element, shapes: tuple[Shape, ...], losses: Losses) -> None:
    """Writes all shapes on links. A shape that is both visual and collision is written twice."""
    links = {link.get("name"): link for link in robot.iter("link")}
    for shape in shapes:
        check_name("shape", shape.name)
        kinds = [
            kind for kind, is_one in (("visual", shape.visual), ("collision", shape.collision)) if is_one
        ]
        geometry = _geometry(shape)
        if geometry is None or not kinds or shape.body not in links:
            losses.add("shapes", shape.name)
            continue
        for kind in kinds:
            element = SubElement(links[shape.body], kind, name=shape.name)
            _origin(element, shape)
            tag, words = geometry
            SubElement(SubElement(element, "geometry"), tag, words)
            if kind == "visual":
                _material(element, shape)
        if shape.collision and contact_numbers(shape):
            losses.add("contact properties of shapes", shape.name)


def _origin(element: Element, shape: Shape) -> None:
    rotation, position = (np.asarray(x, float) for x in (shape.placement.rotation, shape.placement.position))
    SubElement(element, "origin", xyz=text(position), rpy=text(angles(rotation)))


def _geometry(shape: Shape) -> tuple[str, dict[str, str]] | None:
    """Returns the element and its attributes, or None if URDF has no such geometry."""
    geometry = shape.geometry
    if isinstance(geometry, Mesh) and isinstance(geometry.source, MeshFile):
        source = geometry.source
        file = source.wanted if source.wanted.startswith(PACKAGES) else str(Path(source.file).absolute())
        return "mesh", {"filename": file, "scale": text(geometry.scale)}
    if type(geometry) not in SIZES:
        return None
    tag, sizes = SIZES[type(geometry)](geometry)
    return tag, {word: text(size) for word, size in sizes.items()}


def _material(element: Element, shape: Shape) -> None:
    """Writes the color. URDF requires a material name; the shape's name is used if it has no material."""
    if shape.material or shape.rgba != GREY:
        material = SubElement(element, "material", name=shape.material or shape.name)
        SubElement(material, "color", rgba=text(shape.rgba))
