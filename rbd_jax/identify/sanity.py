"""Whether a log can be one of a model: what is certainly wrong is refused, with what it looks like and the remedy."""

from __future__ import annotations

import numpy as np

from .._arguments import a_model
from ..model import Model
from .log import SIZES, Log, LogError


#: Units that are mistaken for others, as what the numbers are too large by.
MISTAKEN = {1e3: "a thousand", 1e-3: "a thousandth", 1e6: "a million", 1e-6: "a millionth"}
DEGREES = 180 / np.pi


def check_log(model: Model, log: Log) -> None:
    """Refuse a log that cannot be one of the model, by a `LogError` that says what is wrong, where, and what it looks like.

    Looked at: that times grow, that channels have the columns of the model and something in them, that angles are in radians and
    lengths in metres where joints have limits, that velocities are the rates of positions and accelerations those of velocities.
    Estimators call it.

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
        empty = np.flatnonzero(np.isnan(channel.values).all(axis=0))
        if len(empty) == channel.values.shape[1]:
            raise LogError(f"Log {log.name!r}: {name} is NaN everywhere; leave it out if it was not measured")
        if len(empty) and name == "q":
            raise LogError(
                f"Log {log.name!r}: q[{int(empty[0])}] is NaN everywhere, and everything depends on where the robot is"
            )
        if np.isinf(channel.values).any():
            raise LogError(f"Log {log.name!r}: {name} has infinite numbers; a missing sample is NaN")
    if log.q is not None:
        _limits(model, log)
    _rates(model, log.on_clock())


def _times(log: Log, what: str, t: np.ndarray) -> None:
    if not np.isfinite(t).all():
        raise LogError(f"Log {log.name!r}: {what} has numbers that are not finite")
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


def _limits(model: Model, log: Log) -> None:
    """Of joints with limits: positions far outside of them."""
    topology = model.topology
    lower, upper = np.asarray(model.lower, float), np.asarray(model.upper, float)
    for body, joint in enumerate(model.joint_names):
        if topology.is_mimic[body] or (topology.joint_nq[body], topology.joint_nv[body]) != (1, 1):
            continue
        at = int(topology.q_offsets[body])
        low, high, values = lower[at], upper[at], log.q.values[:, at]
        least, most = float(np.nanmin(values)), float(np.nanmax(values))
        if not np.isfinite([low, high]).all():
            continue
        width = high - low
        # Nothing stops a simulated joint at its limits; in degrees it would be 57 times as far.
        if least >= low - width and most <= high + width:
            continue
        one = model.joint(body)
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


def _rates(model: Model, log: Log) -> None:
    """That each of q, v, a is the rate of the one before, by what they come to over some samples."""
    topology = model.topology
    flat = [
        b
        for b in range(model.nb)
        if not topology.is_mimic[b] and topology.joint_nq[b] == topology.joint_nv[b]
    ]
    if not flat:
        return
    of_q = np.concatenate([topology.joint_q(b) for b in flat])
    of_v = np.concatenate([topology.joint_v(b) for b in flat])
    for what, rate, whole in (("v", log.v, log.q), ("a", log.a, log.v)):
        if rate is None or whole is None:
            continue
        slow = whole.values[:, of_q if what == "v" else of_v]
        share = _share(log.t, slow, rate.values[:, of_v])
        if share is None or 0.5 < share < 2:
            continue
        of = "q" if what == "v" else "v"
        said = f"Log {log.name!r}: {what} adds up to {share:.3g} times what {of} changes by"
        for factor, words in MISTAKEN.items():
            if 0.7 < share / factor < 1.4:
                raise LogError(
                    f"{said}, {words}: one of t, {of} and {what} is in other units, such as milliseconds or millimetres; "
                    "log.scaled(t=1e-3) and the like change them"
                )
        for factor, which in ((DEGREES, what), (1 / DEGREES, of)):
            if 0.7 < share / factor < 1.4:
                raise LogError(
                    f"{said}: {which} looks like degrees. Radians are meant; log.scaled({which}=np.pi / 180) makes them"
                )
        raise LogError(f"{said}; it is not its rate. Are signs, units and the order of the columns right?")


def _share(t, whole, rate) -> float | None:
    """How much of the changes of what should have this rate the rate adds up to, over a twentieth of the log; None if
    nothing moves."""
    window = max(len(t) // 20, 1)
    known = ~np.isnan(rate).any(axis=1) & ~np.isnan(whole).any(axis=1)
    t, whole, rate = t[known], whole[known], rate[known]
    if len(t) <= 2 * window:
        return None
    area = np.concatenate(
        [np.zeros((1, rate.shape[1])), np.cumsum(np.diff(t)[:, None] * (rate[1:] + rate[:-1]) / 2, axis=0)]
    )
    added, changed = area[window:] - area[:-window], whole[window:] - whole[:-window]
    square = np.sum(changed**2)
    if square <= 1e-6 * max(np.sum(np.ptp(whole, axis=0) ** 2), 1e-12) or square == 0:
        return None
    return float(np.sum(added * changed) / square)
