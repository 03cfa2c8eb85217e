"""The unit sphere: geodesics and transport compared with rotations, the logarithm, derivatives at singular points.

Equations are those of Gebhardt & Romero 2020.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rbd_jax.lie import S2, SO3


PRECISIONS = pytest.mark.parametrize(
    "dtype, tolerance", [(np.float64, 2e-15), (np.float32, 1e-6)], ids=["float64", "float32"]
)
DOUBLE_EVERY_DAY = pytest.mark.parametrize(
    "dtype, tolerance",
    [
        pytest.param(np.float64, 2e-15, id="float64"),
        pytest.param(np.float32, 1e-6, id="float32", marks=pytest.mark.slow),
    ],
)
# Lengths of tangent vectors: each twice, in a random direction and along an axis.
LENGTHS = np.repeat(
    [0, 1e-300, 1e-30, 1e-8, 1e-4, 1e-2, 0.3, 1, np.pi / 2, 2, 3, np.pi - 1e-3, np.pi - 1e-6], 2
)


def samples(dtype=np.float64, lengths=LENGTHS):
    """Returns points of the sphere, and tangent vectors of the given lengths and of length one, one per row."""
    rng = np.random.default_rng(0)
    d = rng.normal(size=(len(lengths), 3))
    d[1::2] = [0, 0, 1]
    d /= np.linalg.norm(d, axis=1, keepdims=True)
    v, w = rng.normal(size=(2, len(lengths), 3))
    v[1::2] = [0, 1, 0]
    tangent = lambda v: v - np.sum(d * v, axis=1, keepdims=True) * d
    v, w = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (tangent(v), tangent(w)))
    return [np.asarray(x, dtype) for x in (d, lengths[:, None] * v, w)]


@DOUBLE_EVERY_DAY
def test_exp_and_transport_are_the_rotation_about_the_normal(dtype, tolerance):
    """The rotation `exp(d × v)` moves `d` along the geodesic and transports tangent vectors (eqs. 3, 6, 10, 20)."""
    d, v, w = samples(dtype)
    rotation = SO3.exp(np.cross(d, v))
    turned = lambda x: np.einsum("bij,bj->bi", rotation, x)
    np.testing.assert_allclose(S2.exp(d, v), turned(d), atol=2 * tolerance)
    np.testing.assert_allclose(S2.transport(d, v, w), turned(w), atol=2 * tolerance)
    half = np.full(len(d), 0.5, dtype)
    np.testing.assert_array_equal(S2.geodesic(d, v, half), S2.exp(d, v / 2))


def test_transport_is_the_formula_of_the_paper():
    """Eq. (10) as printed, between points that are neither equal nor antipodal."""
    d, v, w = (x[10:24] for x in samples())
    e = S2.exp(d, v)
    there, back = S2.log(d, e), S2.log(e, d)
    angle = np.arccos(np.sum(d * e, axis=1, keepdims=True))
    expected = w - (there + back) * np.sum(there * w, axis=1, keepdims=True) / angle**2
    np.testing.assert_allclose(S2.transport(d, there, w), expected, atol=1e-10)


@PRECISIONS
def test_log_undoes_exp(dtype, tolerance):
    """The tolerance follows from the conditioning: near the antipode the direction is accurate to ε/distance."""
    d, v, _ = samples(dtype)
    known = LENGTHS < np.pi - 1e-4
    back = S2.log(d, S2.exp(d, v))
    np.testing.assert_allclose(back[known], v[known], atol=4e3 * tolerance)
    np.testing.assert_allclose(S2.exp(d, back), S2.exp(d, v), atol=4 * tolerance)
    np.testing.assert_allclose(
        np.linalg.norm(back, axis=1), LENGTHS, atol=2e3 * tolerance * 2e-3 + 4 * tolerance
    )


def test_log_keeps_the_digits_of_short_vectors():
    d, v, _ = samples()
    axis = (LENGTHS < 1e-3) & (np.arange(len(LENGTHS)) % 2 == 1)
    np.testing.assert_allclose(S2.log(d, S2.exp(d, v))[axis], v[axis], rtol=1e-15, atol=0)


def test_log_at_the_antipode():
    """It has length π and reaches the antipode, for any `d`; near the antipode it follows the direction of the point."""
    d = jnp.concatenate([samples()[0], jnp.eye(3), -jnp.eye(3)])
    v = S2.log(d, -d)
    np.testing.assert_allclose(np.linalg.norm(v, axis=1), np.pi, rtol=1e-15)
    np.testing.assert_allclose(np.sum(d * v, axis=1), 0, atol=2e-15)
    np.testing.assert_allclose(S2.log(d[-1], jnp.array([1e-200, 0, 1.0])), [np.pi, 0, 0], rtol=1e-15)


@DOUBLE_EVERY_DAY
def test_derivatives_are_finite(dtype, tolerance):
    """First and second derivatives, in forward and reverse mode: at equal points, at the antipode, and near both."""
    small = np.finfo(dtype).eps
    d = jnp.asarray([[0, 0, 1]] * 5, dtype)
    e = jnp.asarray([[0, 0, 1], [small, 0, 1], [0, 0, -1], [small, 0, -1], [1e-30, 0, -1]], dtype)

    def all_maps(d, e):
        v = S2.log(d, e)
        return jnp.concatenate([v, S2.exp(d, v), S2.transport(d, v, jnp.ones_like(v))])

    derivatives = lambda d, e: (jax.jacfwd(S2.log, 1)(d, e), jax.jacrev(all_maps, (0, 1))(d, e))
    first = jax.jit(jax.vmap(derivatives))(d, e)
    second = jax.jit(jax.vmap(jax.hessian(S2.log, 1)))(d[:4], e[:4])
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((first, second)))
    # At equal points the derivative of the logarithm is the tangential projection.
    np.testing.assert_allclose(first[0][0], np.diag([1, 1, 0]), atol=tolerance)


def test_derivatives_of_log_against_differences():
    """Derivatives with respect to the second point, across the sphere and at exactly a right angle."""
    d, v, w = samples(lengths=np.repeat([1e-3, 0.3, 1.5, 1.6, 2.5, 3.1], 2))
    e, w = S2.exp(d, v), S2.transport(d, v, w)
    axes = jnp.eye(3)
    d, e = jnp.concatenate([d, axes]), jnp.concatenate([e, jnp.roll(axes, 1, axis=0)])
    w = jnp.concatenate([w, axes])

    @jax.jit
    def slopes(step):
        moved = lambda s: S2.log(d, S2.exp(e, s * w))
        return jax.jvp(moved, (0.0,), (1.0,))[1], (moved(step) - moved(-step)) / (2 * step)

    np.testing.assert_allclose(*slopes(1e-6), rtol=1e-6, atol=1e-7)


def test_covariant_derivative():
    """For the field `v(d) = a × d` of a rotation, and zero for velocities along geodesics (eqs. 4, 5, 8)."""
    d, v, w = (jnp.asarray(x[13]) for x in samples())
    a = np.array([0.3, -1.2, 0.7])
    field = lambda d: jnp.cross(a, d)
    actual = jax.jit(lambda d, w: S2.covariant_derivative(field, d, w))(d, w)
    np.testing.assert_allclose(actual, np.dot(a, d) * np.cross(d, w), atol=1e-15)

    @jax.jit
    def along(s):
        curve = lambda s: S2.geodesic(d, v, s)
        acceleration = jax.jacfwd(jax.jacfwd(curve))(s)
        carried = jax.jacfwd(lambda s: S2.transport(d, s * v, w))(s)
        return [S2.project(curve(s), rate) for rate in (acceleration, carried)]

    np.testing.assert_allclose(along(0.4), 0, atol=2e-15)  # the second one is eq. 11


def test_split():
    """The inertia of a rotated body splits at its axis, its rotation between the axis and the rotated axis (eq. 13)."""
    rotation = SO3.exp(jnp.array([0.4, -0.8, 0.3]))
    inertia = jnp.array([[3, -1 / 7, 0], [-1 / 7, 4, 0], [0, 0, 5]])
    axis = jnp.array([0.0, 0, 1])
    d = rotation @ axis
    for tensor, start, end in ((rotation @ inertia @ rotation.T, d, d), (rotation, axis, d)):
        perpendicular, parallel = S2.split(tensor, start, end)
        np.testing.assert_allclose(perpendicular + parallel, tensor, atol=1e-15)
        np.testing.assert_allclose(perpendicular @ start, 0, atol=2e-15)
        np.testing.assert_allclose(end @ perpendicular, 0, atol=2e-15)
        assert np.linalg.matrix_rank(np.asarray(parallel), tol=1e-12) == 1
    assert not np.allclose(sum(S2.split(inertia, d, d)), inertia)
