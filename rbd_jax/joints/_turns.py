"""Turns in series, each about an axis that the previous turns carry: shared by universal and Euler joints."""

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import cross, matmul, vecmat
from .revolute import turn


def turns(
    axes: Sequence[Float[Array, "3"]], angles: Float[Array, " n"]
) -> tuple[Float[Array, "3 3"], Float[Array, "6 n"]]:
    """Returns the rotation `R_1 R_2 ... R_n`, and its S: each axis in the last frame, `(R_{i+1} ... R_n)ᵀ a_i`."""
    rotation, columns = jnp.eye(3, dtype=angles.dtype), []
    for axis, angle in reversed(list(zip(axes, angles))):
        columns.append(vecmat(axis, rotation))
        rotation = matmul(turn(axis, angle), rotation)
    columns = jnp.stack(columns[::-1], axis=1)
    return rotation, jnp.concatenate([columns, jnp.zeros_like(columns)])


def turns_rate(columns: Float[Array, "6 n"], v: Float[Array, " n"]) -> Float[Array, "6 n"]:
    """Returns S̊ of turns in series. The later turns carry the observer: the rate of `s_i` is `-(Σ_{j>i} s_j v_j) × s_i`."""
    after, rates = jnp.zeros_like(columns[:3, 0]), []
    for i in reversed(range(columns.shape[1])):
        rates.append(cross(columns[:3, i], after))
        after = after + columns[:3, i] * v[i]
    rates = jnp.stack(rates[::-1], axis=1)
    return jnp.concatenate([rates, jnp.zeros_like(rates)])
