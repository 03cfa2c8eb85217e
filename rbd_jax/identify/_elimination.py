"""Least squares in the parameters and the initial states of windows, by triangular elimination of the initial states.

The errors of each window depend on its own initial state δ and on the parameters x. If the window continues in the next
one, the gap to the initial state of that window is an error, too. A backward pass eliminates the next state from all rows
that depend on it. This leaves a triangle in (δ, x, 1) for each window, and finally one in (x, 1): a square-root information
smoother. The normal equations are not formed, which preserves all digits. A forward pass then computes the states from x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._triangles import with_rows


@dataclass(frozen=True, eq=False)
class Linear:
    """Linearized windows.

    - `own`: triangles in (δ, x, 1), (windows, m, m), with m = states + parameters + 1.
    - `gaps`: rows in (δ of the next window, δ, x, 1), (windows, states, states + m); ignored for windows that do not
      continue.
    - `goes_on`: mask of the windows that continue in the next one.
    - `states`: number of coordinates of an initial state.
    """

    own: np.ndarray
    gaps: np.ndarray
    goes_on: np.ndarray
    states: int


@dataclass(frozen=True, eq=False)
class Eliminated:
    """A triangle in (x, 1), and how each initial state depends on x and on the preceding one.

    - `triangle`: the triangle in (x, 1).
    - `backs`: for each window, rows in (δ, δ of the preceding window, x, 1).
    - `goes_on`, `states`: as in `Linear`.
    """

    triangle: np.ndarray
    backs: list[np.ndarray]
    goes_on: np.ndarray
    states: int

    def states_of(self, x: np.ndarray) -> np.ndarray:
        """Returns the least-squares initial states for this x."""
        found, before = np.zeros((len(self.backs), self.states)), np.zeros(self.states)
        for k, rows in enumerate(self.backs):
            size = self.states
            if k == 0 or not self.goes_on[k - 1]:
                before = np.zeros(size)
            right = rows[:, size : 2 * size] @ before + rows[:, 2 * size : -1] @ x + rows[:, -1]
            before = found[k] = -np.linalg.solve(rows[:, :size], right)
        return found

    def covariances(self, of_x: np.ndarray) -> np.ndarray:
        """Returns the covariance of (δ, x) of each window, (windows, states + parameters, states + parameters).

        Args:
          of_x: The covariance of x.
        """
        size, free = self.states, len(of_x)
        found = np.zeros((len(self.backs), size + free, size + free))
        for k, rows in enumerate(self.backs):
            first = k == 0 or not self.goes_on[k - 1]
            # (δ, x) as a function of (δ of the preceding window, x), and the independent part of δ.
            way, own = np.eye(size + free), np.zeros((size + free, size))
            if size:
                own[:size] = np.linalg.inv(rows[:, :size])
                way[:size] = -own[:size] @ rows[:, size:-1]
            before = np.zeros_like(way) if first else found[k - 1]
            if first:
                before[size:, size:] = of_x
            found[k] = way @ before @ way.T + own @ own.T
        return found


def eliminated(linear: Linear, damping: float) -> Eliminated:
    """Eliminates the initial states and returns the triangle in x.

    Args:
      linear: The linearized windows.
      damping: Damping of the states, relative to their column norms (Levenberg-Marquardt).
    """
    size, m = linear.states, linear.own.shape[1]
    free = m - size - 1
    left = None
    backs: list[np.ndarray] = [np.zeros((size, 2 * size + free + 1))] * len(linear.own)
    carried = None  # a triangle in (δ of the next window, x, 1)
    for k in reversed(range(len(linear.own))):
        own = linear.own[k]
        if linear.goes_on[k] and carried is not None:
            rows = np.zeros((len(carried) + size + m, 2 * size + free + 1))
            rows[: len(carried), :size] = carried[:, :size]
            rows[: len(carried), 2 * size :] = carried[:, size:]
            rows[len(carried) : len(carried) + size] = linear.gaps[k]
            rows[len(carried) + size :, size:] = own
            triangle = with_rows(None, _damped(rows, size, damping))
            backs[k + 1], carried = triangle[:size], triangle[size:, size:]
        else:
            carried = own
        if k == 0 or not linear.goes_on[k - 1]:
            triangle = with_rows(None, _damped(carried, size, damping)) if size else carried
            backs[k] = np.concatenate(
                [triangle[:size, :size], np.zeros((size, size)), triangle[:size, size:]], axis=1
            )
            left = with_rows(left, triangle[size:, size:])
    assert left is not None
    return Eliminated(left, backs, linear.goes_on, size)


def _damped(rows: np.ndarray, size: int, damping: float) -> np.ndarray:
    """Appends rows that damp the first columns relative to their norms, with a small minimum."""
    norms = np.sqrt(np.sum(rows[:, :size] ** 2, axis=0))
    least = 1e-9 * max(norms.max(initial=0), 1e-300)
    held = np.zeros((size, rows.shape[1]))
    held[np.arange(size), np.arange(size)] = np.sqrt(damping) * norms + least
    return np.concatenate([rows, held])
