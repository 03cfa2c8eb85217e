"""The pseudo-inertia, whether a body can be, and its log-Cholesky numbers (Rucker & Wensing 2022)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close, differences

import rbd_jax as rbd


Inertia = rbd.Inertia


def points(key, count=6):
    """Masses at points of space, (count,) and (count, 3), whose sums are all known."""
    of_mass, of_place = jax.random.split(key)
    return jax.random.uniform(of_mass, (count,), minval=0.1), jax.random.normal(of_place, (count, 3))


def body(masses, places):
    return Inertia.from_parameters(
        sum(
            Inertia.from_mass_com(m, p, jnp.zeros((3, 3))).parameters
            for m, p in zip(masses, places, strict=True)
        )
    )


def test_the_pseudo_inertia_is_the_second_moment_of_the_mass(key):
    masses, places = points(key)
    homogeneous = jnp.concatenate([places, jnp.ones((len(places), 1))], axis=1)
    expected = jnp.einsum("i,ij,ik->jk", masses, homogeneous, homogeneous)
    inertia = body(masses, places)
    assert_close(inertia.pseudo_inertia, expected, 1e-14)
    assert_close(Inertia.from_pseudo_inertia(expected).parameters, inertia.parameters, 1e-14)


def test_it_moves_with_the_frame(key):
    masses, places = points(key)
    frame = rbd.Transform.from_xyz_rpy((0.3, -0.2, 0.5), (0.4, -1.0, 2.0))
    T = jnp.eye(4).at[:3, :3].set(frame.rotation).at[:3, 3].set(frame.position)
    inertia = body(masses, places)
    assert_close(inertia.placed(frame).pseudo_inertia, T @ inertia.pseudo_inertia @ T.T, 1e-14)


def test_log_cholesky_is_a_chart_of_the_bodies_that_can_be(key):
    numbers = jax.random.normal(key, (20, 10))
    inertias = Inertia.from_log_cholesky(numbers)
    assert inertias.is_physical.all()
    assert_close(inertias.to_log_cholesky(), numbers, 1e-9)
    np.testing.assert_allclose(inertias.mass, np.exp(2 * numbers[:, 0]), rtol=1e-14)
    np.testing.assert_allclose(inertias.com, numbers[:, 7:], rtol=1e-12)
    one = Inertia.from_log_cholesky(numbers[3])
    assert_close(one.parameters, inertias.parameters[3], 1e-14)
    upper = jnp.linalg.cholesky(one.pseudo_inertia[::-1, ::-1])[
        ::-1, ::-1
    ]  # of the matrix turned round: U Uᵀ
    a, d, (s12, s23, s13) = numbers[3, 0], jnp.exp(numbers[3, 1:4]), numbers[3, 4:7]
    expected = jnp.array([[d[0], s12, s13, 0], [0, d[1], s23, 0], [0, 0, d[2], 0], [0, 0, 0, 1]])
    expected = jnp.exp(a) * expected.at[:3, 3].set(numbers[3, 7:])
    assert_close(upper, expected, 1e-9)


@pytest.mark.parametrize("offset", [pytest.param(0.0, marks=pytest.mark.slow), 1.0])
def test_derivatives_are_difference_quotients(key, offset):
    """At the unit ball's place in the chart too, where all is zero but nothing is singular."""
    numbers = offset * jax.random.normal(key, (3, 10))
    there = jax.jit(jax.vmap(lambda x: Inertia.from_log_cholesky(x).parameters))
    slopes = jax.vmap(jax.jacfwd(lambda x: Inertia.from_log_cholesky(x).parameters))(numbers)
    assert_close(slopes, differences(there, numbers), 1e-8)
    parameters = there(numbers)
    back = lambda p: Inertia.from_parameters(p).to_log_cholesky()
    assert_close(jax.vmap(jax.jacrev(back))(parameters), jnp.linalg.inv(slopes), 1e-8)


def test_what_is_physical():
    ball = Inertia.sphere(2.0, 0.3, (0.1, 0.0, 5.0))
    rod = Inertia.from_mass_com(1.0, jnp.zeros(3), jnp.diag(jnp.array([1.0, 1.0, 0.0])))
    point = Inertia.from_mass_com(1.0, jnp.array([1.0, 2.0, 3.0]), jnp.zeros((3, 3)))
    plate = Inertia.from_mass_com(1e-6, jnp.zeros(3), 1e-12 * jnp.diag(jnp.array([1.0, 1.0, 2.0])))
    for inertia in (ball, rod, point, plate, Inertia.zero()):
        assert bool(inertia.is_physical)
    thin = Inertia.from_mass_com(1.0, jnp.zeros(3), jnp.diag(jnp.array([1.0, 1.0, 2.01])))
    negative = Inertia.from_parameters(-ball.parameters)
    far = Inertia(ball.mass, 1.01 * ball.first_moment, ball.rotational)  # heavier to turn than it is
    weightless = Inertia(jnp.zeros(()), ball.first_moment, ball.rotational)
    nothing = Inertia.from_parameters(jnp.full(10, jnp.nan))
    batch = jnp.stack([x.parameters for x in (thin, negative, far, weightless, nothing, ball)])
    assert Inertia.from_parameters(batch).is_physical.tolist() == [False] * 5 + [True]
    small = jnp.float32(1e-3) * batch.astype(jnp.float32)
    assert Inertia.from_parameters(small).is_physical.tolist() == [False] * 5 + [True]


def test_what_has_no_chart_is_refused_or_nan():
    rod = Inertia.from_mass_com(1.0, jnp.zeros(3), jnp.diag(jnp.array([1.0, 1.0, 0.0])))
    ball = Inertia.sphere(1.0, 0.1)
    both = Inertia.from_parameters(jnp.stack([ball.parameters, -ball.parameters]))
    with pytest.raises(rbd.ModelError, match="of number 1 is not positive definite"):
        both.to_log_cholesky()
    with pytest.raises(rbd.ModelError, match="an extent in every direction"):
        rod.to_log_cholesky()
    traced = jax.jit(lambda x: x.to_log_cholesky())(both)
    assert np.isfinite(traced[0]).all() and np.isnan(traced[1]).any()
