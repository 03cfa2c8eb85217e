"""Reads the `<visual>` and `<collision>` of SDF links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..shapes import Box, Capsule, Cylinder, Ellipsoid, Mesh, Plane, Sphere
from ..shapes.geometry import Geometry
from ..spatial.inertia import Inertia
from .placement import Placement
from .resources import Resources
from .shapes import GREY, ShapeReader
from .xml import Element


#: SDF's default density of shapes, in kg / m³.
DENSITY = 1000.0

#: Unsupported geometries, with their descriptions.
OTHERS = {"heightmap": "heightmaps", "image": "images", "polyline": "polylines", "cone": "cones"}


class SdfShapes(ShapeReader):
    """Reads the shapes of a file's links.

    - `place`: returns the pose, in its body, of an element with a `<pose>`.
    - `bits`: returns `contype` and `conaffinity` of the shapes of a body.
    - `leave_out`: called with a description of an element without effect, and its name.
    """

    def __init__(
        self,
        resources: Resources,
        place: Callable[[Element, str], Placement],
        bits: Callable[[str], tuple[int, int]],
        leave_out: Callable[[str, str], None],
    ):
        super().__init__(resources)
        self._place, self._bits, self._leave_out = place, bits, leave_out

    def own_name(self, element, body):
        return f"{body}:{element.text('name')}"

    def placement(self, element, body):
        at = self._place(element, body)
        plane = element.needed("geometry", "<geometry><box/></geometry>").child("plane")
        return (at if plane is None else at @ Placement(_normal(plane), np.zeros(3))).transform()

    def geometry(self, element) -> Geometry | None:
        outer = element.needed("geometry", "<geometry><box/></geometry>")
        for tag, read in READERS.items():
            if (one := outer.child(tag)) is not None:
                return read(self, one)
        for tag, words in OTHERS.items():
            if outer.child(tag) is not None:
                self._leave_out(words, element.text("name"))
        return None

    def look(self, element):
        material = element.child("material")
        if material is None:
            return {}
        colour = np.array(GREY)
        for tag in ("ambient", "diffuse"):
            said = material.child(tag)
            if said is not None:  # the opacity is optional
                count = 3 if len(said.content.split()) == 3 else 4
                colour = np.append(material.inside(tag, count, ()), 1.0)[:4]
        colour[3] *= 1 - element.inside_one("transparency", 0.0)
        script = material.child("script")
        name = script.child("name") if script is not None else None
        called = name.content.strip() if name is not None else ""
        return {"rgba": tuple(np.clip(colour, 0, 1).tolist()), "material": called}

    def touch(self, element, body) -> dict[str, Any]:
        contype, conaffinity = self._bits(body)
        found: dict[str, Any] = {"contype": contype, "conaffinity": conaffinity}
        surface = element.child("surface")
        if surface is None:
            return found
        name = element.text("name")
        inside = lambda owner, *way: _descend(owner, way)
        sliding = inside(surface, "friction", "ode") or inside(surface, "friction", "bullet")
        if sliding is not None:
            words = ("mu", "mu2") if sliding.tag == "ode" else ("friction", "friction2")
            first, second = (sliding.inside_one(word, 1.0) for word in words)
            found["friction"] = (first, 0.005, 0.0001)
            if first != second and sliding.child(words[1]) is not None:
                self._leave_out("anisotropic friction", name)
        if inside(surface, "friction", "torsional") is not None:
            self._leave_out("torsional friction", name)
        bounce = surface.child("bounce")
        if bounce is not None and bounce.inside_one("restitution_coefficient", 0.0):
            self._leave_out("restitution", name)
        contact = surface.child("contact")
        if contact is not None and contact.child("collide_bitmask") is not None:
            self._leave_out("collide bitmasks", name)
        return found

    def inertias(self, link: Element, body: str) -> list[Inertia]:
        """Returns the inertias of a link's collision shapes, by the density of the shape, of the link, or of water."""
        inertial = link.child("inertial")
        density = DENSITY if inertial is None else inertial.inside_one("density", DENSITY)
        found = []
        for element in link.all("collision"):
            geometry = self.geometry(element)
            if geometry is not None and not isinstance(geometry, Plane):
                own = geometry.inertia(element.inside_one("density", density))
                found.append(own.placed(jax.tree.map(jnp.asarray, self.placement(element, body))))
        return found

    def mesh(self, element: Element) -> Mesh | None:
        uri = element.needed("uri", "<uri>meshes/part.stl</uri>").said("<uri>meshes/part.stl</uri>")
        if element.child("submesh") is not None:
            self._leave_out("parts of meshes", uri)
            return None
        return Mesh.of(self.mesh_file(uri), element.inside("scale", 3, (1.0, 1.0, 1.0)))

    def plane(self, element: Element) -> Plane:
        """Returns a plane: of the given size for a visual, infinite for a collision."""
        owner = element.parent and element.parent.parent
        seen = owner is not None and owner.tag == "visual"
        return Plane(element.inside("size", 2, (1.0, 1.0)) / 2 if seen else (0.0, 0.0))


#: Readers of the kinds of geometry, with SDF's defaults.
READERS = {
    "box": lambda reader, one: Box(one.inside("size", 3, (1.0, 1.0, 1.0)) / 2),
    "sphere": lambda reader, one: Sphere(one.inside_one("radius", 1.0)),
    "cylinder": lambda reader, one: Cylinder(
        one.inside_one("radius", 1.0), one.inside_one("length", 1.0) / 2
    ),
    "capsule": lambda reader, one: Capsule(one.inside_one("radius", 0.5), one.inside_one("length", 1.0) / 2),
    "ellipsoid": lambda reader, one: Ellipsoid(one.inside("radii", 3, (1.0, 1.0, 1.0))),
    "plane": SdfShapes.plane,
    "mesh": SdfShapes.mesh,
}


def _descend(owner: Element | None, way: tuple[str, ...]) -> Element | None:
    for tag in way:
        owner = owner.child(tag) if owner is not None else None
    return owner


def _normal(plane: Element) -> np.ndarray:
    """Returns the smallest rotation that takes z to the normal of a plane."""
    given = plane.inside("normal", 3, (0.0, 0.0, 1.0))
    length = np.linalg.norm(given)
    if not length > 0:
        raise ValueError(f"{plane}: its normal must not be zero")
    x, y, z = given / length
    if z < -0.5:  # through the opposite normal, which is near z
        return _turn(-x, -y, -z) @ np.diag([1.0, -1.0, -1.0])
    return _turn(x, y, z)


def _turn(x, y, z):
    a, b, c = x * x / (1 + z), x * y / (1 + z), y * y / (1 + z)
    return np.array([[1 - a, -b, x], [-b, 1 - c, y], [-x, -y, z]])
