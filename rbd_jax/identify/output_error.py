"""Comparison of simulations with logs by multiple shooting; windows are joined, independent, or start as measured."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._core.arguments import choice, number, whole_number
from .._core.jit import compiled
from ..forces.actuators.drive import actuators_of
from ..model import Model, difference, integrate
from ..simulate.control import Controls
from ..simulate.controls import arriving
from ..simulate.rollouts import rollout
from ..simulate.scheme import Scheme
from ..simulate.sensing import sense
from ..simulate.state import State
from ..simulate.trajectory import Trajectory
from ..simulate.tree_system import TreeSystem
from .comparison import (
    Comparison,
    Measured,
    Windows,
    all_told,
    by_name,
    chosen_channels,
    control,
    delay_of,
    has_delay,
    measured,
    width_of,
    with_sensors,
)
from .equations import as_driven, without_delays
from .log import CHANNELS, Channel, Log, LogError, LogWarning
from .sanity import check_log, continuous, label_of, refuse_slow
from .smoothing import FEWEST, is_noisy, manifold_rates, smoothed, tangent_steps, white_noise


#: Number of samples over which velocities are compared with smoothed ones, to estimate the error of the latter.
OVER = 10
#: Prior standard deviation of internal states of forces.
INTERNAL = 1e-3


class Drive(eqx.Module):
    """Input of a window's simulation.

    - `tau`, `u`: values for each row, or for each step between rows. u begins with earlier controls, which may arrive in
      the window.
    - `spacing`: time between rows, in s.
    - `substeps`: number of steps between rows.
    - `held`: number of steps for which an input is held.
    - `lead`: number of entries of u before the window.
    """

    tau: Any
    u: Any
    spacing: Any
    substeps: int = eqx.field(static=True)
    held: int = eqx.field(static=True)
    lead: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        """Number of simulated rows without the last one, in which the window ends."""
        return self.tau.shape[0] * self.held // self.substeps - 1

    def arrived(self, model: Model) -> Controls:
        """Returns the input of every step, from the first row to one row after the last."""
        held = lambda x: None if x is None else jnp.repeat(x, self.held, axis=0)
        tau, u = held(self.tau), held(self.u)
        if u is not None:
            u = arriving(model, u, self.spacing / self.substeps, before=jnp.nan)[self.lead * self.held :]
        return Controls(u, tau)


class OutputError(Comparison):
    """Compares simulations of windows under the measured controls with all measurements.

    Every window is a separate `rbd.rollout`, and its initial state is an unknown. Simulations of a complete run would have
    to be accurate over the entire run, which is impossible for unstable robots. "Joined" windows start where the preceding
    one ends (multiple shooting): the result is a single simulation of the complete run.

    Args:
      window: Length of windows in s. With None, each run is one window.
      nodes: "joined"; "free", where each window has an independent initial state; or "measured", where initial states are
        as measured.
      compare: Channels to compare: "q", "v" and names of sensors. All available channels by default.
      drift: Standard deviation of the state jumps between joined windows, in units of the motion from one sample to the
        next. Effects that the model cannot explain (pushes, slip) then stay local. By default, jumps are not allowed.
      ensemble: Number of simulations of each window, from initial states that scatter within their uncertainty. The mean is
        compared, and derivatives result from regression over the ensemble. Use it for motions that depend discontinuously
        on the initial state (chattering contact, stick-slip), where derivatives at a point are not informative. At least
        twice the number of unknowns of a window.
      scheme: Integration scheme; by default as in `rollout`.
      dt: Time step in s; it is reduced to divide the time between samples. By default the time between samples, or the
        model's own time step if that is smaller.
      checkpoint: Memory policy of reverse-mode differentiation, as in `rollout`.

    >>> model, t = rbd.load("pendulum"), np.arange(200) / 100
    >>> truth = rbd.identify.Parameters(model, rbd.identify.damping()).with_values(jnp.array([0.3]))
    >>> swing = rbd.rollout(truth, rbd.State(jnp.array([1.0]), jnp.zeros(1)), dt=0.01, steps=199)
    >>> log = rbd.identify.Log(t, swing.q, tau=np.zeros((200, 1)))
    >>> problem = rbd.identify.Problem(model, log, rbd.identify.damping(), rbd.identify.OutputError(window=1.0))
    >>> print(f"{rbd.identify.solve(problem).value('swing damping'):.2f}")
    0.30
    """

    window: float | None = eqx.field(static=True)
    compare: tuple[str, ...] | None = eqx.field(static=True)
    scheme: Scheme | None
    dt: float | None = eqx.field(static=True)
    checkpoint: Any = eqx.field(static=True)

    def __init__(
        self,
        window: float | None = 0.5,
        nodes: Literal["joined", "free", "measured"] = "joined",
        *,
        compare: Sequence[str] | None = None,
        drift: float | None = None,
        ensemble: int | None = None,
        scheme: Scheme | None = None,
        dt: float | None = None,
        checkpoint: Any = True,
    ):
        owner = "OutputError"
        self.window = None if window is None else float(number(owner, "window", window, above=0))
        choice(owner, "nodes", nodes, ("joined", "free", "measured"))
        self.nodes = nodes
        self.compare = None if compare is None else tuple(compare)
        self.drift = None if drift is None else float(number(owner, "drift", drift, above=0))
        if drift is not None and nodes != "joined":
            raise ValueError(f"{owner}: drift is between joined windows, but nodes is {nodes!r}.")
        self.ensemble = None if ensemble is None else whole_number(owner, "ensemble", ensemble)
        if ensemble is not None and nodes == "measured":
            raise ValueError(
                f"{owner}: ensemble requires estimated initial states, but nodes is 'measured'. Use 'joined' or 'free'."
            )
        self.scheme, self.checkpoint = scheme, checkpoint
        self.dt = None if dt is None else float(number(owner, "dt", dt, above=0))

    def windows(self, model, logs):
        owner = "identify.OutputError"
        if model.constraints:
            raise LogError(
                f"{owner}: model {model.name!r} has constraints, which estimated initial states would violate. Use a tree."
            )
        told = all_told(owner, logs)
        model = as_driven(model, told)
        chosen = chosen_channels(owner, model, logs, self.compare, ("q", "v"))
        runs = [_Run.of(model, log) for log in logs]
        substeps = self._substeps(model, max(run.spacing for run in runs))
        # Controls at times other than those of the rows change between rows.
        held = substeps if all(run.driven_on_rows for run in runs) else 1
        per_row = substeps // held
        runs = [run.driven(model, per_row) for run in runs]
        for run in runs:
            _warn_of(model, run, self.nodes)
        size = max(run.steps for run in runs)
        if self.window is not None:
            size = min(size, max(1, round(self.window / min(run.spacing for run in runs))))
        late, lead = _late(model), [0] * len(runs)
        if told and late is not None:  # estimated delays may increase by up to one window
            lead = [int(late / run.spacing) + 1 for run in runs]
        cuts = [run.cut(size, rows) for run, rows in zip(runs, lead)]
        begins = np.concatenate([run.t[cut] for run, cut in zip(runs, cuts)])
        index = np.concatenate([np.full(len(cut), i) for i, cut in enumerate(cuts)])
        goes_on = np.concatenate([np.append(np.diff(cut) == size, False) for cut in cuts])
        measured = tuple(self._channel(model, name, runs, cuts, size, goes_on) for name in chosen)
        most = (max(lead) + size) * per_row if max(lead) else 0
        rows = lambda name, lead=0: np.concatenate(
            [
                _filled_up(getattr(run, name), cut * per_row, (size + 1) * per_row, lead)
                for run, cut in zip(runs, cuts)
            ]
        ).astype(model.dtype)
        spacing = np.concatenate([np.full(len(cut), run.spacing) for run, cut in zip(runs, cuts)])
        q, v = (
            np.concatenate([getattr(run, name)[cut] for run, cut in zip(runs, cuts)]).astype(model.dtype)
            for name in "qv"
        )
        own = TreeSystem(model=model, tau=jnp.zeros(model.nv, model.dtype), forces=()).own
        start = State(q, v, np.tile(np.asarray(own), (len(q), 1)))
        u = rows("u", most) if told else None
        given = Drive(rows("tau"), u, spacing.astype(model.dtype), substeps, held, most)
        scatter = None
        if self.ensemble is not None:
            by_run = [np.concatenate([_scatter(model, log), np.full(own.size, INTERNAL)]) for log in logs]
            scatter = np.stack(by_run)[index].astype(model.dtype)
        return Windows(given, measured, start, begins, index, goes_on & (self.nodes == "joined"), scatter)

    def _substeps(self, model: Model, spacing: float) -> int:
        """Returns the number of simulation steps between two rows."""
        step = self.dt or model.settings.timestep or spacing
        return max(1, math.ceil(spacing / step - 1e-6))

    def _channel(self, model, name, runs, cuts, size, goes_on) -> Measured:
        """Returns one channel of all runs; each sample is assigned to the window in which it occurred."""
        late = delay_of(model, name)
        samples = [run.channel(name) for run in runs]
        # A delay may be estimated, even if it is zero now.
        on_rows = all(one is None or one[2] for one in samples) and not has_delay(model, name)
        ends = iter(~goes_on)
        parts, most = [], 0
        for run, cut, one in zip(runs, cuts, samples):
            for first in cut:
                end, closed = run.t[0] + (first + size) * run.spacing, next(ends)
                if one is None:
                    parts.append(None)
                    continue
                times, values, _ = one
                begin, slack = run.t[first], 1e-6 * run.spacing
                if on_rows:
                    own = slice(first, first + size + 1)
                    inside = np.ones(len(times[own]), bool)
                    inside[size:] = closed or self.nodes == "measured"
                    inside[0] = self.nodes != "measured"
                    parts.append((times[own] - begin, values[own], inside))
                else:
                    since = times - late
                    if self.nodes == "measured":
                        own = (since > begin + slack) & (since <= end + slack)
                    else:
                        own = (since >= begin - slack) & (since < end + (slack if closed else -slack))
                    parts.append((times[own] - begin, values[own], np.ones(int(own.sum()), bool)))
                most = max(most, len(parts[-1][0]))
        most = size + 1 if on_rows else max(most, 1)
        width = width_of(model, name)
        t, values = np.zeros((len(parts), most)), np.full((len(parts), most, width), np.nan)
        for i, part in enumerate(parts):
            if part is not None:
                count = len(part[0])
                t[i, :count] = part[0]
                values[i, :count] = np.where(part[2][:, None], part[1], np.nan)
        return measured(model, name, values, t, on_rows)

    def path(self, model: Model, window: Windows, start: State) -> Trajectory:
        """Returns the simulation of one window."""
        drive, arrived = window.given, window.given.arrived(model)
        substeps, steps = drive.substeps, drive.size * drive.substeps
        tau, u = (None if x is None else x[:steps] for x in (arrived.tau, arrived.u))
        return rollout(
            without_delays(model), start, control(model, tau, u), dt=drive.spacing / substeps,
            scheme=self.scheme, steps=steps, save_every=substeps, checkpoint=self.checkpoint,
        )  # fmt: skip

    def predicted(self, model, window, start):
        sensors = [one.channel for one in window.measured if one.channel not in CHANNELS]
        bare = with_sensors(as_driven(model, window.given.u is not None), sensors)
        assert start is not None
        path, found = self.path(bare, window, start), {}
        if sensors:
            arrived, substeps = window.given.arrived(bare), window.given.substeps
            tau, u = (None if x is None else x[::substeps] for x in (arrived.tau, arrived.u))

            def readings(q, v, own, tau, u):
                return sense(bare, State(q, v, own), control(bare, tau, u))

            found = by_name(jax.vmap(readings)(path.q, path.v, path.own, tau, u))
        if any(not one.on_rows for one in window.measured if one.channel in "qv"):
            between = jax.vmap(lambda t: path.at(bare, jnp.clip(t, 0, path.t[-1])))
        parts = []
        for one in window.measured:
            if one.channel in "qv":
                rows = path if one.on_rows else between(one.t)
                parts.append(getattr(rows, one.channel))
            elif one.on_rows:
                parts.append(found[one.channel])
            else:
                late = delay_of(bare, one.channel, traced=True)
                at = lambda column, t=one.t - late: _along(path.t, column, t)
                parts.append(jax.vmap(at, in_axes=1, out_axes=1)(found[one.channel]))
        return tuple(parts), path.final


class _Run(NamedTuple):
    """A log on the rows of a simulation.

    - `t`, `spacing`: times of the rows, and their distance in s.
    - `q`, `v`: the measured states.
    - `regular`: whether the log's own times are equally spaced.
    - `tau`, `u`: inputs that are held from each row on, or during each of `per_row` steps.
    """

    log: Log
    t: np.ndarray
    spacing: float
    q: np.ndarray
    v: np.ndarray
    regular: bool
    tau: np.ndarray = np.zeros((0, 0))
    u: np.ndarray = np.zeros((0, 0))
    per_row: int = 1

    @property
    def steps(self) -> int:
        return len(self.t) - 1

    @staticmethod
    def of(model: Model, log: Log) -> _Run:
        check_log(model, log)
        if log.q is None:
            raise LogError(f"Log {log.name!r} has no q. Simulations require initial states.")
        refuse_slow(log)
        spacing = float(np.median(np.diff(log.t)))
        regular = bool(np.abs(np.diff(log.t) - spacing).max() <= 1e-3 * spacing)
        if regular:
            t, spacing = log.t, float((log.t[-1] - log.t[0]) / (len(log.t) - 1))
        else:
            t = log.t[0] + spacing * np.arange(int((log.t[-1] - log.t[0]) / spacing + 1e-6) + 1)
        q, v = _states(model, log, t)
        return _Run(log, t, spacing, q, v, regular)

    @property
    def driven_on_rows(self) -> bool:
        """True if inputs change only at rows."""
        given = [channel for channel in (self.log.tau, self.log.u) if channel is not None]
        return self.regular and all(channel.t is None and not channel.delay for channel in given)

    def driven(self, model: Model, per_row: int) -> _Run:
        """Returns the run with its inputs, for each of `per_row` steps of a row."""

        def known(channel, size):
            if channel is None or not size:
                return np.zeros((len(self.t) * per_row, size))
            if self.driven_on_rows:
                return channel.values.repeat(per_row, axis=0)
            edges = self.t[0] + self.spacing / per_row * np.arange(len(self.t) * per_row + 1)
            return _held(channel, self.log.t, edges)

        tau, u = known(self.log.tau, model.nv), known(self.log.u, model.nu)
        return self._replace(tau=tau, u=u, per_row=per_row)

    def cut(self, size: int, lead: int = 0) -> np.ndarray:
        """Returns the first rows of windows of `size` steps with complete inputs, including controls `lead` rows earlier."""
        first = np.arange(0, self.steps, size)
        by_row = lambda x: np.isfinite(x).reshape(len(self.t), self.per_row * x.shape[1])[: self.steps]
        told = np.all(by_row(self.u), axis=1)
        known = told & np.all(by_row(self.tau), axis=1)
        whole = np.array([known[i : i + size].all() and told[max(i - lead, 0) : i].all() for i in first])
        if not whole.any():
            raise LogError(
                f"Log {self.log.name!r}: no window has complete controls. Fill the gaps in tau and u, or use a shorter window."
            )
        if not whole.all():
            warnings.warn(
                f"Log {self.log.name!r}: of {len(whole)} windows {int((~whole).sum())} have gaps in tau or u and are omitted",
                LogWarning,
                stacklevel=5,
            )
        return first[whole]

    def channel(self, name: str) -> tuple[np.ndarray, np.ndarray, bool] | None:
        """Returns times and values, and True if the times are those of the rows."""
        channel = getattr(self.log, name) if name in CHANNELS else self.log.sensors.get(name)
        if channel is None:
            return None
        times = (self.log.t if channel.t is None else channel.t) - channel.delay
        return times, channel.values, self.regular and channel.t is None and not channel.delay


def _warn_of(model: Model, run: _Run, nodes: str) -> None:
    """Warns of assumptions of the simulation that may be unintended."""
    log = run.log
    if log.tau is None and log.u is None:
        warnings.warn(
            f"Log {log.name!r} has neither tau nor u, so nothing drives the simulation. The robot is assumed to move freely; if "
            "it does, give zeros in tau.",
            LogWarning,
            stacklevel=5,
        )
    if nodes != "measured":
        return
    for name in "qv":
        channel = getattr(log, name)
        if channel is None:
            continue
        noise, noisy = white_noise(channel.values), is_noisy(channel.values)
        if noisy.any():
            worst = int(np.argmax(np.where(noisy, noise, 0)))
            warnings.warn(
                f"Log {log.name!r}: {label_of(model, name, worst)} has noise of about {noise[worst]:.2g}, and nodes='measured' "
                "takes initial states of windows as exact. Use 'joined' or 'free' to estimate them.",
                LogWarning,
                stacklevel=5,
            )
            return


def _late(model: Model) -> float | None:
    """Returns the largest delay of an actuator; None if no actuator has a delay."""
    delays = [float(one.delay) for one in actuators_of(model) if one.delay is not None]
    return max(delays, default=None)


def _held(channel: Channel, own: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Returns the means between edges of values that are held until the next one; NaN where unknown, as before the first."""
    times = (own if channel.t is None else channel.t) - channel.delay
    knots = np.append(times, max(edges[-1], times[-1]) + 1.0)  # the last value is held indefinitely
    known = np.isfinite(channel.values)
    found = np.full((len(edges) - 1, channel.values.shape[1]), np.nan)
    for column in range(found.shape[1]):
        values, there = channel.values[:, column], known[:, column]
        # Integrals of the known values, and of one, at the knots; they are linear in between.
        areas, spans = (
            np.append(0, np.cumsum(np.where(there, x, 0) * np.diff(knots)))
            for x in (values, np.ones(len(times)))
        )
        area, span = (np.diff(np.interp(edges, knots, x)) for x in (areas, spans))
        whole = span > (1 - 1e-6) * np.diff(edges)  # up to rounding of times
        found[whole, column] = area[whole] / span[whole]
    return found


def _states(model: Model, log: Log, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns configurations and velocities at times t, with missing ones interpolated."""
    log = continuous(model, replace(log, a=None)).on_clock()
    if len(log.t) >= FEWEST:
        log = smoothed(model, replace(log, a=Channel(np.zeros((len(log.t), model.nv)))), whole=True)
    q, v = log.q.values, np.full((len(log.t), model.nv), np.nan) if log.v is None else log.v.values.copy()
    rows = np.flatnonzero(np.isfinite(q).all(axis=1))
    if not len(rows):
        raise LogError(f"Log {log.name!r}: no sample has a complete q")
    lost = np.isnan(v).all(axis=0)
    if lost.any():  # too short or too noisy for smoothing
        v[rows[:, None], np.flatnonzero(lost)] = _differences(model, log.t[rows], q[rows])[:, lost]
    at = np.clip(np.searchsorted(log.t[rows], t, side="right") - 1, 0, max(len(rows) - 2, 0))
    first, second = rows[at], rows[np.minimum(at + 1, len(rows) - 1)]
    span = np.where(second > first, log.t[second] - log.t[first], 1)
    share = np.clip((t - log.t[first]) / span, 0, 1)
    placed = np.asarray(_between(model, q[first], q[second], share), float)
    speeds = (
        np.stack([_nearest(log.t, v[:, i], t) for i in range(model.nv)], axis=1)
        if model.nv
        else np.zeros((len(t), 0))
    )
    return placed, speeds


def _scatter(model: Model, log: Log) -> np.ndarray:
    """Returns the standard deviations of measured q and v, (2 nv,).

    They are the noise of the measurements. For derived velocities, they are the smoothing error over ten samples.
    """
    log = continuous(model, replace(log, a=None)).on_clock()
    t, q = log.t, log.q.values
    rows = np.flatnonzero(np.isfinite(q).all(axis=1))
    t, q = t[rows], q[rows]
    steps = np.asarray(tangent_steps(model, q[:-1].astype(model.dtype), q[1:].astype(model.dtype)), float)
    along = np.concatenate([np.zeros((1, model.nv)), np.cumsum(steps, axis=0)])
    noise = white_noise(along) if len(along) > FEWEST else np.abs(steps).max(axis=0, initial=0)
    own = np.full(model.nv, np.nan) if log.v is None else white_noise(log.v.values)
    apart = t[OVER:] - t[:-OVER] if len(t) > OVER else np.ones(0)
    mean = (along[OVER:] - along[:-OVER])[: len(apart)] / apart[:, None]
    smooth = _states(model, replace(log, v=None), t)[1]
    smooth = (
        np.stack([smooth[i : len(smooth) - OVER + i] for i in range(OVER + 1)]).mean(axis=0)
        if len(apart)
        else mean
    )
    left = np.sqrt(np.mean((mean - smooth) ** 2, axis=0)) if len(apart) else noise / np.diff(t).mean()
    least = lambda sizes: np.maximum(sizes, 1e-3 * max(sizes.max(initial=0), 1e-6))
    return np.concatenate([least(noise), least(np.where(np.isfinite(own) & (own > 0), own, left))])


def _differences(model: Model, t: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Returns velocities by differences between samples; zero for a single sample."""
    if len(t) == 1:
        return np.zeros((1, model.nv))
    if len(t) == 2:
        return manifold_rates(model, t[[0, 0, 1]], q[[0, 0, 1]])[1:]
    return manifold_rates(model, t, q)


@compiled
def _between(model: Model, first, second, share):
    return jax.vmap(lambda a, b, s: integrate(model, a, s * difference(model, a, b)))(first, second, share)


def _along(times, column, t):
    """Interpolates linearly between rows, and extrapolates beyond the ends.

    Extrapolation makes changes of a delay observable in the first samples of a window. At a row, the preceding segment is
    used, because a delay of zero can only grow.
    """
    row = jnp.clip(jnp.searchsorted(times, t, side="left") - 1, 0, len(times) - 2)
    left = (times[row + 1] - t) / (times[row + 1] - times[row])
    return column[row + 1] - left * (column[row + 1] - column[row])


def _nearest(own: np.ndarray, values: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Interpolates linearly between known values, and holds the last known value at the ends."""
    known = np.isfinite(values)
    return np.interp(t, own[known], values[known]) if known.any() else np.zeros(len(t))


def _filled_up(rows: np.ndarray, first: np.ndarray, size: int, lead: int = 0) -> np.ndarray:
    """Returns `lead + size` rows around each start, with zeros for missing rows.

    Before the first row of all, the controls have the value of the first row.
    """
    padded = np.concatenate([rows[:1].repeat(lead, axis=0), rows, np.zeros((size, rows.shape[1]))])
    found = np.stack([padded[i : i + lead + size] for i in first])
    found[:, lead:] = np.nan_to_num(found[:, lead:])
    return found
