"""How a model is compared with logs: sample by sample, or along simulations.

A comparison cuts logs into windows of one size, which are predicted one by one, so that they batch, and memory does not grow
with a log. `EquationError` takes each measured sample by itself: torques by the equations of motion, sensors by what they
read there. It is linear in much of what is free and never diverges, but wants accelerations. `OutputError` simulates every
window from its first state under the measured controls and compares what comes out: it wants no accelerations and
sees what builds up, such as delays, friction at rest, contact.
"""

from __future__ import annotations

import abc
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.errors import UnknownNameError, suggest
from ..lie import quaternion
from ..model import Model, detach, difference
from ..sensors import (
    FrameOrientation,
    JointOrientation,
    Readings,
    Sensor,
)
from ..simulate.control import Controls
from ..simulate.state import State
from .log import CHANNELS, Log, LogError, LogWarning, columns_of


class Measured(eqx.Module):
    """A channel in windows.

    - `values`: (windows, rows, numbers); `there`: which of its columns are known, (windows, rows, columns).
    - `t`: when, in s from the window's start; of its `log`, in s.
    - `columns`, `units`: what its errors are called. Of configurations those are changes on the tangent space.
    - `on_rows`: whether its times are those of the window's rows.

    >>> model, t = rbd.load("pendulum"), np.arange(200) / 100
    >>> log = rbd.identify.Log(t, np.sin(t)[:, None], tau=np.zeros((200, 1)))
    >>> problem = rbd.identify.Problem(model, log, rbd.identify.damping(), rbd.identify.OutputError(window=0.5))
    >>> print(problem.windows.measured[0].channel, problem.windows.measured[0].values.shape)
    q (4, 51, 1)
    """

    values: Any
    there: Any
    t: Any
    channel: str = eqx.field(static=True)
    columns: tuple[str, ...] = eqx.field(static=True)
    units: tuple[str, ...] = eqx.field(static=True)
    on_rows: bool = eqx.field(static=True)


class Windows(eqx.Module):
    """Logs cut into pieces of one size; all arrays have windows as their first axis.

    - `given`: what predictions need.
    - `measured`: what they are compared with.
    - `start`: the state in which each begins, as it was measured; None where there is no simulation.
    - `begins`: when, in its log; `log`: which one.
    - `goes_on`: whether the next window begins where it ends.
    - `scatter`: by how much first states may be off before anything is found, (windows, states), as standard deviations.
    - `places`: of ensembles, where their simulations are, in units of the scatter of first states and free numbers, (windows,
      places, states + free).

    >>> model, t = rbd.load("pendulum"), np.arange(200) / 100
    >>> log = rbd.identify.Log(t, np.sin(t)[:, None], tau=np.zeros((200, 1)))
    >>> problem = rbd.identify.Problem(model, log, rbd.identify.damping(), rbd.identify.OutputError(window=0.5))
    >>> print(isinstance(problem.windows, rbd.identify.Windows), problem.windows.columns)
    True ('q swing',)
    """

    given: Any
    measured: tuple[Measured, ...]
    start: State | None
    begins: Any
    log: Any
    goes_on: Any
    scatter: Any = None
    places: Any = None

    def __len__(self) -> int:
        return len(self.begins)

    @property
    def columns(self) -> tuple[str, ...]:
        """What every column of the errors is called: the channel, and of what."""
        return tuple(f"{one.channel} {name}".strip() for one in self.measured for name in one.columns)

    @property
    def units(self) -> tuple[str, ...]:
        return tuple(unit for one in self.measured for unit in one.units)

    def column_of(self) -> np.ndarray:
        """The column of each number of the errors of a window."""
        found, start = [], 0
        for one in self.measured:
            found.append(np.tile(start + np.arange(len(one.columns)), one.t.shape[1]))
            start += len(one.columns)
        return np.concatenate(found)

    def there(self) -> np.ndarray:
        """Which of them are known, (windows, numbers)."""
        return np.concatenate([np.asarray(one.there).reshape(len(self), -1) for one in self.measured], axis=1)


class Comparison(eqx.Module):
    """How a model is compared with logs: `EquationError` or `OutputError`.

    >>> print(isinstance(rbd.identify.OutputError(), rbd.identify.Comparison))
    True
    """

    #: What happens at the first states of windows: they are as measured, or unknown, or unknown and joined.
    nodes: Literal["joined", "free", "measured"] = eqx.field(static=True, default="measured", init=False)
    #: How far the state may jump between joined windows; None for not at all.
    drift: float | None = eqx.field(static=True, default=None, init=False)
    #: Of how many simulations, from places scattered about the one asked for, the mean is taken; None for the one alone.
    ensemble: int | None = eqx.field(static=True, default=None, init=False)

    @abc.abstractmethod
    def windows(self, model: Model, logs: Sequence[Log]) -> Windows:
        """Logs as this comparison needs them."""

    @abc.abstractmethod
    def predicted(self, model: Model, window: Windows, start: State | None) -> tuple[tuple, State | None]:
        """Of one window what is predicted of every channel, and the state in which it ends."""

    def errors(
        self, model: Model, window: Windows, start: State | None
    ) -> tuple[Float[Array, "numbers"], State | None]:
        """Predicted less measured, of one window: zero where nothing was measured; and the state in which it ends."""
        found, end = self.predicted(model, window, start)
        parts = [
            jnp.where(one.there, _less(model, one, row), 0).reshape(-1)
            for one, row in zip(window.measured, found)
        ]
        return jnp.concatenate(parts), end


def _less(model: Model, one: Measured, predicted):
    """Predicted less measured: on the tangent space of configurations, by the angles of rotations."""
    if one.channel == "q" and one.columns:
        return jax.vmap(lambda a, b: difference(model, a, b))(one.values, predicted)
    if one.values.shape[-1] == 4 and len(one.columns) == 3:
        return jax.vmap(_turned)(one.values, predicted)
    return predicted - one.values


def _turned(measured, predicted):
    """The rotation vector from one unit quaternion to another."""
    between = quaternion.multiply(quaternion.conjugate(measured), predicted)
    return quaternion.log(jnp.where(between[0] < 0, -between, between))


def all_told(owner: str, logs: Sequence[Log]) -> bool:
    """Whether logs say what actuators are told: all of them or none."""
    told = [log.u is not None for log in logs]
    if any(told) and not all(told):
        raise LogError(
            f"{owner}: log {logs[told.index(False)].name!r} has no u and log {logs[told.index(True)].name!r} has; what actuators "
            "do is either of the model, in all logs, or part of tau"
        )
    return any(told)


def chosen_channels(
    owner: str, model: Model, logs: Sequence[Log], wanted, usual: tuple[str, ...]
) -> tuple[str, ...]:
    """Which channels are compared."""
    logged = list(dict.fromkeys(name for log in logs for name in log.channels))
    sensors = [one.name for one in model.sensors]
    if "tau" in usual and model.actuators:  # which the logs tell
        logged.append("tau")
    strange = [name for name in logged if name not in CHANNELS and name not in sensors]
    if strange:
        warnings.warn(
            f"{owner}: the logs have readings of {', '.join(map(repr, strange))}, which are not used: model {model.name!r} "
            f"has no such sensor{suggest(strange[0], sensors)}",
            LogWarning,
            stacklevel=4,
        )
    if wanted is None:
        chosen = [name for name in usual if name in logged] + [name for name in logged if name in sensors]
    else:
        for name in wanted:
            if name not in (*usual, *sensors):
                raise UnknownNameError(f"{owner}: compare has {name!r}{suggest(name, [*usual, *sensors])}")
            if name not in logged:
                raise LogError(
                    f"{owner}: compare has {name!r}, and no log has it; they have {', '.join(logged)}"
                )
        chosen = list(wanted)
    if not chosen:
        raise LogError(
            f"{owner}: nothing can be compared: the logs have {', '.join(logged) or 'nothing'}, and it compares "
            f"{', '.join(usual)} and sensors of the model ({', '.join(sensors) or 'it has none'})"
        )
    return tuple(dict.fromkeys(chosen))


def sensor_of(model: Model, name: str) -> Sensor:
    return model.named("sensor", name)  # pyright: ignore[reportReturnType]


def width_of(model: Model, name: str) -> int:
    return {"q": model.nq, "v": model.nv, "tau": model.nv}.get(name) or sensor_of(model, name).size


def delay_of(model: Model, name: str, traced: bool = False):
    late = None if name in CHANNELS else sensor_of(model, name).delay
    late = 0.0 if late is None else late
    return late if traced else float(late)


def has_delay(model: Model, name: str) -> bool:
    return name not in CHANNELS and sensor_of(model, name).delay is not None


def with_sensors(model: Model, names: Sequence[str]) -> Model:
    """The model with these sensors alone."""
    return detach(model, *(one for one in model.sensors if one.name not in names))


def by_name(readings: Readings) -> dict[str, Array]:
    """What each sensor reads, with an axis of its own even if that is one number."""
    return {name: readings.vector[..., readings.place(name)] for name in readings.names}


def measured(model: Model, name: str, values: np.ndarray, t: np.ndarray, on_rows: bool) -> Measured:
    """A channel of values with NaN where nothing is known."""
    known = np.isfinite(values)
    if name in CHANNELS:
        columns, units = columns_of(model, name)
        if name == "q":
            known = np.broadcast_to(known.all(axis=-1, keepdims=True), (*known.shape[:2], model.nv))
            values = np.where(np.isfinite(values), values, np.asarray(model.reference, float))
    else:
        turned = isinstance(sensor_of(model, name), FrameOrientation | JointOrientation)
        size = 3 if turned else values.shape[-1]
        columns, units = (
            [""] if size == 1 else [f"[{i}]" for i in range(size)],
            ["rad" if turned else ""] * size,
        )
        if turned:
            known = np.broadcast_to(known.all(axis=-1, keepdims=True), (*known.shape[:2], 3))
            values = np.where(np.isfinite(values), values, np.array([1.0, 0, 0, 0]))
    values = np.nan_to_num(values).astype(model.dtype)
    return Measured(values, known, t.astype(model.dtype), name, tuple(columns), tuple(units), on_rows)


def control(model: Model, tau, u):
    """What drives a model, one step or several."""
    return Controls(u, tau) if model.nu else tau
