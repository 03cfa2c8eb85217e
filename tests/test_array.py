"""Rows in a known order: what indexing gives, and derivatives of pieces, without a scatter and without sums of zeros."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rbd_jax._array import RUNS, gather, gather_or_zero, sum_rows


X = jnp.asarray(np.random.default_rng(0).normal(size=(6, 3)))
ORDERS = {
    "a run": [1, 2, 3],
    "the same": [0, 1, 2, 3, 4, 5],
    "runs": [4, 5, 0, 1],
    "runs that overlap": [0, 1, 2, 3, 2, 3, 4, 1],
    "one row again and again": [2, 2, 2],
    "zeros at both ends": [-1, -1, 0, 1, -1, 5, -1],
    "zeros alone": [-1, -1],
    "a zero before the first row": [3, -1, 0],
    "none": [],
    "too many runs": list(np.random.default_rng(1).integers(-1, 6, 3 * RUNS)),
}


@pytest.mark.parametrize("name", ORDERS)
def test_rows_and_their_derivatives(name):
    order = np.array(ORDERS[name], int)
    plain = lambda x: jnp.concatenate([x, jnp.zeros((1, 3))])[order]
    expected, pull = jax.vjp(plain, X)
    found, own_pull = jax.vjp(lambda x: gather_or_zero(x, order), X)
    np.testing.assert_array_equal(found, expected)
    along = jnp.asarray(np.random.default_rng(2).normal(size=X.shape))
    tangent = jax.jvp(lambda x: gather_or_zero(x, order), (X,), (along,))[1]
    np.testing.assert_array_equal(tangent, plain(along))
    back = jnp.asarray(np.random.default_rng(3).normal(size=expected.shape))
    np.testing.assert_allclose(own_pull(back)[0], pull(back)[0], rtol=1e-14)
    second = jax.jacfwd(jax.grad(lambda x: jnp.sum(gather_or_zero(x, order) ** 3)))
    expected_second = jax.jacfwd(jax.grad(lambda x: jnp.sum(plain(x) ** 3)))
    np.testing.assert_allclose(second(X), expected_second(X), rtol=1e-14)
    batched = jax.vmap(lambda x: gather_or_zero(x, order), 1, 1)(X[:, :, None] * jnp.ones((1, 1, 2)))
    np.testing.assert_array_equal(batched[:, :, 1], expected)


def test_the_last_row_is_minus_one():
    np.testing.assert_array_equal(gather(X, [0, -1]), X[np.array([0, 5])])


def test_sums_of_groups():
    groups = np.array([2, 0, -1, 2, 0, 2])
    expected = np.stack([X[1] + X[4], np.zeros(3), X[0] + X[3] + X[5], np.zeros(3)])
    np.testing.assert_allclose(sum_rows(X, groups, 4), expected, rtol=1e-15)
    found = jax.grad(lambda x: jnp.sum(sum_rows(x, groups, 4) * jnp.arange(4.0)[:, None]))(X)
    np.testing.assert_array_equal(found[:, 0], [2, 0, 0, 2, 0, 2])


def test_reverse_mode_adds_nothing_up_where_rows_are_taken_once():
    """Each of seven runs would be an array of zeros with a few rows in it, and a sum of them."""
    order = [5, 4, 0, -1, 2, 1, 3]
    program = str(jax.make_jaxpr(jax.grad(lambda x: jnp.sum(gather_or_zero(x, order) * 2)))(X))
    assert not any(name in program for name in ("scatter", "add_any", "pad"))
