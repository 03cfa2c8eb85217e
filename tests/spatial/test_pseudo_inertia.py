"""The pseudo-inertia, physical consistency, and log-Cholesky parameters (Rucker & Wensing 2022)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close, differences

import rbd_jax as rbd


Inertia = rbd.Inertia


def points(seed, count=6):
    """Returns point masses and their positions, (count,) and (count, 3)."""
    random = np.random.default_rng(seed)
    return random.uniform(0.1, 1, count), random.normal(size=(count, 3))


def of_parameters(parameters):
    return Inertia.from_parameters(jax.device_put(parameters))


def body(masses, places):
    each = Inertia.from_mass_com(masses, places, np.zeros((len(masses), 3, 3)))
    return of_parameters(np.sum(np.asarray(each.parameters), axis=0))


def test_the_pseudo_inertia_is_the_second_moment_of_the_mass():
    masses, places = points(0)
    homogeneous = np.concatenate([places, np.ones((len(places), 1))], axis=1)
    expected = np.einsum("i,ij,ik->jk", masses, homogeneous, homogeneous)
    inertia = body(masses, places)
    assert_close(inertia.pseudo_inertia, expected, 1e-14)
    assert_close(Inertia.from_pseudo_inertia(jax.device_put(expected)).parameters, inertia.parameters, 1e-14)


def test_it_moves_with_the_frame():
    masses, places = points(1)
    frame = rbd.Transform.from_xyz_rpy((0.3, -0.2, 0.5), (0.4, -1.0, 2.0))
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = frame.rotation, frame.position
    inertia = body(masses, places)
    expected = T @ np.asarray(inertia.pseudo_inertia) @ T.T
    assert_close(inertia.placed(frame).pseudo_inertia, expected, 1e-14)


def test_log_cholesky_is_a_chart_of_the_bodies_that_can_be():
    numbers = np.random.default_rng(2).normal(size=(20, 10))
    inertias = Inertia.from_log_cholesky(jax.device_put(numbers))
    assert inertias.is_physical.all()
    assert_close(inertias.to_log_cholesky(), numbers, 1e-9)
    np.testing.assert_allclose(inertias.mass, np.exp(2 * numbers[:, 0]), rtol=1e-14)
    np.testing.assert_allclose(inertias.com, numbers[:, 7:], rtol=1e-12)
    one = Inertia.from_log_cholesky(jax.device_put(numbers[3]))
    assert_close(one.parameters, np.asarray(inertias.parameters)[3], 1e-14)
    # Cholesky factor of the reversed matrix: U Uᵀ.
    upper = np.linalg.cholesky(np.asarray(one.pseudo_inertia)[::-1, ::-1])[::-1, ::-1]
    a, d, (s12, s23, s13) = numbers[3, 0], np.exp(numbers[3, 1:4]), numbers[3, 4:7]
    expected = np.array([[d[0], s12, s13, 0], [0, d[1], s23, 0], [0, 0, d[2], 0], [0, 0, 0, 1]])
    expected[:3, 3] = numbers[3, 7:]
    assert_close(upper, np.exp(a) * expected, 1e-9)


@pytest.mark.parametrize("offset", [pytest.param(0.0, marks=pytest.mark.slow), 1.0])
def test_derivatives_are_difference_quotients(offset):
    """The points include that of the unit ball in the chart, where all parameters are zero but nothing is singular."""
    numbers = offset * np.random.default_rng(3).normal(size=(3, 10))
    there = lambda x: Inertia.from_log_cholesky(x).parameters
    back = lambda p: Inertia.from_parameters(p).to_log_cholesky()

    @jax.jit
    @jax.vmap
    def derivatives(x):
        return jax.jacfwd(there)(x), jax.jacrev(back)(there(x))

    slopes, slopes_back = jax.device_get(derivatives(numbers))
    assert_close(slopes, differences(jax.jit(jax.vmap(there)), numbers), 1e-8)
    assert_close(slopes_back, np.linalg.inv(slopes), 1e-8)


def test_what_is_physical():
    ball = Inertia.sphere(2.0, 0.3, (0.1, 0.0, 5.0))
    rod = Inertia.from_mass_com(1.0, np.zeros(3), np.diag([1.0, 1.0, 0.0]))
    point = Inertia.from_mass_com(1.0, np.array([1.0, 2.0, 3.0]), np.zeros((3, 3)))
    plate = Inertia.from_mass_com(1e-6, np.zeros(3), 1e-12 * np.diag([1.0, 1.0, 2.0]))
    for inertia in (ball, rod, point, plate, Inertia.zero()):
        assert bool(inertia.is_physical)
    thin = Inertia.from_mass_com(1.0, np.zeros(3), np.diag([1.0, 1.0, 2.01]))
    negative = of_parameters(-np.asarray(ball.parameters))
    far = Inertia(ball.mass, 1.01 * ball.first_moment, ball.rotational)  # violates the triangle inequality
    weightless = Inertia(jnp.zeros(()), ball.first_moment, ball.rotational)
    nothing = of_parameters(np.full(10, np.nan))
    batch = np.stack([x.parameters for x in (thin, negative, far, weightless, nothing, ball)])
    assert of_parameters(batch).is_physical.tolist() == [False] * 5 + [True]
    small = np.float32(1e-3) * batch.astype(np.float32)
    assert of_parameters(small).is_physical.tolist() == [False] * 5 + [True]


def test_what_has_no_chart_is_refused_or_nan():
    rod = Inertia.from_mass_com(1.0, np.zeros(3), np.diag([1.0, 1.0, 0.0]))
    parameters = np.asarray(Inertia.sphere(1.0, 0.1).parameters)
    both = of_parameters(np.stack([parameters, -parameters]))
    with pytest.raises(rbd.ModelError, match="of number 1 is not positive definite"):
        both.to_log_cholesky()
    with pytest.raises(rbd.ModelError, match="an extent in every direction"):
        rod.to_log_cholesky()
    traced = jax.jit(lambda x: x.to_log_cholesky())(both)
    assert np.isfinite(traced[0]).all() and np.isnan(traced[1]).any()
