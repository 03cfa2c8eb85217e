"""Inertias and triangles of geometries: laws, and meshes compared with formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd
from rbd_jax import Inertia
from rbd_jax.shapes import Box, Capsule, Cylinder, Ellipsoid, HeightField, Mesh, Plane, Sphere


BODIES = {
    "sphere": Sphere(0.3),
    "capsule": Capsule(0.2, 0.5),
    "cylinder": Cylinder(0.2, 0.5),
    "box": Box((0.1, 0.2, 0.3)),
    "ellipsoid": Ellipsoid((0.1, 0.2, 0.3)),
    "terrain": HeightField([[0.1, 0.3, 0.2], [0.0, 0.5, 0.1]], (1.0, 2.0), 0.4),
    "mesh": Mesh(*Box((0.1, 0.2, 0.3)).triangles()),
}


def edges(faces):
    return [tuple(face[[i, (i + 1) % 3]]) for face in faces for i in range(3)]


@pytest.mark.parametrize("name", BODIES)
def test_triangles_bound_the_body(name):
    """Triangles are closed, point outward, and have the body's inertia, up to the error of 32 sides for round ones."""
    body = BODIES[name]
    vertices, faces = body.triangles()
    found = edges(faces)
    assert len(set(found)) == len(found) and {edge[::-1] for edge in found} == set(found)
    drawn = Inertia.from_mesh(vertices, faces, density=700.0)
    exact = name in ("box", "terrain", "mesh")
    assert_close(drawn.parameters, body.inertia(700.0).parameters, 1e-12 if exact else 0.04)
    if not exact:
        assert float(drawn.mass) < float(body.inertia(700.0).mass)  # the corners are on the surface


def test_ellipsoid_of_equal_axes_is_a_ball():
    assert_close(
        Ellipsoid((0.3, 0.3, 0.3)).inertia(5.0).parameters, Sphere(0.3).inertia(5.0).parameters, 1e-14
    )


def test_capsule_without_a_middle_is_a_ball():
    assert_close(Capsule(0.3, 0.0).inertia(5.0).parameters, Sphere(0.3).inertia(5.0).parameters, 1e-14)


@pytest.mark.parametrize("scale", [(2.0, 3.0, 0.5), (-2.0, 3.0, 0.5)])
def test_scaled_mesh(scale):
    """The inertia equals that of the scaled vertices, also if mirrored; off center, so that all terms matter."""
    vertices, faces = Box((0.1, 0.2, 0.3)).triangles()
    vertices = vertices @ np.array([[1, 0.2, 0], [0, 1, 0.3], [0, 0, 1]]) + [0.5, -0.2, 0.1]
    mesh = Mesh(vertices, faces, scale)
    drawn = mesh.triangles()
    assert_close(mesh.inertia(3.0).parameters, Inertia.from_mesh(*drawn, density=3.0).parameters, 1e-13)


def test_mesh_of_separate_triangles_is_closed():
    vertices, faces = Box((0.1, 0.2, 0.3)).triangles()
    loose = Mesh(vertices[faces].reshape(-1, 3), np.arange(faces.size).reshape(-1, 3))
    assert_close(loose.inertia(2.0).parameters, Box((0.1, 0.2, 0.3)).inertia(2.0).parameters, 1e-13)


def test_convex_hull():
    """The hull of a box with a dent is the box."""
    vertices, faces = Box((0.1, 0.2, 0.3)).triangles()
    dented = np.vstack([vertices, [0, 0, 0.1]])
    top = faces[(vertices[faces][:, :, 2] > 0).all(axis=1)]
    a, b, c, d = 1, 5, 7, 3
    sides = np.array([f for f in faces.tolist() if f not in top.tolist()])
    dent = np.array([[a, b, 8], [b, c, 8], [c, d, 8], [d, a, 8]])
    mesh = Mesh(dented, np.vstack([sides, dent]), (1.0, 2.0, 1.0))
    assert float(mesh.inertia(1.0).mass) < 0.95 * float(Box((0.1, 0.4, 0.3)).inertia(1.0).mass)
    hull = mesh.convex_hull()
    assert_close(hull.inertia(1.0).parameters, Box((0.1, 0.4, 0.3)).inertia(1.0).parameters, 1e-13)
    assert len(hull.triangles()[0]) == 8


def test_sizes_are_leaves():
    """Inertias are differentiable with respect to sizes, also compiled and in single precision.

    The vertices of a mesh are not leaves.
    """
    mass = jax.jit(
        jax.grad(lambda r, s: Sphere(r).inertia(1.0).mass + BODIES["mesh"].inertia(1.0).mass * s, 0)
    )
    assert_close(mass(0.5, 1.0), np.pi, 1e-14)
    mesh = BODIES["mesh"]
    weigh = jax.jit(jax.value_and_grad(lambda mesh: mesh.inertia(1.0).mass))
    weight, slope = weigh(mesh)
    assert_close(slope.scale, np.full(3, float(weight)), 1e-14)
    assert [leaf.shape for leaf in jax.tree.leaves(mesh)] == [(3,)]
    assert weight.dtype == jnp.float64
    single = jax.tree.map(lambda leaf: np.asarray(leaf).astype(np.float32), mesh)
    assert weigh(single)[0].dtype == jnp.float32


def test_equal_meshes_have_one_structure():
    again = Mesh(*Box((0.1, 0.2, 0.3)).triangles())
    assert jax.tree.structure(again) == jax.tree.structure(BODIES["mesh"])
    assert jax.tree.structure(again) != jax.tree.structure(Mesh(*Box((0.1, 0.2, 0.4)).triangles()))


VERTICES, FACES = Box((1.0, 1.0, 1.0)).triangles()
WRONG = {
    "radius": (lambda: Sphere(0.0), "Sphere: radius is 0.0; it must be greater than 0"),
    "length": (lambda: Capsule(1.0, -1.0), "Capsule: half_length is -1.0"),
    "plane": (lambda: Plane().inertia(1.0), "a plane has no volume"),
    "open": (
        lambda: Mesh(VERTICES, FACES[1:], file="a.stl").inertia(1.0),
        "mesh 'a.stl' has no inertia: the mesh is not closed",
    ),
    "inside out": (lambda: Mesh(VERTICES, FACES[:, ::-1]).inertia(1.0), "turn the order"),
    "faces": (lambda: Mesh(VERTICES, FACES + 1), "Mesh: faces names vertices of which there are 8"),
    "vertices": (lambda: Mesh([[0.0, 1.0]], FACES), "Mesh: vertices has shape"),
    "scale": (lambda: Mesh(VERTICES, FACES, (1.0, 0.0, 1.0)), "none of its three numbers is zero"),
    "flat": (
        lambda: Mesh(*Plane().triangles()).convex_hull(),
        "no convex hull: its 4 vertices are in one plane",
    ),
    "heights": (lambda: HeightField([[1.0, 2.0]], (1.0, 1.0)), "HeightField: heights has shape"),
    "colour": (lambda: rbd.Shape("a", "b", Sphere(1.0), rgba=(1, 2, 1, 1)), "Shape 'a': rgba"),
    "traced colour": (
        lambda: jax.eval_shape(lambda x: rbd.Shape("a", "b", Sphere(1.0), rgba=(x, 1, 1, 1)), 1.0),
        "Shape 'a': rgba is traced; colors are not differentiated: give plain numbers",
    ),
    "condim": (lambda: rbd.Shape("a", "b", Sphere(1.0), condim=2), "condim is 2; it is 1, 3, 4 or 6"),
    "shape of a plane": (
        lambda: rbd.Shape("floor", "b", Plane()).inertia(1.0),
        "Shape('floor'): a plane has no volume",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told(case):
    make, message = WRONG[case]
    with pytest.raises(ValueError) as caught:
        make()
    assert message in str(caught.value)


def test_inertia_of_a_shape_is_in_its_body():
    placed = rbd.Transform.from_xyz_rpy((1.0, 2.0, 3.0))
    inertia = rbd.Shape("ball", "arm", Sphere(0.1), placed).inertia(1000.0)
    assert_close(inertia.com, [1.0, 2.0, 3.0], 1e-15)
    assert_close(inertia.parameters, Sphere(0.1).inertia(1000.0).placed(placed).parameters, 1e-15)
