"""How far a motion reaches, against boxes that are known."""

import numpy as np

import rbd_jax as rbd
from rbd_jax.view.extent import extent
from rbd_jax.view.recording import Poses
from rbd_jax.view.scene import scene_of


def a_box(center=(0.0, 0.0, 0.0)):
    builder = rbd.ModelBuilder()
    builder.add_body(
        "box", joint=rbd.joints.Free(), inertia=rbd.Inertia.from_mass_com(1.0, np.zeros(3), np.eye(3))
    )
    shape = rbd.Shape("look", "box", rbd.shapes.Box((0.1, 0.2, 0.3)), center)
    return scene_of(rbd.attach(builder.build(), shape))


def moving(*places):
    return Poses(
        np.arange(len(places)) * 0.1,
        np.array(places, float)[:, None],
        np.tile([1.0, 0, 0, 0], (len(places), 1, 1)),
    )


def test_a_box_that_moves():
    found = extent(a_box(), [moving((0, 0, 1), (0, 0, 0.5)), moving((1, 0, 2))])
    np.testing.assert_allclose(found.low, [[-0.1, -0.2, 0.7], [-0.1, -0.2, 0.2], [0.9, -0.2, 1.7]])
    np.testing.assert_allclose(found.high, found.low + [[0.2, 0.4, 0.6]])
    np.testing.assert_allclose(found.center, [0.5, 0, 1.25])
    np.testing.assert_allclose(found.radius, np.sqrt(0.14))
    assert found.ground == 0 and found.travels


def test_the_ground_is_below():
    assert extent(a_box((0, 0, -1)), [moving((0, 0, 0))]).ground == -1.3


def test_bodies_turn():
    turned = Poses(np.zeros(1), np.zeros((1, 1, 3)), np.array([[[np.sqrt(0.5), np.sqrt(0.5), 0, 0]]]))
    found = extent(a_box(), [turned])
    np.testing.assert_allclose(found.high, [[0.1, 0.3, 0.2]], atol=1e-12)
    assert not found.travels
