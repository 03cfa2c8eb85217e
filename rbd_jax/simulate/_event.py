"""Stopping a rollout where a function of the state crosses zero.

While stepping, only the two states around the first crossing are kept; the root on what the scheme says of the motion between
them is found once, at the end, and differentiated by the implicit function theorem.
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


#: A number whose change of sign ends a rollout, from time and state.
EventFunction: TypeAlias = Callable[[Float[Array, ""], State], Float[Array, ""]]

#: Halvings of the interval in which the root lies.
HALVINGS = 60


class Crossing(eqx.Module):
    """The step in which the sign changed, -1 before that, its control, and the states around it."""

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
        """The state to go on with, the crossing, after one more step, and whether there was a number to look at.

        What comes after the crossing is not wanted, but steps are made: all from the state before it, where
        everything is known to be finite. So their derivatives, which count zero times, are numbers too.
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
        """The trajectory, its rows after the event replaced by the state at the event; `system` has this crossing's control."""
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
    """One of two PyTrees."""
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
