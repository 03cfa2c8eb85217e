"""Robust weights: how much errors count by their size, in units of the noise.

Huber's lets every outlier pull with the force of a small error, and those that move the robot, as a push does, pull where the
motion is largest. It is convex, and brings the noise near enough for Tukey's biweight, which leaves them out.
"""

from __future__ import annotations

import numpy as np


#: Huber's constant and Tukey's: 95 % of the efficiency of least squares where the noise is normal.
HUBER, TUKEY = 1.345, 4.685


def huber(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weight of errors of these sizes, and the slope of the error times its weight."""
    return HUBER / np.maximum(sizes, HUBER), np.where(np.isnan(sizes), sizes, sizes < HUBER)


def tukey(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same of the biweight: nothing is left of what is far out (but a millionth, that no value is lost with it)."""
    rest = 1 - np.minimum(sizes / TUKEY, 1) ** 2
    return np.maximum(rest**2, 1e-6), rest * (5 * rest - 4)


def huber_loss(sizes: np.ndarray) -> np.ndarray:
    """What errors of these sizes, not negative, cost: a half of the square of small ones."""
    return np.where(sizes > HUBER, HUBER * (sizes - HUBER / 2), sizes**2 / 2)


def tukey_loss(sizes):
    """The same of the biweight, at most `TUKEY²/6`; of NumPy's or JAX's arrays."""
    rest = 1 - (sizes / TUKEY) ** 2
    rest = (rest + abs(rest)) / 2
    return TUKEY**2 / 6 * (1 - rest**3)


def scatter(weighing, sizes: np.ndarray) -> np.ndarray:
    """What the scatter of the values depends on in place of the noise and in its units, of each column of sizes, NaN where
    there is none: the bent errors' mean square, and the mean slope of the bend."""
    weights, slopes = weighing(sizes)
    mean = lambda x, nothing: np.nan_to_num(np.nanmean(x, axis=0), nan=nothing)
    bent = mean((weights * sizes) ** 2, 0.0)
    return np.sqrt(bent * mean(weights, 1.0)) / np.maximum(mean(slopes, 1.0), 0.1)
