"""The simplifier: programs compute the same as the original, and each rule saves the stated operations (book §10.4)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import rbd_jax as rbd
from rbd_jax.compiler.scalarize import ScalarProgram


X, Y = np.array([0.7, -1.3, 2.0]), np.array([0.5, 0.0, -2.0])
M = np.arange(12.0).reshape(3, 4) - 5


def simplified(function, *given):
    return ScalarProgram(jax.make_jaxpr(function)(*given))


#: Functions with all kinds of operations.
FUNCTIONS = {
    "sums": (
        lambda x, m: (jnp.sum(m, axis=1), jnp.prod(m, axis=0), jnp.cumsum(m, axis=1), m.max(), m.min(axis=0)),
        X,
        M,
    ),
    "reversed sums": (lambda x: lax.cumsum(x, reverse=True), X),
    "products": (lambda x, m: (x @ m, jnp.einsum("ij,kj->ik", m, m), jnp.tensordot(m, m)), X, M),
    "batched product": (lambda m: jnp.einsum("bij,bjk->bik", m.reshape(2, 2, 3), m.reshape(2, 3, 2)), M),
    "moving": (
        lambda m: (m.T[::-1], m[1:, ::2], jnp.pad(m, 1), jnp.roll(m, 1, 0), jnp.tile(m, (2, 1)), m[:, None]),
        M,
    ),
    "picking": (
        lambda x, m: (m[jnp.array([2, 0, 2])], x.at[jnp.array([1, 1])].add(x[:2]), m.at[0, 1].set(x[0])),
        X,
        M,
    ),
    "outside": (lambda x: (x.at[jnp.array([7, 1])].get(mode="fill"), x.at[jnp.array([9, 0])].add(1.0)), X),
    "choosing": (
        lambda x, y: (jnp.where(x > y, x, 2 * y), jnp.maximum(x, y), jnp.sign(x), (x > 0) & (y < 0)),
        X,
        Y,
    ),
    "powers": (lambda x: (x**5, x**-2, jnp.sqrt(jnp.abs(x)), x**0, jnp.abs(x) ** 1.5), X),
    "functions": (lambda x: (jnp.sin(x), jnp.arctan2(x, 2.0), jnp.exp(-x), jnp.log1p(x**2)), X),
    "loops": (lambda x: lax.scan(lambda c, r: (c * r + 1, c), 0.5, x, reverse=True), X),
    "counted loop": (lambda x: lax.fori_loop(0, 4, lambda i, c: c * 1.5 + i, x), X),
    "branches": (
        lambda x: (lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), lax.switch(1, [jnp.sin, jnp.cos], x)),
        X,
    ),
    "functions with rules": (lambda x: jax.nn.relu(x) + jax.checkpoint(jnp.sin)(x) + jax.nn.softplus(x), X),
    "derivative": (lambda x, y: jax.grad(lambda x: jnp.sum(jnp.sin(x) * y) / jnp.sum(x**2))(x), X, Y),
    "linear algebra": (lambda x: jnp.linalg.solve(jnp.outer(x, x) + jnp.eye(3), x), X),
    "integers": (lambda x, n: (x * n.astype(x.dtype), n // 2 + n % 2, -n), X, np.array([1, 5, -3])),
    "nothing": (lambda x: (jnp.zeros((0, 3)), jnp.ones(2), x, x[0]), X),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_same_results(name):
    function, *given = FUNCTIONS[name]
    program = simplified(function, *given)
    found, expected = jax.jit(lambda *given: (program(*given), jax.tree.leaves(function(*given))))(*given)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-14)


#: Functions of a scalar, and the remaining multiplications (divisions) and additions.
RULES = {
    "x * 0": (lambda x: x * 0 + 2.0, 0, 0),
    "x * 1": (lambda x: 1.0 * x / 1.0, 0, 0),
    "x + 0": (lambda x: 0.0 + x - 0.0, 0, 0),
    "x - x": (lambda x: (x * x) - (x * x), 0, 0),
    "0 / x": (lambda x: 0.0 / x, 1, 0),
    "signs": (lambda x: jnp.negative(-x) * -1.0, 0, 0),
    "a sum absorbs a sign": (lambda x: 1.5 - (-(x * x)), 1, 1),
    "constants next to one another": (lambda x: 2.0 * (3.0 * x) + 4.0 + 5.0, 1, 1),
    "1 - (1 - x)": (lambda x: 1.0 - (1.0 - x), 0, 0),
    "division by a constant": (lambda x: x / 4.0 * 2.0, 1, 0),
    "what is known": (lambda x: x + jnp.sin(1.0) * 3.0, 0, 1),
    "twice the same": (lambda x: (x + 1.0) * (1.0 + x), 1, 1),
    "what nobody needs": (lambda x: (x, x * x)[0], 0, 0),
    "a known choice": (lambda x: jnp.where(jnp.asarray(2.0) > 1.0, x, x * x), 0, 0),
}


@pytest.mark.parametrize("name", RULES)
def test_rules(name):
    function, products, sums = RULES[name]
    x = np.array(0.7)
    program = simplified(function, x)
    counted = rbd.count_operations(program, x)
    assert (counted.multiplications + counted.divisions, counted.additions) == (products, sums)
    found, expected = jax.jit(lambda x: (program(x)[0], function(x)))(x)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_batches_and_compilation():
    function = lambda x, y: (jnp.outer(jnp.sin(x), y), jnp.sum(x / (1 + y * y)))
    program, batch = simplified(function, X, Y), np.stack([X, Y, X + Y])
    for found, expected in zip(
        *jax.jit(lambda *x: (jax.vmap(program)(*x), jax.vmap(function)(*x)))(batch, batch), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-14)


#: Functions with known zeros, of two variables that may be infinite or NaN.
WITH_ZEROS = {
    "a product": lambda x, y: x * 0.0 + y,
    "a difference": lambda x, y: (x * y - x * y) + 1.0,
    "within a quotient": lambda x, y: 1.0 / (x + 0.0 * y),
    "where it is infinite": lambda x, y: 1.0 / (x * x + 0.0 * x),
    "within functions": lambda x, y: jnp.tanh(0.0 * x) + jnp.exp(jnp.sin(0.0 * y)),
    "of a sine": lambda x, y: 0.0 * jnp.sin(x) + y,
    "in one case": lambda x, y: jnp.where(y > 0, 0.0 * x, 1.0),
    "in both cases": lambda x, y: jnp.where(y > 0, 0.0 * x, 2.0 + 0.0 * x),
    "of a choice": lambda x, y: 0.0 * jnp.where(y > 0, x, 1.0) + 3.0,
    "in a condition": lambda x, y: jnp.where(0.0 * x < 1, 1.0, 2.0) + 0.0 * y,
    "in what nobody needs": lambda x, y: (0.0 * x + 1.0, y)[1],
    "to the power zero": lambda x, y: (0.0 * x + 2.0) ** 0 + y,
    "in a matrix": lambda x, y: jnp.array([[0.0, 1.0], [2.0, 0.0]]) @ jnp.stack([x, y]),
    "of a quotient": lambda x, y: 0.0 * (1.0 / (3.0 + x)) + y,
    "the smaller one": lambda x, y: jnp.minimum(0.0 * x, y),
    "round by round": lambda x, y: jax.lax.fori_loop(0, 3, lambda _, z: 0.5 * z + 0.0 * x, y),
}


@pytest.mark.parametrize("name", WITH_ZEROS)
def test_what_is_not_finite_stays_so(name):
    function = WITH_ZEROS[name]
    numbers = np.array([0.0, -1.5, np.inf, -np.inf, np.nan])
    x, y = (part.reshape(-1) for part in np.meshgrid(numbers, numbers))
    program = simplified(function, jnp.asarray(1.0), jnp.asarray(1.0))
    found = np.asarray(jax.jit(jax.vmap(program))(x, y)[0])
    np.testing.assert_array_equal(found, jax.jit(jax.vmap(function))(x, y))
