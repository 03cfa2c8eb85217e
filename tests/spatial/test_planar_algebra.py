"""The planar algebra (book §2.16) is the spatial one without the coordinates 1, 2 and 6."""

import jax
import jax.numpy as jnp
import numpy as np
from support import assert_each_close

from rbd_jax import spatial
from rbd_jax.spatial import planar


SAMPLES = 7
#: Indices of the planar coordinates among the spatial ones: rotation about z, motion along x and y.
IN_PLANE = np.array([2, 3, 4])
rng = np.random.default_rng(0)


def some(*shape):
    return jnp.asarray(rng.normal(size=(SAMPLES, *shape)))


FLAT = planar.Transform.from_angle(some(), some(2))
ANGLE, PLACE = np.asarray(FLAT.angle), np.asarray(FLAT.position)
WHOLE = spatial.Transform.from_xyz_rpy(
    jnp.asarray(np.concatenate([PLACE, np.zeros((SAMPLES, 1))], axis=1)),
    jnp.asarray(np.stack([0 * ANGLE, 0 * ANGLE, ANGLE], axis=1)),
)
V, M, F = some(3), some(3), some(3)
MASS, COM, TURN = (
    jnp.asarray(rng.uniform(0.5, 2, SAMPLES)),
    some(2),
    jnp.asarray(rng.uniform(0.5, 2, SAMPLES)),
)
BODY = planar.Inertia.from_mass_com(MASS, COM, TURN)
WHOLE_BODY = spatial.Inertia.from_mass_com(
    MASS,
    jnp.asarray(np.concatenate([COM, np.zeros((SAMPLES, 1))], axis=1)),
    # The moments about x and y have no effect.
    jnp.asarray(np.asarray(TURN)[:, None, None] * np.diag([0.6, 0.7, 1.0])),
)


def embedded(x):
    whole = np.zeros((SAMPLES, 6))
    whole[:, IN_PLANE] = x
    return jnp.asarray(whole)


def cut(matrix):
    """Returns the planar part of a spatial matrix, which must preserve the plane."""
    matrix = np.asarray(matrix)
    out = np.setdiff1d(np.arange(6), IN_PLANE)
    np.testing.assert_allclose(matrix[:, out[:, None], IN_PLANE], 0, atol=1e-15)
    return matrix[:, IN_PLANE[:, None], IN_PLANE]


def assert_close(a, b, tolerance=1e-13):
    assert_each_close(a, b, tolerance)


def test_transforms_are_the_spatial_ones():
    assert_close(FLAT.motion_matrix, cut(WHOLE.motion_matrix))
    assert_close(FLAT.force_matrix, cut(WHOLE.force_matrix))
    for method, x in (("motion", M), ("inverse_motion", M), ("force", F), ("inverse_force", F)):
        flat, whole = getattr(FLAT, method)(x), getattr(WHOLE, method)(embedded(x))
        assert_close(embedded(flat), whole)


def test_transform_matrix_is_the_books():
    """Eq. 2.77, from A to B: `[[1, 0, 0], [s x - c y, c, s], [c x + s y, -s, c]]`."""
    (x, y), c, s = PLACE.T, np.cos(ANGLE), np.sin(ANGLE)
    o = np.zeros(SAMPLES)
    book = np.array([[o + 1, o, o], [s * x - c * y, c, s], [c * x + s * y, -s, c]]).transpose(2, 0, 1)
    assert_close(FLAT.inverse().motion_matrix, book)


def test_transforms_chain():
    other = planar.Transform.from_angle(some(), some(2))
    product = np.asarray(FLAT.motion_matrix) @ np.asarray(other.motion_matrix)
    assert_close((FLAT @ other).motion_matrix, product)
    assert_close((FLAT @ FLAT.inverse()).motion_matrix, np.broadcast_to(np.eye(3), (SAMPLES, 3, 3)))


def test_cross_products_are_the_spatial_ones():
    assert_close(planar.cross_motion_matrix(V), cut(spatial.cross_motion_matrix(embedded(V))))
    assert_close(planar.cross_force_matrix(V), cut(spatial.cross_force_matrix(embedded(V))))
    assert_close(embedded(planar.cross_motion(V, M)), spatial.cross_motion(embedded(V), embedded(M)))
    assert_close(embedded(planar.cross_force(V, F)), spatial.cross_force(embedded(V), embedded(F)))
    assert_close(planar.power(M, F), spatial.power(embedded(M), embedded(F)))


def test_inertia_is_the_spatial_one():
    assert_close(BODY.matrix, cut(WHOLE_BODY.matrix))
    assert_close(BODY.placed(FLAT).matrix, cut(WHOLE_BODY.placed(WHOLE).matrix), 1e-12)
    assert_close(BODY.kinetic_energy(V), WHOLE_BODY.kinetic_energy(embedded(V)))
    assert_close(embedded(BODY.momentum(V)), WHOLE_BODY.momentum(embedded(V)))
    assert_close(BODY.com, COM)


def test_inertia_has_four_parameters():
    """The matrix is linear in them (§2.16)."""
    assert BODY.parameters.shape == (SAMPLES, 4)
    double = BODY + BODY
    assert_close(double.parameters, 2 * np.asarray(BODY.parameters))
    assert_close(double.matrix, 2 * np.asarray(BODY.matrix))


def test_inertia_matrix_is_the_books():
    """Eq. 2.78: `[[I_C + m (cx² + cy²), -m cy, m cx], [-m cy, m, 0], [m cx, 0, m]]`."""
    m, (x, y), turn, o = np.asarray(MASS), np.asarray(COM).T, np.asarray(TURN), np.zeros(SAMPLES)
    book = np.array([[turn + m * (x**2 + y**2), -m * y, m * x], [-m * y, m, o], [m * x, o, m]])
    assert_close(BODY.matrix, book.transpose(2, 0, 1))


def test_the_planar_algebra_compiles_and_differentiates():
    def energy(angle):
        frame = planar.Transform.from_angle(angle, jnp.array([1.0, 2.0]))
        body = planar.Inertia.from_mass_com(jnp.array(2.0), jnp.array([0.3, 0.1]), jnp.array(0.5))
        return body.placed(frame).kinetic_energy(jnp.array([1.0, 0.5, -0.3]))

    both, step = jax.jit(jax.value_and_grad(energy)), 1e-6
    quotient = (both(np.array(0.4 + step))[0] - both(np.array(0.4 - step))[0]) / (2 * step)
    assert_close(both(np.array(0.4))[1], quotient, 1e-8)
