"""Failures of a rollout: detection, and their effect on the trajectory."""

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


#: Speed limit in m/s, and also in rad/s. A faster motion has diverged; this is detected long before an overflow.
SPEED_OF_LIGHT = 299_792_458.0


def broken(state: State) -> Int[Array, ""]:
    """Returns the code of a state that is not finite or faster than light, else SUCCESS."""
    limit = jnp.asarray(SPEED_OF_LIGHT, state.v.dtype)
    fast = jnp.where(jnp.all(jnp.abs(state.v) < limit), Result.SUCCESS, Result.DIVERGED)
    return jnp.where(_is_finite(state), fast, Result.NOT_FINITE)


def split(
    code: Int[Array, ""] | np.int32,
) -> tuple[Int[Array, ""] | np.int32, Int[Array, ""] | np.int32 | None]:
    """Splits the code of a step into a failure and a warning; the warning may be absent (None)."""
    if is_known(code) and code != Result.CONTACTS_UNSOLVED:
        return code, None
    doubt = code == Result.CONTACTS_UNSOLVED
    return jnp.where(doubt, Result.SUCCESS, code), jnp.where(doubt, code, Result.SUCCESS)


def opening(here: StepData) -> Float[Array, ""]:
    """Returns the largest constraint violation: angles in rad, lengths as a share of the mechanism's reach."""
    gaps = jnp.abs(here.constraint_residual()) / here.system.constraint_scales.astype(here.q.dtype)
    return lax.stop_gradient(jnp.max(gaps, initial=0))


def seen_in(states: State) -> Failure:
    """Finds the first failure in the saved states, initial state first, of a scheme whose steps fail only by divergence."""
    codes = jax.vmap(broken)(states)
    first = jnp.argmax(codes != Result.SUCCESS)
    failed = codes[first] != Result.SUCCESS
    step = jnp.where(failed, jnp.maximum(first - 1, 0), -1).astype(jnp.int32)
    return Failure(codes[first].astype(jnp.int32), step)


def explained(failure: Failure, system: System, times, before: State, start: State, dt) -> Failure:
    """Returns the failure, with the code SINGULAR if a singular mass matrix caused it.

    The function checks the state `before` the failed step if the motion diverged, else the initial state: without a force on the
    massless degree of freedom, its acceleration is arbitrary. In schemes that take damping implicitly, damping replaces inertia.
    Therefore damping counts unless the motion diverged.
    """
    blown_up = (failure.code == Result.NOT_FINITE) | (failure.code == Result.DIVERGED)
    time, q = (jnp.where(blown_up, x, y) for x, y in (times, (before.q, start.q)))
    h = jnp.where(blown_up, 0, dt)
    # Concrete values stay concrete: most models cannot be singular, and then nothing is computed.
    singular = jax.tree.map(_constant, system).singular(*map(_constant, (time, q, h)))
    code = jnp.where(singular, Result.SINGULAR, failure.code).astype(jnp.int32)
    return Failure(code, jnp.where(singular & ~blown_up, 0, failure.step))


def _constant(leaf):
    return lax.stop_gradient(leaf) if isinstance(leaf, Tracer) else leaf


def without_failed(rows: State, failure: Failure, save_every: int) -> State:
    """Returns the initial and the saved states, with NaN in all rows after the start of the failed step."""

    @jax.checkpoint  # reverse mode stores the failure, not a mask for each row
    def turned(rows, failure):
        made = jnp.arange(len(rows.q), dtype=jnp.int32) * save_every
        return lost(rows, failure.happened & (made > failure.step))

    return turned(rows, failure)


def raising(owner: str, path: Trajectory) -> Trajectory:
    """Returns the trajectory if its code is SUCCESS; else raises a RuntimeError, at runtime if the code is traced."""
    if is_known(path.code) and np.asarray(path.code) != Result.SUCCESS:
        code, step = Result(int(path.code)), int(path.failed_step)
        raise RuntimeError(f"{owner}: {code.title} in step {step}: {code.message}")
    # Under `jit`, each message needs a branch.
    messages = [f"{owner}: {code.title}: {code.message}" for code in Result]
    return eqx.branched_error_if(path, path.code != Result.SUCCESS, path.code, messages)


def _is_finite(state: State) -> Bool[Array, ""]:
    return jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(state)]).all()
