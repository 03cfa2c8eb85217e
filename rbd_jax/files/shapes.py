"""Reads the `<visual>` and `<collision>` of links, which URDF and SDF share."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from .._core.errors import ModelError, ModelWarning
from ..shapes.geometry import Geometry
from ..shapes.mesh import MeshFile
from ..shapes.shape import Shape
from ..spatial.transform import Transform
from .resources import Resources
from .xml import Element


#: Groups of visual and of collision shapes, by MuJoCo's convention.
GROUPS = {"visual": 2, "collision": 3}

#: The default color.
GREY = (0.5, 0.5, 0.5, 1.0)


class ShapeReader(ABC):
    """Reads the shapes of links. Subclasses read the parts that differ between formats.

    Invalid shapes (such as a sphere of radius zero) are left out and listed in `faults`, because the robot moves without
    them.

    - `resources`: finds mesh files.
    - `taken`: names that must not be generated for shapes without a name.
    """

    def __init__(self, resources: Resources, taken: Iterable[str] = ()):
        self._resources = resources
        self._meshes: dict[str, MeshFile] = {}
        self._taken = set(taken)
        self._given: set[str] = set()
        self.faults: list[str] = []

    @abstractmethod
    def own_name(self, element: Element, body: str) -> str:
        """Returns the name of a shape in the file, or an empty string."""

    @abstractmethod
    def geometry(self, element: Element) -> Geometry | None:
        """Returns the geometry, or `None` if it is unsupported. The reader reports the latter."""

    @abstractmethod
    def placement(self, element: Element, body: str) -> Transform:
        """Returns the pose in the body."""

    @abstractmethod
    def look(self, element: Element) -> dict[str, Any]:
        """Returns the color and the material of a visual."""

    @abstractmethod
    def touch(self, element: Element, body: str) -> dict[str, Any]:
        """Returns the contact properties of a collision."""

    def shapes_of(self, link: Element, body: str) -> Iterable[Shape]:
        """Yields the shapes of a link, in the frame of `body`."""
        for tag, group in GROUPS.items():
            for index, element in enumerate(link.all(tag)):
                seen = tag == "visual"
                try:
                    geometry = self.geometry(element)
                    frame = self.placement(element, body)
                except ValueError as error:
                    self.faults.append(f"{link}: {error}")
                    continue
                if geometry is None:
                    continue
                more = self.look(element) if seen else self.touch(element, body)
                name = self._name(self.own_name(element, body), f"{body}:{tag}_{index}")
                bits = {"contype": 0, "conaffinity": 0} if seen else {}
                yield Shape(
                    name, body, geometry, frame, visual=seen, collision=not seen, group=group, **bits, **more
                )

    def _name(self, own: str, otherwise: str) -> str:
        """Returns the shape's own name or the alternative, with underscores appended until it is unused."""
        name = own or otherwise
        while name in self._given or (not own and name in self._taken):
            name += "_"
        self._given.add(name)
        return name

    def mesh_file(self, name: str) -> MeshFile:
        """Returns a mesh file, which all shapes with the same file share."""
        if name not in self._meshes:
            self._meshes[name] = MeshFile(self._resources.find(name), name)
        return self._meshes[name]


def report_shapes(name: str, faults: list[str], strict: bool) -> None:
    if not faults:
        return
    message = f"model {name!r} has invalid shapes: {'; '.join(faults)}"
    if strict:
        raise ModelError(f"{message}. Correct them, or load with strict=False to leave them out")
    warnings.warn(f"{message}. They are left out", ModelWarning, stacklevel=3)
