"""Velocities and accelerations from positions, by a zero-phase low-pass filter and central differences.

The filter is a fourth-order Butterworth filter, applied forwards and backwards. It multiplies an oscillation at frequency f
by `1 / (1 + (f/f_c)^8)` without a phase shift; at a third of the cutoff f_c, the loss is 1.5e-4. White noise of deviation σ
in positions at sampling rate r becomes about `σ (2π f_c) √(2 f_c / 3r)` in velocities and `σ (2π f_c)² √(2 f_c / 5r)` in
accelerations. The differences are of fourth order and reduce an oscillation by the fraction `(2π f / r)⁴ / 30`. By default,
f_c minimizes the error of the acceleration: the part of the motion's spectrum that the filter removes, plus the noise that
it passes. The noise level is estimated from the highest third of the spectrum.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np

from .._core.jit import compiled
from ..model import Model, difference
from ._motion import own_joints
from .log import Channel, Log, LogError
from .sanity import continuous, refuse_slow


#: Maximum number of consecutive missing samples that are interpolated. Longer gaps and the samples next to them remain
#: missing.
GAP = 5
#: Highest cutoff, as a fraction of the sampling rate.
HIGHEST = 0.2
#: Number of cutoff periods that are discarded at either end, where the filter has data on one side only.
ENDS = 3.0
#: Minimum number of samples for smoothing.
FEWEST = 12
#: Ratio to the noise above which a spectral line belongs to the motion. An average of a dozen lines of white noise reaches
#: twice its mean in one place of a hundred, and one such place near the highest frequency would raise the cutoff tenfold.
CERTAIN = 6.0


def with_rates(model: Model, log: Log, cutoff: float | int | None = None) -> Log:
    """Returns the log with velocities and accelerations: the measured ones, or else those of the smoothed motion.

    All channels are resampled at the times of the log. Velocities and accelerations from smoothing are NaN within about
    three periods of the cutoff from the ends of the log. A column that is NaN everywhere counts as not measured. Some
    joints have velocities that are not the rates of their coordinates: ball, free and planar joints. Their velocities are
    smoothed central differences on the manifold, and their configurations stay as measured.

    Args:
      model: The model.
      log: The log; it needs `q`.
      cutoff: Cutoff frequency in Hz; by default the one with the least error of the acceleration.

    Raises:
      LogError: If q is missing, the log is too short, or the cutoff is out of range.

    >>> model, t = rbd.load("pendulum"), np.arange(2000) / 500
    >>> swing = rbd.identify.Log(t, 0.5 * np.sin(4 * t)[:, None])
    >>> found = rbd.identify.with_rates(model, swing)
    >>> error = found.a.values[:, 0] + 8 * np.sin(4 * t)
    >>> bool(np.nanmax(np.abs(error)) < 1e-3)
    True
    """
    return smoothed(model, log, cutoff)


def smoothed(model: Model, log: Log, cutoff: float | int | None = None, whole: bool = False) -> Log:
    """Implements `with_rates`; `whole` keeps extrapolated velocities and accelerations at both ends and in gaps."""
    log = continuous(model, log).on_clock()
    if log.q is None:
        raise LogError(f"Log {log.name!r} has no q. Identification requires the configuration.")
    v, own_v = _known(model, log, "v")
    a, own_a = _known(model, log, "a")
    if own_v.all() and own_a.all():
        return log
    refuse_slow(log)
    if len(log.t) < FEWEST:
        raise LogError(
            f"Log {log.name!r}: {len(log.t)} samples are too few to derive velocities and accelerations; at least {FEWEST} "
            "are required."
        )
    rate = (len(log.t) - 1) / (log.t[-1] - log.t[0])
    if cutoff is not None and not 0 < cutoff < 0.5 * rate:
        raise LogError(
            f"Log {log.name!r}: the cutoff is {cutoff:g} Hz; it must be between 0 and half the sampling rate, {rate:.4g} Hz."
        )
    even = np.linspace(log.t[0], log.t[-1], len(log.t))
    regular = np.abs(np.diff(log.t) * rate - 1).max() < 1e-3
    placed = lambda values, gaps: _back(values, even, log.t, regular, gaps, 0)

    def rates(values, gaps, ends):
        return placed(values, gaps & False) if whole else _back(values, even, log.t, regular, gaps, ends)

    flat, flat_v = _flat(model)
    q, measured = log.q.values.copy(), v.copy()
    for column, dof in zip(flat, flat_v):
        if own_v[dof]:
            continue
        position, gaps = _filled(log.t, q[:, column], even, regular)
        smooth, ends = _low_passed(position, rate, cutoff, 4)
        speed = _slope(smooth, rate)
        q[:, column] = placed(smooth, gaps)
        v[:, dof] = rates(speed, gaps, ends + 2)
        if not own_a[dof]:
            a[:, dof] = rates(_slope(speed, rate), gaps, ends + 4)
    curved_v = np.setdiff1d(np.arange(model.nv), flat_v)
    if not own_v[curved_v].all():
        measured[:, ~own_v] = manifold_rates(model, log.t, log.q.values)[:, ~own_v]
    for dof in range(model.nv):
        if not own_v[dof] and dof not in curved_v or own_v[dof] and own_a[dof]:
            continue
        speed, gaps = _filled(log.t, measured[:, dof], even, regular)
        smooth, ends = _low_passed(speed, rate, cutoff, 2)
        if not own_v[dof]:
            v[:, dof] = rates(smooth, gaps, ends)
        if not own_a[dof]:
            a[:, dof] = rates(_slope(smooth, rate), gaps, ends + (2 if dof in curved_v else 4))
    return replace(log, q=Channel(q), v=Channel(v), a=Channel(a))


def _known(model: Model, log: Log, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the values of a channel, NaN where missing, and the mask of the measured degrees of freedom."""
    channel = getattr(log, name)
    values = np.full((len(log.t), model.nv), np.nan) if channel is None else channel.values.copy()
    return values, np.asarray(~np.isnan(values).all(axis=0))


def best_cutoff(values: np.ndarray, rate: float, power: int = 4) -> float:
    """Returns the cutoff frequency in Hz that minimizes the error of a derivative.

    Args:
      values: Equally spaced samples.
      rate: Sampling rate in Hz.
      power: 4 for the second derivative, 2 for the first.

    >>> t = np.arange(5000) / 500
    >>> noisy = np.sin(2 * np.pi * t) + 1e-4 * np.random.default_rng(0).normal(size=5000)
    >>> 2 < rbd.identify.best_cutoff(noisy, 500.0) < 6
    True
    """
    n = len(values)
    straight = values[0] + (values[-1] - values[0]) * np.arange(n) / (n - 1)
    window = np.hanning(n)
    spectrum = np.abs(np.fft.rfft((values - straight) * window)) ** 2
    frequency = np.fft.rfftfreq(n, 1 / rate)
    top = spectrum[frequency > rate / 3]
    noise = np.median(top) / np.log(2) if len(top) else 0.0
    # Average neighboring lines, because single lines of noise vary strongly.
    width = max(3, min(15, n // 50)) | 1
    smooth = np.convolve(spectrum, np.ones(width) / width, mode="same")
    signal = np.where(smooth > CERTAIN * noise, spectrum, 0) * frequency**power
    rest = noise * frequency**power
    lowest = max(4 * rate / n, 1e-4 * rate)
    candidates = np.geomspace(min(lowest, HIGHEST * rate / 2), HIGHEST * rate, 80)
    errors = []
    for cutoff in candidates:
        kept = 1 / (1 + (frequency / cutoff) ** 8)
        errors.append(np.sum((1 - kept) ** 2 * signal + kept**2 * rest))
    return float(candidates[int(np.argmin(errors))])


def white_noise(values: np.ndarray) -> np.ndarray:
    """Returns an upper bound of the standard deviation of white noise in each column, from fourth differences."""
    fourth = np.diff(values, 4, axis=0)
    known = np.isfinite(fourth)
    squares = np.sum(np.where(known, fourth, 0) ** 2, axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.sqrt(squares / 70)


def is_noisy(values: np.ndarray) -> np.ndarray:
    """Returns the mask of columns whose second differences are mostly noise.

    For white noise, fourth differences are larger than second ones by a factor of 3.4.
    """
    if len(values) < FEWEST:
        return np.zeros(values.shape[1], bool)
    second = np.diff(values, 2, axis=0)
    known = np.isfinite(second)
    squares = np.sum(np.where(known, second, 0) ** 2, axis=0) / np.maximum(known.sum(axis=0), 1)
    size = np.nanmax(np.abs(np.where(np.isfinite(values), values, 0)), axis=0)
    noise = white_noise(values)
    # Ignore the rounding noise of single precision.
    return (70 * noise**2 > 2.25 * squares) & (noise > 1e-6 * np.maximum(size, 1))


def _low_passed(values: np.ndarray, rate: float, cutoff: float | None, power: int) -> tuple[np.ndarray, int]:
    """Returns the filtered values, and the number of unreliable samples at either end."""
    from scipy.signal import butter, sosfiltfilt

    if np.ptp(values) <= 1e-14 * max(1.0, np.abs(values).max()):
        return values, 0  # constant
    frequency = best_cutoff(values, rate, power) if cutoff is None else cutoff
    ends = int(np.ceil(ENDS * rate / frequency))
    sections = butter(4, frequency, fs=rate, output="sos")
    return sosfiltfilt(sections, values, padlen=min(3 * ends, len(values) - 2)), ends


def _slope(values: np.ndarray, rate: float) -> np.ndarray:
    """Returns the derivative by fourth-order central differences, with lower order at the ends."""
    slope = np.gradient(values) * rate
    slope[2:-2] = (8 * (values[3:-1] - values[1:-3]) - (values[4:] - values[:-4])) / 12 * rate
    return slope


def _filled(t, values, even, regular) -> tuple[np.ndarray, np.ndarray]:
    """Returns the values at even times with short gaps interpolated, and the mask of times t in longer gaps."""
    missing = np.isnan(values)
    if missing.all():
        return np.zeros_like(values), missing
    edges = np.flatnonzero(np.diff(np.concatenate([[False], missing, [False]]).astype(int)))
    gaps = np.zeros_like(missing)
    for start, stop in edges.reshape(-1, 2):
        if stop - start > GAP or start == 0 or stop == len(values):
            gaps[max(start - GAP, 0) : stop + GAP] = True
    if regular and not missing.any():
        return values, gaps
    from scipy.interpolate import CubicSpline

    known = t[~missing]
    filled = CubicSpline(known, values[~missing])(np.clip(even, known[0], known[-1]))
    return filled, gaps


def _back(values, even, t, regular, gaps, ends) -> np.ndarray:
    """Resamples values from even times to the times of the log, with NaN at the ends and in gaps."""
    if not regular:
        from scipy.interpolate import CubicSpline

        values = CubicSpline(even, values)(t)
    values = np.where(gaps, np.nan, values)
    if ends:
        values[:ends] = values[-ends:] = np.nan
    return values


def _flat(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Returns the entries of q that are plain coordinates, and the entries of v that are their rates."""
    own = [(entries, columns) for _, joint, entries, columns in own_joints(model) if joint.flat]
    entries = [np.concatenate([[], *side]).astype(int) for side in zip(*own)] or [np.zeros(0, int)] * 2
    return entries[0], entries[1]


@compiled
def tangent_steps(model: Model, q0, q1):
    return jax.vmap(lambda a, b: difference(model, a, b))(q0, q1)


def manifold_rates(model: Model, t: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Returns velocities by central differences on the configuration manifold; NaN next to missing samples."""
    dtype = model.dtype
    filled = np.where(np.isnan(q), 0, q)
    rates = np.full((len(q), model.nv), np.nan)
    steps = np.asarray(tangent_steps(model, filled[:-2].astype(dtype), filled[2:].astype(dtype)), float)
    rates[1:-1] = steps / (t[2:] - t[:-2])[:, None]
    missing = np.asarray(np.isnan(q).any(axis=1))
    rates[missing] = np.nan
    rates[1:][missing[:-1]] = np.nan
    rates[:-1][missing[1:]] = np.nan
    rates[0], rates[-1] = rates[1], rates[-2]
    return rates
