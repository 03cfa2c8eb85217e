"""Robust weights: the weight of errors as a function of their size in units of the noise.

With Huber's weights, every outlier has the influence of a small error. Outliers during large motion, such as external
pushes, then bias the estimate. Huber's loss is convex and brings the noise close enough for Tukey's biweight, which ignores
outliers.
"""

from __future__ import annotations

import numpy as np


#: Huber's and Tukey's constants: 95 % of the efficiency of least squares for normal noise.
HUBER, TUKEY = 1.345, 4.685


def huber(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns Huber's weights of errors with these sizes, and the derivative of the error times its weight."""
    return HUBER / np.maximum(sizes, HUBER), np.where(np.isnan(sizes), sizes, sizes < HUBER)


def tukey(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the biweights and the derivatives, as `huber` does.

    Weights are at least a millionth, so that all values stay determined.
    """
    rest = 1 - np.minimum(sizes / TUKEY, 1) ** 2
    return np.maximum(rest**2, 1e-6), rest * (5 * rest - 4)


def huber_loss(sizes: np.ndarray) -> np.ndarray:
    """Returns Huber's loss of errors with these nonnegative sizes: half of the square of small errors."""
    return np.where(sizes > HUBER, HUBER * (sizes - HUBER / 2), sizes**2 / 2)


def tukey_loss(sizes):
    """Returns the loss of the biweight, at most `TUKEY²/6`, for NumPy or JAX arrays."""
    rest = 1 - (sizes / TUKEY) ** 2
    rest = (rest + abs(rest)) / 2
    return TUKEY**2 / 6 * (1 - rest**3)


def scatter(weighing, sizes: np.ndarray) -> np.ndarray:
    """Returns the factor by which the scatter of the values differs from the noise, for each column of sizes.

    It follows from the mean square of the weighted errors and the mean derivative of the weighted error. Missing sizes are
    NaN.
    """
    weights, slopes = weighing(sizes)
    mean = lambda x, nothing: np.nan_to_num(np.nanmean(x, axis=0), nan=nothing)
    bent = mean((weights * sizes) ** 2, 0.0)
    return np.sqrt(bent * mean(weights, 1.0)) / np.maximum(mean(slopes, 1.0), 0.1)
