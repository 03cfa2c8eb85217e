"""The shapes of URDF files, compared with Pinocchio's geometry models."""

from pathlib import Path

import jax
import numpy as np
import pytest
from oracle_robots import load, urdf_files
from support import assert_close

import rbd_jax as rbd
from rbd_jax.shapes import Box, Capsule, Cylinder, Mesh, Sphere


pin = pytest.importorskip("pinocchio")

FILES = urdf_files()
#: Robots with meshes (STL and DAE, also scaled), boxes, cylinders and balls.
ROBOTS = [
    "double_pendulum",
    "solo12",
    pytest.param("ur3_robot", marks=pytest.mark.slow),
    pytest.param("talos_reduced_box", marks=pytest.mark.slow),
]

#: Corresponding sizes of a geometry in both libraries.
SIZES = {
    Sphere: lambda ours, theirs: ([ours.radius], [theirs.radius]),
    Cylinder: lambda ours, theirs: ([ours.radius, ours.half_length], [theirs.radius, theirs.halfLength]),
    Capsule: lambda ours, theirs: ([ours.radius, ours.half_length], [theirs.radius, theirs.halfLength]),
    Box: lambda ours, theirs: (ours.half_sizes, theirs.halfSide),
}


@pytest.mark.parametrize("name", ROBOTS)
def test_as_pinocchio_has_them(name):
    """Placements at a random configuration, also with fused welds, sizes, scales, colors and files agree."""
    path = FILES[name]
    model = load(path)
    other = pin.buildModelFromUrdf(str(path))
    there, fused = rbd.interop.PinocchioMap(model, other), rbd.fuse_fixed(model)

    @jax.jit
    def placed(key):
        q = rbd.random_configuration(model, key)
        return there.configuration(q), [rbd.shape_frames(one, q).matrix for one in (model, fused)]

    theirs, frames = jax.device_get(placed(jax.random.key(1)))
    count = 0
    for kind, seen in ((pin.GeometryType.VISUAL, True), (pin.GeometryType.COLLISION, False)):
        folders = [str(folder) for folder in path.parents]
        geometries = pin.buildGeomFromUrdf(other, str(path), kind, package_dirs=folders)
        data, own = other.createData(), geometries.createData()
        pin.updateGeometryPlacements(other, data, geometries, own, theirs)
        expected = {
            one.name: (one, own.oMg[i].homogeneous) for i, one in enumerate(geometries.geometryObjects)
        }
        seen_of: dict[str, int] = {}
        for index, shape in enumerate(model.shapes):
            if shape.visual != seen:
                continue
            number = seen_of[shape.body] = seen_of.get(shape.body, -1) + 1
            geometry, where = expected.pop(f"{shape.body}_{number}")
            for found in frames:
                assert_close(found[index], where, 1e-9, shape.name)
            if isinstance(shape.geometry, Mesh):
                assert Path(shape.geometry.file).samefile(geometry.meshPath)
                assert_close(shape.geometry.scale, geometry.meshScale, 1e-7)
            else:
                assert_close(*SIZES[type(shape.geometry)](shape.geometry, geometry.geometry), 1e-15)
            if seen and shape.material:
                assert_close(shape.rgba, geometry.meshColor, 1e-6, shape.name)
            count += 1
        assert not expected
    assert count == len(model.shapes) > 2


def test_meshes_are_as_assimp_reads_them():
    """A scaled file has the same extent."""
    path = FILES["solo12"]
    model = load(path)
    geometries = pin.buildGeomFromUrdf(
        pin.buildModelFromUrdf(str(path)),
        str(path),
        pin.GeometryType.VISUAL,
        package_dirs=list(map(str, path.parents)),
    )
    meshes = {
        shape.geometry.file: shape.geometry for shape in model.shapes if isinstance(shape.geometry, Mesh)
    }
    assert meshes
    for one in geometries.geometryObjects:
        mesh = next(mesh for file, mesh in meshes.items() if Path(file).samefile(one.meshPath))
        vertices, _ = mesh.triangles()
        theirs = np.asarray(one.geometry.vertices())
        for bound in (np.min, np.max):
            assert_close(bound(vertices, axis=0), bound(theirs, axis=0), 1e-6)
