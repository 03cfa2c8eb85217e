"""Failures of a rollout: noticed on the way, the first one kept, and what it leaves of the trajectory."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from .result import Result, first_failure
from .state import State
from .system import System


class Failure(eqx.Module):
    """The first failure's code and the number of its step; 0 and -1 while there is none."""

    code: Int[Array, ""]
    step: Int[Array, ""]

    @staticmethod
    def none() -> Failure:
        return Failure(jnp.int32(Result.SUCCESS), jnp.int32(-1))

    @property
    def happened(self) -> Bool[Array, ""]:
        return self.code != Result.SUCCESS

    def noted(self, code, step) -> Failure:
        """After one more step, which ended with this code."""
        first = ~self.happened & (code != Result.SUCCESS)
        code = first_failure(self.code, code).astype(self.code.dtype)
        return Failure(code, jnp.where(first, step.astype(self.step.dtype), self.step))


def not_finite(state: State) -> Int[Array, ""]:
    """Whether a state has a number that is none, as a code."""
    return jnp.where(_is_finite(state), Result.SUCCESS, Result.NOT_FINITE)


def constraints_open(system: System, time, state: State, tolerance: float) -> Int[Array, ""]:
    """Whether a constraint is open by more than the tolerance, as a code."""
    gap = jnp.max(jnp.abs(lax.stop_gradient(system.constraint_residual(time, state.q))), initial=0)
    return jnp.where(gap > tolerance, Result.CONSTRAINTS_OPEN, Result.SUCCESS)


def seen_in(states: State) -> Failure:
    """What the states tell of a scheme whose steps can only diverge, if all are saved."""
    finite = jax.vmap(_is_finite)(states)
    diverged = ~finite[-1]
    step = jnp.where(diverged, jnp.maximum(jnp.argmin(finite) - 1, 0), -1).astype(jnp.int32)
    return Failure(jnp.where(diverged, Result.NOT_FINITE, Result.SUCCESS).astype(jnp.int32), step)


def without_failed(states: State, failure: Failure, save_every: int) -> State:
    """The states saved after each so many steps, those from the failed step on turned into NaN."""
    steps = jnp.arange(len(states.q), dtype=jnp.int32) * save_every + (save_every - 1)
    lost = failure.happened & (steps >= failure.step)
    return jax.tree.map(lambda rows: _spoiled(lost[:, None], rows), states)


@jax.custom_jvp
def _spoiled(lost: Bool[Array, "rows 1"], x: Float[Array, "rows n"]):
    """NaN in the lost rows. Their derivatives are infinite, but for what counts zero times."""
    return jnp.where(lost, jnp.nan, x)


@_spoiled.defjvp
def _spoiled_rule(primals, tangents):
    lost, x = primals
    # Times infinity would make NaN of zero; times the largest number, twice, leaves it zero.
    large = jnp.where(lost, jnp.finfo(x.dtype).max, 1).astype(x.dtype)
    return _spoiled(lost, x), tangents[1] * large * large


def _is_finite(state: State) -> Bool[Array, ""]:
    return jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(state)]).all()
