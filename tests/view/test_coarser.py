"""Simplification of meshes with too many triangles: any mesh is supported, with more triangles in detailed areas."""

import numpy as np
import pytest

from rbd_jax.view.drawing import FEW, _coarser, _shared_out
from rbd_jax.view.scene import Surface


def ball(rings, radius=1.0, center=(0.0, 0.0, 0.0)):
    """Returns a sphere with about 4 rings² triangles."""
    up, around = np.linspace(0, np.pi, rings + 1), np.linspace(0, 2 * np.pi, 2 * rings, endpoint=False)
    at = lambda row, column: row * 2 * rings + column % (2 * rings)
    vertices = np.stack(
        [
            np.outer(np.sin(up), np.cos(around)),
            np.outer(np.sin(up), np.sin(around)),
            np.outer(np.cos(up), np.ones_like(around)),
        ],
        axis=-1,
    ).reshape(-1, 3)
    faces = [
        face
        for row in range(rings)
        for column in range(2 * rings)
        for face in (
            (at(row, column), at(row + 1, column), at(row + 1, column + 1)),
            (at(row, column), at(row + 1, column + 1), at(row, column + 1)),
        )
    ]
    return radius * vertices + center, np.array(faces)


def pieces(count: int):
    """Returns many small, distant bodies, whose edges can rarely be collapsed."""
    rng = np.random.default_rng(0)
    vertices, faces = ball(2, 0.01)
    places = rng.uniform(-1, 1, (count, 1, 3))
    return (vertices + places).reshape(-1, 3), np.concatenate(
        [faces + number * len(vertices) for number in range(count)]
    )


def surface(mesh, body=0):
    vertices, faces = mesh
    return Surface("mesh", body, vertices, faces, (0.5, 0.5, 0.5, 1.0), False)


@pytest.mark.parametrize("mesh", [ball(40), pieces(500)], ids=["ball", "pieces"])
@pytest.mark.parametrize("goal", [100, 700])
def test_a_mesh_is_made_as_coarse_as_it_is_to_be(mesh, goal):
    vertices, faces = _coarser(surface(mesh), goal)
    assert 0.3 * goal < len(faces) <= 1.2 * goal
    assert faces.min() >= 0 and faces.max() < len(vertices)
    assert (np.diff(np.sort(faces, axis=1), axis=1) > 0).all()
    size = np.ptp(mesh[0], axis=0)
    assert (np.abs(vertices[faces].reshape(-1, 3)).max(axis=0) < 0.55 * size).all()
    assert (np.ptp(vertices, axis=0) > 0.8 * size).all()


def test_a_mesh_of_few_stays_as_it_is():
    mesh = ball(5)
    vertices, faces = _coarser(surface(mesh), len(mesh[1]))
    np.testing.assert_array_equal(vertices, mesh[0])
    np.testing.assert_array_equal(faces, mesh[1])


def test_large_bodies_have_more_triangles_whatever_their_meshes_have():
    surfaces = [
        surface(ball(40), 0),
        surface(ball(80, 0.1), 1),
        surface(ball(3, 0.5), 2),
        surface(ball(60, 1e-3), 3),
    ]
    shares = [share for *_, share in _shared_out(surfaces, 2000)]
    few = len(surfaces[2].faces)
    assert shares[2] == few and shares[3] == FEW
    assert shares[0] == pytest.approx(10 * shares[1], rel=0.02)
    assert sum(shares) == pytest.approx(2000, abs=FEW)


def test_all_are_drawn_where_there_are_not_too_many_or_all_are_wanted():
    surfaces = [surface(ball(5), 0), surface(ball(9), 1)]
    counts = [len(one.faces) for one in surfaces]
    assert [share for *_, share in _shared_out(surfaces, sum(counts))] == counts
    assert [share for *_, share in _shared_out(surfaces, None)] == counts
