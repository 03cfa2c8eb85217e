"""Whether what was measured has to do with what a model predicts: told before an estimate, and after it.

Before: where measurements go with the predictions, but are a thousand times as large, or the other way round. After: where
what is left is neither noise nor small. Only what goes with the predictions is refused; a model that is far off,
friction and pushes may be right.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from .log import CHANNELS, Log, LogError, LogWarning
from .smoothing import white_noise


#: How well measurements go with predictions, to be told, and to be refused.
TOLD, SURE = 0.8, 0.9
#: Units of forces that are mistaken for others, and of sensors.
THOUSANDS = ((1e3, "a thousand times"), (1e-3, "a thousandth of"))
OF_SENSORS = {
    1e3: "thousandths of the unit that is meant (mm, mm/s²)", 1e-3: "thousands of the unit that is meant (kN)",
    1 / 9.80665: "g, and m/s² are meant", 180 / np.pi: "degrees, and radians are meant",
}  # fmt: skip
#: What is left is not noise if it is so many times as large, and not small if it is such a share of the mean square.
NOISE, SHARE = 5.0, 0.25


def look_at_forces(
    owner: str, columns: Sequence[str], measured: np.ndarray, predicted: np.ndarray, both: np.ndarray
) -> None:
    """Of forces measured, those the model needs: sums of squares and of products, of each degree of freedom."""
    needed, there = predicted.sum(), measured.sum()
    if not (needed > 0 and there > 0):
        return
    share, alike = np.sqrt(there / needed), both.sum() / np.sqrt(needed * there)
    for factor, words in THOUSANDS:
        if 0.2 < share / factor < 5:
            said = (
                f"{owner}: the measured forces are {words} what the model needs for these motions "
                f"({share:.3g}): they look like N mm or kN m, "
                "or lengths like millimetres; log.scaled(tau=1e-3) and the like change them"
            )
            if alike > SURE:
                raise LogError(said)
            warnings.warn(said, LogWarning, stacklevel=4)
    with np.errstate(invalid="ignore", divide="ignore"):
        alike, share = both / np.sqrt(measured * predicted), np.sqrt(measured / predicted)
    for i in np.flatnonzero((alike < -TOLD) & (share > 0.2) & (share < 5)):
        warnings.warn(
            f"{owner}: {columns[i]} is the opposite of what the model needs for these motions (correlation {alike[i]:.2f}). "
            "Is its sign the other way round?",
            LogWarning,
            stacklevel=4,
        )


def look_at_order(owner: str, columns: Sequence[str], measured, predicted, both: np.ndarray) -> None:
    """Of columns whose measurements go with another's predictions, and that one's with theirs; `both` has all products."""
    with np.errstate(invalid="ignore", divide="ignore"):
        alike = np.nan_to_num(both / np.sqrt(np.outer(measured, predicted)))
        share = np.sqrt(np.outer(measured, 1 / predicted))
    for i, j in np.argwhere(np.triu(alike > SURE, 1) & (alike.T > SURE)):
        fitting = 0.2 < share[i, j] < 5 and 0.2 < share[j, i] < 5
        if fitting and alike[i, i] < 0.5 and alike[j, j] < 0.5:
            warnings.warn(
                f"{owner}: {columns[i]} is what the model needs of {columns[j]}, and the other way round. Are the columns "
                "in the order of the model?",
                LogWarning,
                stacklevel=4,
            )


def look_at_sensor(owner: str, name: str, measured: float, predicted: float, both: float) -> None:
    """Of a sensor's readings and predictions: sums of squares and of products."""
    if not (measured > 0 and predicted > 0):
        return
    alike, share = both / np.sqrt(measured * predicted), np.sqrt(measured / predicted)
    said = None
    if alike < -SURE and 0.5 < share < 2:
        said = "are the opposite of what the model predicts. Is the sign, or a direction of its site, the other way round?"
    elif alike > SURE:
        looks = [words for factor, words in OF_SENSORS.items() if 0.8 < share / factor < 1.25]
        said = f"are {share:.3g} times what the model predicts: they look like {looks[0]}" if looks else None
    if said is not None:
        warnings.warn(f"{owner}: the readings of sensor {name!r} {said}", LogWarning, stacklevel=4)


def look_at_rest(
    owner: str, columns: Sequence[str], left: np.ndarray, varies: np.ndarray, noise: np.ndarray
) -> None:
    """What an estimate has left of each column, how much that varies, and the noise in it: of what is neither noise nor small."""
    bad = [
        i
        for i in range(len(columns))
        if left[i] > NOISE * noise[i] and left[i] ** 2 > SHARE * varies[i] ** 2 > 0
    ]
    if bad:
        listed = ", ".join(f"{columns[i]} ({left[i]:.3g} of {varies[i]:.3g})" for i in bad[:6])
        more = f" and {len(bad) - 6} more" if len(bad) > 6 else ""
        warnings.warn(
            f"{owner}: the estimate does not explain {listed}{more}, and it is not noise. Are units, signs, times and the "
            "order of columns right, and is all that acts in the model: friction, contact, what drives it?",
            LogWarning,
            stacklevel=4,
        )


def noise_of(logs: Sequence[Log], name: str, size: int) -> np.ndarray:
    """The white noise in the columns of a channel, the most of all logs; zero where it was not measured."""
    found = np.zeros(size)
    for log in logs:
        channel = getattr(log, name) if name in CHANNELS else log.sensors.get(name)
        if channel is not None and channel.values.shape[1] == size:
            found = np.maximum(found, white_noise(channel.values))
    return found
