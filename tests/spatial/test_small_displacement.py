"""Small displacements from transforms: XtoV of the book's tables A.1 and A.2."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_each_close, quotient

from rbd_jax import Transform
from rbd_jax.lie import SE3
from rbd_jax.spatial import planar


rng = np.random.default_rng(0)
POSITION, TURN = rng.normal(size=3), np.array([0.4, -0.3, 0.6])


def turned(scale):
    return Transform(
        SE3.exp(jnp.asarray(np.concatenate([scale * TURN, np.zeros(3)]))).rotation, jnp.asarray(POSITION)
    )


def plane(angle):
    return planar.Transform.from_angle(angle, POSITION[:2])


def test_it_is_the_books():
    """Table A.2: `½ [X23 - X32, X31 - X13, X12 - X21, X53 - X62, X61 - X43, X42 - X51]` of the transform from A to B."""
    frame = turned(1.0)
    X = np.asarray(frame.inverse().motion_matrix)
    entries = [
        ((2, 3), (3, 2)),
        ((3, 1), (1, 3)),
        ((1, 2), (2, 1)),
        ((5, 3), (6, 2)),
        ((6, 1), (4, 3)),
        ((4, 2), (5, 1)),
    ]
    book = [0.5 * (X[a - 1, b - 1] - X[c - 1, d - 1]) for (a, b), (c, d) in entries]
    assert_each_close(frame.small_displacement, np.array(book))


def test_the_planar_one_is_the_books():
    """Table A.1, the second: `[X23, ½ (X31 + X22 X31 + X23 X21), ½ (-X21 - X22 X21 + X23 X31)]`."""
    frame = plane(0.8)
    X = np.asarray(frame.inverse().motion_matrix)
    x21, x22, x23, x31 = X[1, 0], X[1, 1], X[1, 2], X[2, 0]
    book = [x23, (x31 + x22 * x31 + x23 * x21) / 2, (-x21 - x22 * x21 + x23 * x31) / 2]
    assert_each_close(frame.small_displacement, np.array(book))


@pytest.mark.parametrize("scale", [0.0, 1e-4, 1.0, 3.0])
def test_it_is_invariant(scale):
    """ "v is also an invariant of X": it has the same coordinates in both frames."""
    for frame in (turned(scale), plane(scale)):
        assert_each_close(frame.motion(frame.small_displacement), frame.small_displacement)


def test_it_is_exact_for_translations():
    assert_each_close(turned(0.0).small_displacement, np.concatenate([np.zeros(3), POSITION]))
    assert_each_close(plane(0.0).small_displacement, np.array([0, *POSITION[:2]]))


def test_it_is_exact_to_second_order():
    """A rotation ten times smaller has an error a hundred times smaller."""
    errors = []
    for scale in (1e-1, 1e-2):
        frame = turned(scale)
        exact = SE3.log(frame)
        errors.append(float(jnp.max(jnp.abs(frame.small_displacement - exact))))
    assert 80 < errors[0] / errors[1] < 120


def test_the_planar_one_is_the_exact_one_scaled():
    """ "u = v arcsin(X23) / X23", and u leads from A to B."""
    frame = plane(0.8)
    v = frame.small_displacement
    exact = v * jnp.arcsin(v[0]) / v[0]
    twist = jnp.zeros(6).at[jnp.array([2, 3, 4])].set(exact)
    there = SE3.exp(twist)
    assert_each_close(there.position[:2], frame.position)
    assert_each_close(there.rotation[:2, :2], frame.rotation)


@pytest.mark.parametrize("angle", [0.0, 1.1, np.pi])
def test_derivatives(angle):
    frames = {
        "space": lambda x: Transform(
            SE3.exp(x * jnp.array([0, 0.6, 0.8, 0, 0, 0])).rotation, jnp.asarray(POSITION)
        ),
        "plane": plane,
    }
    for of in frames.values():
        slope = jax.jvp(lambda x, of=of: of(x).small_displacement, (jnp.array(angle),), (jnp.array(1.0),))[1]
        along = quotient(lambda h, of=of: np.asarray(of(jnp.array(angle + h)).small_displacement))
        assert_each_close(slope, along, 1e-8)
