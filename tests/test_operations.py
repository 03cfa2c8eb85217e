"""Operation counts: each primitive, loops by their trip counts, and the book's figures for spatial algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import Operations, count_operations, spatial


X, Y = jnp.array([1.5, 2.0, -3.0]), jnp.array([0.5, 0.0, 2.0])
A = jnp.arange(1.0, 10.0).reshape(3, 3)

CASES = {
    "sum": (lambda: count_operations(lambda x, y: x + y - x, X, Y), Operations(additions=6)),
    "product": (lambda: count_operations(lambda x, y: x * y / x, X, Y), Operations(3, 0, 3)),
    "power": (lambda: count_operations(lambda x: x**3, X), Operations(6)),
    "functions": (lambda: count_operations(lambda x: jnp.sin(x) + jnp.sqrt(x), X), Operations(0, 3, 0, 3, 3)),
    "matrix": (lambda: count_operations(lambda a, x: a @ x, A, X), Operations(9, 6)),
    "reduction": (lambda: count_operations(jnp.sum, A), Operations(0, 8)),
    "comparisons": (lambda: count_operations(lambda x, y: jnp.where(x > y, -x, y), X, Y), Operations()),
    "integers": (lambda: count_operations(lambda n: n * n + n, jnp.arange(3)), Operations()),
    "zeros": (lambda: count_operations(lambda x, y: x * y + y, X, Y, zeros=False), Operations(2, 2)),
    "matrix, zeros": (lambda: count_operations(lambda a, y: a @ y, A, Y, zeros=False), Operations(6, 3)),
    "jit": (lambda: count_operations(jax.jit(lambda x: 2 * x), X), Operations(3)),
    "scan": (
        lambda: count_operations(lambda x: jax.lax.scan(lambda c, r: (c * r, c + r), 1.0, x), X),
        Operations(3, 3),
    ),
    "while": (
        lambda: count_operations(lambda x: jax.lax.fori_loop(0, 4, lambda i, x: x * x, x), X),
        Operations(12),
    ),
    "cond": (
        lambda: count_operations(lambda x: jax.lax.cond(x[0] > 0, lambda x: x * x, lambda x: x, x), X),
        Operations(3),
    ),
    "derivative": (lambda: count_operations(jax.grad(lambda x: jnp.sum(x * x)), X), Operations(9, 5)),
}


@pytest.mark.parametrize("name", CASES)
def test_counts(name):
    found, expected = CASES[name]
    assert found() == expected


def test_results_of_loops_are_right():
    """Counting runs the program, so a trip count computed in a loop is correct."""

    def function(x):
        count = jax.lax.fori_loop(0, 5, lambda i, n: n + 2, 0)
        return jax.lax.fori_loop(0, count, lambda i, x: x + 1.0, x)

    assert count_operations(function, X) == Operations(additions=30)


@pytest.mark.slow
def test_spatial_algebra():
    """The costs of spatial algebra operations are those of table A.4."""
    random = np.random.default_rng(0)
    v, f = jnp.asarray(random.normal(size=(2, 6)))
    inertia = rbd.Inertia.from_parameters(jnp.asarray(random.normal(size=10)))
    frame = rbd.Transform(jnp.asarray(random.normal(size=(3, 3))), jnp.asarray(random.normal(size=3)))
    count = lambda function, *args: count_operations(function, *args, zeros=False)
    assert count(spatial.power, v, f) == Operations(6, 5)
    assert count(spatial.cross_motion, v, f) == Operations(18, 12)
    assert count(spatial.cross_force, v, f) == Operations(18, 12)
    assert count(rbd.Inertia.momentum, inertia, v) == Operations(24, 18)
    assert count(lambda x, y: x @ y, frame, frame) == Operations(36, 27)
    for apply in (frame.motion, frame.force, frame.inverse_motion, frame.inverse_force):
        assert count(apply, v) == Operations(24, 18)
