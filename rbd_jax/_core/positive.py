"""Symmetric positive definite systems of the size of a robot, in loops that a CPU compiler fuses."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .array import times
from .platform import is_cpu


@jax.tree_util.register_static
class Pattern:
    """The sparsity pattern of a symmetric matrix; a static value while a function is traced."""

    def __init__(self, mask: np.ndarray):
        self.mask = mask

    def __eq__(self, other) -> bool:
        return isinstance(other, Pattern) and np.array_equal(self.mask, other.mask)

    def __hash__(self) -> int:
        return hash(self.mask.tobytes())


def solve_positive(
    matrix: Float[Array, "n n"], x: Float[Array, "n"], pattern: Pattern | None = None
) -> Float[Array, "n"]:
    """Returns `A⁻¹ x` for a positive definite A."""
    return lax.custom_linear_solve(
        lambda y: times(matrix, y), x, lambda _, x: apply_inverse(matrix, x, pattern), symmetric=True
    )


def apply_inverse(
    matrix: Float[Array, "n n"], x: Float[Array, "n"], pattern: Pattern | None = None
) -> Float[Array, "n"]:
    """Returns `A⁻¹ x` for a positive definite A, by Cholesky factors of A scaled to a unit diagonal; not differentiable.

    On a CPU it uses two loops instead of LAPACK calls, whose overhead exceeds their work for small matrices. A loop
    over samples with a library call is also not compiled as one piece. If A is not positive definite, the result is not
    finite.

    Columns are eliminated from the last to the first, so a matrix with the zeros of a tree has factors with the same zeros
    (book section 6.5). A kernel skips them.

    Args:
      matrix: A; only its lower triangle is read.
      x: The right-hand side.
      pattern: The possibly nonzero entries of A; all by default.
    """
    if pattern is not None:
        matrix = jnp.where(pattern.mask, matrix, 0)
    scale = lax.rsqrt(jnp.diagonal(matrix))
    scaled, x = matrix * scale[:, None] * scale[None, :], x * scale
    solved = _by_loops(scaled[::-1, ::-1], x[::-1])[::-1] if is_cpu() else _by_library(scaled, x)
    return scale * solved


class Factors(NamedTuple):
    """The factors of a positive definite matrix, for several right-hand sides in sequence: `apply_factors`.

    - `scale`: The scale that makes its diagonal one.
    - `rows`: The rows of Lᵀ of the scaled matrix, in blocks, each from its own first column on.
    """

    scale: Float[Array, "n"]
    rows: list[Array]


def factors(matrix: Float[Array, "n n"]) -> Factors:
    """Returns the Cholesky factors of a positive definite matrix, not finite for other matrices; not differentiable."""
    scale = lax.rsqrt(jnp.diagonal(matrix))
    scaled = matrix * scale[:, None] * scale[None, :]
    if not is_cpu():
        return Factors(scale, [jnp.swapaxes(jnp.linalg.cholesky(scaled, symmetrize_input=False), 0, 1)])
    # The right-hand side is a placeholder.
    blocks = _eliminated(scaled, jnp.zeros_like(scale))
    return Factors(scale, [rows[:, :-1] for _, rows in blocks])


def apply_factors(known: Factors, x: Float[Array, "n"]) -> Float[Array, "n"]:
    """Returns `A⁻¹ x`."""
    x = x * known.scale
    if not is_cpu():
        solve = jax.scipy.linalg.solve_triangular
        return known.scale * solve(known.rows[0], solve(known.rows[0], x, trans=1))
    blocks, left, below = [], x, 0
    for rows in known.rows:
        m = len(rows)
        _, own = lax.scan(_across, left, (rows, np.arange(m)))
        left = (left - jnp.sum(rows * own[:, None], axis=0))[m:]
        blocks.append((below, jnp.concatenate([rows, own[:, None]], axis=1)))
        below += m
    return known.scale * _back(blocks, x.dtype)


#: The minimum number of rows per block, and the maximum number of blocks: each block is a separate loop to compile.
ROWS, BLOCKS = 6, 5


def _by_loops(matrix, x):
    """Computes row j of `[Lᵀ, L⁻¹ x]` from the rows above, then back-substitutes, in blocks of rows that skip zeros."""
    return _back(_eliminated(matrix, x), x.dtype)


def _eliminated(matrix, x):
    n = len(x)
    given = jnp.concatenate([matrix, x[:, None]], axis=1)
    size = max(ROWS, -(-n // BLOCKS))
    done: list[tuple[int, Array]] = []  # the start of each block, and its rows from that column on
    for begin in range(0, n, size):
        end = min(begin + size, n)
        above = [rows[:, begin - start :] for start, rows in done]
        none = jnp.zeros((end - begin, n + 1 - begin), x.dtype)
        filled = jnp.concatenate([*above, none])
        done.append(
            (
                begin,
                lax.scan(_down(begin), filled, (np.arange(begin, end), given[begin:end, begin:]))[0][begin:],
            )
        )
    return done


def _back(done, dtype):
    y = jnp.zeros(0, dtype)
    for _, rows in reversed(done):
        m = len(rows)
        left = rows[:, -1] - jnp.sum(rows[:, m:-1] * y[None, :], axis=1)
        own = lax.scan(_up, jnp.zeros(m, dtype), (rows[:, :m], left, np.arange(m)), reverse=True)[0]
        y = jnp.concatenate([own, y])
    return y


def _down(begin):
    def step(rows, inputs):
        j, given = inputs
        column = lax.dynamic_index_in_dim(rows, j - begin, 1, keepdims=True)
        left = given - jnp.sum(rows * column, axis=0)
        row = jnp.where(np.arange(len(left)) >= j - begin, left * lax.rsqrt(left[j - begin]), 0)
        return lax.dynamic_update_index_in_dim(rows, row, j, 0), None

    return step


def _across(left, inputs):
    """Returns an entry of `L⁻¹ x`, and the updated remainder."""
    row, j = inputs
    own = left[j] / row[j]
    return left - own * row, own


def _up(y, inputs):
    row, left, j = inputs
    return jnp.where(np.arange(len(y)) == j, (left - jnp.sum(row * y)) / row[j], y), None


def _by_library(matrix, x):
    return jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(matrix, symmetrize_input=False), True), x)
