"""The `<visual>` and `<collision>` of URDF links."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .._errors import ModelError
from ..shapes import Box, Capsule, Cylinder, Mesh, Shape, Sphere
from ..shapes.geometry import Geometry
from ..shapes.mesh import MeshFile
from ..spatial import Transform
from .resources import Resources
from .xml import Element


#: What MuJoCo's users sort shapes by: those that are seen, and those that touch.
GROUPS = {"visual": 2, "collision": 3}

#: Where no colour is said.
GREY = (0.5, 0.5, 0.5, 1.0)


class ShapeReader:
    """Reads the shapes of links.

    What is no shape (a ball of no radius) is left out, and gathered in `faults`: a robot moves without it.
    """

    def __init__(self, robot: Element, resources: Resources):
        self._resources = resources
        self._materials = _materials(robot)
        self._meshes: dict[str, MeshFile] = {}
        self._named = [one for link in robot.all("link") for tag in GROUPS for one in link.all(tag)]
        self._taken = {one.attributes.get("name", "") for one in self._named}
        self._given: set[str] = set()
        self.faults: list[str] = []

    def shapes_of(self, link: Element, body: str, placement) -> Iterable[Shape]:
        """Those of a link; `placement` reads an `<origin>`."""
        for tag, group in GROUPS.items():
            for index, element in enumerate(link.all(tag)):
                seen = tag == "visual"
                try:
                    geometry = self._geometry(element)
                    frame: Transform = placement(element.child("origin"))
                except ValueError as error:
                    self.faults.append(f"{link}: {error}")
                    continue
                name = self._name(element, f"{body}:{tag}_{index}")
                look = self._look(element) if seen else {}
                touch = {} if not seen else {"contype": 0, "conaffinity": 0}
                yield Shape(
                    name, body, geometry, frame, visual=seen, collision=not seen, group=group, **look, **touch
                )

    def _name(self, element: Element, otherwise: str) -> str:
        """Its own, or one made of the link's; with underscores where that is taken."""
        own = element.attributes.get("name", "").strip()
        name = own or otherwise
        while name in self._given or (not own and name in self._taken):
            name += "_"
        self._given.add(name)
        return name

    def _look(self, element: Element) -> dict:
        material = element.child("material")
        if material is None:
            return {}
        name = material.attributes.get("name", "").strip()
        colour = _colour(material)
        colour = self._materials.get(name, GREY) if colour is None else colour
        return {"rgba": colour, "material": name}

    def _geometry(self, element: Element) -> Geometry:
        outer = element.needed("geometry", "<geometry><box .../></geometry>")
        kinds = [child for child in outer.children if child.tag in READERS]
        if len(kinds) != 1:
            listed = ", ".join(READERS)
            found = ", ".join(child.tag for child in outer.children) or "nothing"
            raise ModelError(f"{outer} has {found}; it takes one of {listed}")
        return READERS[kinds[0].tag](self, kinds[0])

    def mesh(self, element: Element) -> Mesh:
        name = element.text("filename")
        if name not in self._meshes:
            self._meshes[name] = MeshFile(self._resources.find(name), name)
        scale = element.attributes.get("scale", "1 1 1").split()
        numbers = (
            element.numbers("scale", 3, (1.0, 1.0, 1.0))
            if len(scale) != 1
            else element.numbers("scale", 1).repeat(3)
        )
        return Mesh.of(self._meshes[name], numbers)


#: How each kind of geometry is read.
READERS = {
    "box": lambda reader, one: Box(one.numbers("size", 3) / 2),
    "sphere": lambda reader, one: Sphere(one.number("radius")),
    "cylinder": lambda reader, one: Cylinder(one.number("radius"), one.number("length") / 2),
    "capsule": lambda reader, one: Capsule(one.number("radius"), one.number("length") / 2),
    "mesh": ShapeReader.mesh,
}


def _materials(robot: Element) -> dict[str, tuple[float, ...]]:
    """The colours that have names, wherever they are said."""
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
