"""Logs: measurements of a robot's run as NumPy arrays, with NaN for missing samples.

A log has channels: configurations q, velocities v, accelerations a, generalized forces tau, controls u, and named sensor
readings. Each channel may have its own times and a delay. This module only arranges the data and checks shapes; `sanity`
checks the values.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from .._core.errors import suggest
from ..model import Model
from ..simulate.trajectory import Trajectory
from .kinds import degrees_of_freedom


class LogError(ValueError):
    """An invalid log; the message names the channel and a remedy.

    >>> try:
    ...     rbd.identify.Log(np.arange(3) / 100, np.zeros((4, 2)))
    ... except rbd.identify.LogError as error:
    ...     print(error)
    Log 'log': q has 4 rows, and there are 3 times; give it as an identify.Channel if it has times of its own
    """


class LogWarning(UserWarning):
    """A suspicious log, or a log with unused data.

    >>> print(issubclass(rbd.identify.LogWarning, UserWarning))
    True
    """


@dataclass(frozen=True, eq=False)
class Channel:
    """Measurements, a row for each sample.

    - `values`: (n, k), NaN for missing samples.
    - `t`: the times of the rows, in s; None for the times of the log.
    - `delay`: the delay of the times relative to the measured event, in s.

    >>> slow = rbd.identify.Channel(np.zeros((2, 1)), t=np.array([0.0, 0.05]), delay=0.01)
    >>> log = rbd.identify.Log(np.arange(6) / 100, np.zeros((6, 1)), sensors={"gyro": slow})
    >>> print(log.sensors["gyro"].values.shape)
    (2, 1)
    """

    values: np.ndarray
    t: np.ndarray | None = None
    delay: float | int = 0.0

    def __post_init__(self):
        values = _numbers("identify.Channel: values", self.values)
        object.__setattr__(self, "values", values[:, None] if values.ndim == 1 else values)
        if self.values.ndim != 2:
            raise LogError(
                f"identify.Channel: values must have shape (n, k), a row for each sample, got {values.shape}."
            )
        if self.t is not None:
            object.__setattr__(self, "t", _times("identify.Channel: t", self.t))
            if self.t.shape != (len(self.values),):
                raise LogError(
                    f"identify.Channel: there are {len(self.values)} rows and times of shape {self.t.shape}; "
                    "each row must have one time."
                )
        object.__setattr__(self, "delay", float(self.delay))
        if not np.isfinite(self.delay):
            raise LogError(f"identify.Channel: delay is {self.delay}; it must be finite.")

    def at(self, t: np.ndarray) -> np.ndarray:
        """Returns the values at other times by linear interpolation; NaN outside of the range and next to missing samples."""
        assert self.t is not None
        own, found = self.t - self.delay, np.full((len(t), self.values.shape[1]), np.nan)
        for column in range(self.values.shape[1]):
            found[:, column] = np.interp(t, own, self.values[:, column], np.nan, np.nan)
        return found


#: The channels of a log other than sensors, and their alternative names.
CHANNELS = {
    "q": ("q", "qpos", "position", "positions", "pos"),
    "v": ("v", "qd", "dq", "qvel", "velocity", "velocities", "vel"),
    "a": ("a", "qdd", "ddq", "qacc", "acceleration", "accelerations", "acc"),
    "tau": ("tau", "effort", "efforts", "torque", "torques", "qfrc_applied"),
    "u": ("u", "ctrl", "control", "controls", "action", "actions"),
}
TIMES = ("t", "time", "times", "timestamp", "stamp")

#: Additional entries in files of designed motions: see `PeriodicMotion`.
SERIES = ("middle", "sines", "cosines", "period", "joints")

#: The size of each channel, as an attribute of the model.
SIZES = {"q": "nq", "v": "nv", "a": "nv", "tau": "nv", "u": "nu"}

#: The units of errors in each channel, for rotation and for translation.
UNITS = {"q": ("rad", "m"), "v": ("rad/s", "m/s"), "a": ("rad/s²", "m/s²"), "tau": ("N m", "N")}


def columns_of(model: Model, channel: str) -> tuple[list[str], list[str]]:
    """Returns the names and units of the errors in a joint channel, one for each degree of freedom."""
    known = {one.place: one for one in degrees_of_freedom(model)}
    turning, sliding = UNITS[channel]
    columns = [known[i].label if i in known else f"[{i}]" for i in range(model.nv)]
    return columns, [turning if i not in known or known[i].turns else sliding for i in range(model.nv)]


@dataclass(frozen=True, eq=False)
class Log:
    """One run: times and measurements.

    - `t`: times in s, (n,).
    - `q`, `v`, `a`, `tau`: configurations, velocities, accelerations, generalized forces, a row for each time. Missing
      channels have the value None, and missing samples are NaN.
    - `u`: controls of the model's actuators.
    - `sensors`: readings by sensor name.
    - `name`: the name in messages.

    Each channel is an array, or a `Channel` if it has its own times or a delay. `on_clock` resamples all channels at the
    times t.

    >>> log = rbd.identify.Log(np.arange(3) / 100, np.zeros((3, 2)), tau=[[1.0, 2.0], [np.nan, 2.0], [1.0, 2.0]], name="first")
    >>> log
    Log('first': 3 samples in 0.02 s; q, tau)
    """

    t: np.ndarray
    q: Any = None
    v: Any = None
    a: Any = None
    tau: Any = None
    u: Any = None
    sensors: Mapping[str, Any] = field(default_factory=dict)
    name: str = "log"

    def __post_init__(self):
        t = _times(f"Log {self.name!r}: t", self.t)
        if t.ndim != 1 or len(t) < 2:
            raise LogError(f"Log {self.name!r}: t has shape {t.shape}; it must have at least two times")
        object.__setattr__(self, "t", t)
        for name in CHANNELS:
            object.__setattr__(self, name, self._channel(name, getattr(self, name)))
        if not isinstance(self.sensors, Mapping):
            raise LogError(
                f"Log {self.name!r}: sensors is a {type(self.sensors).__name__}; it must map sensor names to readings."
            )
        for name in self.sensors:
            if name in CHANNELS or name == "t":
                raise LogError(
                    f"Log {self.name!r}: a sensor is called {name!r}, like a channel. Rename it here and in the model."
                )
        sensors = {name: self._channel(f"sensor {name!r}", value) for name, value in self.sensors.items()}
        object.__setattr__(self, "sensors", sensors)

    def _channel(self, name, value) -> Channel | None:
        if value is None:
            return None
        channel = (
            value if isinstance(value, Channel) else Channel(_numbers(f"Log {self.name!r}: {name}", value))
        )
        if channel.t is None and len(channel.values) != len(self.t):
            raise LogError(
                f"Log {self.name!r}: {name} has {len(channel.values)} rows, and there are {len(self.t)} times; give it as an "
                "identify.Channel if it has times of its own"
            )
        return channel

    @property
    def channels(self) -> dict[str, Channel]:
        """All channels and sensors by name."""
        own = {name: getattr(self, name) for name in CHANNELS if getattr(self, name) is not None}
        return own | dict(self.sensors)

    def on_clock(self, t: np.ndarray | None = None) -> Log:
        """Returns the log with all channels resampled at the same times, with delays removed.

        Values are interpolated linearly.

        Args:
          t: The times in s; by default those of the log.
        """
        clock: np.ndarray = self.t if t is None else _times(f"Log {self.name!r}: t", t)

        def moved(channel):
            if channel is None or (channel.t is None and not channel.delay and t is None):
                return channel
            return Channel(replace(channel, t=self.t if channel.t is None else channel.t).at(clock))

        channels = {name: moved(getattr(self, name)) for name in CHANNELS}
        return replace(self, t=clock, sensors={k: moved(c) for k, c in self.sensors.items()}, **channels)

    def between(self, start: float | int, end: float | int) -> Log:
        """Returns the part of the log from one time to another."""

        def part(channel, t):
            if channel is None:
                return None
            inside = (
                (t >= start) & (t <= end) if channel.t is None else (channel.t >= start) & (channel.t <= end)
            )
            return Channel(
                channel.values[inside], None if channel.t is None else channel.t[inside], channel.delay
            )

        channels = {name: part(getattr(self, name), self.t) for name in CHANNELS}
        sensors = {name: part(channel, self.t) for name, channel in self.sensors.items()}
        return replace(self, t=self.t[(self.t >= start) & (self.t <= end)], sensors=sensors, **channels)

    def scaled(self, **factors: float | int) -> Log:
        """Returns the log with channels in other units.

        Examples: `scaled(q=np.pi / 180)` for degrees, `scaled(t=1e-3)` for milliseconds.
        """
        changed: dict[str, Any] = {}
        for name, factor in factors.items():
            if name != "t" and (name not in CHANNELS or getattr(self, name) is None):
                raise LogError(
                    f"Log {self.name!r} has no channel {name!r}; it has t, {', '.join(self.channels)}"
                )
            if name != "t":
                own = getattr(self, name)
                changed[name] = replace(own, values=own.values * factor)
        if "t" in factors:
            clock = lambda c: c if c is None or c.t is None else replace(c, t=c.t * factors["t"])
            for name in CHANNELS:
                changed[name] = clock(changed.get(name, getattr(self, name)))
            changed["sensors"] = {name: clock(c) for name, c in self.sensors.items()}
            changed["t"] = self.t * factors["t"]
        return replace(self, **changed)

    @staticmethod
    def from_trajectory(trajectory: Trajectory, name: str = "log") -> Log:
        """Returns the log of a rollout of one sample: times, states and inputs; the last time has no input.

        For actuators with a delay, u is the delayed control; `dataclasses.replace(log, u=...)` sets the commanded one.
        """
        t, tau, u = (
            None if x is None else np.asarray(x, float) for x in (trajectory.t, trajectory.tau, trajectory.u)
        )
        ended = lambda x: None if x is None else np.concatenate([x, np.full((1, x.shape[1]), np.nan)])
        return Log(
            np.asarray(t),
            np.asarray(trajectory.q),
            np.asarray(trajectory.v),
            tau=ended(tau),
            u=ended(u),
            name=name,
        )

    @staticmethod
    def from_mapping(data: Any, model: Model, name: str = "log") -> Log:
        """Returns a log of named arrays: a dictionary, an `.npz` file or a pandas DataFrame.

        Names are those of channels ("t", "q", "v", "a", "tau", "u", or "time", "position", "velocity", "effort", "torque",
        "ctrl" and so on) or of sensors. The name of a single column combines a channel with a joint ("q_elbow",
        "elbow.velocity") or with an index from 0 ("tau[3]", "tau3"). An entry may itself be a dictionary, such as the
        messages of a topic: `{"t": ..., "name": [joints], "position": ..., "effort": ...}`. Its columns are those of the
        named joints, and it has its own times.

        Args:
          data: The named arrays.
          model: The model.
          name: The name of the log in messages.

        Raises:
          LogError: If names are ambiguous or unknown, times are missing, or shapes are inconsistent.
        """
        return _Reader(model, name).read(data)

    def __repr__(self) -> str:
        span = self.t[-1] - self.t[0]
        return f"Log({self.name!r}: {len(self.t)} samples in {span:.4g} s; {', '.join(self.channels)})"


class _Reader:
    """Converts named arrays to the channels of a model."""

    def __init__(self, model: Model, name: str):
        self.model, self.name = model, name
        self.sizes = {channel: getattr(model, size) for channel, size in SIZES.items()}
        #: The channels, their sources, and channels given as single columns.
        self.found: dict[str, Any] = {}
        self.sources: dict[str, str] = {"t": "the index"}
        self.columns: dict[str, dict[int, tuple[str, np.ndarray]]] = {}

    def read(self, data: Any) -> Log:
        if not (hasattr(data, "keys") and hasattr(data, "__getitem__")):
            raise LogError(
                f"Log {self.name!r}: data is a {type(data).__name__}; it must be a dictionary, .npz file or pandas DataFrame."
            )
        keys = list(data.keys())
        twice = [str(key) for key in dict.fromkeys(keys) if keys.count(key) > 1]
        if twice:
            raise LogError(
                f"Log {self.name!r}: there are several columns {twice[0]!r}. Rename or remove all but one."
            )
        t, strange, clocks = self._index(data, keys), [], []
        for key in keys:
            value, name = data[key], str(key)
            if isinstance(value, Mapping):
                clocks.append(self._topic(name, value))
            elif name.lower() in TIMES:
                t = self._clock(name, value, t)
            elif name in SERIES:
                continue
            elif (
                name in self._sensor_names and name not in CHANNELS
            ):  # its name may be an alternative name of a channel: "acc"
                self._put(f"sensor {name}", name, value)
            elif (channel := self._channel(name)) is not None:
                self._refuse_mujoco(name)
                self._put(channel, name, value)
            elif (column := self._column(name)) is not None:
                self._put_column(*column, name, value)
            else:
                self._refuse_beyond(name)
                strange.append(name)
        if t is None and clocks:
            t = clocks[0]
        if t is None:
            raise LogError(
                f"Log {self.name!r}: there are no times; one entry is called 't' or 'time'. There are: "
                f"{', '.join(map(repr, map(str, keys)))}"
            )
        self._whole(t)
        if strange:
            self._strange(strange)
        found, sensors = {}, {}
        for what, value in self.found.items():
            (found if what in CHANNELS else sensors)[what.removeprefix("sensor ")] = value
        return Log(t, **found, sensors=sensors, name=self.name)

    def _index(self, data, keys) -> np.ndarray | None:
        """Returns the times in the index of a pandas DataFrame, if it has no time column."""
        index = getattr(data, "index", None)
        if not hasattr(data, "to_numpy") or any(str(key).lower() in TIMES for key in keys):
            return None
        return _times("the index", index) if getattr(index, "name", None) in TIMES else None

    def _clock(self, name: str, value, before: np.ndarray | None) -> np.ndarray:
        t = _times(f"Log {self.name!r}: {name}", value)
        if before is not None and not np.array_equal(t, before, equal_nan=True):
            raise LogError(
                f"Log {self.name!r}: {self.sources['t']!r} and {name!r} are both times, but differ; leave one out"
            )
        self.sources["t"] = name
        return t

    def _put(self, what: str, name: str, value) -> None:
        """Stores a channel or a sensor; raises an error if it exists already."""
        if what in self.sources:
            raise LogError(
                f"Log {self.name!r}: {self.sources[what]!r} and {name!r} are both {what}; leave one out"
            )
        self.sources[what], self.found[what] = name, value

    def _put_column(self, channel: str, column: int, name: str, value) -> None:
        what = channel if channel in self.sizes else f"sensor {channel}"
        own = self.columns.setdefault(what, {})
        if column in own:
            raise LogError(
                f"Log {self.name!r}: {own[column][0]!r} and {name!r} are both column {column} of {what}; leave one out"
            )
        values = _numbers(f"Log {self.name!r}: {name}", value)
        if values.ndim != 1:
            raise LogError(
                f"Log {self.name!r}: {name} has shape {values.shape}, but a column has a number for each time."
            )
        own[column] = name, values

    def _whole(self, t: np.ndarray) -> None:
        """Assembles channels from single columns; other columns are missing."""
        for what, parts in self.columns.items():
            if what in self.sources:
                first = next(iter(parts.values()))[0]
                raise LogError(
                    f"Log {self.name!r}: {what} is given as a whole and by columns: {self.sources[what]!r} and {first!r}."
                )
            width = (
                self.sizes[what] if what in self.sizes else self._sensor_names[what.removeprefix("sensor ")]
            )
            whole = np.full((len(t), width), np.nan)
            for column, (name, values) in parts.items():
                if len(values) != len(t):
                    raise LogError(
                        f"Log {self.name!r}: {name} has {len(values)} rows, and there are {len(t)} times"
                    )
                whole[:, column] = values
            self.found[what] = whole

    def _strange(self, names: list[str]) -> None:
        """Warns of entries that do not belong to the model, or raises an error if all entries are such."""
        listed = ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")
        if not self.found:
            raise LogError(
                f"Log {self.name!r}: none of {listed} is a channel, a sensor or a joint of model "
                f"{self.model.name!r}{suggest(names[0], self._words)}"
            )
        warnings.warn(
            f"Log {self.name!r}: {listed} are not used: no channels, sensors or joints of the model"
            f"{suggest(names[0], self._words)}",
            LogWarning,
            4,
        )

    def _topic(self, topic: str, messages: Mapping) -> np.ndarray:
        """Stores the channels of a topic, whose columns may belong to named joints, and returns its times."""
        owner = f"Log {self.name!r}: {topic!r}"
        times = [key for key in messages if str(key).lower() in TIMES]
        if not times:
            raise LogError(f"Log {self.name!r}: the messages of {topic!r} have no times 't'")
        t = _times(f"{owner}: {times[0]}", messages[times[0]])
        joints = self._joints(owner, messages.get("name", messages.get("names")))
        for key, value in messages.items():
            channel = self._channel(str(key))
            if channel is None or len(value) == 0:
                continue
            values = _numbers(f"{owner}: {key}", value)
            values = values[:, None] if values.ndim == 1 else values
            if t.ndim != 1 or len(values) != len(t):
                raise LogError(f"{owner}: {key} has {len(values)} rows, and its times shape {t.shape}")
            if joints is not None:
                values = self._of_joints(f"{owner}: {key}", channel, joints, values)
            self._put(channel, f"{topic}: {key}", Channel(values, t))
        return t

    def _joints(self, owner: str, given) -> list[str] | None:
        """Returns the joint names of a topic's columns; names are given once or in each message."""
        if given is None or not len(given):
            return None
        if not isinstance(given[0], str):
            first = [str(one) for one in given[0]]
            other = next((i for i, names in enumerate(given) if [str(one) for one in names] != first), None)
            if other is not None:
                raise LogError(
                    f"{owner}: the joints of message {other} are others than in the first one, or in another order. Give each "
                    "type of message a separate entry."
                )
            given = first
        joints = [str(one) for one in given]
        twice = [one for one in joints if joints.count(one) > 1]
        if twice:
            raise LogError(f"{owner}: names has {twice[0]!r} twice")
        return joints

    def _of_joints(self, owner: str, channel: str, joints: list[str], values: np.ndarray) -> np.ndarray:
        if values.shape[1] != len(joints):
            raise LogError(f"{owner} has {values.shape[1]} columns, and there are {len(joints)} names")
        whole = np.full((len(values), self.sizes[channel]), np.nan)
        places = [self._place(channel, joint) for joint in joints]
        if all(place is None for place in places):
            raise LogError(
                f"{owner} has columns {', '.join(map(repr, joints[:12]))}, but none is a joint of model {self.model.name!r} with "
                f"one column{suggest(joints[0], list(self.model.joint_names))}"
            )
        for column, place in enumerate(places):
            if place is not None:
                whole[:, place] = values[:, column]
        return whole

    def _refuse_beyond(self, name: str) -> None:
        """Raises an error for a column index beyond the model's: it belongs to another model or counts from one."""
        plain = name.replace("[", "").replace("]", "").replace("_", "").lower()
        word = plain.rstrip("0123456789")
        channel = self._channel(word)
        if channel is None or word == plain or not self.sizes[channel]:
            return
        raise LogError(
            f"Log {self.name!r}: there is a column {name!r}, but {channel} of model {self.model.name!r} has "
            f"{self.sizes[channel]} columns, counted from 0"
        )

    def _channel(self, name: str) -> str | None:
        return next((channel for channel, words in CHANNELS.items() if name.lower() in words), None)

    def _refuse_mujoco(self, name: str) -> None:
        if name.lower() in ("qpos", "qvel", "qacc") and self.model.nq != self.model.nv:
            raise LogError(
                f"Log {self.name!r}: {name} is in MuJoCo's convention, with another order and other frames for free and ball "
                "joints. Convert it by "
                "rbd.interop.MujocoMap, and name it q, v or a."
            )

    def _place(self, channel: str, name: str) -> int | None:
        """Returns the column of a channel for a joint, an actuator or an index."""
        if name.isdigit() and int(name) < self.sizes[channel]:
            return int(name)
        if channel == "u":
            known = [one.name for one in self.model.actuators]
            return known.index(name) if name in known else None
        topology = self.model.topology
        if name not in self.model.joint_names or topology.is_mimic[topology.joint_index(name)]:
            return None
        place = self.model.q_slice(name) if channel == "q" else self.model.v_slice(name)
        return place.start if place.stop - place.start == 1 else None

    def _column(self, name: str) -> tuple[str, int] | None:
        """Returns the channel and the column that a name like "q_elbow", "elbow.velocity" or "tau[3]" denotes."""
        plain = name.replace("[", "_").replace("]", "").replace(".", "_").replace("/", "_").replace(" ", "_")
        digits = plain.rstrip("0123456789")
        for sensor, size in self._sensor_names.items():
            given = plain.removeprefix(f"{sensor}_")
            if given != plain and given.isdigit() and int(given) < size:
                return sensor, int(given)
        for channel, words in CHANNELS.items():
            for word in words:
                given = None
                if plain.lower().startswith(f"{word}_"):
                    given = plain[len(word) + 1 :]
                elif plain.lower().endswith(f"_{word}"):
                    given = plain[: -len(word) - 1]
                elif digits.lower() == word:
                    given = plain[len(digits) :]
                if given and (place := self._place(channel, given)) is not None:
                    return channel, place
        return None

    @property
    def _sensor_names(self) -> dict[str, int]:
        return {one.name: int(getattr(one, "size", 1)) for one in self.model.sensors}

    @property
    def _words(self) -> list[str]:
        channels = (word for words in CHANNELS.values() for word in words)
        return [*TIMES, *channels, *self.model.joint_names, *self._sensor_names]


def as_logs(owner: str, logs: Log | Iterable[Log]) -> Sequence[Log]:
    """Returns one or several logs as a sequence."""
    found = [logs] if isinstance(logs, Log) else list(logs)
    if not found:
        raise LogError(f"{owner}: there are no logs.")
    for one in found:
        if not isinstance(one, Log):
            raise LogError(
                f"{owner}: logs has a {type(one).__name__}; it must contain identify.Log. identify.read_log returns one."
            )
    return found


def _numbers(what: str, value) -> np.ndarray:
    """Returns real numbers; masked entries and None are missing."""
    if np.ma.isMaskedArray(value):
        value = np.where(np.ma.getmaskarray(value), np.nan, np.ma.getdata(value).astype(float))
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "cmMV":
            return given.astype(float, copy=False)
    except (TypeError, ValueError):
        given = None
    raise LogError(f"{what} is no array of numbers with rows of equal length{_culprit(given, value)}")


def _culprit(given: np.ndarray | None, value) -> str:
    """Describes the first entry that is not a number."""
    if given is not None and given.dtype.kind in "cmMV":
        return f", but of {given.dtype}"
    rows = value if isinstance(value, list | tuple | np.ndarray) else []
    lengths = {len(row) for row in rows if isinstance(row, list | tuple | np.ndarray)}
    if len(lengths) > 1:
        return f": rows have between {min(lengths)} and {max(lengths)} numbers"
    for i, row in enumerate(rows):
        for one in np.ravel(np.asarray(row, object)):
            try:
                float(one)
            except (TypeError, ValueError):
                return f": in row {i} there is {one!r}; a missing sample is NaN"
    return ""


def _times(what: str, value) -> np.ndarray:
    """Returns times in seconds; dates count from the beginning of 1970."""
    given = np.asarray(value) if hasattr(value, "dtype") or hasattr(value, "__array__") else None
    if given is not None and given.dtype.kind in "mM":
        unit = np.timedelta64(1, "s")
        since = given - np.datetime64(0, "s") if given.dtype.kind == "M" else given
        return since / unit
    return _numbers(what, value)


assert {*CHANNELS} <= {one.name for one in fields(Log)}
