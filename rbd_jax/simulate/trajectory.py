"""What a rollout returns: states over time, and the motion between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._core.arguments import instance
from .._core.array import by_numpy, is_known, pick
from .._core.jit import compiled
from .._core.showing import player
from .._core.text import can_be_shown
from ..contact.contacts import Contacts
from ..model import Model
from .loads import TreeLoads
from .result import Result
from .state import State
from .system import System
from .systems import Simulated, system_of
from .tree_system import Acting, TreeSystem


def _constant(value: int):
    return eqx.field(default_factory=lambda: by_numpy(lambda xp: xp.full((), value, xp.int32)))


class Trajectory(eqx.Module):
    """States over time, the initial one first.

    - `t`, `q`, `v` have N + 1 rows; `tau` has N: `tau[i]` is the control of the step that leaves `q[i], v[i]`, and `u[i]` that
      of the model's actuators, None where it has none; of those that have a delay it is what arrived. `own` are the states that
      forces have themselves, None where they have none.
    - `code`, `failed_step`: the `Result` of the first step that failed and its number, counted from 0; 0 and -1 where all
      went well. From that step on the states are NaN. Where no step failed, it is the first doubt, which leaves the states
      as they are: `Result.CONSTRAINTS_OPEN`, or one about contacts (`CONTACTS_LOST`, `CONTACTS_UNSOLVED`, `OVERLAPPING`).
    - `event_step`, `event_time`: for a rollout with an event, the number of the step in which it happened (-1 if it never
      did) and when (the end of the trajectory if never). The rows from there on hold the state at the event.
    - `opening`: the most that constraints were open, at the start or after a step, of angles in rad and of lengths as a share of
      the mechanism's reach (see `rbd.constraints.reach`); None where there are none.
    - `memory`: what a policy with a memory remembers at the end.

    >>> model = rbd.load("pendulum")
    >>> path = rbd.rollout(model, rbd.State(jnp.array([0.5]), jnp.zeros(1)), dt=0.01, steps=10)
    >>> print(path.t[-1], path.q.shape, path.final.v, int(path.code))
    0.1 (11, 1) [-0.463] 0
    >>> print(path.at(model, 0.055).q)
    [0.492]
    """

    t: Float[Array, "*batch saved"]
    q: Float[Array, "*batch saved nq"]
    v: Float[Array, "*batch saved nv"]
    tau: Float[Array, "*batch saves nv"]
    code: Int[Array, "*batch"] = _constant(0)
    failed_step: Int[Array, "*batch"] = _constant(-1)
    event_step: Int[Array, "*batch"] | None = None
    event_time: Float[Array, "*batch"] | None = None
    own: Float[Array, "*batch saved own"] | None = None
    opening: Float[Array, "*batch"] | None = None
    memory: Any = None
    u: Float[Array, "*batch saves nu"] | None = None

    def __repr__(self) -> str:
        return describe(self) if can_be_shown(self) else super().__repr__()

    @property
    def final(self) -> State:
        """The last state."""
        last = lambda rows: pick(rows, (..., -1, slice(None)))
        return State(last(self.q), last(self.v), None if self.own is None else last(self.own))

    def at(self, model: Simulated, t: float | Float[Array, ""]) -> State:
        """The state at any time within the trajectory, for one sample; after an event, the state at the event.

        Between two saved states it is a cubic in the chart at the first that has their configurations and
        velocities: right to `O(dt⁴)` in q and `O(dt³)` in v, dt being the time between the two, whatever the scheme (book
        eq. 11.46). What forces remember themselves is on the chord, right to `O(dt²)`. A time outside is refused, and under
        `jit` gives NaN.
        """
        t = jnp.asarray(t, self.t.dtype)
        rows, last = self.t, self.t[-1] if self.event_time is None else self.event_time
        slack = 4 * jnp.finfo(t.dtype).eps * jnp.maximum(jnp.abs(rows[0]), jnp.abs(rows[-1]))
        outside = (t < rows[0] - slack) | (t > rows[-1] + slack)
        if is_known(outside) and outside.any():
            raise ValueError(
                f"at: t = {float(t):g} is not within the trajectory, from {float(self.t[0]):g} to {float(self.t[-1]):g}"
            )
        t = jnp.where(t > last, last, jnp.where(t < rows[0], rows[0], t))
        row = jnp.clip(jnp.searchsorted(rows, t, side="right") - 1, 0, len(rows) - 2)
        rows_of = lambda i: State(self.q[i], self.v[i], None if self.own is None else self.own[i])
        start, end = rows_of(row), rows_of(row + 1)
        # The row after an event holds the state at the event.
        span = jnp.minimum(rows[row + 1], last) - rows[row]
        span, since = jnp.where(span > 0, span, 1), t - rows[row]
        state = between(
            system_of(model, self.tau[0], u=None if self.u is None else self.u[0]),
            start,
            end,
            span,
            since / span,
        )
        return jax.tree.map(lambda x: jnp.where(outside, jnp.nan, x), state)

    def show(self, model: Simulated, **options: Any) -> Any:
        """The motion as a page that plays: a notebook shows it, and its method `save(path)` writes it to an HTML file.

        - `options`: those of `rbd.save_html`, and `height`, of the frame in a notebook, in pixels.

        >>> model = rbd.load("pendulum")
        >>> path = rbd.rollout(model, rbd.State(jnp.array([1.0]), jnp.zeros(1)), dt=0.01, steps=20)
        >>> path.show(model, title="It swings")  # doctest: +ELLIPSIS
        Player('It swings', one sample, ... MB; .save(path) writes it)
        """
        return player()(model, self, **options)

    def multipliers(self, model: Model, forces: Sequence[Acting] = ()) -> Float[Array, "saves m"]:
        """The multipliers of the constraints at the start of every saved step, under its control, for one sample.

        Those of `constrained_dynamics` in the state of that row: what constraints do there, whatever the scheme made of it.

        - `forces`: what the rollout was given beside what the model carries.
        """
        instance("Trajectory", "model", model, Model, "the Model that was simulated")
        return _multipliers(self, model, tuple(forces))

    def reactions(self, model: Model, forces: Sequence[Acting] = ()) -> Float[Array, "saves nb 6"]:
        """The wrenches that the joints transmit at the start of every saved step (see `joint_wrenches`), for one sample.

        What force elements do to bodies is counted; functions among `forces` act along the joints.
        """
        instance("Trajectory", "model", model, Model, "the Model that was simulated")
        return _reactions(self, model, tuple(forces))

    def driving(self, model: Model) -> Float[Array, "saves nv"]:
        """The generalized forces that drive the joints at the start of every saved step, for one sample: `tau`, and what the
        actuators of the model do along them."""
        instance("Trajectory", "model", model, Model, "the Model that was simulated")
        return _driving(self, model)

    def contacts(self, model: Model, forces: Sequence[Acting] = ()) -> Contacts:
        """The contacts at the start of every saved step, with their forces, for one sample; `(saves, n, ...)` each.

        Those of `rbd.contact_forces` in the state of that row, under its control. `rbd.contact.Rigid` says there what it would do
        in a step of its own `timestep`: give it that of the rollout.
        """
        instance("Trajectory", "model", model, Model, "the Model that was simulated")
        return _contacts(self, model, tuple(forces))


@compiled
def _contacts(path: Trajectory, model: Model, forces: Sequence[Acting]):
    return _along(path, lambda *row: _loads(model, forces, *row).contacts)


@compiled
def _driving(path: Trajectory, model: Model):
    return _along(path, lambda *row: _loads(model, (), *row).driving)


@compiled
def _multipliers(path: Trajectory, model: Model, forces: Sequence[Acting]):
    return _along(path, lambda *row: _loads(model, forces, *row).multipliers)


@compiled
def _reactions(path: Trajectory, model: Model, forces: Sequence[Acting]):
    def one(*row):
        return _loads(model, forces, *row).joint_wrenches

    return _along(path, one)


def _along(path: Trajectory, function):
    """A function of time, state and control at the start of every saved step."""
    own = None if path.own is None else path.own[:-1]
    return jax.vmap(function)(path.t[:-1], path.q[:-1], path.v[:-1], own, path.tau, path.u)


def describe(path: Trajectory) -> str:
    """How long it is, how it went, and where it ended; of a batch, how many went how."""
    t, code, failed = (np.asarray(x) for x in (path.t, path.code, path.failed_step))
    batch, rows = t.shape[:-1], t.shape[-1]
    of_batch = f"{' x '.join(map(str, batch))} samples of " if batch else ""
    when = f" from t = {t[..., 0].min():.4g} to {t[..., -1].max():.4g}" if t.size else ""
    lines = [f"Trajectory: {of_batch}{rows} states{when}"]
    for kind in np.unique(code):
        name = Result(kind).name if kind in set(Result) else f"code {kind}"
        which = code == kind
        count = f"{which.sum()} " if batch else ""
        where = f" in step {failed[which].min()}" if kind != Result.SUCCESS else ""
        lines.append(f"{count}{name}{', first' if where and batch else ''}{where}")
    if path.event_step is not None and path.event_time is not None:
        happened, time = np.asarray(path.event_step) >= 0, np.asarray(path.event_time)
        when = f"at t = {time[happened].min():.4g}" if happened.any() else "never"
        lines.append(f"event in {happened.sum()} samples, first {when}" if batch else f"event {when}")
    if path.opening is not None:
        lines.append(f"constraints open by {np.max(path.opening, initial=0):.2g} at most")
    final = path.final if rows else None
    return "\n   ".join([*lines, f"final {final!r}"] if final is not None else lines)


def _loads(model: Model, forces: Sequence[Acting], time, q, v, own, tau, u) -> TreeLoads:
    """What acts on the model in one of the states."""
    return TreeLoads(TreeSystem(model=model, tau=tau, forces=tuple(forces), u=u), time, State(q, v, own))


def between(
    system: System, start: State, end: State, span: Float[Array, ""], share: Float[Array, ""]
) -> State:
    """The state at a share of the time between two: Hermite's cubic in the chart at the first; of the forces' own the chord."""
    if system.charted:
        end = system.reparametrized(end, near=start.q)
    step = system.difference(start.q, end.q)
    first, last = span * start.v, span * system.chart_rate(start.q, step, end.v)

    def chart(s):
        return s * (1 - s) ** 2 * first + s**2 * (3 - 2 * s) * step + s**2 * (s - 1) * last

    here, rate = jax.jvp(chart, (share,), (jnp.ones_like(share),))
    own = start.internal + share * (end.internal - start.internal)
    return State(system.move(start.q, here), system.chart_velocity(start.q, here, rate) / span, own)
