"""What of some values data see, what of the rest was known beforehand, and least squares in these ways of changing them.

Data and knowledge are rows of least squares in the values. Knowledge is much weaker than data, and where data see nothing they
have rounding: so what they see is decided first, and of the rest their rows are left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._triangles import with_rows


class LeastSquares(NamedTuple):
    """The least of a sum of squares: where it is, a root of its covariance, and by how much a half of the sum falls."""

    step: np.ndarray
    root: np.ndarray
    gain: float


class Basis(NamedTuple):
    """Coordinates of what may change: `p - p₀ = change y`, the first `seen` of y being what the data see. `hidden` is what they
    do not see, a row each, and `lost` what nothing holds."""

    change: np.ndarray
    seen: int
    hidden: np.ndarray
    lost: np.ndarray

    def least_squares(self, data: np.ndarray, known: np.ndarray, right: np.ndarray) -> LeastSquares:
        """Of `‖[data; known] (p - p₀) + right‖²`."""
        by_data = data @ self.change
        by_data[:, self.seen :] = 0.0
        rows = np.concatenate([by_data, known @ self.change])
        r = with_rows(None, np.concatenate([rows, right[:, None]], axis=1))
        count = len(r) - 1
        root = np.linalg.solve(r[:count, :count].T, self.change.T).T if count else self.change
        return LeastSquares(-root @ r[:count, count], root, float(np.sum(r[:count, count] ** 2) / 2))

    def loose(self, scale: np.ndarray) -> np.ndarray:
        """Which values nothing holds."""
        return np.abs(self.lost / scale).max(axis=0, initial=0) > 1e-6


def basis_of(
    data: np.ndarray, known: np.ndarray, scale: np.ndarray, free: np.ndarray, tolerance: float
) -> Basis:
    """That of the free values.

    - `scale`: of each value what shows as much as the others.
    - `free`: which may change.
    - `tolerance`: what shows less than this share of what shows most is not seen.
    """
    at = np.flatnonzero(free)
    triangle = with_rows(None, data[:, at] * scale[at])
    _, sizes, vectors = singular(triangle) if len(at) else (None, np.zeros(0), np.zeros((0, 0)))
    seen = int(np.sum(sizes > tolerance * sizes.max(initial=0)))
    there = np.zeros((len(at), len(free)))
    there[np.arange(len(at)), at] = 1
    spread = lambda rows: (rows * scale[at]) @ there
    hidden = vectors[seen:]
    # Of what the data do not see, what was known beforehand holds some.
    _, held, ways = singular(np.concatenate([known @ spread(hidden).T, np.zeros((len(hidden),) * 2)]))
    count = int(np.sum(held > 1e-9 * held.max(initial=0))) if len(hidden) else 0
    change = np.concatenate([spread(vectors[:seen]), spread(ways[:count] @ hidden)])
    return Basis(change.T, seen, spread(hidden), spread(ways[count:] @ hidden))


def singular(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The singular value decomposition. By QR iterations: the faster one of NumPy gives up on some matrices with tiny
    numbers in them."""
    from scipy.linalg import svd

    tiny = np.finfo(float).eps * 1e-3 * np.abs(matrix).max(initial=0)
    return svd(np.where(np.abs(matrix) < tiny, 0, matrix), lapack_driver="gesvd")
