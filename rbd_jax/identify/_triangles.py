"""Triangular factors of tall matrices, made piece by piece: what least squares needs of its rows, in the memory of a few.

All is of such a size that BLAS leaves it to one thread. Shared out to several it is no faster here, and on a machine that
does other things a hundred times slower.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


#: Products of matrices with no more multiplications than this are done by one thread.
UNSHARED = 130_000
#: So many columns are reflected together.
REFLECTORS = 8


def with_rows(
    triangle: Float[np.ndarray, "n n"] | None, rows: Float[np.ndarray, "m n"]
) -> Float[np.ndarray, "n n"]:
    """The triangle R of a triangle and more rows: `Rᵀ R` is the sum of both squares. None for no triangle.

    By Householder's reflections that leave the triangle's zeros alone (LAPACK's `tpqrt`).
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
    """The same where many columns are empty, which are left out of the work: their rows of the triangle come last."""
    used = np.flatnonzero(np.any(triangle != 0, axis=0) | np.any(rows != 0, axis=0))
    whole = np.zeros_like(triangle)
    # Without columns that were empty so far, it is a triangle still.
    whole[: len(used), used] = with_rows(triangle[: len(used), used], rows[:, used])
    return whole
