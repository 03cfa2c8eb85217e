"""Rendering without a display: covered pixels, occlusion, and lighting."""

import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax.shapes.surfaces import ball, box
from rbd_jax.view.camera import Camera, placed
from rbd_jax.view.painter import Painter, Placed, Setting, round_length
from rbd_jax.view.raster import fragments, nearest, plane_of, stacked
from rbd_jax.view.scene import Scene, Surface


FLAT = np.array([0.0, 0.0, 1.0])


def test_triangles_that_share_edges_cover_each_pixel_once():
    rng = np.random.default_rng(0)
    points = np.stack(np.meshgrid(np.linspace(-5, 50, 12), np.linspace(-5, 40, 12)), axis=-1)
    points[1:-1, 1:-1] += rng.uniform(-1.5, 1.5, (10, 10, 2))
    a, b, c, d = points[:-1, :-1], points[:-1, 1:], points[1:, 1:], points[1:, :-1]
    corners = np.concatenate(
        [np.stack([a, b, c], axis=2).reshape(-1, 3, 2), np.stack([a, d, c], axis=2).reshape(-1, 3, 2)]
    )
    found = fragments(corners, np.tile(FLAT, (len(corners), 1)), 44, 33)
    assert np.array_equal(np.bincount(found.pixel, minlength=44 * 33), np.ones(44 * 33))


def test_a_pixel_is_covered_if_its_middle_is_inside():
    corners = np.array([[[2.1, 1.03], [17.37, 4.2], [6.23, 13.4]]])
    found = fragments(corners, FLAT[None], 20, 15)
    x, y = np.meshgrid(np.arange(20) + 0.5, np.arange(15) + 0.5)
    inside = np.ones((15, 20), bool)
    for (x0, y0), (x1, y1) in zip(corners[0], np.roll(corners[0], -1, axis=0)):
        inside &= (x1 - x0) * (y - y0) - (y1 - y0) * (x - x0) > 0
    assert np.array_equal(np.sort(found.pixel), np.flatnonzero(inside))


def test_planes_go_through_their_values():
    rng = np.random.default_rng(1)
    corners, values = rng.uniform(0, 9, (5, 3, 2)), rng.uniform(0, 1, (5, 3, 2))
    plane = plane_of(corners, values)
    at = np.concatenate([corners, np.ones((5, 3, 1))], axis=-1)
    assert np.allclose(np.einsum("tkd,tdn->tkn", at, plane), values)


def test_the_nearest_hides_the_others():
    square = np.array([[[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]], [[8.0, 0.0], [8.0, 8.0], [0.0, 8.0]]])
    corners = np.concatenate([square, square])
    tilted = plane_of(square, np.array([[1.0, 3.0, 1.0], [3.0, 3.0, 1.0]])[..., None])[..., 0]
    found = fragments(corners, np.concatenate([np.tile(2 * FLAT, (2, 1)), tilted]), 8, 8)
    seen, near = nearest(found, 64)
    assert np.array_equal(seen.pixel, np.arange(64))
    assert np.array_equal(
        seen.triangle < 2, seen.pixel % 8 < 4
    )  # on the left the flat triangle, on the right the tilted one
    assert np.allclose(near, seen.nearness) and near.min() == 2
    layers = list(stacked(found))
    assert len(layers) == 2 and np.all(layers[0].nearness <= layers[1].nearness)


@pytest.fixture(scope="module")
def pendulum():
    return rbd.load("pendulum")


@pytest.fixture(autouse=True)
def _as_for_users(unchecked):
    pass


def scene_with(model, *surfaces):
    return Scene(model, surfaces, 1.0)


def picture_of(scene, ground: float | None = 0.0, size=(80, 60), count=1, **camera):
    setting = Setting(np.eye(3), ground, 1.0)
    given = {"azimuth": 0.0, "elevation": 0.0, "distance": 4.0, "look_at": (0, 0, 0.5), **camera}
    eye = placed(Camera(**given), np.zeros((1, 3)), size[0] / size[1], np.eye(3))
    nb = scene.model.nb
    still = Placed(np.zeros((nb, 3)), np.tile(np.eye(3), (nb, 1, 1)))
    return Painter(scene, setting, size).paint(eye, [still] * count), eye


def colored(picture, channel):
    """Returns the pixels in which one color dominates."""
    others = [i for i in range(3) if i != channel]
    return picture[..., channel] > 60 + picture[..., others].max(axis=-1).astype(int)


def test_a_ball_is_where_and_as_large_as_it_is_seen(pendulum):
    vertices, faces = ball()
    at = np.array([0.0, 0.3, 0.6])
    picture, eye = picture_of(
        scene_with(pendulum, Surface("red", 0, 0.25 * vertices + at, faces, (1, 0, 0, 1))), None
    )
    red = colored(picture, 0)
    middle = np.argwhere(red).mean(axis=0)[::-1] + 0.5
    assert np.allclose(middle, eye.on_screen(at, (80, 60)), atol=0.6)
    radius = 30 * eye.focal * 0.25 / 4
    assert red.sum() == pytest.approx(np.pi * radius**2, rel=0.08)


def test_what_is_in_front_hides_what_is_behind_and_what_is_translucent_mixes(pendulum):
    vertices, faces = box(np.array([0.05, 0.4, 0.4]))
    here, there = vertices + np.array([0.5, 0, 0.5]), vertices + np.array([-0.5, 0, 0.5])
    for opacity, expected in ((1.0, (True, False)), (0.5, (True, True))):
        surfaces = (
            Surface("red", 0, here, faces, (1, 0, 0, opacity)),
            Surface("blue", 0, there, faces, (0, 0, 1, 1)),
        )
        for order in (surfaces, surfaces[::-1]):
            picture, _ = picture_of(scene_with(pendulum, *order), None)
            r, g, b = picture[30, 40].astype(int)
            assert (r > g + 60, b > g + 60) == expected


def test_edges_are_smooth(pendulum):
    vertices, faces = ball()
    picture, _ = picture_of(
        scene_with(pendulum, Surface("dark", 0, 0.3 * vertices + [0, 0, 0.5], faces, (0, 0, 0, 1))), None
    )
    levels = np.unique(picture[..., 0])
    assert len(levels) > 20 and picture[30, 40, 0] < 120


def test_a_shadow_is_below_what_makes_it_and_the_ground_hides_what_is_beneath(pendulum):
    vertices, faces = box(np.array([0.3, 0.3, 0.05]))
    options = {"elevation": 50.0, "look_at": (0, 0, 0)}
    empty, eye = picture_of(scene_with(pendulum), **options)
    over, _ = picture_of(
        scene_with(pendulum, Surface("plate", 0, vertices + [0, 0, 0.6], faces, (0, 1, 0, 1))), **options
    )
    under, _ = picture_of(
        scene_with(pendulum, Surface("plate", 0, vertices - [0, 0, 0.6], faces, (0, 1, 0, 1))), **options
    )
    assert np.array_equal(under, empty)
    shadow = (over.astype(int) - empty).sum(axis=-1) < -60
    shadow &= ~colored(over, 1)
    assert 100 < shadow.sum() < 1500
    # The sun is above the camera's left shoulder: shadows fall to the right, away from the camera.
    place = np.argwhere(shadow).mean(axis=0)[::-1]
    assert place[0] > 40


def test_bodies_shade_each_other(pendulum):
    vertices, faces = box(np.array([0.5, 0.5, 0.05]))
    plate = Surface("plate", 0, vertices, faces, (1, 1, 1, 1))
    roof = Surface("roof", 0, vertices * [0.4, 0.4, 1] + [0, 0, 0.5], faces, (1, 0, 0, 1))
    options = {"elevation": 50.0, "look_at": (0, 0, 0.2), "ground": None}
    bare, _ = picture_of(scene_with(pendulum, plate), **options)
    shaded, _ = picture_of(scene_with(pendulum, plate, roof), **options)
    darker = (shaded.astype(int) - bare).min(axis=-1) < -40
    darker &= ~colored(shaded, 0)
    assert darker.sum() > 50


def test_what_reaches_behind_the_camera_is_cut(pendulum):
    vertices, faces = box(np.array([20.0, 0.2, 0.05]))
    picture, _ = picture_of(scene_with(pendulum, Surface("beam", 0, vertices, faces, (1, 0, 0, 1))), None)
    assert colored(picture, 0)[-1].sum() > 5  # up to the lower edge
    assert not colored(picture, 0)[:20].any()


def test_surfaces_that_are_open_are_seen_from_both_sides_and_those_inside_out_are_turned(pendulum):
    square = np.array([[0, -0.4, 0.1], [0, 0.4, 0.1], [0, 0.4, 0.9], [0, -0.4, 0.9]], float)
    for faces in ([[0, 1, 2], [0, 2, 3]], [[0, 2, 1], [0, 3, 2]]):
        picture, _ = picture_of(
            scene_with(pendulum, Surface("red", 0, square, np.array(faces), (1, 0, 0, 1))), None
        )
        assert colored(picture, 0)[30, 40]
    vertices, faces = ball()
    right, wrong = (
        picture_of(
            scene_with(pendulum, Surface("red", 0, 0.3 * vertices + [0, 0, 0.5], f, (1, 0, 0, 1))), None
        )[0]
        for f in (faces, faces[:, ::-1])
    )
    assert np.abs(right.astype(int) - wrong).max() <= 2


def test_round_lengths():
    assert [round_length(x) for x in (0.9, 1.0, 1.9, 2.0, 4.9, 5.0, 0.034)] == pytest.approx(
        [0.5, 1, 1, 2, 2, 5, 0.02]
    )


BAD_CAMERAS = {
    "azimuth": ({"azimuth": "left"}, "azimuth is 'left'"),
    "elevation": ({"elevation": 100}, "elevation is 100"),
    "distance": ({"distance": 0}, "distance is 0"),
    "look_at": ({"look_at": (1, 2)}, "look_at is"),
}


@pytest.mark.parametrize("given, message", BAD_CAMERAS.values(), ids=BAD_CAMERAS)
def test_cameras_that_cannot_be(given, message):
    with pytest.raises(ValueError, match=message):
        Camera(**given)
