"""Reads the geoms of an MJCF file as shapes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...shapes import Box, Capsule, Cylinder, Ellipsoid, HeightField, Mesh, Plane, Sphere
from ...shapes.geometry import Geometry
from ...shapes.mesh import GivenMesh
from ...shapes.shape import Shape
from .compiled import body_names, geom_frame, names_of


#: The groups that MuJoCo draws by default.
DRAWN = range(3)

#: The default color of a geom, in place of which MuJoCo uses the color of its material.
UNSAID = (0.5, 0.5, 0.5, 1.0)


def shape_names(compiled) -> list[str]:
    """Returns the name of each geom of an `MjModel` in the model: `geom_3`, by MuJoCo's index, if it has none."""
    return names_of([compiled.geom(i).name or f"geom_{i}" for i in range(compiled.ngeom)], compiled.geom)


def shapes_of(mujoco, compiled, collides: bool) -> list[Shape]:
    """Returns all geoms, including those of the world, in the order of the file; without collisions unless they are enabled."""
    bodies = body_names(compiled)
    paired = {int(geom) for geom in [*compiled.pair_geom1, *compiled.pair_geom2]}
    mesh = cache(lambda index: _mesh(compiled, index))
    return [
        Shape(
            name,
            bodies[compiled.geom_bodyid[index]],
            _geometry(mujoco, compiled, index, mesh),
            geom_frame(compiled, index),
            visual=int(compiled.geom_group[index]) in DRAWN,
            collision=bool(compiled.geom_contype[index] or compiled.geom_conaffinity[index])
            or index in paired,
            group=int(compiled.geom_group[index]),
            **_words(compiled, index, collides),
        )
        for index, name in enumerate(shape_names(compiled))
    ]


#: Attributes of a shape with the same name as in MuJoCo: integers and floating-point numbers.
WORDS = ("contype", "conaffinity", "condim", "priority")
NUMBERS = ("margin", "gap", "friction", "solref", "solimp", "solmix")


def _words(compiled, index: int, collides: bool) -> dict[str, Any]:
    """Returns the attributes with the same name as in MuJoCo, the color and the material."""
    words = {key: int(getattr(compiled, f"geom_{key}")[index]) for key in WORDS}
    if not collides:
        words |= {"contype": 0, "conaffinity": 0}
    numbers = {key: np.array(getattr(compiled, f"geom_{key}")[index]) for key in NUMBERS}
    return words | numbers | _colour(compiled, index)


def _colour(compiled, index: int) -> dict[str, Any]:
    rgba, material = compiled.geom_rgba[index], int(compiled.geom_matid[index])
    if material < 0:
        return {"rgba": rgba.clip(0, 1)}
    if tuple(rgba.tolist()) == UNSAID:
        rgba = compiled.mat_rgba[material]
    return {"rgba": rgba.clip(0, 1), "material": compiled.mat(material).name}


def _geometry(mujoco, compiled, index: int, mesh) -> Geometry:
    kinds, kind = mujoco.mjtGeom, int(compiled.geom_type[index])
    size, data = np.array(compiled.geom_size[index]), int(compiled.geom_dataid[index])
    if kind in (kinds.mjGEOM_MESH, kinds.mjGEOM_SDF):
        return Mesh.of(mesh(data))
    if kind == kinds.mjGEOM_HFIELD:
        return _height_field(compiled, data)
    if kind == kinds.mjGEOM_PLANE:
        return Plane(size[:2])
    if kind == kinds.mjGEOM_SPHERE:
        return Sphere(size[0])
    if kind == kinds.mjGEOM_CAPSULE:
        return Capsule(size[0], size[1])
    if kind == kinds.mjGEOM_CYLINDER:
        return Cylinder(size[0], size[1])
    return Box(size) if kind == kinds.mjGEOM_BOX else Ellipsoid(size)


def _mesh(compiled, index: int) -> GivenMesh:
    """Returns a mesh in MuJoCo's frame: at its center, along its principal axes."""
    vertex, vertices = compiled.mesh_vertadr[index], compiled.mesh_vertnum[index]
    face, faces = compiled.mesh_faceadr[index], compiled.mesh_facenum[index]
    return GivenMesh(
        compiled.mesh_vert[vertex : vertex + vertices],
        compiled.mesh_face[face : face + faces],
        _file(compiled, int(compiled.mesh_pathadr[index])),
    )


def _height_field(compiled, index: int) -> HeightField:
    rows, columns = compiled.hfield_nrow[index], compiled.hfield_ncol[index]
    start, (x, y, top, base) = compiled.hfield_adr[index], compiled.hfield_size[index]
    heights = compiled.hfield_data[start : start + rows * columns].reshape(rows, columns)
    return HeightField(top * heights.astype(float), np.array([x, y]), base)


def _file(compiled, address: int) -> str:
    """Returns a path from the model's block of paths, or an empty string if the address is negative."""
    return "" if address < 0 else compiled.paths[address:].split(b"\0", 1)[0].decode()
