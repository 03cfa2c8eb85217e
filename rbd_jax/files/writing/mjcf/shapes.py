"""Shapes, as the geoms of an MJCF file. They weigh nothing there: bodies say what they weigh themselves."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

import jax.numpy as jnp
import numpy as np

from ...._errors import ModelError
from ....shapes import Box, Capsule, Cylinder, Ellipsoid, HeightField, Mesh, Plane, Shape, Sphere
from ....spatial import Transform
from ...mjcf.shapes import DRAWN, NUMBERS, UNSAID, WORDS
from ..numerals import text
from .document import Document, place


#: The geometries that a few numbers say, and what these are.
SIZES = {
    Sphere: ("sphere", lambda one: [one.radius]),
    Capsule: ("capsule", lambda one: [one.radius, one.half_length]),
    Cylinder: ("cylinder", lambda one: [one.radius, one.half_length]),
    Box: ("box", lambda one: one.half_sizes),
    Ellipsoid: ("ellipsoid", lambda one: one.semiaxes),
    Plane: ("plane", lambda one: [*one.half_sizes, 1]),
}

#: The files of meshes that MuJoCo reads itself.
READ = (".stl", ".obj")


def write_shape(out: Document, shape: Shape) -> bool:
    given: dict[str, str] = {}
    frame = shape.placement
    if isinstance(shape.geometry, Mesh):
        mesh = _mesh(out, shape, shape.geometry)
        if mesh is None:
            return False
        given = {"type": "mesh", "mesh": mesh}
    elif isinstance(shape.geometry, HeightField):
        field = _height_field(out, shape, shape.geometry)
        if field is None:
            return False
        name, lowest = field
        given, frame = (
            {"type": "hfield", "hfield": name},
            frame @ Transform.from_position(jnp.asarray(lowest)),
        )
    elif type(shape.geometry) in SIZES:
        kind, sizes = SIZES[type(shape.geometry)]
        given = {"type": kind, "size": text(sizes(shape.geometry))}
    else:
        return False
    geom = SubElement(out.bodies[shape.body], "geom", {"name": shape.name} | given)
    place(geom, frame)
    _look(out, shape, geom)
    for word in WORDS:
        bit = word in ("contype", "conaffinity") and not shape.collision
        geom.set(word, str(0 if bit else getattr(shape, word)))
    for number in NUMBERS:
        geom.set(number, text(getattr(shape, number)))
    return True


def _look(out: Document, shape: Shape, geom: Element) -> None:
    """Its colour is its own: that of its material says nothing."""
    group = shape.group
    if shape.visual != (group in DRAWN):
        group = DRAWN.start if shape.visual else DRAWN.stop
        out.losses.add("groups of shapes", shape.name)
    geom.set("group", str(group))
    geom.set("rgba", text(shape.rgba))
    if shape.material:
        asset = out.section("asset")
        if not any(one.get("name") == shape.material for one in asset.iter("material")):
            SubElement(asset, "material", name=shape.material, rgba=text(UNSAID))
        geom.set("material", shape.material)


def _mesh(out: Document, shape: Shape, mesh: Mesh) -> str | None:
    """The name of a mesh in the file; files that MuJoCo reads are named there, whatever else is written out."""
    path, known = Path(mesh.file), mesh.source
    words = {"scale": text(mesh.scale)} if np.any(np.asarray(mesh.scale) != 1) else {}
    if known.is_file and path.suffix.lower() in READ and path.is_file():
        words["file"] = str(path.resolve())
    else:
        try:
            vertices, faces = known.triangles
        except (ModelError, ImportError):
            return None
        words |= {"vertex": text(vertices), "face": " ".join(map(str, faces.ravel().tolist()))}
    asset = out.section("asset")
    for one in asset.iter("mesh"):
        if {key: value for key, value in one.attrib.items() if key != "name"} == words:
            return one.attrib["name"]
    name = out.unused("mesh", path.stem or shape.name)
    SubElement(asset, "mesh", {"name": name} | words)
    return name


def _height_field(out: Document, shape: Shape, field: HeightField) -> tuple[str, np.ndarray] | None:
    """The name of a height field in the file, and its lowest point, which is zero there; its rows begin where y is largest."""
    heights = np.asarray(field.heights, float)
    lowest, range_ = heights.min(), np.ptp(heights)
    base = float(field.base) + lowest
    if base <= 0:
        return None
    name = out.unused("hfield", shape.name)
    rows, columns = map(str, heights.shape)
    size = text([*field.half_sizes, range_ or 1.0, base])
    elevation = text((heights[::-1] - lowest) / (range_ or 1.0))
    SubElement(
        out.section("asset"), "hfield", name=name, nrow=rows, ncol=columns, size=size, elevation=elevation
    )
    return name, np.array([0, 0, lowest])
