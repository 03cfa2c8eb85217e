"""Shapes, as the geoms of an MJCF file. They weigh nothing there: bodies say what they weigh themselves."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import SubElement

import jax.numpy as jnp
import numpy as np

from ...._core.errors import ModelError
from ....shapes import Box, Capsule, Cylinder, Ellipsoid, Geometry, HeightField, Mesh, Plane, Sphere
from ....shapes.shape import Shape
from ....spatial.transform import Transform
from ...mjcf.shapes import DRAWN, UNSAID
from ..contact import contact_numbers, unsaid
from ..numerals import text
from .document import Document, place


#: The files of meshes that MuJoCo reads, and the most triangles that it takes of an STL file.
READ, MOST = (".stl", ".obj"), 200_000


def write_shape(out: Document, shape: Shape) -> bool:
    geometry = _geometry(out, shape)
    if geometry is None:
        return False
    numbers, frame = geometry
    geom = SubElement(out.bodies[shape.body], "geom", {"name": shape.name} | numbers)
    place(geom, frame)
    geom.attrib.update(contact_numbers(shape))
    group = shape.group  # by which MuJoCo sees what is drawn
    if shape.visual != (group in DRAWN):
        group = DRAWN.start if shape.visual else DRAWN.stop
    if group != unsaid().group:
        geom.set("group", str(group))
    if shape.rgba != unsaid().rgba:
        geom.set("rgba", text(shape.rgba))
    if shape.material:  # the colour is the shape's own, and its material says none
        materials = [one.get("name") for one in out.section("asset").findall("material")]
        if shape.material not in materials:
            SubElement(out.section("asset"), "material", name=shape.material, rgba=text(UNSAID))
        geom.set("material", shape.material)
    return True


def semiaxes(geometry) -> np.ndarray | None:
    """Of the ellipsoid that stands for a geometry in a fluid, or None."""
    if type(geometry) in (Box, Ellipsoid):
        return np.asarray(geometry.half_sizes if isinstance(geometry, Box) else geometry.semiaxes, float)
    if not isinstance(geometry, Sphere | Capsule | Cylinder):
        return None
    r, half = float(geometry.radius), 0.0 if isinstance(geometry, Sphere) else float(geometry.half_length)
    return np.array([r, r, half if isinstance(geometry, Cylinder) else r + half])


def _geometry(out: Document, shape: Shape) -> tuple[dict[str, str], Transform] | None:
    """The type of a geom and its numbers, and its frame; None where MuJoCo has none such."""
    one, frame = shape.geometry, shape.placement
    if isinstance(one, Mesh):
        mesh = _mesh(out, shape.name, one)
        return None if mesh is None else ({"type": "mesh", "mesh": mesh}, frame)
    if isinstance(one, Plane | HeightField) and _moves(out, shape.body):
        return None
    if isinstance(one, HeightField):
        return _height_field(out, shape.name, one, frame)
    if isinstance(one, Plane):  # the last is how far apart the lines of its grid are
        return {"type": "plane", "size": text([*one.half_sizes, 1])}, frame
    words = type_and_size(one)
    return None if words is None else (words, frame)


def type_and_size(geometry: Geometry) -> dict[str, str] | None:
    """What geoms and sites alike say of it; None where they cannot."""
    if isinstance(geometry, Sphere) or (isinstance(geometry, Capsule) and not geometry.half_length):
        return {"type": "sphere", "size": text(geometry.radius)}
    kind = type(geometry).__name__.lower()
    if isinstance(geometry, Capsule | Cylinder):
        return {"type": kind, "size": text([geometry.radius, geometry.half_length])}
    size = semiaxes(geometry)
    return None if size is None else {"type": kind, "size": text(size)}


def _moves(out: Document, body: str) -> bool:
    topology = out.model.topology
    return body != "world" and int(topology.carriers[topology.body_index(body)]) >= 0


def _mesh(out: Document, name: str, mesh: Mesh) -> str | None:
    """The name of the mesh, which is written once: a file that MuJoCo reads, or else the triangles; None where there are none."""
    scale = text(mesh.scale)
    known = out.meshes.get((mesh.source, scale))
    if known is not None:
        return known
    if mesh.source.is_file and _is_read(Path(mesh.file)):
        words = {"file": str(Path(mesh.file).resolve())}
    else:
        try:
            vertices, faces = mesh.source.triangles
        except (ModelError, ImportError):
            return None
        words = {"vertex": text(vertices), "face": " ".join(map(str, faces.ravel().tolist()))}
    name = out.meshes[mesh.source, scale] = out.unused("mesh", Path(mesh.file).stem or name)
    # An inertia is not asked for, and no mesh is too flat or too open for this one.
    element = SubElement(out.section("asset"), "mesh", {"name": name, "inertia": "shell"} | words)
    if np.any(np.asarray(mesh.scale) != 1):
        element.set("scale", scale)
    return name


def _is_read(file: Path) -> bool:
    """Whether MuJoCo reads the file; of STL files it takes binary ones."""
    if file.suffix.lower() not in READ or not file.is_file():
        return False
    if file.suffix.lower() != ".stl":
        return True
    with file.open("rb") as opened:
        count = int.from_bytes(opened.read(84)[80:], "little")
    return 0 < count <= MOST and file.stat().st_size == 84 + 50 * count


def _height_field(
    out: Document, name: str, field: HeightField, frame: Transform
) -> tuple[dict[str, str], Transform] | None:
    """MuJoCo's heights begin at zero, and its rows where y is most."""
    heights = np.asarray(field.heights, float)
    least, most = heights.min(), heights.max()
    base = float(field.base) + least
    if not base > 0:
        return None
    rows, columns = heights.shape
    size = [*np.asarray(field.half_sizes), most - least if most > least else 1.0, base]
    name = out.unused("hfield", name)
    SubElement(
        out.section("asset"), "hfield", name=name, nrow=str(rows), ncol=str(columns), size=text(size),
        elevation=text((heights - least)[::-1]),
    )  # fmt: skip
    lifted = frame @ Transform.from_position(jnp.array([0.0, 0.0, least]))
    return {"type": "hfield", "hfield": name}, lifted
