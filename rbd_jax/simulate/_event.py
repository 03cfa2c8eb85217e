"""Ends a rollout where a function of the state crosses zero.

The step loop stores only the two states around the first crossing. The root of the event function on the scheme's interpolation
between them is computed once, at the end, and differentiated by the implicit function theorem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from .control import Control
from .scheme import Scheme
from .state import State
from .system import System
from .trajectory import Trajectory


#: A function of time and state; a rollout ends where its value changes sign.
EventFunction: TypeAlias = Callable[[Float[Array, ""], State], Float[Array, ""]]

#: Number of bisections of the interval that contains the root.
HALVINGS = 60


class Crossing(eqx.Module):
    """The step of the sign change (-1 before it), its control, and the states before and after."""

    step: Int[Array, ""]
    control: Control
    before: State
    after: State

    @staticmethod
    def none(control, state: State) -> Crossing:
        return Crossing(jnp.int32(-1), control, state, state)

    def happened(self) -> Bool[Array, ""]:
        return self.step >= 0

    def watch(
        self, event: EventFunction, time, control, state: State, new: State, dt, number
    ) -> tuple[State, Crossing, Bool[Array, ""]]:
        """Updates the crossing after one more step.

        The loop also makes the steps after the crossing. All of them start from the state before it, where everything is finite,
        because their derivatives are multiplied by zero and must be finite.

        Returns:
          The state for the next step, the crossing, and whether the event function was not NaN.
        """
        behind, ahead = _asked(event, time, state), _asked(event, time + dt, new)
        crossed = ((behind > 0) & (ahead <= 0)) | ((behind < 0) & (ahead >= 0))
        waiting = ~self.happened()
        step = jnp.where(waiting & crossed, number.astype(self.step.dtype), self.step)
        around = choose(waiting, (control, state, new), (self.control, self.before, self.after))
        crossing = Crossing(step, *around)
        return choose(step < 0, new, crossing.before), crossing, ~(waiting & jnp.isnan(behind + ahead))

    def cut(
        self,
        scheme: Scheme,
        system: System,
        event: EventFunction,
        path: Trajectory,
        t0,
        dt,
        save_every: int,
    ) -> Trajectory:
        """Returns the trajectory with the rows after the event replaced by the state at the event.

        Args:
          scheme: The scheme, which interpolates within a step.
          system: The system with the control of this crossing.
          event: The event function.
          path: The trajectory without the event.
          t0: Time of the initial state.
          dt: Length of a step.
          save_every: Number of steps between two rows.
        """
        happened = self.happened()
        start = t0 + dt * self.step.astype(dt.dtype)

        def state(share):
            return scheme.within(system, start, self.before, self.after, dt, share)

        def value(share):
            return jnp.where(happened, event(start + share * dt, state(share)), share - 1)

        share = lax.custom_root(
            value, jnp.ones_like(dt), _bisect, lambda linear, y: y / linear(jnp.ones_like(y))
        )
        time, final = jnp.where(happened, start + share * dt, path.t[-1]), state(share)
        later = (
            happened & (jnp.arange(0, len(path.t) * save_every, save_every, dtype=jnp.int32) > self.step)
        )[:, None]
        rows = State(path.q, path.v, path.own)
        rows = jax.tree.map(lambda end, rows: jnp.where(later, end[None], rows), final, rows)
        return Trajectory(
            path.t,
            rows.q,
            rows.v,
            path.tau,
            path.code,
            path.failed_step,
            self.step,
            time,
            rows.own,
            path.opening,
            u=path.u,
        )


def _asked(event: EventFunction, time, state: State) -> Float[Array, ""]:
    value = jnp.asarray(event(time, state))
    if value.shape != () or not jnp.issubdtype(value.dtype, jnp.floating):
        raise ValueError(
            f"rollout: event returns an array of shape {value.shape} and type {value.dtype}; it must be one real number, whose "
            "change of sign ends the rollout"
        )
    return value


def choose(condition, a, b):
    """Selects one of two PyTrees."""
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)


def _bisect(function, one):
    start = function(jnp.zeros_like(one)) > 0

    def halve(_, ends):
        low, high = ends
        middle = (low + high) / 2
        same = (function(middle) > 0) == start
        return jnp.where(same, middle, low), jnp.where(same, high, middle)

    low, high = lax.fori_loop(0, HALVINGS, halve, (jnp.zeros_like(one), one))
    return (low + high) / 2
