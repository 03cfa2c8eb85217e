"""Normals of round surfaces are those of the surface, those of a box are of its sides, for any order of triangles."""

import numpy as np
import pytest

from rbd_jax.shapes.surfaces import ball, box, capsule, cylinder
from rbd_jax.view.normals import with_normals


def faced(vertices, faces):
    """Returns unit normals of triangles."""
    a, b, c = np.moveaxis(vertices[faces], 1, 0)
    across = np.cross(b - a, c - a)
    return across / np.linalg.norm(across, axis=-1, keepdims=True)


def triangles(vertices, faces):
    """Returns the triangles independent of vertex numbering and of the first corner."""
    corners = np.round(vertices[faces], 9)
    first = [min(range(3), key=lambda i, t=t: tuple(t[i])) for t in corners]
    return sorted(tuple(map(tuple, np.roll(t, -i, axis=0))) for t, i in zip(corners, first))


def test_a_ball_has_the_normals_of_a_ball():
    vertices, faces, normals = with_normals(*ball())
    assert len(vertices) == len(ball()[0])
    np.testing.assert_allclose(np.sum(normals * vertices, axis=-1), 1, atol=2e-3)


def test_a_box_has_the_normals_of_its_sides():
    vertices, faces, normals = with_normals(*box(np.array([1.0, 2.0, 3.0])))
    assert len(vertices) == 24
    np.testing.assert_allclose(
        normals[faces], np.repeat(faced(vertices, faces)[:, None], 3, axis=1), atol=1e-12
    )


def test_a_cylinder_is_round_with_flat_ends():
    vertices, _, normals = with_normals(*cylinder(0.5, 1.0))
    ends = np.abs(normals[:, 2]) > 0.5
    np.testing.assert_allclose(normals[ends], np.sign(vertices[ends, 2:]) * [[0, 0, 1]], atol=1e-12)
    np.testing.assert_allclose(normals[~ends], vertices[~ends] * [[2, 2, 0]], atol=1e-9)
    assert ends.sum() == 66 and (~ends).sum() == 64


@pytest.mark.parametrize(
    "surface", [ball(), box(np.ones(3)), capsule(0.2, 0.5)], ids=["ball", "box", "capsule"]
)
def test_triangles_stay(surface):
    vertices, faces, normals = with_normals(*surface)
    assert triangles(vertices, faces) == triangles(*surface)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=-1), 1)
    assert (np.sum(normals[faces] * faced(vertices, faces)[:, None], axis=-1) > 0.8).all()


def test_triangles_that_share_no_vertices_are_joined():
    vertices, faces = capsule(0.2, 0.5)
    apart = vertices[faces].reshape(-1, 3), np.arange(faces.size).reshape(-1, 3)
    wanted, found = with_normals(vertices, faces), with_normals(*apart)
    assert len(found[0]) == len(wanted[0]) == len(vertices)
    order = [np.lexsort(np.round(points[0], 9).T) for points in (wanted, found)]
    np.testing.assert_allclose(found[2][order[1]], wanted[2][order[0]], atol=1e-9)


def test_triangles_without_area_and_lone_ones():
    vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [2, 0, 0]])
    points, faces, normals = with_normals(vertices, np.array([[0, 1, 3], [0, 1, 2], [1, 1, 2]]))
    assert len(points) == 3 and len(faces) == 1
    np.testing.assert_allclose(normals, np.tile([0.0, 0, 1], (3, 1)))
    nothing = with_normals(np.zeros((0, 3)), np.zeros((0, 3), int))
    assert [x.shape for x in nothing] == [(0, 3)] * 3


def test_three_triangles_at_an_edge():
    """Such meshes exist; each face has a separate normal there if they meet at right angles."""
    vertices = np.array([[0.0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [-1, 0, 0]])
    points, faces, normals = with_normals(vertices, np.array([[0, 1, 2], [0, 1, 3], [0, 1, 4]]))
    assert np.isfinite(normals).all() and len(faces) == 3
