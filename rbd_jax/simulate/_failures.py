"""Failures of a rollout: how they are noticed, and what they leave of the trajectory."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int

from .._core.array import is_known
from .._core.failures import Failure, lost
from .result import Result
from .state import State
from .step_data import StepData
from .system import System
from .trajectory import Trajectory


#: In m/s, and for want of a better one in rad/s: what moves faster has diverged, long before its numbers overflow.
SPEED_OF_LIGHT = 299_792_458.0


def broken(state: State) -> Int[Array, ""]:
    """The code of a state that nothing can be in: not a number, or faster than light."""
    limit = jnp.asarray(SPEED_OF_LIGHT, state.v.dtype)
    fast = jnp.where(jnp.all(jnp.abs(state.v) < limit), Result.SUCCESS, Result.DIVERGED)
    return jnp.where(_is_finite(state), fast, Result.NOT_FINITE)


def split(
    code: Int[Array, ""] | np.int32,
) -> tuple[Int[Array, ""] | np.int32, Int[Array, ""] | np.int32 | None]:
    """Splits the code of a step into a failure and a warning; the warning is None where the code is known to hold none."""
    if is_known(code) and code != Result.CONTACTS_UNSOLVED:
        return code, None
    doubt = code == Result.CONTACTS_UNSOLVED
    return jnp.where(doubt, Result.SUCCESS, code), jnp.where(doubt, code, Result.SUCCESS)


def opening(here: StepData) -> Float[Array, ""]:
    """By how much the constraint is open that is most: an angle in rad, a length as a share of the mechanism's reach."""
    gaps = jnp.abs(here.constraint_residual()) / here.system.constraint_scales.astype(here.q.dtype)
    return lax.stop_gradient(jnp.max(gaps, initial=0))


def seen_in(states: State) -> Failure:
    """What the states tell of a scheme whose steps can only diverge, if all are saved; the first is the initial one."""
    codes = jax.vmap(broken)(states)
    first = jnp.argmax(codes != Result.SUCCESS)
    failed = codes[first] != Result.SUCCESS
    step = jnp.where(failed, jnp.maximum(first - 1, 0), -1).astype(jnp.int32)
    return Failure(codes[first].astype(jnp.int32), step)


def explained(failure: Failure, system: System, times, before: State, start: State, dt) -> Failure:
    """The failure with its cause, if that is a singular mass matrix.

    Looked at is the state `before` the step that failed, or else the initial one: where no force happens to push what moves no
    inertia, its acceleration is of any size. Damping makes up for inertia in schemes that take it implicitly, so a motion that
    has not blown up had it.
    """
    blown_up = (failure.code == Result.NOT_FINITE) | (failure.code == Result.DIVERGED)
    time, q = (jnp.where(blown_up, x, y) for x, y in (times, (before.q, start.q)))
    h = jnp.where(blown_up, 0, dt)
    # What is known of the model stays known: most models cannot be singular, and then nothing is computed.
    singular = jax.tree.map(_constant, system).singular(*map(_constant, (time, q, h)))
    code = jnp.where(singular, Result.SINGULAR, failure.code).astype(jnp.int32)
    return Failure(code, jnp.where(singular & ~blown_up, 0, failure.step))


def _constant(leaf):
    return lax.stop_gradient(leaf) if isinstance(leaf, Tracer) else leaf


def without_failed(rows: State, failure: Failure, save_every: int) -> State:
    """The initial state and those saved after each so many steps, all after the start of the failed step turned into NaN."""

    @jax.checkpoint  # differentiation remembers the failure, and not what it makes of each row
    def turned(rows, failure):
        made = jnp.arange(len(rows.q), dtype=jnp.int32) * save_every
        return lost(rows, failure.happened & (made > failure.step))

    return turned(rows, failure)


def raising(owner: str, path: Trajectory) -> Trajectory:
    """The trajectory, if all went well; else a RuntimeError says what did not, where its code is known or when it is."""
    if is_known(path.code) and np.asarray(path.code) != Result.SUCCESS:
        code, step = Result(int(path.code)), int(path.failed_step)
        raise RuntimeError(f"{owner}: {code.title} in step {step}: {code.message}")
    # Under `jit`: a branch for each message.
    messages = [f"{owner}: {code.title}: {code.message}" for code in Result]
    return eqx.branched_error_if(path, path.code != Result.SUCCESS, path.code, messages)


def _is_finite(state: State) -> Bool[Array, ""]:
    return jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(state)]).all()
