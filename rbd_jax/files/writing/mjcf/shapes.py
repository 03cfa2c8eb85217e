"""Writes shapes as geoms of an MJCF file, without mass, because bodies have explicit inertias."""

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


#: File formats of meshes that MuJoCo reads, and its maximum number of triangles in an STL file.
READ, MOST = (".stl", ".obj"), 200_000


def write_shape(out: Document, shape: Shape) -> bool:
    geometry = _geometry(out, shape)
    if geometry is None:
        return False
    numbers, frame = geometry
    geom = SubElement(out.bodies[shape.body], "geom", {"name": shape.name} | numbers)
    place(geom, frame)
    geom.attrib.update(contact_numbers(shape))
    group = shape.group  # MuJoCo draws shapes by their group
    if shape.visual != (group in DRAWN):
        group = DRAWN.start if shape.visual else DRAWN.stop
    if group != unsaid().group:
        geom.set("group", str(group))
    if shape.rgba != unsaid().rgba:
        geom.set("rgba", text(shape.rgba))
    if shape.material:  # the shape has its own color; the material has the default color
        materials = [one.get("name") for one in out.section("asset").findall("material")]
        if shape.material not in materials:
            SubElement(out.section("asset"), "material", name=shape.material, rgba=text(UNSAID))
        geom.set("material", shape.material)
    return True


def semiaxes(geometry) -> np.ndarray | None:
    """Returns the semiaxes of the ellipsoid that represents a geometry in a fluid, or None."""
    if type(geometry) in (Box, Ellipsoid):
        return np.asarray(geometry.half_sizes if isinstance(geometry, Box) else geometry.semiaxes, float)
    if not isinstance(geometry, Sphere | Capsule | Cylinder):
        return None
    r, half = float(geometry.radius), 0.0 if isinstance(geometry, Sphere) else float(geometry.half_length)
    return np.array([r, r, half if isinstance(geometry, Cylinder) else r + half])


def _geometry(out: Document, shape: Shape) -> tuple[dict[str, str], Transform] | None:
    """Returns the type and attributes of a geom, and its frame; None if MuJoCo has no such geom."""
    one, frame = shape.geometry, shape.placement
    if isinstance(one, Mesh):
        mesh = _mesh(out, shape.name, one)
        return None if mesh is None else ({"type": "mesh", "mesh": mesh}, frame)
    if isinstance(one, Plane | HeightField) and _moves(out, shape.body):
        return None
    if isinstance(one, HeightField):
        return _height_field(out, shape.name, one, frame)
    if isinstance(one, Plane):  # the last size is the spacing of the grid lines
        return {"type": "plane", "size": text([*one.half_sizes, 1])}, frame
    words = type_and_size(one)
    return None if words is None else (words, frame)


def type_and_size(geometry: Geometry) -> dict[str, str] | None:
    """Returns the attributes that geoms and sites share, or None if they cannot represent the geometry."""
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
    """Returns the name of the mesh asset, written once: a file that MuJoCo reads, or triangles; None without triangles."""
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
    # The inertia is unused, and "shell" accepts meshes that are flat or open.
    element = SubElement(out.section("asset"), "mesh", {"name": name, "inertia": "shell"} | words)
    if np.any(np.asarray(mesh.scale) != 1):
        element.set("scale", scale)
    return name


def _is_read(file: Path) -> bool:
    """Returns whether MuJoCo reads the file; it reads only binary STL files."""
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
    """Returns the geom of a height field. MuJoCo's heights start at zero, and its rows at the largest y."""
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
