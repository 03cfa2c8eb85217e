"""The `<visual>` and `<collision>` of links, which URDF and SDF have alike."""

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


#: What MuJoCo's users sort shapes by: those that are seen, and those that touch.
GROUPS = {"visual": 2, "collision": 3}

#: Where no colour is said.
GREY = (0.5, 0.5, 0.5, 1.0)


class ShapeReader(ABC):
    """Reads the shapes of links; what a format says in its own words its reader reads.

    What is no shape (a ball of no radius) is left out, and gathered in `faults`: a robot moves without it.

    - `resources`: where files of meshes are.
    - `taken`: names that are not given to shapes without one.
    """

    def __init__(self, resources: Resources, taken: Iterable[str] = ()):
        self._resources = resources
        self._meshes: dict[str, MeshFile] = {}
        self._taken = set(taken)
        self._given: set[str] = set()
        self.faults: list[str] = []

    @abstractmethod
    def own_name(self, element: Element, body: str) -> str:
        """What a shape is called, or nothing."""

    @abstractmethod
    def geometry(self, element: Element) -> Geometry | None:
        """Its geometry; `None` if there is none here, which the reader has told."""

    @abstractmethod
    def placement(self, element: Element, body: str) -> Transform:
        """Where it is in its body."""

    @abstractmethod
    def look(self, element: Element) -> dict[str, Any]:
        """Colour and material of a visual."""

    @abstractmethod
    def touch(self, element: Element, body: str) -> dict[str, Any]:
        """What a collision touches, and how."""

    def shapes_of(self, link: Element, body: str) -> Iterable[Shape]:
        """Those of a link, the frame of `body`."""
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
        """Its own, or one made of the link's; with underscores where that is taken."""
        name = own or otherwise
        while name in self._given or (not own and name in self._taken):
            name += "_"
        self._given.add(name)
        return name

    def mesh_file(self, name: str) -> MeshFile:
        """A file, once for all that name it."""
        if name not in self._meshes:
            self._meshes[name] = MeshFile(self._resources.find(name), name)
        return self._meshes[name]


def report_shapes(name: str, faults: list[str], strict: bool) -> None:
    if not faults:
        return
    message = f"model {name!r} has shapes that are none: {'; '.join(faults)}"
    if strict:
        raise ModelError(f"{message}. Give them a size, or load with strict=False and the model goes without")
    warnings.warn(f"{message}. The model goes without", ModelWarning, stacklevel=3)
