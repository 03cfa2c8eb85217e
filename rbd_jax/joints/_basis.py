"""Uniform cubic B-splines: their basis, and the control values that act at a parameter (Sueda eqs. 2.60 to 2.66)."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._core.array import matvec


#: Eq. 2.61: row i holds the coefficients of `B_i` in 1, s, s², s³.
BASIS = np.array([[1, -3, 3, -1], [4, 0, -6, 3], [1, 3, 3, -3], [0, 0, 0, 1]]) / 6


def segment(q: Float[Array, ""], count: int, cyclic: bool) -> tuple[Int[Array, ""], Float[Array, ""]]:
    """Returns the index of the first of the four control values that act at `q`, and the fraction of its segment.

    One unit of q is one segment. Outside an open spline, the polynomials of the first and the last segment continue.
    """
    whole = jnp.floor(jax.lax.stop_gradient(q))
    if cyclic:
        return jnp.mod(whole, count).astype(int), q - whole
    whole = jnp.clip(whole, 0, count - 4)
    return whole.astype(int), q - whole


def weights(s: Float[Array, ""], derivative: int = 0) -> Float[Array, "4"]:
    """Returns the basis functions `B_1` to `B_4` at `s`, or their first or second derivatives."""
    o, one = jnp.zeros_like(s), jnp.ones_like(s)
    powers = ([one, s, s * s, s * s * s], [o, one, 2 * s, 3 * s * s], [o, o, 2 * one, 6 * s])[derivative]
    return matvec(jnp.asarray(BASIS, s.dtype), jnp.stack(powers))


def cumulative_weights(s: Float[Array, ""], derivative: int = 0) -> Float[Array, "3"]:
    """Returns `B̃_2` to `B̃_4`, with `B̃_i = Σ_{j≥i} B_j` (eq. 2.65), or their derivatives."""
    return jnp.cumsum(weights(s, derivative)[:0:-1])[::-1]
