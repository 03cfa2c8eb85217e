"""Checks of logs against a model: certain errors raise an exception that names the probable cause and the remedy.

Errors are certain if no valid log has such values, or if the data fit another convention far better than the documented
one. Merely suspicious data cause a `LogWarning`. Checks that require simulations or forces of the model are part of the
estimators: see `plausibility`.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from .._core.arguments import a_model
from ..model import Model
from ._motion import (
    ALIKE,
    Fit,
    Part,
    fits,
    looks_like,
    own_joints,
    parts_of_positions,
    parts_of_velocities,
    quaternions,
    rate_of_other,
)
from .log import SIZES, Channel, Log, LogError, LogWarning, columns_of


#: Common wrong units, as the factor by which values are too large.
MISTAKEN = {
    1e3: "a thousand", 1e-3: "a thousandth", 1e6: "a million", 1e-6: "a millionth", 1e9: "a thousand million",
    1e-9: "a thousand millionth",
}  # fmt: skip
DEGREES = 180 / np.pi
#: Tolerance of the norm of a quaternion.
LENGTH = 0.1
#: Sample spacings in s above which velocities are unreliable, and above which they cannot be derived.
SLOW, STILL = 0.5, 60.0
#: Ratios to the velocity limit and to the effort limit above which measurements cause a warning.
FAST, STRONG = 10.0, 30.0
#: For longer logs, the checks use this number of segments with this number of rows.
STRETCHES, ROWS = 10, 5000


def check_log(model: Model, log: Log) -> None:
    """Raises a `LogError` if a log does not fit the model; the message states the fault, its place and its probable cause.

    The checks cover the following points. Times increase, and channels overlap with the log in time. Channels have the
    model's columns and contain data. Angles are in radians and lengths in meters, for joints with limits. Quaternions have
    unit norm. For each joint, velocities are the rates of positions and accelerations those of velocities, in the
    documented frames. Suspicious but possible data cause a `LogWarning`. The estimators call this function.

    Args:
      model: The model.
      log: The log to check.

    Raises:
      LogError: If the log does not fit the model.

    >>> model, t = rbd.load("arm7"), np.arange(100) / 100
    >>> q = np.degrees(np.sin(t))[:, None] * np.ones(7)
    >>> rbd.identify.check_log(model, rbd.identify.Log(t, q))
    Traceback (most recent call last):
        ...
    rbd_jax.identify.log.LogError: Log 'log': q of joint 'joint1' goes from 0 to 47.9, and its limits are -2.9 and 2.9: it
    looks like degrees. Radians are meant; log.scaled(q=np.pi / 180) makes them
    """
    a_model("identify.check_log", model)
    _times(log, "t", log.t)
    for name, channel in log.channels.items():
        if channel.t is not None:
            _times(log, f"the times of {name}", channel.t)
        _columns(model, log, name, channel.values)
        _numbers(model, log, name, channel.values)
        _overlap(log, name, channel)
    if log.q is not None:
        _quaternions(model, log)
        _limits(model, log)
    _rates(model, continuous(model, log).on_clock())
    _fast_and_strong(model, log)


def label_of(model: Model, channel: str, column: int) -> str:
    """Returns the name of a column of a channel in messages."""
    if channel == "q":
        for name, _, entries, _ in own_joints(model):
            if column in entries:
                at = "" if len(entries) == 1 else f"[{int(np.flatnonzero(entries == column)[0])}]"
                return f"q of joint {name!r}{at}"
    elif channel in ("v", "a", "tau"):
        return f"{channel} of joint {columns_of(model, channel)[0][column]!r}"
    elif channel == "u":
        return f"u of actuator {model.actuators[column].name!r}"
    return f"{channel}[{column}]"


def continuous(model: Model, log: Log) -> Log:
    """Returns the log with continuous quaternion signs, so that interpolation between samples is valid."""
    if log.q is None:
        return log
    values = log.q.values
    for _, at in quaternions(model):
        own = values[:, at]
        known = np.flatnonzero(np.isfinite(own).all(axis=1))
        along = np.sum(own[known[1:]] * own[known[:-1]], axis=1)
        if (along >= 0).all():
            continue
        signs = np.ones(len(own))
        signs[known[1:]] = np.cumprod(np.where(along < 0, -1.0, 1.0))
        values = values.copy()
        values[:, at] = own * signs[:, None]
    return log if values is log.q.values else replace(log, q=replace(log.q, values=values))


def refuse_slow(log: Log) -> None:
    """Raises an error or warns if samples are too far apart to derive velocities."""
    step = float(np.median(np.diff(log.t)))
    if step < SLOW:
        return
    said = (
        f"Log {log.name!r}: samples are {step:.4g} s apart, which is too far to derive velocities or to simulate between "
        "them. Is t in milliseconds or nanoseconds? log.scaled(t=1e-3) converts milliseconds to seconds."
    )
    if step >= STILL:
        raise LogError(said)
    warnings.warn(said, LogWarning, stacklevel=4)


def _times(log: Log, what: str, t: np.ndarray) -> None:
    bad = np.flatnonzero(~np.isfinite(t))
    if len(bad):
        raise LogError(
            f"Log {log.name!r}: {what} has numbers that are not finite, the first in row {int(bad[0])}."
        )
    steps = np.diff(t)
    if (steps <= 0).any():
        i = int(np.flatnonzero(steps <= 0)[0])
        raise LogError(
            f"Log {log.name!r}: {what} does not grow: {t[i]:.10g} is followed by {t[i + 1]:.10g} in row "
            f"{i + 1}; several runs need several "
            "logs, and rows must be sorted by time."
        )


def _columns(model: Model, log: Log, name: str, values: np.ndarray) -> None:
    if name in SIZES:
        size = getattr(model, SIZES[name])
        if values.shape[1] != size:
            other = f" (nv is {model.nv}, nq {model.nq})" if model.nq != model.nv and name != "u" else ""
            raise LogError(
                f"Log {log.name!r}: {name} has {values.shape[1]} columns, and model {model.name!r} has "
                f"{SIZES[name]} = {size}{other}"
            )
    else:
        known = {one.name: int(getattr(one, "size", 1)) for one in model.sensors}
        if name in known and values.shape[1] != known[name]:
            raise LogError(
                f"Log {log.name!r}: sensor {name!r} has {values.shape[1]} columns, and in model {model.name!r} {known[name]}."
            )


def _numbers(model: Model, log: Log, name: str, values: np.ndarray) -> None:
    """Checks that the values are finite and that columns contain data."""
    if not values.shape[1]:
        return
    infinite = np.argwhere(np.isinf(values))
    if len(infinite):
        row, column = (int(i) for i in infinite[0])
        raise LogError(
            f"Log {log.name!r}: {name} has infinite numbers, the first in row {row}, {label_of(model, name, column)}; "
            "missing samples must be NaN."
        )
    empty = np.flatnonzero(np.isnan(values).all(axis=0))
    if len(empty) == values.shape[1]:
        raise LogError(f"Log {log.name!r}: {name} is NaN everywhere; omit it if it was not measured")
    if len(empty) and name == "q":
        raise LogError(
            f"Log {log.name!r}: {label_of(model, name, int(empty[0]))} is NaN everywhere. Identification requires the complete "
            "configuration."
        )
    if len(empty) and name == "u":
        raise LogError(
            f"Log {log.name!r}: {label_of(model, name, int(empty[0]))} is NaN everywhere. Remove "
            "actuators without measured controls by rbd.detach(model, name), and include their forces in tau."
        )


def _overlap(log: Log, name: str, channel: Channel) -> None:
    """Checks that a channel and the log overlap in time."""
    if channel.t is None and not channel.delay:
        return
    own = (log.t if channel.t is None else channel.t) - channel.delay
    start, end = max(own[0], log.t[0]), min(own[-1], log.t[-1])
    span = min(own[-1] - own[0], log.t[-1] - log.t[0])
    late = f" (with its delay of {channel.delay:g} s taken off)" if channel.delay else ""
    said = (
        f"Log {log.name!r}: {name} was measured from {own[0]:.10g} s to {own[-1]:.10g} s{late}, and the log is from "
        f"{log.t[0]:.10g} s to {log.t[-1]:.10g} s"
    )
    if end < start:
        raise LogError(f"{said}: they have no time in common. Are their clocks the same, and in seconds?")
    if end - start < 0.1 * span:
        warnings.warn(f"{said}: they have hardly any time in common", LogWarning, stacklevel=4)


def _quaternions(model: Model, log: Log) -> None:
    for joint, at in quaternions(model):
        lengths = np.linalg.norm(log.q.values[:, at], axis=1)
        known = np.isfinite(lengths)
        bad = np.flatnonzero(known & (np.abs(np.where(known, lengths, 1) - 1) > LENGTH))
        if not len(bad):
            continue
        row, where = int(bad[0]), f"q[{at[0]}:{at[-1] + 1}]"
        said = (
            f"Log {log.name!r}: the quaternion of joint {joint!r}, {where}, has length {lengths[row]:.3g} in row {row}; it must "
            "have unit length, with the scalar first"
        )
        before = log.q.values[:, at[0] - 3 : at[0] + 1]  # the quaternion, if the position comes last
        if at[0] >= 3 and (np.abs(np.linalg.norm(before, axis=1) - 1) < 0.01).all():
            raise LogError(
                f"{said}. It looks as if it came before the position, but the position comes first."
            )
        if lengths[row] == 0:
            raise LogError(f"{said}. Rows of zeros are missing samples: make them NaN.")
        raise LogError(f"{said}. Is q in the order of the model? If it is, normalize the quaternion.")


def _limits(model: Model, log: Log) -> None:
    """Checks the positions of joints with limits."""
    lower, upper = np.asarray(model.lower, float), np.asarray(model.upper, float)
    for joint, one, entries, _ in own_joints(model):
        if len(entries) != 1 or not one.flat:
            continue
        at = int(entries[0])
        low, high, values = lower[at], upper[at], log.q.values[:, at]
        least, most = float(np.nanmin(values)), float(np.nanmax(values))
        if not np.isfinite([low, high]).all():
            continue
        width = high - low
        # Simulated joints may exceed their limits slightly; in degrees, values would be 57 times as large.
        if least >= low - width and most <= high + width:
            continue
        turns = bool(np.abs(np.asarray(one.motion_subspace(one.neutral()))[:3]).max() > 1e-9)
        said = (
            f"Log {log.name!r}: q of joint {joint!r} goes from {least:.3g} to {most:.3g}, "
            f"and its limits are {low:.3g} and {high:.3g}"
        )
        ends = np.array([least, most])
        inside = lambda factor, ends=ends, low=low, high=high, width=width: bool(
            ((ends / factor >= low - 0.1 * width) & (ends / factor <= high + 0.1 * width)).all()
        )
        if turns and inside(DEGREES):
            raise LogError(
                f"{said}: it looks like degrees. Radians are meant; log.scaled(q=np.pi / 180) makes them"
            )
        if not turns and inside(1000):
            raise LogError(
                f"{said}: it looks like millimeters. Meters are expected; log.scaled(q=1e-3) converts them."
            )
        if turns and max(abs(least), abs(most)) > 20:
            raise LogError(
                f"{said}: the joint cannot reach this. Is q in other units, or in another joint's column?"
            )


def _fast_and_strong(model: Model, log: Log) -> None:
    """Warns if speeds or forces are far beyond the limits of the model most of the time."""
    for name, limits, most, units in (
        ("v", model.velocity_limit, FAST, "degrees or millimeters per second, or t in other units"),
        ("tau", model.effort_limit, STRONG, "N mm"),
    ):
        channel, limit = getattr(log, name), np.asarray(limits, float)
        if channel is None or limit.shape != (model.nv,):
            continue
        with np.errstate(invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # caused by columns without data
            usual = np.nanmedian(np.abs(channel.values), axis=0)
        for i in np.flatnonzero((usual > most * limit) & (limit > 0)):
            warnings.warn(
                f"Log {log.name!r}: {label_of(model, name, int(i))} is mostly about {usual[i]:.3g}, and its limit is "
                f"{limit[i]:.3g}. Is it in {units}?",
                LogWarning,
                stacklevel=4,
            )


def _rates(model: Model, log: Log) -> None:
    """Checks that v is the rate of q and a the rate of v, by integrals over windows."""
    rows = _stretches(len(log.t))
    t, (q, v, a) = log.t[rows], (None if x is None else x.values[rows] for x in (log.q, log.v, log.a))
    if q is not None and v is not None:
        _compare(log, "v", "q", t, list(parts_of_positions(model, q, v)))
    if v is not None and a is not None:
        labels = columns_of(model, "a")[0]
        _compare(log, "a", "v", t, list(parts_of_velocities(model, v, a, labels)))


def _stretches(count: int) -> np.ndarray:
    if count <= STRETCHES * ROWS:
        return np.arange(count)
    starts = np.linspace(0, count - ROWS, STRETCHES).astype(int)
    return np.concatenate([np.arange(start, start + ROWS) for start in starts])


def _compare(log: Log, what: str, of: str, t: np.ndarray, parts: list[Part]) -> None:
    for part in parts:
        found = fits(t, part)
        if found is None:
            continue
        own = found[2]
        words = looks_like(t, part, own)
        if words is not None:
            raise LogError(
                f"Log {log.name!r}: {what} of {part.label} fits {of} as {words}. Expected are positions in the "
                "parent's frame, quaternions with the scalar first, and velocities [ω; v] in the body's own frame. "
                "rbd.interop.MujocoMap and PinocchioMap convert other conventions."
            )
        _refuse_share(log, what, of, t, part, parts, own)


def _refuse_share(log: Log, what: str, of: str, t, part: Part, parts: list[Part], own: Fit) -> None:
    share = own.share
    if share + own.within >= 0.5 and share - own.within <= 2 and not own.strange:
        return
    said = f"Log {log.name!r}: {what} of {part.label} adds up to {share:.3g} times what {of} changes by"
    alike = abs(own.correlation) > ALIKE
    for factor, words in MISTAKEN.items():
        if alike and 0.7 < share / factor < 1.4:
            raise LogError(
                f"{said}, {words}: one of t, {of} and {what} is in other units, such as milliseconds or millimeters; "
                "convert it, as in log.scaled(t=1e-3)."
            )
    for factor, which, else_ in ((DEGREES, what, ""), (1 / DEGREES, of, " (or t like minutes)")):
        if alike and 0.7 < share / factor < 1.4:
            raise LogError(
                f"{said}: {which} looks like degrees{else_}. Radians are meant; log.scaled({which}=np.pi / 180) makes them"
            )
    if own.size < 0.1 and abs(share) + own.within < 0.5:
        raise LogError(
            f"{said}: it remains constant while {of} changes. Omit channel {what} if it was not measured."
        )
    if alike:
        hint = " It has the opposite sign." if -1.4 < share < -0.7 else ""
        raise LogError(
            f"{said}; it is not its rate.{hint} Are signs, units and the order of the columns right?"
        )
    other = rate_of_other(t, part, parts)
    if other is not None:
        raise LogError(
            f"{said}, and fits {of} of {other.label}. Are the columns of {of} and {what} in the order of the model?"
        )
    warnings.warn(
        f"{said}; it does not look like its rate. Are signs, units, times and the order of the columns right?",
        LogWarning,
        stacklevel=6,
    )
