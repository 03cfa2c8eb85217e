"""Checks that measurements agree with the predictions of a model, before and after an estimate.

Before: measurements that correlate with the predictions but differ by a factor such as a thousand, or have the opposite
sign. After: residuals that are neither noise nor small. Only measurements that correlate with the predictions cause an
error. Others may be correct: the model may be inaccurate, and friction or contact forces may be large.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from .log import CHANNELS, Log, LogError, LogWarning
from .smoothing import white_noise


#: Correlation with the predictions above which there is a warning, and above which there is an error.
TOLD, SURE = 0.8, 0.9
#: Common wrong units of forces, and of sensors.
THOUSANDS = ((1e3, "a thousand times"), (1e-3, "a thousandth of"))
OF_SENSORS = {
    1e3: "thousandths of the unit that is meant (mm, mm/s²)", 1e-3: "thousands of the unit that is meant (kN)",
    1 / 9.80665: "g, and m/s² are meant", 180 / np.pi: "degrees, and radians are meant",
}  # fmt: skip
#: Residuals are not noise above this multiple of the noise, and not small above this fraction of the mean square.
NOISE, SHARE = 5.0, 0.25


def look_at_forces(
    owner: str, columns: Sequence[str], measured: np.ndarray, predicted: np.ndarray, both: np.ndarray
) -> None:
    """Checks the units and signs of measured forces.

    Args:
      owner: The name of the caller in messages.
      columns: Names of the degrees of freedom.
      measured: Sum of squared measured forces of each degree of freedom.
      predicted: Sum of squared predicted forces of each degree of freedom.
      both: Sum of products of measured and predicted forces.

    Raises:
      LogError: If the forces correlate with the predictions, but are about a thousand times too large or too small.
    """
    needed, there = predicted.sum(), measured.sum()
    if not (needed > 0 and there > 0):
        return
    share, alike = np.sqrt(there / needed), both.sum() / np.sqrt(needed * there)
    for factor, words in THOUSANDS:
        if 0.2 < share / factor < 5:
            said = (
                f"{owner}: the measured forces are {words} what the model needs for these motions "
                f"({share:.3g}): they look like N mm or kN m, "
                "or lengths in millimeters; log.scaled(tau=1e-3) and the like change them"
            )
            if alike > SURE:
                raise LogError(said)
            warnings.warn(said, LogWarning, stacklevel=4)
    with np.errstate(invalid="ignore", divide="ignore"):
        alike, share = both / np.sqrt(measured * predicted), np.sqrt(measured / predicted)
    for i in map(int, np.flatnonzero((alike < -TOLD) & (share > 0.2) & (share < 5))):
        warnings.warn(
            f"{owner}: {columns[i]} is the opposite of what the model needs for these motions (correlation {alike[i]:.2f}). "
            "Does it have the wrong sign?",
            LogWarning,
            stacklevel=4,
        )


def look_at_order(owner: str, columns: Sequence[str], measured, predicted, both: np.ndarray) -> None:
    """Warns if the measurements of two columns match each other's predictions; `both` has the products of all columns."""
    with np.errstate(invalid="ignore", divide="ignore"):
        alike = np.nan_to_num(both / np.sqrt(np.outer(measured, predicted)))
        share = np.sqrt(np.outer(measured, 1 / predicted))
    for i, j in np.argwhere(np.triu(alike > SURE, 1) & (alike.T > SURE)):
        fitting = 0.2 < share[i, j] < 5 and 0.2 < share[j, i] < 5
        if fitting and alike[i, i] < 0.5 and alike[j, j] < 0.5:
            warnings.warn(
                f"{owner}: {columns[i]} matches the prediction of {columns[j]}, and vice versa. Are the columns "
                "in the order of the model?",
                LogWarning,
                stacklevel=4,
            )


def look_at_sensor(owner: str, name: str, measured: float, predicted: float, both: float) -> None:
    """Warns if the readings of a sensor have a wrong unit or sign; arguments are sums of squares and of products."""
    if not (measured > 0 and predicted > 0):
        return
    alike, share = both / np.sqrt(measured * predicted), np.sqrt(measured / predicted)
    said = None
    if alike < -SURE and 0.5 < share < 2:
        said = "are the opposite of what the model predicts. Is the sign, or an axis of its site, reversed?"
    elif alike > SURE:
        looks = [words for factor, words in OF_SENSORS.items() if 0.8 < share / factor < 1.25]
        said = f"are {share:.3g} times what the model predicts: they look like {looks[0]}" if looks else None
    if said is not None:
        warnings.warn(f"{owner}: the readings of sensor {name!r} {said}", LogWarning, stacklevel=4)


def look_at_rest(
    owner: str, columns: Sequence[str], left: np.ndarray, varies: np.ndarray, noise: np.ndarray
) -> None:
    """Warns if the residuals of an estimate are neither noise nor small.

    Args:
      owner: The name of the caller in messages.
      columns: Names of the columns.
      left: Residual of each column.
      varies: Variation of the measurements of each column.
      noise: Measurement noise of each column.
    """
    bad = [
        i
        for i in range(len(columns))
        if left[i] > NOISE * noise[i] and left[i] ** 2 > SHARE * varies[i] ** 2 > 0
    ]
    if bad:
        listed = ", ".join(f"{columns[i]} ({left[i]:.3g} of {varies[i]:.3g})" for i in bad[:6])
        more = f" and {len(bad) - 6} more" if len(bad) > 6 else ""
        warnings.warn(
            f"{owner}: the estimate does not explain {listed}{more}, and it is not noise. Check units, signs, times and the "
            "order of columns. Check that the model includes all forces: friction, contact, actuators.",
            LogWarning,
            stacklevel=4,
        )


def noise_of(logs: Sequence[Log], name: str, size: int) -> np.ndarray:
    """Returns the white noise in the columns of a channel, the maximum over all logs; zero where not measured."""
    found = np.zeros(size)
    for log in logs:
        channel = getattr(log, name) if name in CHANNELS else log.sensors.get(name)
        if channel is not None and channel.values.shape[1] == size:
            found = np.maximum(found, white_noise(channel.values))
    return found
