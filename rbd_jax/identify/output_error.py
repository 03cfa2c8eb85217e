"""Simulations compared with logs: by multiple shooting, with windows that are joined, or free, or start as measured."""

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

from .._arguments import choice, number, whole_number
from .._compile import compiled
from ..model import Model, difference, integrate
from ..simulate import Scheme, State, Trajectory, rollout, sense
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
from .equations import as_driven
from .log import CHANNELS, Channel, Log, LogError, LogWarning
from .sanity import check_log, continuous, label_of, refuse_slow
from .smoothing import FEWEST, is_noisy, manifold_rates, smoothed, tangent_steps, white_noise


#: Over so many samples velocities are compared with smoothed ones, to tell how far those may be off.
OVER = 10
#: How far states that forces have of their own are taken to be off.
INTERNAL = 1e-3


class Drive(eqx.Module):
    """What drives the simulation of a window: controls of each row, how far rows are apart, and in how many steps."""

    tau: Any
    u: Any
    spacing: Any
    substeps: int = eqx.field(static=True)


class OutputError(Comparison):
    """Simulations of windows from their first states, under the measured controls, against all that was measured.

    Every window is a `rbd.rollout` by itself. Its first state is one of the unknowns: simulations of a whole run would have to
    be right over all of it before they say anything, and those of unstable robots never are. With "joined" windows
    each goes on where the one before ended (multiple shooting): what is found in the end is the one simulation of the whole run.

    - `window`: how long windows are, in s; by default half a second. With None a run is one window.
    - `nodes`: "joined"; or "free", where each window has a state of its own; or "measured", where states are taken as measured.
    - `compare`: channels to compare, of "q", "v" and names of sensors; by default all that there are.
    - `drift`: for joined windows, how far the state may jump between them, as a standard deviation in units of what it moves by
      from one sample to the next: what a model cannot explain (pushes, slip) then stays where it was. By default it may not.
    - `ensemble`: so many simulations of each window, from first states that scatter as far as measurements leave them open, in
      place of one. Their mean is compared, and derivatives are by regression over them. For motions that jump with where they
      begin, so that derivatives at one place say nothing about the way to another: contact that chatters, sticks and slips. It
      takes twice as many as there are unknowns of a window, or more.
    - `scheme`, `dt`: of the simulation; the step divides the time between samples. By default as `rollout` has them, and the
      time between samples, or the model's own time step if that is less.
    - `checkpoint`: what reverse-mode differentiation remembers, as in `rollout`.
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
            raise ValueError(f"{owner}: drift is between joined windows, and nodes is {nodes!r}")
        self.ensemble = None if ensemble is None else whole_number(owner, "ensemble", ensemble)
        if ensemble is not None and nodes == "measured":
            raise ValueError(
                f"{owner}: an ensemble scatters about first states that are found, and nodes is 'measured'"
            )
        self.scheme, self.checkpoint = scheme, checkpoint
        self.dt = None if dt is None else float(number(owner, "dt", dt, above=0))

    def windows(self, model, logs):
        owner = "identify.OutputError"
        if model.constraints:
            raise LogError(
                f"{owner}: model {model.name!r} has constraints, and unknown first states do not know of them; take a tree"
            )
        told = all_told(owner, logs)
        model = as_driven(model, told)
        chosen = chosen_channels(owner, model, logs, self.compare, ("q", "v"))
        runs = [_Run.of(model, log) for log in logs]
        for run in runs:
            _warn_of(model, run, self.nodes)
        size = max(run.steps for run in runs)
        if self.window is not None:
            size = min(size, max(1, round(self.window / min(run.spacing for run in runs))))
        cuts = [run.cut(size) for run in runs]
        begins = np.concatenate([run.t[cut] for run, cut in zip(runs, cuts)])
        index = np.concatenate([np.full(len(cut), i) for i, cut in enumerate(cuts)])
        goes_on = np.concatenate([np.append(np.diff(cut) == size, False) for cut in cuts])
        measured = tuple(self._channel(model, name, runs, cuts, size, goes_on) for name in chosen)
        rows = lambda name: np.concatenate(
            [_filled_up(getattr(run, name), cut, size + 1) for run, cut in zip(runs, cuts)]
        ).astype(model.dtype)
        spacing = np.concatenate([np.full(len(cut), run.spacing) for run, cut in zip(runs, cuts)])
        q, v = (
            np.concatenate([getattr(run, name)[cut] for run, cut in zip(runs, cuts)]).astype(model.dtype)
            for name in "qv"
        )
        own = TreeSystem(model=model, tau=jnp.zeros(model.nv, model.dtype), forces=()).own
        start = State(q, v, np.tile(np.asarray(own), (len(q), 1)))
        substeps = self._substeps(model, spacing.max())
        given = Drive(rows("tau"), rows("u") if told else None, spacing.astype(model.dtype), substeps)
        scatter = None
        if self.ensemble is not None:
            by_run = [np.concatenate([_scatter(model, log), np.full(own.size, INTERNAL)]) for log in logs]
            scatter = np.stack(by_run)[index].astype(model.dtype)
        return Windows(given, measured, start, begins, index, goes_on & (self.nodes == "joined"), scatter)

    def _substeps(self, model: Model, spacing: float) -> int:
        """In how many steps the time between two rows is simulated."""
        step = self.dt or model.settings.timestep or spacing
        return max(1, math.ceil(spacing / step - 1e-6))

    def _channel(self, model, name, runs, cuts, size, goes_on) -> Measured:
        """One channel of all runs: each sample belongs to the window in which it happened."""
        late = delay_of(model, name)
        samples = [run.channel(name) for run in runs]
        # A delay may be free, also one that is zero now.
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
        """The simulation of one window."""
        drive = window.given
        rows, substeps = drive.tau.shape[0] - 1, drive.substeps
        held = lambda x: None if x is None else jnp.repeat(x[:-1], substeps, axis=0)
        return rollout(
            model, start, control(model, held(drive.tau), held(drive.u)), dt=drive.spacing / substeps,
            scheme=self.scheme, steps=rows * substeps, save_every=substeps, checkpoint=self.checkpoint,
        )  # fmt: skip

    def predicted(self, model, window, start):
        sensors = [one.channel for one in window.measured if one.channel not in CHANNELS]
        bare = with_sensors(as_driven(model, window.given.u is not None), sensors)
        assert start is not None
        path, found = self.path(bare, window, start), {}
        drive = window.given
        if sensors:

            def readings(q, v, own, tau, u):
                return sense(bare, State(q, v, own), control(bare, tau, u))

            found = by_name(jax.vmap(readings)(path.q, path.v, path.own, drive.tau, drive.u))
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
    """A log on the rows of a simulation: `spacing` apart, with what is held from each on, and the state as it was measured."""

    log: Log
    t: np.ndarray
    spacing: float
    tau: np.ndarray
    u: np.ndarray
    q: np.ndarray
    v: np.ndarray
    regular: bool

    @property
    def steps(self) -> int:
        return len(self.t) - 1

    @staticmethod
    def of(model: Model, log: Log) -> _Run:
        check_log(model, log)
        if log.q is None:
            raise LogError(f"Log {log.name!r} has no q, and simulations have to start somewhere")
        refuse_slow(log)
        spacing = float(np.median(np.diff(log.t)))
        regular = bool(np.abs(np.diff(log.t) - spacing).max() <= 1e-3 * spacing)
        if regular:
            t, spacing = log.t, float((log.t[-1] - log.t[0]) / (len(log.t) - 1))
        else:
            t = log.t[0] + spacing * np.arange(int((log.t[-1] - log.t[0]) / spacing + 1e-6) + 1)
        held = lambda channel, size: (
            np.zeros((len(t), size)) if channel is None or not size else _held(channel, log.t, t)
        )
        q, v = _states(model, log, t)
        return _Run(log, t, spacing, held(log.tau, model.nv), held(log.u, model.nu), q, v, regular)

    def cut(self, size: int) -> np.ndarray:
        """The rows at which windows of so many steps begin, of those that are driven throughout."""
        first = np.arange(0, self.steps, size)
        known = np.all(np.isfinite(np.concatenate([self.tau, self.u], axis=1))[: self.steps], axis=1)
        whole = np.array([known[i : i + size].all() for i in first])
        if not whole.any():
            raise LogError(
                f"Log {self.log.name!r}: no window has all of its controls; fill the gaps in tau and u, or take a shorter window"
            )
        if not whole.all():
            warnings.warn(
                f"Log {self.log.name!r}: of {len(whole)} windows {int((~whole).sum())} have gaps in tau or u and are left out",
                LogWarning,
                stacklevel=5,
            )
        return first[whole]

    def channel(self, name: str) -> tuple[np.ndarray, np.ndarray, bool] | None:
        """Times, values, and whether those are the times of the rows."""
        channel = getattr(self.log, name) if name in CHANNELS else self.log.sensors.get(name)
        if channel is None:
            return None
        times = (self.log.t if channel.t is None else channel.t) - channel.delay
        return times, channel.values, self.regular and channel.t is None and not channel.delay


def _warn_of(model: Model, run: _Run, nodes: str) -> None:
    """What simulations of a log take for granted, and may not be meant."""
    log = run.log
    if log.tau is None and log.u is None:
        warnings.warn(
            f"Log {log.name!r} has neither tau nor u, so nothing drives the simulation: the robot is taken to move freely. If it "
            "does, zeros in tau say so",
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
                "takes first states of windows as exact; 'joined' and 'free' find them",
                LogWarning,
                stacklevel=5,
            )
            return


def _held(channel: Channel, own: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The values at other times, each held until the next; NaN before the first."""
    times = (own if channel.t is None else channel.t) - channel.delay
    slack = 1e-6 * np.median(np.diff(times))
    row = np.searchsorted(times, t + slack, side="right") - 1
    return np.where((row >= 0)[:, None], channel.values[np.maximum(row, 0)], np.nan)


def _states(model: Model, log: Log, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Configurations and velocities as they were measured, those that are missing as their neighbours have them."""
    log = continuous(model, replace(log, a=None)).on_clock()
    if len(log.t) >= FEWEST:
        log = smoothed(model, replace(log, a=Channel(np.zeros((len(log.t), model.nv)))), whole=True)
    q, v = log.q.values, np.full((len(log.t), model.nv), np.nan) if log.v is None else log.v.values.copy()
    rows = np.flatnonzero(np.isfinite(q).all(axis=1))
    if not len(rows):
        raise LogError(f"Log {log.name!r}: in no sample all of q is known")
    lost = np.isnan(v).all(axis=0)
    if lost.any():  # too short, or too noisy, to be smoothed
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
    """How far q and v may be off: the noise of what was measured, and of velocities that were not, what smoothing leaves out of
    those over ten samples; (2 nv,)."""
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
    """Velocities by differences between samples; zero of a single one."""
    if len(t) == 1:
        return np.zeros((1, model.nv))
    if len(t) == 2:
        return manifold_rates(model, t[[0, 0, 1]], q[[0, 0, 1]])[1:]
    return manifold_rates(model, t, q)


@compiled
def _between(model: Model, first, second, share):
    return jax.vmap(lambda a, b, s: integrate(model, a, s * difference(model, a, b)))(first, second, share)


def _along(times, column, t):
    """Values between rows on the chord; beyond the ends on that of the two rows there, so that a delay that changes is seen in
    the first samples of a window, too."""
    row = jnp.clip(jnp.searchsorted(times, t, side="right") - 1, 0, len(times) - 2)
    share = (t - times[row]) / (times[row + 1] - times[row])
    return column[row] + share * (column[row + 1] - column[row])


def _nearest(own: np.ndarray, values: np.ndarray, t: np.ndarray) -> np.ndarray:
    """On straight lines between known values; at the ends the last known."""
    known = np.isfinite(values)
    return np.interp(t, own[known], values[known]) if known.any() else np.zeros(len(t))


def _filled_up(rows: np.ndarray, first: np.ndarray, size: int) -> np.ndarray:
    """Runs of so many rows from these on; what is missing is zero."""
    padded = np.concatenate([np.nan_to_num(rows), np.zeros((size, rows.shape[1]))])
    return np.stack([padded[i : i + size] for i in first])
