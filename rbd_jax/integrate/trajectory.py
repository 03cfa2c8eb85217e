"""What a rollout returns: states over time, and the motion between them."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ._reduced import Simulated, system_of
from ._system import State, System


def _constant(value: int):
    return eqx.field(default_factory=lambda: jnp.full((), value, jnp.int32))


class Trajectory(eqx.Module):
    """States over time, the initial one first.

    - `t`, `q`, `v` have N + 1 rows; `tau` has N: `tau[i]` is the control of the step that leaves `q[i], v[i]`.
    - `code`, `failed_step`: the `Result` of the first step that failed and its number, counted from 0; 0 and -1 where all
      went well. From that step on the states are NaN. Of a scheme that solves no equations it is only seen that a saved
      state is not finite; then it is the first step after the last finite saved state.
    - `event_step`, `event_time`: for a rollout with an event, the number of the step in which it happened (-1 if it never
      did) and when (the end of the trajectory if never). The rows from there on hold the state at the event.
    """

    t: Float[Array, "*batch saved"]
    q: Float[Array, "*batch saved nq"]
    v: Float[Array, "*batch saved nv"]
    tau: Float[Array, "*batch saves nv"]
    code: Int[Array, "*batch"] = _constant(0)
    failed_step: Int[Array, "*batch"] = _constant(-1)
    event_step: Int[Array, "*batch"] | None = None
    event_time: Float[Array, "*batch"] | None = None

    @property
    def final(self) -> State:
        """The last state."""
        return State(self.q[..., -1, :], self.v[..., -1, :])

    def at(self, model: Simulated, t: float | Float[Array, ""]) -> State:
        """The state at any time within the trajectory, for one sample.

        Between two saved states it is a cubic in the chart at the first that has their configurations and
        velocities: right to `O(dt⁴)` in q and `O(dt³)` in v, dt being the time between the two.
        """
        t = jnp.asarray(t, self.t.dtype)
        row = jnp.clip(jnp.searchsorted(self.t, t, side="right") - 1, 0, self.t.shape[0] - 2)
        start, end = (State(self.q[i], self.v[i]) for i in (row, row + 1))
        span = self.t[row + 1] - self.t[row]
        system = system_of(model, self.tau[0])
        return between(system, start, end, span, (t - self.t[row]) / span)


def between(
    system: System, start: State, end: State, span: Float[Array, ""], share: Float[Array, ""]
) -> State:
    """The state at a share of the time between two: Hermite's cubic in the chart at the first."""
    step = system.difference(start.q, end.q)
    first, last = span * start.v, span * system.chart_rate(start.q, step, end.v)

    def chart(s):
        return s * (1 - s) ** 2 * first + s**2 * (3 - 2 * s) * step + s**2 * (s - 1) * last

    here, rate = jax.jvp(chart, (share,), (jnp.ones_like(share),))
    return State(system.move(start.q, here), system.chart_velocity(start.q, here, rate) / span)
