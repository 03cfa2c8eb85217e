"""The result of a rollout: states over time, and interpolation between them."""

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
    """States over time, beginning with the initial state.

    - `t`, `q`, `v`: N + 1 rows.
    - `tau`, `u`: N rows. `tau[i]` is the control of the step that starts at `q[i], v[i]`, and `u[i]` the control of the model's
      actuators, after their delays; None without actuators.
    - `own`: the internal states of forces; None without internal states.
    - `code`, `failed_step`: the `Result` of the first failed step and its number, counted from 0; 0 and -1 if all steps
      succeeded. From that step on the states are NaN. If no step failed, it is the first warning, which leaves the states
      unchanged: `Result.CONSTRAINTS_OPEN`, or a contact warning (`CONTACTS_LOST`, `CONTACTS_UNSOLVED`, `OVERLAPPING`).
    - `event_step`, `event_time`: for a rollout with an event, the number of its step (-1 without occurrence) and its time
      (the end of the trajectory without occurrence). Later rows contain the state at the event.
    - `opening`: the largest constraint violation, at the start or after a step: angles in rad, lengths as a share of the
      mechanism's reach (see `rbd.constraints.reach`); None without constraints.
    - `memory`: the final memory of a policy with memory.

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
        """Returns the state at any time within the trajectory, for one sample; after an event, the state at the event.

        Between two saved states, the configuration is a cubic in the chart at the first, which matches their configurations
        and velocities. Its error is `O(dt⁴)` in q and `O(dt³)` in v for any scheme, where dt is the time between the two
        states (book eq. 11.46). Internal states of forces are interpolated linearly, with error `O(dt²)`. A time outside the
        trajectory raises an error; under `jit` it returns NaN.

        Args:
          model: The simulated model.
          t: The time.
        """
        t = jnp.asarray(t, self.t.dtype)
        rows, last = self.t, self.t[-1] if self.event_time is None else self.event_time
        slack = 4 * jnp.finfo(t.dtype).eps * jnp.maximum(jnp.abs(rows[0]), jnp.abs(rows[-1]))
        outside = (t < rows[0] - slack) | (t > rows[-1] + slack)
        if is_known(outside) and outside.any():
            raise ValueError(
                f"at: t = {float(t):g} is outside the trajectory, from {float(self.t[0]):g} to {float(self.t[-1]):g}"
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
        """Returns a player of the motion, which a notebook displays; its method `save(path)` writes an HTML file.

        Args:
          model: The simulated model.
          **options: The options of `rbd.save_html`, and `height` of the frame in a notebook, in pixels.

        >>> model = rbd.load("pendulum")
        >>> path = rbd.rollout(model, rbd.State(jnp.array([1.0]), jnp.zeros(1)), dt=0.01, steps=20)
        >>> path.show(model, title="It swings")  # doctest: +ELLIPSIS
        Player('It swings', one sample, ... MB; .save(path) writes it)
        """
        return player()(model, self, **options)

    def multipliers(self, model: Model, forces: Sequence[Acting] = ()) -> Float[Array, "saves m"]:
        """Returns the constraint multipliers at the start of every saved step, under its control, for one sample.

        These are the multipliers of `constrained_dynamics` in the state of that row, for any scheme.

        Args:
          model: The simulated model.
          forces: The `forces` of the rollout.
        """
        instance("Trajectory", "model", model, Model, "the Model that was simulated")
        return _multipliers(self, model, tuple(forces))

    def reactions(self, model: Model, forces: Sequence[Acting] = ()) -> Float[Array, "saves nb 6"]:
        """Returns the wrenches that the joints transmit at the start of every saved step (see `joint_wrenches`), for one sample.

        They include the effect of force elements on bodies; functions among `forces` act along the joints.

        Args:
          model: The simulated model.
          forces: The `forces` of the rollout.
        """
        instance("Trajectory", "model", model, Model, "the Model that was simulated")
        return _reactions(self, model, tuple(forces))

    def driving(self, model: Model) -> Float[Array, "saves nv"]:
        """Returns the generalized forces that drive the joints at the start of every saved step, for one sample.

        They are the sum of `tau` and the actuator forces along the joints.
        """
        instance("Trajectory", "model", model, Model, "the Model that was simulated")
        return _driving(self, model)

    def contacts(self, model: Model, forces: Sequence[Acting] = ()) -> Contacts:
        """Returns the contacts at the start of every saved step, with their forces, for one sample; `(saves, n, ...)` each.

        These are the results of `rbd.contact_forces` in the state of that row, under its control. For `rbd.contact.Rigid`
        they are the forces of a step of its own `timestep`: set it to that of the rollout.

        Args:
          model: The simulated model.
          forces: The `forces` of the rollout.
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
    """Evaluates a function of time, state and control at the start of every saved step."""
    own = None if path.own is None else path.own[:-1]
    return jax.vmap(function)(path.t[:-1], path.q[:-1], path.v[:-1], own, path.tau, path.u)


def describe(path: Trajectory) -> str:
    """Returns a summary: duration, results and final state; for a batch, the number of samples with each result."""
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
    """Returns the forces on the model in one of the states."""
    return TreeLoads(TreeSystem(model=model, tau=tau, forces=tuple(forces), u=u), time, State(q, v, own))


def between(
    system: System, start: State, end: State, span: Float[Array, ""], share: Float[Array, ""]
) -> State:
    """Returns the state at a share of the time between two states.

    The configuration is Hermite's cubic in the chart at the first state; internal states of forces are interpolated linearly.
    """
    if system.charted:
        end = system.reparametrized(end, near=start.q)
    step = system.difference(start.q, end.q)
    first, last = span * start.v, span * system.chart_rate(start.q, step, end.v)

    def chart(s):
        return s * (1 - s) ** 2 * first + s**2 * (3 - 2 * s) * step + s**2 * (s - 1) * last

    here, rate = jax.jvp(chart, (share,), (jnp.ones_like(share),))
    own = start.internal + share * (end.internal - start.internal)
    return State(system.move(start.q, here), system.chart_velocity(start.q, here, rate) / span, own)
