"""Entire functions of a squared angle, right to round-off with all their derivatives.

The closed forms of the exponential maps divide by powers of the angle: `(θ - sin θ)/θ³` loses all its digits
near zero, and its derivatives lose theirs earlier. Here are the two families that replace them, as functions
of `s = θ²` (the square needs no root at zero): the Stumpff functions for exponentials and an arc tangent for
logarithms. Which combinations of them make up a group's maps is in that group's file.
"""

from functools import partial
from math import factorial

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.derivatives import custom_jvp


# The series of the Stumpff functions serve below this square. The closed form loses up to (k + 1)(k + 2)/s of
# the relative accuracy at each step of its recursion, so it must not start too early. Twelve terms leave
# 4¹²/25! < 2e-18 of the value.
_CLOSED_FROM = 4.0
_STUMPFF_TERMS = 12

# For squares to tan²(π/16) = 0.0396. Fourteen terms leave 1e-21 of the value, 1e-16 of its curvature.
_ARCTAN_TERMS = 14


@partial(custom_jvp, nondiff_argnums=(0,))
def stumpff(k: int, square: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """The Stumpff function `c_k(s) = Σ_j (-s)^j / (k + 2j)!`, for `s ≥ 0`.

    With `s = θ²`: `c_0 = cos θ`, `c_1 = sin θ / θ`, `c_2 = (1 - cos θ)/θ²`, `c_3 = (θ - sin θ)/θ³` and so on
    by `c_{k+2} = (1/k! - c_k)/s`. The derivative is `c_k' = (k c_{k+2} - c_{k+1})/2`, which divides by
    nothing: it is a rule of its own, so that derivatives of every order are evaluated as carefully as the
    value.
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
    """`arctan(u)/u = Σ_j (-s)^j / (2j + 1)` as a function of `s = u²`, for `|u| ≤ tan(π/16)`."""
    series = jnp.zeros_like(square)
    for j in reversed(range(_ARCTAN_TERMS)):
        series = 1 / (2 * j + 1) - square * series
    return series
