"""Newton's iteration: roots, codes, and derivatives by the implicit function theorem."""

import jax
import jax.numpy as jnp
import numpy as np

from rbd_jax.integrate._newton import newton
from rbd_jax.integrate._result import Result


def kepler(e, mean):
    """The root of `x - e sin x = mean`, coupled with its double."""
    return newton(lambda x: jnp.stack([x[0] - e * jnp.sin(x[0]) - mean, x[1] - 2 * x[0]]), jnp.ones(2))


def test_root_and_its_derivatives():
    """Forward, reverse and second derivatives, against those of the inverse function."""
    e, mean = jnp.asarray(0.3), jnp.asarray(0.8)
    (x, double), code = jax.jit(kepler)(e, mean)
    assert code == Result.SUCCESS and abs(x - 0.3 * jnp.sin(x) - 0.8) < 1e-15 and double == 2 * x
    root = lambda e, mean: kepler(e, mean)[0][0]
    slope = 1 / (1 - e * jnp.cos(x))
    gradient = jnp.sin(x) * slope, slope
    for derivative in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(jax.jit(derivative(root, (0, 1)))(e, mean), gradient, rtol=1e-13)
    bend = -e * jnp.sin(x) * slope**3
    for second in (jax.hessian(root, 1), jax.jacrev(jax.jacrev(root, 1), 1)):
        np.testing.assert_allclose(jax.jit(second)(e, mean), bend, rtol=1e-12)


def test_batches_and_codes():
    """Each sample has its own number of iterations and its own code."""
    value = lambda a: newton(lambda x: x**2 - a[None], jnp.ones(1))
    roots, codes = jax.jit(jax.vmap(value))(jnp.array([4.0, -0.5, jnp.nan, 1e-4]))
    assert codes.tolist() == [Result.SUCCESS, Result.NOT_CONVERGED, Result.NOT_FINITE, Result.SUCCESS]
    np.testing.assert_allclose(roots[0], 2, rtol=1e-15)
    gradients = jax.jit(jax.vmap(jax.grad(lambda a: value(a)[0][0])))(jnp.array([4.0, 9.0]))
    np.testing.assert_allclose(gradients, [1 / 4, 1 / 6], rtol=1e-14)


def test_single_precision():
    x, code = newton(lambda x: jnp.exp(x) - 3, jnp.zeros(1, jnp.float32))
    assert code == Result.SUCCESS and x.dtype == jnp.float32 and abs(float(x[0]) - np.log(3)) < 1e-6


def test_every_code_has_a_message():
    assert all(result.message for result in Result)
