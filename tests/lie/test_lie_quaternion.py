"""Quaternions: algebraic laws, the maps to and from rotations, and their derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.spatial.transform

from rbd_jax.lie import SO3, quaternion


PRECISIONS = pytest.mark.parametrize(
    "dtype, tolerance", [(np.float64, 1e-15), (np.float32, 1e-6)], ids=["float64", "float32"]
)


#: Single precision runs daily only for the basic functions.
DOUBLE_EVERY_DAY = pytest.mark.parametrize(
    "dtype, tolerance",
    [
        pytest.param(np.float64, 1e-15, id="float64"),
        pytest.param(np.float32, 1e-6, id="float32", marks=pytest.mark.slow),
    ],
)


def close(actual, expected, tolerance):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


def rotations(dtype, count=200):
    """Returns unit quaternions: random ones, small rotations, near and exact half turns, some about coordinate axes."""
    rng = np.random.default_rng(0)
    random, axes = rng.normal(size=(count, 4)), rng.normal(size=(count, 3))
    axes[:6] = np.concatenate([np.eye(3), -np.eye(3)])
    axes[6:9] = [[1, 1, 0], [-1, 0, 1], [0, -1, -1]]
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    kinds = [random / np.linalg.norm(random, axis=1, keepdims=True)]
    for half in (0.0, 1e-12, 1e-8, 1e-4, np.pi / 2, np.pi / 2 - 1e-9, np.pi / 2 + 1e-9):
        kinds.append(np.concatenate([np.full((count, 1), np.cos(half)), np.sin(half) * axes], axis=1))
    kinds.append(np.concatenate([np.zeros((count, 1)), axes], axis=1))
    return jnp.asarray(np.concatenate(kinds), dtype)


@DOUBLE_EVERY_DAY
def test_algebra(dtype, tolerance):
    a, b = rotations(dtype)[:100], rotations(dtype)[100:200]
    product = quaternion.multiply(a, b)
    assert product.dtype == dtype
    close(quaternion.to_matrix(product), quaternion.to_matrix(a) @ quaternion.to_matrix(b), 2 * tolerance)
    one = np.broadcast_to([1, 0, 0, 0], a.shape)
    close(quaternion.multiply(a, quaternion.conjugate(a)), one, tolerance)
    vector = jnp.asarray(np.random.default_rng(1).normal(size=(100, 3)), dtype)
    turned = np.einsum("bij,bj->bi", quaternion.to_matrix(a), vector)
    close(quaternion.rotate(a, vector), turned, 5 * tolerance)
    close(quaternion.rotate(-3 * a, vector), turned, 5 * tolerance)
    close(quaternion.to_matrix(-3 * a), quaternion.to_matrix(a), 2 * tolerance)


def test_multiplication_table():
    i, j, k = jnp.eye(4)[1:]
    close(quaternion.multiply(i, j), k, 0)
    close(quaternion.multiply(j, k), i, 0)
    close(quaternion.multiply(k, i), j, 0)
    close(quaternion.multiply(i, i), -jnp.eye(4)[0], 0)


@DOUBLE_EVERY_DAY
def test_matrices_against_scipy(dtype, tolerance):
    q = rotations(dtype)
    reference = scipy.spatial.transform.Rotation.from_quat(np.asarray(q, float), scalar_first=True)
    close(quaternion.to_matrix(q), reference.as_matrix(), 2 * tolerance)
    q = q[:200]  # at half turns the sign convention differs
    vectors = reference.as_rotvec()[:200]
    close(quaternion.log(q), vectors, 6 * tolerance)


@PRECISIONS
def test_from_matrix(dtype, tolerance):
    """At all rotations `q` is recovered with the documented sign; small rotations keep their digits."""
    q = rotations(dtype)
    back = quaternion.from_matrix(quaternion.to_matrix(q))
    assert back.dtype == dtype
    close(np.abs(np.sum(np.asarray(back * q), axis=1)), np.ones(len(q)), 2 * tolerance)
    close(np.minimum(np.abs(back - q).max(1), np.abs(back + q).max(1)), 0, 2 * tolerance)
    assert (np.asarray(back)[:, 0] >= 0).all()
    small = q[400:600]
    np.testing.assert_allclose(back[400:600, 1:], small[:, 1:], rtol=10 * tolerance)


@DOUBLE_EVERY_DAY
def test_exp_and_log(dtype, tolerance):
    q = rotations(dtype)
    x = quaternion.log(q)
    assert x.dtype == dtype
    assert np.linalg.norm(x, axis=1).max() <= np.pi * (1 + tolerance)
    assert (np.asarray(x) == np.asarray(quaternion.log(-q))).all()
    close(quaternion.to_matrix(quaternion.exp(x)), quaternion.to_matrix(q), 4 * tolerance)
    close(quaternion.to_matrix(quaternion.exp(x)), SO3.exp(x), 4 * tolerance)
    close(quaternion.log(jnp.asarray(1e-9, dtype) * q)[:200], x[:200], 6 * tolerance)
    # Small rotations keep their digits.
    np.testing.assert_allclose(x[400:600], 2 * q[400:600, 1:], rtol=10 * tolerance)


@DOUBLE_EVERY_DAY
def test_derivatives(dtype, tolerance):
    """In the chart `q ∘ exp(d)`, derivatives through the matrix equal those of `q`, at all rotations."""
    q = rotations(dtype, count=12)

    def derivatives(q):
        there = lambda d: quaternion.multiply(q, quaternion.exp(d))
        back = lambda d: quaternion.from_matrix(quaternion.to_matrix(there(d)))
        log = lambda d: quaternion.log(there(d))
        one = jnp.zeros(3, q.dtype)
        rates = jax.vmap(lambda e: quaternion.derivative(back(one), e), out_axes=1)(jnp.eye(3, dtype=q.dtype))
        expected = rates, SO3.dexp_right_inverse(quaternion.log(q))
        return (jax.jacrev(back)(one), jax.jacrev(log)(one)), expected

    for actual, expected in zip(*jax.jit(jax.vmap(derivatives))(q)):
        close(actual, expected, 10 * tolerance)


def test_rates():
    """`q̇ = ½ q ∘ ω` gives `Ṙ = R ω×` and preserves the length."""
    q, angular = 1.7 * rotations(np.float64)[0], jnp.array([0.3, -0.8, 0.5])
    rate = quaternion.derivative(q, angular)
    assert abs(jnp.sum(q * rate)) < 1e-15
    _, matrix_rate = jax.jvp(quaternion.to_matrix, (q,), (rate,))
    close(matrix_rate, quaternion.to_matrix(q) @ SO3.hat(angular), 1e-15)


@DOUBLE_EVERY_DAY
def test_axis_and_angle(dtype, tolerance):
    axis, angle = jnp.array([0.3, -0.8, 0.5], dtype), jnp.array(2.0, dtype)
    expected = quaternion.exp(axis / jnp.sqrt(jnp.sum(axis**2)) * angle)
    close(quaternion.from_axis_angle(axis, angle), expected, tolerance)
    close(quaternion.from_axis_angle(jnp.zeros(3, dtype), angle), [1, 0, 0, 0], 0)


@PRECISIONS
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
def test_normalize(dtype, tolerance, scale):
    q = jnp.asarray(np.array([1.0, -2, 3, 0.5]) * scale, dtype)
    unit = quaternion.normalize(q)
    close(unit, np.array([1, -2, 3, 0.5]) / np.sqrt(14.25), tolerance)
    projection = (np.eye(4) - np.outer(unit, unit)) / np.sqrt(14.25)
    close(jax.jacrev(quaternion.normalize)(q) * jnp.asarray(scale, dtype), projection, tolerance)


def test_zero_is_the_identity_rotation():
    zero = jnp.zeros(4)
    close(quaternion.normalize(zero), [1, 0, 0, 0], 0)
    with jax.debug_nans(True), jax.debug_infs(True):
        slopes = jax.jacrev(quaternion.normalize)(zero), jax.jacfwd(jax.jacrev(quaternion.normalize))(zero)
    assert all((np.asarray(s) == 0).all() for s in slopes)
    with jax.debug_nans(True), jax.debug_infs(True):
        slope = jax.jacrev(quaternion.from_axis_angle)(jnp.zeros(3), jnp.array(1.0))
    assert (np.asarray(slope) == 0).all()


def test_random_is_uniform(key):
    """The mean of the rotation matrices is zero, and the angle has the expected distribution."""
    q = jax.jit(jax.vmap(quaternion.random))(jax.random.split(key, 20_000))
    close(jnp.sum(q**2, axis=1), np.ones(len(q)), 1e-14)
    assert np.abs(np.mean(quaternion.to_matrix(q), axis=0)).max() < 0.025
    angle = np.linalg.norm(quaternion.log(q), axis=1)
    uniform = np.sort(
        (angle - np.sin(angle)) / np.pi
    )  # the distribution function of a random rotation's angle
    assert np.abs(uniform - np.linspace(0, 1, len(q))).max() < 0.015
    assert quaternion.random(key, dtype=jnp.float32).dtype == jnp.float32
