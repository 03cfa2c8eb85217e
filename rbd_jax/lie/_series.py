"""Entire functions of a squared angle, accurate to rounding with all their derivatives.

The closed forms of the exponential maps divide by powers of the angle: `(θ - sin θ)/θ³` loses all its digits
near zero, and its derivatives lose theirs earlier. Two families of functions of `s = θ²` replace them (the square needs no
root at zero): the Stumpff functions for exponentials and an arctangent for logarithms. Each group's file combines them to the
group's maps.
"""

from functools import partial
from math import factorial

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.derivatives import custom_jvp


# Below this square the series of the Stumpff functions is used. The closed form loses up to (k + 1)(k + 2)/s of
# the relative accuracy at each step of its recursion, so it must not start too early. Twelve terms leave
# a relative error of 4¹²/25! < 2e-18.
_CLOSED_FROM = 4.0
_STUMPFF_TERMS = 12

# For squares up to tan²(π/16) = 0.0396. Fourteen terms leave a relative error of 1e-21, and 1e-16 of the curvature.
_ARCTAN_TERMS = 14


@partial(custom_jvp, nondiff_argnums=(0,))
def stumpff(k: int, square: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Returns the Stumpff function `c_k(s) = Σ_j (-s)^j / (k + 2j)!`, for `s ≥ 0`.

    With `s = θ²`: `c_0 = cos θ`, `c_1 = sin θ / θ`, `c_2 = (1 - cos θ)/θ²`, `c_3 = (θ - sin θ)/θ³` and so on
    by `c_{k+2} = (1/k! - c_k)/s`. The derivative `c_k' = (k c_{k+2} - c_{k+1})/2` has no division. It is a custom rule,
    so that derivatives of every order are as accurate as the value.
    """
    near = square < _CLOSED_FROM
    small = jnp.where(near, square, 0)
    series = jnp.zeros_like(square)
    for j in reversed(range(_STUMPFF_TERMS)):
        series = (-1) ** j / factorial(k + 2 * j) + small * series

    large = jnp.where(near, _CLOSED_FROM, square)
    angle = jnp.sqrt(large)
    closed = jnp.sin(angle) / angle if k % 2 else jnp.cos(angle)
    for i in range(k % 2, k, 2):
        closed = (1 / factorial(i) - closed) / large
    return jnp.where(near, series, closed)


@stumpff.defjvp
def _stumpff_jvp(k, primals, tangents):
    (square,), (tangent,) = primals, tangents
    slope = (k * stumpff(k + 2, square) - stumpff(k + 1, square)) / 2
    return stumpff(k, square), slope * tangent


def arctan_ratio(square: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Returns `arctan(u)/u = Σ_j (-s)^j / (2j + 1)` as a function of `s = u²`, for `|u| ≤ tan(π/16)`."""
    series = jnp.zeros_like(square)
    for j in reversed(range(_ARCTAN_TERMS)):
        series = 1 / (2 * j + 1) - square * series
    return series
