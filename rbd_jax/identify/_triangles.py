"""Triangular factors of tall matrices, computed block by block, so that memory does not grow with the number of rows.

The blocks are small enough that BLAS uses one thread. Several threads are no faster at this size, and a hundred times
slower on a busy machine.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


#: Matrix products with at most this many multiplications run on one thread.
UNSHARED = 130_000
#: Number of columns that are reflected together.
REFLECTORS = 8


def with_rows(
    triangle: Float[np.ndarray, "n n"] | None, rows: Float[np.ndarray, "m n"]
) -> Float[np.ndarray, "n n"]:
    """Returns the triangle R of a triangle and additional rows, with `Rᵀ R` the sum of both squares.

    It uses Householder reflections that preserve the zeros of the triangle (LAPACK's `tpqrt`).

    Args:
      triangle: The triangle so far; None if there are no rows yet.
      rows: The additional rows.
    """
    from scipy.linalg.lapack import dtpqrt  # pyright: ignore[reportAttributeAccessIssue]

    width = rows.shape[1]
    if not width:
        return np.zeros((0, 0))
    found = np.zeros((width, width), order="F")
    if triangle is not None:
        found[:] = triangle
    reflectors = min(REFLECTORS, width)
    piece = max(UNSHARED // (reflectors * width), 32)
    for start in range(0, len(rows), piece):
        block = np.array(rows[start : start + piece], float, order="F")
        found, _, _, failed = dtpqrt(0, reflectors, found, block, overwrite_a=True, overwrite_b=True)
        assert not failed
    return np.triu(found)


def condensed(triangle: Float[np.ndarray, "n n"], rows: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "n n"]:
    """Returns the same triangle as `with_rows`, skipping empty columns; their rows of the triangle come last."""
    used = np.flatnonzero(np.any(triangle != 0, axis=0) | np.any(rows != 0, axis=0))
    whole = np.zeros_like(triangle)
    # The triangle stays triangular when columns that were empty so far are removed.
    whole[: len(used), used] = with_rows(triangle[: len(used), used], rows[:, used])
    return whole
