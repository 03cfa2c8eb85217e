"""Failures of a rollout: how they are noticed, and what they leave of the trajectory."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from .._failures import Failure, lost
from .result import Result
from .state import State
from .system import System


def not_finite(state: State) -> Int[Array, ""]:
    """Whether a state has a number that is none, as a code."""
    return jnp.where(_is_finite(state), Result.SUCCESS, Result.NOT_FINITE)


def opening(system: System, time, state: State) -> Float[Array, ""]:
    """By how much the constraint is open that is most: an angle in rad, a length as a share of the mechanism's reach."""
    gaps = jnp.abs(system.constraint_residual(time, state.q)) / system.constraint_scales.astype(state.q.dtype)
    return lax.stop_gradient(jnp.max(gaps, initial=0))


def seen_in(states: State) -> Failure:
    """What the states tell of a scheme whose steps can only diverge, if all are saved."""
    finite = jax.vmap(_is_finite)(states)
    diverged = ~finite[-1]
    step = jnp.where(diverged, jnp.maximum(jnp.argmin(finite) - 1, 0), -1).astype(jnp.int32)
    return Failure(jnp.where(diverged, Result.NOT_FINITE, Result.SUCCESS).astype(jnp.int32), step)


def without_failed(states: State, failure: Failure, save_every: int) -> State:
    """The states saved after each so many steps, those from the failed step on turned into NaN."""
    steps = jnp.arange(len(states.q), dtype=jnp.int32) * save_every + (save_every - 1)
    return lost(states, failure.happened & (steps >= failure.step))


def _is_finite(state: State) -> Bool[Array, ""]:
    return jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(state)]).all()
