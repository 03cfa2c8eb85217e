"""Gathers of rows in a fixed order: values, and derivatives without scatter or sums of zeros."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rbd_jax._core.array import RUNS, gather, gather_or_zero, sum_rows


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
    plain = lambda x: jnp.concatenate([x, jnp.zeros((1, x.shape[1]))])[order]
    tested = lambda x: gather_or_zero(x, order)
    along = jnp.asarray(np.random.default_rng(2).normal(size=X.shape))
    back = jnp.asarray(np.random.default_rng(3).normal(size=(len(order), 3)))

    def everything(take):
        value, pull = jax.vjp(take, jnp.asarray(X))
        second = jax.jacfwd(jax.grad(lambda x: jnp.sum(take(x) ** 3)))(X)
        batched = jax.vmap(take, 1, 1)(X[:, :, None] * jnp.ones((1, 1, 2)))[:, :, 1]
        return value, jax.jvp(take, (X,), (along,))[1], batched, pull(back)[0], second

    (*values, pulled, second), (*expected, expected_pulled, expected_second) = jax.jit(
        lambda: (everything(tested), everything(plain))
    )()
    for a, b in zip(values, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(pulled, expected_pulled, rtol=1e-14)
    np.testing.assert_allclose(second, expected_second, rtol=1e-14)


def test_the_last_row_is_minus_one():
    np.testing.assert_array_equal(gather(X, [0, -1]), X[np.array([0, 5])])


def test_sums_of_groups():
    groups = np.array([2, 0, -1, 2, 0, 2])
    expected = np.stack([X[1] + X[4], np.zeros(3), X[0] + X[3] + X[5], np.zeros(3)])
    weighed = lambda x: jnp.sum(sum_rows(x, groups, 4) * np.arange(4.0)[:, None])
    sums, found = jax.jit(lambda x: (sum_rows(x, groups, 4), jax.grad(weighed)(x)))(X)
    np.testing.assert_allclose(sums, expected, rtol=1e-15)
    np.testing.assert_array_equal(np.asarray(found)[:, 0], [2, 0, 0, 2, 0, 2])


def test_reverse_mode_adds_nothing_up_where_rows_are_taken_once():
    """Otherwise each of the seven runs would add an array of zeros that contains a few rows."""
    order = [5, 4, 0, -1, 2, 1, 3]
    program = str(jax.make_jaxpr(jax.grad(lambda x: jnp.sum(gather_or_zero(x, order) * 2)))(X))
    assert not any(name in program for name in ("scatter", "add_any", "pad"))
