"""Least squares in what is free and in the first states of windows, by triangles: first states are eliminated one by one.

Every window has errors that depend on its own first state δ and on what is free, x; where it goes on, also the gap to the next
window's first state. Going backwards, the next state is eliminated from all that depends on it, which leaves a triangle in
(δ, x, 1), and at last one in (x, 1): a square-root information smoother. No normal equations are made, so no digits are
lost. Then x is known, and the states follow forwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._triangles import with_rows


@dataclass(frozen=True, eq=False)
class Linear:
    """Linearized windows.

    - `own`: triangles in (δ, x, 1), (windows, m, m), m = states + free + 1.
    - `gaps`: rows in (δ of the next, δ, x, 1), (windows, states, states + m); what does not go on is not looked at.
    - `goes_on`: which do.
    """

    own: np.ndarray
    gaps: np.ndarray
    goes_on: np.ndarray
    states: int


@dataclass(frozen=True, eq=False)
class Eliminated:
    """A triangle in (x, 1), and how each first state follows from that before and x: rows in (δ, δ before, x, 1)."""

    triangle: np.ndarray
    backs: list[np.ndarray]
    goes_on: np.ndarray
    states: int

    def states_of(self, x: np.ndarray) -> np.ndarray:
        """The first states, least squares for this x."""
        found, before = np.zeros((len(self.backs), self.states)), np.zeros(self.states)
        for k, rows in enumerate(self.backs):
            size = self.states
            if k == 0 or not self.goes_on[k - 1]:
                before = np.zeros(size)
            right = rows[:, size : 2 * size] @ before + rows[:, 2 * size : -1] @ x + rows[:, -1]
            before = found[k] = -np.linalg.solve(rows[:, :size], right)
        return found

    def covariances(self, of_x: np.ndarray) -> np.ndarray:
        """Those of (δ, x) of each window, from that of x: (windows, states + free, states + free)."""
        size, free = self.states, len(of_x)
        found = np.zeros((len(self.backs), size + free, size + free))
        for k, rows in enumerate(self.backs):
            first = k == 0 or not self.goes_on[k - 1]
            # (δ, x) by (δ before, x), and by what else δ scatters.
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
    """What is left in x.

    - `damping`: of the states, relative to how much they are seen (Levenberg and Marquardt's).
    """
    size, m = linear.states, linear.own.shape[1]
    free = m - size - 1
    left = None
    backs: list[np.ndarray] = [np.zeros((size, 2 * size + free + 1))] * len(linear.own)
    carried = None  # a triangle in (δ of the next, x, 1)
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
    """With rows that hold the first columns where they are, by so much of their own size; and a little in any case."""
    norms = np.sqrt(np.sum(rows[:, :size] ** 2, axis=0))
    least = 1e-9 * max(norms.max(initial=0), 1e-300)
    held = np.zeros((size, rows.shape[1]))
    held[np.arange(size), np.arange(size)] = np.sqrt(damping) * norms + least
    return np.concatenate([rows, held])
