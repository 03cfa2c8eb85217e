"""The entire functions of the exponential maps, compared with their series in exact fractions."""

from fractions import Fraction
from math import atan, factorial, pi, tan

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rbd_jax.lie._series import arctan_ratio, stumpff


SQUARES = [0.0, 1e-300, 1e-30, 1e-8, 1e-3, 0.5, 3.999, 4.0, 4.001, 9.8, 25.0, 39.0]


def exact(k, square, order):
    """Returns the derivative of the given order of `Σ_j (-s)^j / (k + 2j)!`."""
    s = Fraction(float(square))
    terms = (
        (-1) ** j * s ** (j - order) * Fraction(factorial(j), factorial(j - order) * factorial(k + 2 * j))
        for j in range(order, 45)
    )
    return float(sum(terms))


@pytest.mark.parametrize(
    "dtype, tolerance", [(jnp.float64, 2e-15), pytest.param(jnp.float32, 1e-6, marks=pytest.mark.slow)]
)
def test_stumpff_and_its_derivatives(dtype, tolerance):
    squares = np.array(SQUARES, dtype)

    def orders(s):
        functions = [lambda s, k=k: stumpff(k, s) for k in range(6)]
        return [(f(s), jax.grad(f)(s), jax.jacfwd(jax.grad(f))(s)) for f in functions]

    for k, values in enumerate(jax.jit(jax.vmap(orders))(jnp.asarray(squares))):
        for order, value in enumerate(values):
            assert value.dtype == dtype
            expected = np.array([exact(k, s, order) for s in squares])
            np.testing.assert_allclose(value, expected, rtol=0, atol=tolerance / factorial(k))


@pytest.mark.parametrize("dtype, tolerance", [(jnp.float64, 3e-16), (jnp.float32, 2e-7)])
def test_arctan_ratio(dtype, tolerance):
    tangent = np.array([1e-160, 1e-8, 1e-3, 0.05, 0.1, tan(pi / 16)], dtype)
    expected = [atan(u) / u if u else 1 for u in tangent]
    np.testing.assert_allclose(arctan_ratio(jnp.asarray(tangent**2)), expected, rtol=tolerance)


def test_arctan_ratio_curvature():
    s = tan(pi / 16) ** 2
    expected = sum((-1) ** j * j * (j - 1) * s ** (j - 2) / (2 * j + 1) for j in range(2, 60))
    assert abs(jax.grad(jax.grad(arctan_ratio))(jnp.asarray(s)) - expected) < 1e-15
