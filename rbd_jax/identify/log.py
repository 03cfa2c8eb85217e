"""Logs: what was measured in a run of a robot, as NumPy arrays with NaN where a sample is missing.

A log has channels: configurations q, velocities v, accelerations a, generalized forces tau, controls u, and readings of sensors
under their names. Each may have its own times and be late. What is read here is only put in order and checked for its shape;
`sanity` looks at the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._arguments import a_model
from .._errors import suggest
from ..model import Model
from ..simulate import Trajectory
from .kinds import degrees_of_freedom


class LogError(ValueError):
    """A log that cannot be what it is said to be; the message names the channel and says the remedy."""


class LogWarning(UserWarning):
    """A log that is suspicious, or of which something is not used."""


@dataclass(frozen=True, eq=False)
class Channel:
    """What was measured, a row for each sample.

    - `values`: (n, k), NaN where missing.
    - `t`: the times of the rows, in s; None for those of the log.
    - `delay`: by how much the times are later than what was measured, in s.
    """

    values: np.ndarray
    t: np.ndarray | None = None
    delay: float | int = 0.0

    def __post_init__(self):
        values = _numbers("a channel", self.values)
        object.__setattr__(self, "values", values[:, None] if values.ndim == 1 else values)
        if self.values.ndim != 2:
            raise LogError(
                f"identify.Channel: values has shape {values.shape}; it has a row for each sample, (n, k)"
            )
        if self.t is not None:
            object.__setattr__(self, "t", _numbers("times", self.t))
            if self.t.shape != (len(self.values),):
                raise LogError(
                    f"identify.Channel: there are {len(self.values)} rows and times of shape {self.t.shape}; "
                    "each row has one time"
                )
        object.__setattr__(self, "delay", float(self.delay))

    def at(self, t: np.ndarray) -> np.ndarray:
        """The values at other times, on straight lines between the samples; NaN outside of them and beside missing ones."""
        assert self.t is not None
        own, found = self.t - self.delay, np.full((len(t), self.values.shape[1]), np.nan)
        for column in range(self.values.shape[1]):
            found[:, column] = np.interp(t, own, self.values[:, column], np.nan, np.nan)
        return found


#: The channels of a log that are not sensors, and other words for them.
CHANNELS = {
    "q": ("q", "qpos", "position", "positions", "pos"),
    "v": ("v", "qd", "dq", "qvel", "velocity", "velocities", "vel"),
    "a": ("a", "qdd", "ddq", "qacc", "acceleration", "accelerations", "acc"),
    "tau": ("tau", "effort", "efforts", "torque", "torques", "qfrc_applied"),
    "u": ("u", "ctrl", "control", "controls", "action", "actions"),
}
TIMES = ("t", "time", "times", "timestamp", "stamp")

#: What files of motions that were designed have beside their samples: see `PeriodicMotion`.
SERIES = ("middle", "sines", "cosines", "period", "joints")

#: What the columns of each are of.
SIZES = {"q": "nq", "v": "nv", "a": "nv", "tau": "nv", "u": "nu"}

#: The units of errors in each, where a joint turns and where it slides.
UNITS = {"q": ("rad", "m"), "v": ("rad/s", "m/s"), "a": ("rad/s²", "m/s²"), "tau": ("N m", "N")}


def columns_of(model: Model, channel: str) -> tuple[list[str], list[str]]:
    """What errors in a channel of joints are called, one for each degree of freedom, and their units."""
    known = {one.place: one for one in degrees_of_freedom(model)}
    turning, sliding = UNITS[channel]
    columns = [known[i].label if i in known else f"[{i}]" for i in range(model.nv)]
    return columns, [turning if i not in known or known[i].turns else sliding for i in range(model.nv)]


@dataclass(frozen=True, eq=False)
class Log:
    """One run: times and what was measured at them.

    - `t`: the times, in s, (n,).
    - `q`, `v`, `a`, `tau`: configurations, velocities, accelerations, generalized forces, a row for each time; None where
      not measured. What is missing is NaN.
    - `u`: the controls of the model's actuators.
    - `sensors`: readings by the name of the sensor.
    - `name`: what to call it in messages.

    Each but t is an array, or a `Channel` if it has times of its own or is late. `on_clock` brings all to the times t.

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
        t = _numbers("t", self.t)
        if t.ndim != 1 or len(t) < 2:
            raise LogError(f"Log {self.name!r}: t has shape {t.shape}; it is a row of at least two times")
        object.__setattr__(self, "t", t)
        for name in CHANNELS:
            object.__setattr__(self, name, self._channel(name, getattr(self, name)))
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
        """All that was measured, by name; sensors by theirs."""
        own = {name: getattr(self, name) for name in CHANNELS if getattr(self, name) is not None}
        return own | {name: channel for name, channel in self.sensors.items() if name not in own}

    def on_clock(self, t: np.ndarray | None = None) -> Log:
        """The log with all channels at its own times, or at others: on straight lines between their samples, delays taken off."""
        clock: np.ndarray = self.t if t is None else _numbers("t", t)

        def moved(channel):
            if channel is None or (channel.t is None and not channel.delay and t is None):
                return channel
            return Channel(replace(channel, t=self.t if channel.t is None else channel.t).at(clock))

        channels = {name: moved(getattr(self, name)) for name in CHANNELS}
        return replace(self, t=clock, sensors={k: moved(c) for k, c in self.sensors.items()}, **channels)

    def between(self, start: float | int, end: float | int) -> Log:
        """The part of it from one time to another."""

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
        """The log with channels in other units: `scaled(q=np.pi / 180)` for degrees, `scaled(t=1e-3)` for milliseconds."""
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
        """Of a rollout of one sample: times, states and what drove it; the last time has no drive."""
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
        """Of arrays by name: a dictionary, an `.npz` file, a pandas DataFrame.

        Names are those of channels ("t", "q", "v", "a", "tau", "u", or "time", "position", "velocity", "effort", "torque",
        "ctrl" and so on) or of sensors. What has a column for each number has names of a channel and a joint ("q_elbow",
        "elbow.velocity") or a number ("tau[3]", "tau3"), counted from 0. An entry may be a dictionary itself, such as the
        messages of a topic: `{"t": ..., "name": [joints], "position": ..., "effort": ...}`, whose columns are of the
        joints named and whose times are its own.
        """
        return _Reader(model, name).read(data)

    def __repr__(self) -> str:
        span = self.t[-1] - self.t[0]
        return f"Log({self.name!r}: {len(self.t)} samples in {span:.4g} s; {', '.join(self.channels)})"


def read_log(path: str | Path, model: Model) -> Log:
    """The log in a file: `.npz` with arrays by name, or `.csv` with a column for each number and their names in the first row.

    Names are as `Log.from_mapping` takes them; empty fields and `nan` are missing samples.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.csv"
    >>> _ = path.write_text("time,q_shoulder,q_elbow,effort_elbow\\n0.0,0.1,0.2,1.5\\n0.1,0.1,0.3,\\n")
    >>> rbd.identify.read_log(path, rbd.load("double_pendulum")).tau.values
    array([[nan, 1.5],
           [nan, nan]])
    """
    path = Path(path)
    a_model("identify.read_log", model)
    if not path.is_file():
        raise LogError(f"identify.read_log: there is no file {path}")
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as data:
            return Log.from_mapping(dict(data), model, path.stem)
    if path.suffix == ".csv":
        with open(path, encoding="utf-8-sig") as file:
            names = [name.strip().strip('"') for name in file.readline().split(",")]
            rows = np.genfromtxt(file, delimiter=",", dtype=float, ndmin=2)
        if rows.shape[1] != len(names):
            raise LogError(
                f"{path}: there are {len(names)} names in the first row, and {rows.shape[1]} columns below it"
            )
        return Log.from_mapping(dict(zip(names, rows.T, strict=True)), model, path.stem)
    raise LogError(
        f"identify.read_log: {path.name!r} is no .npz and no .csv; make a Log of its arrays, or Log.from_mapping"
    )


class _Reader:
    """Makes of named arrays the channels of a model."""

    def __init__(self, model: Model, name: str):
        self.model, self.name = model, name
        self.sizes = {channel: getattr(model, size) for channel, size in SIZES.items()}

    def read(self, data: Any) -> Log:
        found: dict[str, Any] = {}
        sensors: dict[str, Any] = {}
        columns: dict[str, dict[int, np.ndarray]] = {}
        t, strange = None, []
        if list(getattr(data, "columns", [])) and hasattr(data, "to_numpy"):  # of pandas
            index = getattr(data, "index", None)
            if (
                not any(str(name).lower() in TIMES for name in data.keys())
                and getattr(index, "name", None) in TIMES
            ):
                t = np.asarray(index, float)
        for key in data.keys():
            value, name = data[key], str(key)
            if isinstance(value, Mapping):
                own, clock = self._topic(name, value)
                found |= own
                t = clock if t is None else t
            elif name.lower() in TIMES:
                t = _numbers(name, value)
            elif name in SERIES:
                continue
            elif (channel := self._channel(name)) is not None:
                self._refuse_mujoco(name)
                found[channel] = value
            elif name in self._sensor_names:
                sensors[name] = value
            elif (column := self._column(name)) is not None:
                columns.setdefault(column[0], {})[column[1]] = _numbers(name, value)
            else:
                strange.append(name)
        if t is None:
            raise LogError(
                f"Log {self.name!r}: there are no times; one entry is called 't' or 'time'. There are: "
                f"{', '.join(map(repr, map(str, data.keys())))}"
            )
        for channel, parts in columns.items():
            if channel in found or channel in sensors:
                raise LogError(f"Log {self.name!r}: {channel} is given as a whole and by columns")
            width = self.sizes[channel] if channel in self.sizes else self._sensor_names[channel]
            whole = np.full((len(t), width), np.nan)
            for column, values in parts.items():
                whole[:, column] = values
            (found if channel in self.sizes else sensors)[channel] = whole
        if strange:
            if not found:
                raise LogError(
                    f"Log {self.name!r}: none of {', '.join(map(repr, strange[:12]))} is a channel, a sensor or a joint of model "
                    f"{self.model.name!r}{suggest(strange[0], self._words)}"
                )
            import warnings

            listed = ", ".join(map(repr, strange[:12])) + (", ..." if len(strange) > 12 else "")
            warnings.warn(
                f"Log {self.name!r}: {listed} are not used: no channels, sensors or joints of the model",
                LogWarning,
                3,
            )
        return Log(t, **found, sensors=sensors, name=self.name)

    def _topic(self, topic: str, messages: Mapping) -> tuple[dict[str, Channel], np.ndarray]:
        """The channels of a topic, whose columns may be of joints that it names."""
        times = [key for key in messages if str(key).lower() in TIMES]
        if not times:
            raise LogError(f"Log {self.name!r}: the messages of {topic!r} have no times 't'")
        t, found = _numbers(topic, messages[times[0]]), {}
        joints = messages.get("name", messages.get("names"))
        if joints is not None and len(joints) and not isinstance(joints[0], str):
            joints = joints[0]  # the same in each message
        for key, value in messages.items():
            channel = self._channel(str(key))
            if channel is None or len(value) == 0:
                continue
            values = _numbers(f"{topic} {key}", value)
            if joints is not None:
                whole = np.full((len(values), self.sizes[channel]), np.nan)
                for column, joint in enumerate(joints):
                    place = self._place(channel, str(joint))
                    if place is not None:
                        whole[:, place] = values[:, column]
                values = whole
            found[channel] = Channel(values, t)
        return found, t

    def _channel(self, name: str) -> str | None:
        return next((channel for channel, words in CHANNELS.items() if name.lower() in words), None)

    def _refuse_mujoco(self, name: str) -> None:
        if name.lower() in ("qpos", "qvel", "qacc") and self.model.nq != self.model.nv:
            raise LogError(
                f"Log {self.name!r}: {name} is MuJoCo's, which has other orders and frames at free and ball "
                "joints; convert it by "
                "rbd.interop.MujocoMap, and call it q, v or a"
            )

    def _place(self, channel: str, name: str) -> int | None:
        """The column of a channel that is of a joint, an actuator or a number."""
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
        """The channel and the column that a name like "q_elbow", "elbow.velocity" or "tau[3]" means."""
        plain = name.replace("[", "_").replace("]", "").replace(".", "_").replace("/", "_").replace(" ", "_")
        digits = plain.rstrip("0123456789")
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
        for sensor, size in self._sensor_names.items():
            given = plain.removeprefix(f"{sensor}_")
            if given != plain and given.isdigit() and int(given) < size:
                return sensor, int(given)
        return None

    @property
    def _sensor_names(self) -> dict[str, int]:
        return {one.name: int(getattr(one, "size", 1)) for one in self.model.sensors}

    @property
    def _words(self) -> list[str]:
        return [*TIMES, *(word for words in CHANNELS.values() for word in words), *self.model.joint_names]


def as_logs(owner: str, logs: Log | Iterable[Log]) -> Sequence[Log]:
    """One or several logs as a sequence."""
    found = [logs] if isinstance(logs, Log) else list(logs)
    if not found:
        raise LogError(f"{owner}: there are no logs")
    for one in found:
        if not isinstance(one, Log):
            raise LogError(
                f"{owner}: logs has a {type(one).__name__}; it takes identify.Log, as identify.read_log gives one"
            )
    return found


def _numbers(what: str, value) -> np.ndarray:
    try:
        return np.asarray(value, float)
    except (TypeError, ValueError):
        raise LogError(f"{what} is no array of numbers with rows of one length") from None


assert {*CHANNELS} <= {one.name for one in fields(Log)}
