"""Symmetric positive definite systems of the size of a robot, in loops that a CPU compiles as one piece."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ._array import times


def solve_positive(matrix: Float[Array, "n n"], x: Float[Array, "n"]) -> Float[Array, "n"]:
    """`A⁻¹ x` of a positive definite A."""
    return lax.custom_linear_solve(
        lambda y: times(matrix, y), x, lambda _, x: apply_inverse(matrix, x), symmetric=True
    )


def apply_inverse(matrix: Float[Array, "n n"], x: Float[Array, "n"]) -> Float[Array, "n"]:
    """`A⁻¹ x` of a positive definite A, by Cholesky's factors of A scaled to a unit diagonal; not for differentiating.

    On a CPU this is two loops, in place of calls to LAPACK: these cost more than what they do for matrices this small, and a loop
    over samples with a call in it is not compiled as one piece. Where A is not positive definite the result is not finite.
    """
    scale = lax.rsqrt(jnp.diagonal(matrix))
    scaled, x = matrix * scale[:, None] * scale[None, :], x * scale
    solved = _by_loops(scaled, x) if jax.default_backend() == "cpu" else _by_library(scaled, x)
    return scale * solved


def _by_loops(matrix, x):
    """Row j of `[Lᵀ, L⁻¹ x]` from those above it, and then back up."""
    n = len(x)
    given = jnp.concatenate([matrix, x[:, None]], axis=1)
    columns, entries = np.arange(n + 1), np.arange(n)

    def down(rows, j):
        left = given[j] - jnp.sum(rows * rows[:, j][:, None], axis=0)
        row = jnp.where(columns >= j, left * lax.rsqrt(left[j]), 0)
        return lax.dynamic_update_index_in_dim(rows, row, j, 0), None

    def up(y, inputs):
        row, j = inputs
        return jnp.where(entries == j, (row[n] - jnp.sum(row[:n] * y)) / row[j], y), None

    rows, _ = lax.scan(down, jnp.zeros_like(given), entries)
    return lax.scan(up, jnp.zeros_like(x), (rows, entries), reverse=True)[0]


def _by_library(matrix, x):
    return jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(matrix, symmetrize_input=False), True), x)
