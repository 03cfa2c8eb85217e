"""Velocities and accelerations of what was measured without them: without phase, by a low-pass filter and central differences.

The filter is Butterworth's of fourth order, passed forwards and backwards. It leaves of an oscillation at frequency f the share
`1 / (1 + (f/f_c)^8)`, at its own time: at a third of the cutoff f_c all but 1.5e-4. White noise of deviation σ in
positions that are sampled at the rate r becomes about `σ (2π f_c) √(2 f_c / 3r)` in velocities and `σ (2π f_c)² √(2 f_c /
5r)` in accelerations. Differences are of fourth order: of an oscillation they take off `(2π f / r)⁴ / 30`. Where nothing
else is said, f_c is where the error of the acceleration is least: what the filter takes from the motion's spectrum against
what it lets through of the noise, whose size is read off the highest third of the spectrum.
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


#: Missing samples in a row over which positions are interpolated; a longer gap stays one, and so do the samples at its ends.
GAP = 5
#: The highest cutoff, as a share of the sampling rate.
HIGHEST = 0.2
#: So many periods of the cutoff at either end are not used: there the filter knows but one side.
ENDS = 3.0
#: The fewest samples that are smoothed.
FEWEST = 12
#: How many times the noise a spectrum is where it is said to be the motion's. Means of a dozen lines of white noise are twice
#: their mean in one place of a hundred, and one such place near the highest frequency would ask for a cutoff ten times too high.
CERTAIN = 6.0


def with_rates(model: Model, log: Log, cutoff: float | int | None = None) -> Log:
    """The log with velocities and accelerations: its own where it has them, else those of the smoothed motion.

    Its channels are at its own times. Where smoothing begins and ends, one period of the cutoff, velocities and
    accelerations are NaN. A column that is NaN throughout is taken as not measured. Joints whose velocities are not the rates of
    their coordinates (balls, free bodies, those that move in a plane) have velocities by central differences on their
    manifold, which are smoothed then, and keep their measured configurations.

    - `cutoff`: in Hz; by default where the error of the acceleration is least.

    >>> model, t = rbd.load("pendulum"), np.arange(2000) / 500
    >>> swing = rbd.identify.Log(t, 0.5 * np.sin(4 * t)[:, None])
    >>> found = rbd.identify.with_rates(model, swing)
    >>> error = found.a.values[:, 0] + 8 * np.sin(4 * t)
    >>> bool(np.nanmax(np.abs(error)) < 1e-3)
    True
    """
    return smoothed(model, log, cutoff)


def smoothed(model: Model, log: Log, cutoff: float | int | None = None, whole: bool = False) -> Log:
    """See `with_rates`; `whole` keeps velocities and accelerations at both ends and in gaps, where they are guesses."""
    log = continuous(model, log).on_clock()
    if log.q is None:
        raise LogError(f"Log {log.name!r} has no q, and everything depends on where the robot is")
    v, own_v = _known(model, log, "v")
    a, own_a = _known(model, log, "a")
    if own_v.all() and own_a.all():
        return log
    refuse_slow(log)
    if len(log.t) < FEWEST:
        raise LogError(
            f"Log {log.name!r}: {len(log.t)} samples are too few to find velocities and accelerations from; it takes {FEWEST}"
        )
    rate = (len(log.t) - 1) / (log.t[-1] - log.t[0])
    if cutoff is not None and not 0 < cutoff < 0.5 * rate:
        raise LogError(
            f"Log {log.name!r}: the cutoff is {cutoff:g} Hz; it is between 0 and half the sampling rate, {rate:.4g} Hz"
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
    """A channel's values, NaN where there are none, and of which degrees of freedom some were measured."""
    channel = getattr(log, name)
    values = np.full((len(log.t), model.nv), np.nan) if channel is None else channel.values.copy()
    return values, np.asarray(~np.isnan(values).all(axis=0))


def best_cutoff(values: np.ndarray, rate: float, power: int = 4) -> float:
    """The cutoff that leaves the least error in a derivative, in Hz: the second with `power` 4, the first with 2.

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
    # Neighbours together: single lines of noise are as large as they like.
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
    """The standard deviation of white noise in each column, at most: of what fourth differences leave of smooth motion."""
    fourth = np.diff(values, 4, axis=0)
    known = np.isfinite(fourth)
    squares = np.sum(np.where(known, fourth, 0) ** 2, axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.sqrt(squares / 70)


def is_noisy(values: np.ndarray) -> np.ndarray:
    """Of which columns the second differences are mostly noise: then fourth ones are larger, by 3.4 if it is white."""
    if len(values) < FEWEST:
        return np.zeros(values.shape[1], bool)
    second = np.diff(values, 2, axis=0)
    known = np.isfinite(second)
    squares = np.sum(np.where(known, second, 0) ** 2, axis=0) / np.maximum(known.sum(axis=0), 1)
    size = np.nanmax(np.abs(np.where(np.isfinite(values), values, 0)), axis=0)
    noise = white_noise(values)
    # Numbers in single precision have noise as well, which is none to speak of.
    return (70 * noise**2 > 2.25 * squares) & (noise > 1e-6 * np.maximum(size, 1))


def _low_passed(values: np.ndarray, rate: float, cutoff: float | None, power: int) -> tuple[np.ndarray, int]:
    """The values without what is above the cutoff, and how many at either end are not to be trusted."""
    from scipy.signal import butter, sosfiltfilt

    if np.ptp(values) <= 1e-14 * max(1.0, np.abs(values).max()):
        return values, 0  # it does not move
    frequency = best_cutoff(values, rate, power) if cutoff is None else cutoff
    ends = int(np.ceil(ENDS * rate / frequency))
    sections = butter(4, frequency, fs=rate, output="sos")
    return sosfiltfilt(sections, values, padlen=min(3 * ends, len(values) - 2)), ends


def _slope(values: np.ndarray, rate: float) -> np.ndarray:
    """The derivative by central differences of fourth order, of second order or less at the ends."""
    slope = np.gradient(values) * rate
    slope[2:-2] = (8 * (values[3:-1] - values[1:-3]) - (values[4:] - values[:-4])) / 12 * rate
    return slope


def _filled(t, values, even, regular) -> tuple[np.ndarray, np.ndarray]:
    """The values at even times without gaps, and at which of the times t there was one too long to be filled."""
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
    """Values at even times at those of the log, NaN at the ends and in gaps."""
    if not regular:
        from scipy.interpolate import CubicSpline

        values = CubicSpline(even, values)(t)
    values = np.where(gaps, np.nan, values)
    if ends:
        values[:ends] = values[-ends:] = np.nan
    return values


def _flat(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """The entries of q that are plain coordinates, and those of v that are their rates."""
    own = [(entries, columns) for _, joint, entries, columns in own_joints(model) if joint.flat]
    entries = [np.concatenate([[], *side]).astype(int) for side in zip(*own)] or [np.zeros(0, int)] * 2
    return entries[0], entries[1]


@compiled
def tangent_steps(model: Model, q0, q1):
    return jax.vmap(lambda a, b: difference(model, a, b))(q0, q1)


def manifold_rates(model: Model, t: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Velocities by central differences on the manifold of configurations; NaN beside missing ones."""
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
