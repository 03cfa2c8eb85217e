"""Reads the `<visual>` and `<collision>` of URDF links."""

from __future__ import annotations

import numpy as np

from .._core.errors import ModelError
from ..shapes import Box, Capsule, Cylinder, Mesh, Sphere
from ..shapes.geometry import Geometry
from .placement import origin
from .resources import Resources
from .shapes import GREY, GROUPS, ShapeReader
from .xml import Element


class UrdfShapes(ShapeReader):
    """Reads the shapes of a robot's links."""

    def __init__(self, robot: Element, resources: Resources):
        every = (one for link in robot.all("link") for tag in GROUPS for one in link.all(tag))
        super().__init__(resources, (self.own_name(one, "") for one in every))
        self._materials = _materials(robot)

    def own_name(self, element, body):
        return element.attributes.get("name", "").strip()

    def placement(self, element, body):
        return origin(element).transform()

    def touch(self, element, body):
        return {}

    def look(self, element):
        material = element.child("material")
        if material is None:
            return {}
        name = material.attributes.get("name", "").strip()
        colour = _colour(material)
        colour = self._materials.get(name, GREY) if colour is None else colour
        return {"rgba": colour, "material": name}

    def geometry(self, element) -> Geometry:
        outer = element.needed("geometry", "<geometry><box .../></geometry>")
        kinds = [child for child in outer.children if child.tag in READERS]
        if len(kinds) != 1:
            listed = ", ".join(READERS)
            found = ", ".join(child.tag for child in outer.children) or "nothing"
            raise ModelError(f"{outer} has {found}; it takes one of {listed}")
        return READERS[kinds[0].tag](self, kinds[0])

    def mesh(self, element: Element) -> Mesh:
        file = self.mesh_file(element.text("filename"))
        scale = element.attributes.get("scale", "1 1 1").split()
        numbers = (
            element.numbers("scale", 3, (1.0, 1.0, 1.0))
            if len(scale) != 1
            else element.numbers("scale", 1).repeat(3)
        )
        return Mesh.of(file, numbers)


#: Readers of the kinds of geometry.
READERS = {
    "box": lambda reader, one: Box(one.numbers("size", 3) / 2),
    "sphere": lambda reader, one: Sphere(one.number("radius")),
    "cylinder": lambda reader, one: Cylinder(one.number("radius"), one.number("length") / 2),
    "capsule": lambda reader, one: Capsule(one.number("radius"), one.number("length") / 2),
    "mesh": UrdfShapes.mesh,
}


def _materials(robot: Element) -> dict[str, tuple[float, ...]]:
    """Returns the named colors, from the robot and from all visuals."""
    places = [robot, *(visual for link in robot.all("link") for visual in link.all("visual"))]
    found: dict[str, tuple[float, ...]] = {}
    for place in places:
        for material in place.all("material"):
            name, colour = material.attributes.get("name", "").strip(), _colour(material)
            if name and colour is not None:
                found.setdefault(name, colour)
    return found


def _colour(material: Element) -> tuple[float, ...] | None:
    colour = material.child("color")
    return None if colour is None else tuple(np.clip(colour.numbers("rgba", 4), 0, 1).tolist())
