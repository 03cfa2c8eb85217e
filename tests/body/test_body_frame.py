"""Non-twisting frames along geodesics and a circle, and the equations of twist (Gebhardt & Romero 2020, §2.3)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rbd_jax import body
from rbd_jax.lie import S2, SO3


def natural_frame(colatitude, longitude):
    """Returns the non-twisting frame on a circle of latitude.

    It is the frame that points south, east and up, rotated back by its twist.
    """
    st, ct, sp, cp = jnp.sin(colatitude), jnp.cos(colatitude), jnp.sin(longitude), jnp.cos(longitude)
    south = jnp.stack([ct * cp, ct * sp, -st])
    east = jnp.stack([-sp, cp, jnp.zeros_like(sp)])
    up = jnp.stack([st * cp, st * sp, ct])
    return body.twisted(jnp.stack([south, east, up], axis=-1), -ct * longitude)


def test_exact_along_geodesics():
    """On a spherical polygon the result does not depend on the sampling, and each edge rotates the frame about the
    edge's normal.
    """
    corners = np.random.default_rng(0).normal(size=(6, 3))
    corners = jnp.asarray(corners / np.linalg.norm(corners, axis=1, keepdims=True))

    @jax.jit
    def along(corners):
        """Returns the frames at the corners, from the corners alone and from eight samples per edge, and the edges'
        rotations.
        """
        steps = S2.log(corners[:-1], corners[1:])
        between = jax.vmap(lambda s: S2.geodesic(corners[:-1], steps, jnp.full(5, s)))(jnp.arange(8) / 8)
        dense = jnp.concatenate([jnp.swapaxes(between, 0, 1).reshape(-1, 3), corners[-1:]])
        first = S2.project(corners[0], jnp.array([1.0, 0, 0]))
        first /= jnp.linalg.norm(first)
        initial = jnp.stack([first, jnp.cross(corners[0], first), corners[0]], axis=-1)
        coarse, fine = (body.non_twisting_frames(d, initial) for d in (corners, dense))
        return initial, coarse, fine[::8], SO3.exp(jnp.cross(corners[:-1], steps))

    initial, coarse, fine, turns = along(corners)
    np.testing.assert_allclose(fine, coarse, atol=5e-15)

    expected = [np.asarray(initial)]
    for turn in np.asarray(turns):
        expected.append(turn @ expected[-1])
    np.testing.assert_allclose(coarse, np.stack(expected), atol=5e-15)


def around(colatitude, n):
    """Returns sampled and exact frames on a circle of latitude, the angles between them, and the exact frames rotated
    by these.
    """
    exact = jax.vmap(natural_frame, (None, 0))(colatitude, jnp.linspace(0, 2 * jnp.pi, n + 1))
    frames = body.non_twisting_frames(exact[:, :, 2], exact[0])
    angles = jax.vmap(body.twist_angle)(frames, exact)
    return (
        frames,
        exact,
        angles,
        jax.vmap(body.twisted)(exact, angles),
        body.twist_angle(frames[-1], frames[0]),
    )


def test_along_a_circle_of_latitude():
    """The error is of second order in the sample distance. One circuit rotates the frame by the solid angle of the circle."""
    colatitude, errors = 0.7, []
    for n in (100, 200):
        found = jax.jit(around, static_argnums=1)(colatitude, n)
        frames, exact, angles, again, solid = map(np.asarray, found)
        np.testing.assert_allclose(again, frames, atol=1e-14)
        errors.append(angles[-1])
        missing = (solid - 2 * np.pi * (1 - np.cos(colatitude))) / (2 * np.pi)
        assert abs(missing - np.round(missing)) < 10 / n**2
    assert 3.99 < errors[0] / errors[1] < 4.01


def moving(t, psi):
    """Returns a frame on a circle of latitude with twist angle psi(t), its rates, and quantities derived from them."""
    frame = lambda t: body.twisted(natural_frame(jnp.array(0.7), t), psi(t))
    now, rates, rate = frame(t), jax.jacfwd(frame)(t), jax.grad(psi)(t)
    w = body.director_velocity(now, rates)
    darboux = body.darboux_vector(now[:, 2], rates[:, 2], rate)
    return now, rates, rate, w, body.director_rates(now, w), darboux, body.twist_rate(now, rates)


def test_twist_and_angular_velocity():
    """Eqs. (18), (20)-(23), (25) and (26), with rates from automatic differentiation of a moving frame."""
    for psi in (lambda t: 0 * t, lambda t: t * t - 0.3):
        found = map(np.asarray, jax.jit(moving, static_argnums=1)(0.9, psi))
        frame, rates, rate, w, again, darboux, twist_rate = found
        d1, d2, d3 = frame.T
        e1, e2, e3 = rates.T
        np.testing.assert_allclose(again, rates, atol=1e-15)
        np.testing.assert_allclose(w, darboux, atol=1e-15)
        np.testing.assert_allclose(w, -(d2 @ e3) * d1 + (d1 @ e3) * d2 + rate * d3, atol=1e-15)
        np.testing.assert_allclose(twist_rate, rate, atol=1e-15)
        if rate == 0:
            np.testing.assert_allclose([e3 @ e1, e3 @ e2], 0, atol=1e-15)
            np.testing.assert_allclose(e1 @ e2, (d1 @ e3) * (d2 @ e3), atol=1e-15)


@pytest.mark.slow
def test_gradients_are_finite_where_the_curve_stands_still():
    directors = np.array([[0.0, 0, 1], [0, 0, 1], [0.6, 0, 0.8], [0.6, 0, 0.8]])
    total = lambda d: jnp.sum(body.non_twisting_frames(d, jnp.eye(3)) ** 3)
    slope, curvature = jax.jit(lambda d, v: jax.jvp(jax.grad(total), (d,), (v,)))(directors, directors[::-1])
    assert np.isfinite(slope).all() and np.isfinite(curvature).all()
