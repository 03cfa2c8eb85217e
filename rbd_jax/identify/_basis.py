"""Identifiable and unidentifiable directions of the parameters, and least squares in these coordinates.

Data and prior knowledge are rows of a least-squares problem in the parameters. The prior is much weaker than the data, and
along unidentifiable directions the data contain only rounding errors. Therefore the identifiable directions are determined
first, and the data rows are set to zero along all others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._triangles import with_rows


class LeastSquares(NamedTuple):
    """The minimum of a sum of squares.

    - `step`: the minimizer.
    - `root`: a square root of its covariance.
    - `gain`: the decrease of half the sum of squares.
    """

    step: np.ndarray
    root: np.ndarray
    gain: float


class Basis(NamedTuple):
    """Coordinates y of parameter changes, `p - p₀ = change y`.

    - `change`: a column for each coordinate.
    - `seen`: the number of coordinates that the data identify; these come first.
    - `hidden`: unidentifiable directions, a row each.
    - `lost`: directions that neither the data nor the prior determine, a row each.
    """

    change: np.ndarray
    seen: int
    hidden: np.ndarray
    lost: np.ndarray

    def least_squares(self, data: np.ndarray, known: np.ndarray, right: np.ndarray) -> LeastSquares:
        """Minimizes `‖[data; known] (p - p₀) + right‖²`."""
        by_data = data @ self.change
        by_data[:, self.seen :] = 0.0
        rows = np.concatenate([by_data, known @ self.change])
        r = with_rows(None, np.concatenate([rows, right[:, None]], axis=1))
        count = len(r) - 1
        root = np.linalg.solve(r[:count, :count].T, self.change.T).T if count else self.change
        return LeastSquares(-root @ r[:count, count], root, float(np.sum(r[:count, count] ** 2) / 2))

    def loose(self, scale: np.ndarray) -> np.ndarray:
        """Returns a mask of the parameters that neither the data nor the prior determine."""
        return np.abs(self.lost / scale).max(axis=0, initial=0) > 1e-6


def basis_of(
    data: np.ndarray, known: np.ndarray, scale: np.ndarray, free: np.ndarray, tolerance: float
) -> Basis:
    """Returns the basis of the estimated parameters.

    Args:
      data: Rows of the data.
      known: Rows of the prior.
      scale: For each parameter, the change that affects the data as much as the others do.
      free: Mask of the parameters that may change.
      tolerance: Directions with a relative effect below this value count as unidentifiable.
    """
    at = np.flatnonzero(free)
    triangle = with_rows(None, data[:, at] * scale[at])
    _, sizes, vectors = singular(triangle) if len(at) else (None, np.zeros(0), np.zeros((0, 0)))
    seen = int(np.sum(sizes > tolerance * sizes.max(initial=0)))
    there = np.zeros((len(at), len(free)))
    there[np.arange(len(at)), at] = 1
    spread = lambda rows: (rows * scale[at]) @ there
    hidden = vectors[seen:]
    # The prior determines some of the unidentifiable directions.
    _, held, ways = singular(np.concatenate([known @ spread(hidden).T, np.zeros((len(hidden),) * 2)]))
    count = int(np.sum(held > 1e-9 * held.max(initial=0))) if len(hidden) else 0
    change = np.concatenate([spread(vectors[:seen]), spread(ways[:count] @ hidden)])
    return Basis(change.T, seen, spread(hidden), spread(ways[count:] @ hidden))


def singular(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the singular value decomposition by QR iterations.

    NumPy's faster method does not converge for some matrices with tiny entries.
    """
    from scipy.linalg import svd

    tiny = np.finfo(float).eps * 1e-3 * np.abs(matrix).max(initial=0)
    return svd(np.where(np.abs(matrix) < tiny, 0, matrix), lapack_driver="gesvd")
