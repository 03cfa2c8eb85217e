"""Whether a log can be one of a model: what is certainly wrong is refused, with what it looks like and the remedy.

What is refused is certain: numbers that no right log has, or that fit far better in another way than as they are meant. What is
only strange is told by a `LogWarning`. What a model has to be simulated for, or its forces worked out, is looked at by the
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


#: Units that are mistaken for others, as what the numbers are too large by.
MISTAKEN = {
    1e3: "a thousand", 1e-3: "a thousandth", 1e6: "a million", 1e-6: "a millionth", 1e9: "a thousand million",
    1e-9: "a thousand millionth",
}  # fmt: skip
DEGREES = 180 / np.pi
#: A quaternion's length may be off from one by so much.
LENGTH = 0.1
#: Samples so far apart, in s, say nothing of velocities; and nothing at all of them.
SLOW, STILL = 0.5, 60.0
#: How far over the limits of a joint's speed and force what was measured is, before that is told.
FAST, STRONG = 10.0, 30.0
#: Of longer logs so many stretches of so many rows are looked at.
STRETCHES, ROWS = 10, 5000


def check_log(model: Model, log: Log) -> None:
    """Refuse a log that cannot be one of the model, by a `LogError` that says what is wrong, where, and what it looks like.

    Looked at: that times grow and channels were measured at the same time as the log, that channels have the columns of the model
    and something in them, that angles are in radians and lengths in metres where joints have limits, that quaternions have unit
    length, that velocities are the rates of positions and accelerations those of velocities, joint by joint, in the frames
    that are meant. What is strange, but may be right, is a `LogWarning`. Estimators call it.

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
    """What a column of a channel is called in messages."""
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
    """The log with quaternions whose signs do not jump: what is between two samples is between them then."""
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
    """Samples that are so far apart that they say nothing of velocities."""
    step = float(np.median(np.diff(log.t)))
    if step < SLOW:
        return
    said = (
        f"Log {log.name!r}: samples are {step:.4g} s apart, and velocities are to be found from them or simulated between "
        "them. Is t in milliseconds or nanoseconds? log.scaled(t=1e-3) makes seconds of milliseconds"
    )
    if step >= STILL:
        raise LogError(said)
    warnings.warn(said, LogWarning, stacklevel=4)


def _times(log: Log, what: str, t: np.ndarray) -> None:
    bad = np.flatnonzero(~np.isfinite(t))
    if len(bad):
        raise LogError(
            f"Log {log.name!r}: {what} has numbers that are not finite, the first in row {int(bad[0])}"
        )
    steps = np.diff(t)
    if (steps <= 0).any():
        i = int(np.flatnonzero(steps <= 0)[0])
        raise LogError(
            f"Log {log.name!r}: {what} does not grow: {t[i]:.10g} is followed by {t[i + 1]:.10g} in row "
            f"{i + 1}; several runs are several "
            "logs, and rows out of order are to be sorted"
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
                f"Log {log.name!r}: sensor {name!r} has {values.shape[1]} columns, and of model {model.name!r} {known[name]}"
            )


def _numbers(model: Model, log: Log, name: str, values: np.ndarray) -> None:
    """That there are some, and finite ones."""
    if not values.shape[1]:
        return
    infinite = np.argwhere(np.isinf(values))
    if len(infinite):
        row, column = (int(i) for i in infinite[0])
        raise LogError(
            f"Log {log.name!r}: {name} has infinite numbers, the first in row {row}, {label_of(model, name, column)}; "
            "a missing sample is NaN"
        )
    empty = np.flatnonzero(np.isnan(values).all(axis=0))
    if len(empty) == values.shape[1]:
        raise LogError(f"Log {log.name!r}: {name} is NaN everywhere; leave it out if it was not measured")
    if len(empty) and name == "q":
        raise LogError(
            f"Log {log.name!r}: {label_of(model, name, int(empty[0]))} is NaN everywhere, and everything depends on where the "
            "robot is"
        )
    if len(empty) and name == "u":
        raise LogError(
            f"Log {log.name!r}: {label_of(model, name, int(empty[0]))} is NaN everywhere; rbd.detach(model, name) "
            "takes an actuator away whose controls were not measured, and tau has what it did"
        )


def _overlap(log: Log, name: str, channel: Channel) -> None:
    """That a channel was measured while the log was."""
    if channel.t is None and not channel.delay:
        return
    own = (log.t if channel.t is None else channel.t) - channel.delay
    start, end = max(own[0], log.t[0]), min(own[-1], log.t[-1])
    span = min(own[-1] - own[0], log.t[-1] - log.t[0])
    late = f" (with its delay of {channel.delay:g} s taken off)" if channel.delay else ""
    said = (
        f"Log {log.name!r}: {name} was measured from {own[0]:.10g} s to {own[-1]:.10g} s{late}, and the log goes from "
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
            f"Log {log.name!r}: the quaternion of joint {joint!r}, {where}, has length {lengths[row]:.3g} in row {row}; it is "
            "unit, with the scalar first"
        )
        before = log.q.values[:, at[0] - 3 : at[0] + 1]  # as far as the scalar, if the position came last
        if at[0] >= 3 and (np.abs(np.linalg.norm(before, axis=1) - 1) < 0.01).all():
            raise LogError(
                f"{said}. It looks as if it came before the position, which is meant to come first"
            )
        if lengths[row] == 0:
            raise LogError(f"{said}. Rows of zeros are missing samples: make them NaN")
        raise LogError(f"{said}. If it is one, divide it by its length; is q in the order of the model?")


def _limits(model: Model, log: Log) -> None:
    """Of joints with limits: positions far outside of them."""
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
        # Nothing stops a simulated joint at its limits; in degrees it would be 57 times as far.
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
                f"{said}: it looks like millimetres. Metres are meant; log.scaled(q=1e-3) makes them"
            )
        if turns and max(abs(least), abs(most)) > 20:
            raise LogError(
                f"{said}: it cannot get there. Is it in other units, or the column of another joint?"
            )


def _fast_and_strong(model: Model, log: Log) -> None:
    """Speeds and forces far beyond the limits of the model, most of the time."""
    for name, limits, most, units in (
        ("v", model.velocity_limit, FAST, "degrees or millimetres per second, or t in other units"),
        ("tau", model.effort_limit, STRONG, "N mm"),
    ):
        channel, limit = getattr(log, name), np.asarray(limits, float)
        if channel is None or limit.shape != (model.nv,):
            continue
        with np.errstate(invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of columns that were not measured
            usual = np.nanmedian(np.abs(channel.values), axis=0)
        for i in np.flatnonzero((usual > most * limit) & (limit > 0)):
            warnings.warn(
                f"Log {log.name!r}: {label_of(model, name, int(i))} is mostly about {usual[i]:.3g}, and its limit is "
                f"{limit[i]:.3g}. Is it in {units}?",
                LogWarning,
                stacklevel=4,
            )


def _rates(model: Model, log: Log) -> None:
    """That each of q, v, a is the rate of the one before, by what they come to over some samples."""
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
                f"Log {log.name!r}: {what} of {part.label} fits {of} as {words}, and not as it is meant: positions in the "
                "parent's frame, quaternions with the scalar first, velocities [ω; v] in the body's own frame. "
                "rbd.interop.MujocoMap and PinocchioMap convert those of others"
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
                f"{said}, {words}: one of t, {of} and {what} is in other units, such as milliseconds or millimetres; "
                "log.scaled(t=1e-3) and the like change them"
            )
    for factor, which, else_ in ((DEGREES, what, ""), (1 / DEGREES, of, " (or t like minutes)")):
        if alike and 0.7 < share / factor < 1.4:
            raise LogError(
                f"{said}: {which} looks like degrees{else_}. Radians are meant; log.scaled({which}=np.pi / 180) makes them"
            )
    if own.size < 0.1 and abs(share) + own.within < 0.5:
        raise LogError(
            f"{said}: it stays where it is while {of} moves. Leave {what} out if it was not measured"
        )
    if alike:
        hint = " Its sign is the other way round." if -1.4 < share < -0.7 else ""
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
