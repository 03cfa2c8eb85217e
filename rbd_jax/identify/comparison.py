"""Comparisons of a model with logs: per sample, or along simulations.

A comparison cuts logs into windows of equal size and predicts each window separately. Windows can therefore be batched, and
memory does not grow with the length of a log. `EquationError` compares each measured sample: torques by the equations of
motion, and sensor readings at that state. It is linear in many parameters and never diverges, but it requires
accelerations. `OutputError` simulates each window from its initial state under the measured controls and compares the
result with the measurements. It requires no accelerations, and it observes effects that accumulate, such as delays,
stiction and contact.
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

    - `values`: (windows, rows, numbers).
    - `there`: mask of the known columns, (windows, rows, columns).
    - `t`: times in s, from the start of the window.
    - `channel`: name of the channel.
    - `columns`, `units`: names and units of the errors. Errors of configurations are in the tangent space.
    - `on_rows`: whether the times are those of the rows of the window.

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
    """Logs cut into windows of equal size; the first axis of all arrays is the window.

    - `given`: input of the predictions.
    - `measured`: the channels to compare with.
    - `start`: the measured initial state of each window; None without simulation.
    - `begins`: start time of each window in its log, in s.
    - `log`: index of the log.
    - `goes_on`: whether the next window starts where this one ends.
    - `scatter`: prior standard deviations of the initial states, (windows, states).
    - `places`: for ensembles, the points of the simulations in units of the scatter of initial states and parameters,
      (windows, places, states + parameters).

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
        """Names of the columns of the errors: the channel, then the joint or component."""
        return tuple(f"{one.channel} {name}".strip() for one in self.measured for name in one.columns)

    @property
    def units(self) -> tuple[str, ...]:
        """Units of the columns of the errors."""
        return tuple(unit for one in self.measured for unit in one.units)

    def column_of(self) -> np.ndarray:
        """Returns the column of each entry of a window's errors."""
        found, start = [], 0
        for one in self.measured:
            found.append(np.tile(start + np.arange(len(one.columns)), one.t.shape[1]))
            start += len(one.columns)
        return np.concatenate(found)

    def there(self) -> np.ndarray:
        """Returns the mask of the known entries, (windows, numbers)."""
        return np.concatenate([np.asarray(one.there).reshape(len(self), -1) for one in self.measured], axis=1)


class Comparison(eqx.Module):
    """Base class of the comparisons of a model with logs: `EquationError` and `OutputError`.

    >>> print(isinstance(rbd.identify.OutputError(), rbd.identify.Comparison))
    True
    """

    #: Initial states of windows: as measured, or estimated for each window, or estimated and joined.
    nodes: Literal["joined", "free", "measured"] = eqx.field(static=True, default="measured", init=False)
    #: Standard deviation of state jumps between joined windows; None for no jumps.
    drift: float | None = eqx.field(static=True, default=None, init=False)
    #: Number of simulations, scattered around the given point, whose mean is compared; None for a single simulation.
    ensemble: int | None = eqx.field(static=True, default=None, init=False)

    @abc.abstractmethod
    def windows(self, model: Model, logs: Sequence[Log]) -> Windows:
        """Returns the logs as windows of this comparison."""

    @abc.abstractmethod
    def predicted(self, model: Model, window: Windows, start: State | None) -> tuple[tuple, State | None]:
        """Returns the predictions of all channels of a window, and its final state."""

    def errors(
        self, model: Model, window: Windows, start: State | None
    ) -> tuple[Float[Array, "numbers"], State | None]:
        """Returns predicted minus measured values of a window, and its final state; missing measurements have zero error."""
        found, end = self.predicted(model, window, start)
        parts = [
            jnp.where(one.there, _less(model, one, row), 0).reshape(-1)
            for one, row in zip(window.measured, found)
        ]
        return jnp.concatenate(parts), end


def _less(model: Model, one: Measured, predicted):
    """Returns predicted minus measured values: tangent vectors for configurations, rotation vectors for orientations."""
    if one.channel == "q" and one.columns:
        return jax.vmap(lambda a, b: difference(model, a, b))(one.values, predicted)
    if one.values.shape[-1] == 4 and len(one.columns) == 3:
        return jax.vmap(_turned)(one.values, predicted)
    return predicted - one.values


def _turned(measured, predicted):
    """Returns the rotation vector from one unit quaternion to another."""
    between = quaternion.multiply(quaternion.conjugate(measured), predicted)
    return quaternion.log(jnp.where(between[0] < 0, -between, between))


def all_told(owner: str, logs: Sequence[Log]) -> bool:
    """Returns whether the logs contain the controls of the actuators; either all logs must have them, or none."""
    told = [log.u is not None for log in logs]
    if any(told) and not all(told):
        raise LogError(
            f"{owner}: log {logs[told.index(False)].name!r} has no u, but log {logs[told.index(True)].name!r} has it. Give u in "
            "all logs, or give u in none and include the actuator forces in tau."
        )
    return any(told)


def chosen_channels(
    owner: str, model: Model, logs: Sequence[Log], wanted, usual: tuple[str, ...]
) -> tuple[str, ...]:
    """Returns the names of the channels to compare.

    Args:
      owner: The name of the caller in messages.
      model: The model.
      logs: The logs.
      wanted: The requested channels; None for all.
      usual: The channels that the comparison supports besides sensors.
    """
    logged = list(dict.fromkeys(name for log in logs for name in log.channels))
    sensors = [one.name for one in model.sensors]
    if "tau" in usual and model.actuators:  # forces follow from u
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
                    f"{owner}: compare has {name!r}, but no log has it; the logs have {', '.join(logged)}"
                )
        chosen = list(wanted)
    if not chosen:
        raise LogError(
            f"{owner}: nothing can be compared. The logs have {', '.join(logged) or 'no channels'}; the comparison supports "
            f"{', '.join(usual)} and the sensors of the model ({', '.join(sensors) or 'no sensors'})."
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
    """Returns the model with these sensors only."""
    return detach(model, *(one for one in model.sensors if one.name not in names))


def by_name(readings: Readings) -> dict[str, Array]:
    """Returns the reading of each sensor as an array with at least one axis."""
    return {name: readings.vector[..., readings.place(name)] for name in readings.names}


def measured(model: Model, name: str, values: np.ndarray, t: np.ndarray, on_rows: bool) -> Measured:
    """Returns a channel from values with NaN for missing measurements.

    Args:
      model: The model.
      name: The name of the channel.
      values: The values, (windows, rows, numbers).
      t: Times from the start of each window, in s.
      on_rows: If True, the times are those of the rows of the window.
    """
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
    """Returns the control input of one step or of several steps."""
    return Controls(u, tau) if model.nu else tau
