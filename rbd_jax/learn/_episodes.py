"""Many episodes side by side, and how they are differentiated: one by one, each by itself."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Shaped

from ..parallel import batch_map
from ..tasks import Task, TaskState
from .policy import as_row


class Moment(NamedTuple):
    """What a step of many episodes came to.

    - `reward`: of the step.
    - `reached`: what was observed at its end.
    - `terminated`, `truncated`: how the episode has ended, if it has.
    - `lost`: whether the reward or the state was no number. The episode is over then, and nothing of it counts.
    """

    reward: Float[Array, "*steps n"]
    reached: Float[Array, "*steps n size"]
    terminated: Bool[Array, "*steps n"]
    truncated: Bool[Array, "*steps n"]
    lost: Bool[Array, "*steps n"]

    @property
    def done(self) -> Bool[Array, "*steps n"]:
        return self.terminated | self.truncated


def begun(task: Task, keys: Shaped[Array, "environments"]) -> TaskState:
    """The beginnings of episodes, of a key each."""
    return batch_map(task.reset)(keys)


def advanced(
    task: Task,
    episodes: TaskState,
    actions: Float[Array, "n na"],
    probe: Float[Array, "n"],
    steepest: float,
) -> tuple[TaskState, Moment]:
    """All episodes one step later; those that have ended begin anew.

    It is differentiated in reverse mode, by the states and the actions. A step remembers where it began, and is made once more on
    the way back; so each direction is one loop over the samples. What goes back into an episode is cut to the length `steepest`,
    and where it is no number it is zero. The derivative by `probe`, which does nothing, tells where that was: it is 1 there.
    """
    numbers, rest = eqx.partition(task, eqx.is_array)
    moving, still = eqx.partition(episodes, eqx.is_inexact_array)

    def one(numbers, moving, still, action):
        new, moment = _advanced(eqx.combine(numbers, rest), eqx.combine(moving, still), action)
        new, kept = eqx.partition(new, eqx.is_inexact_array)
        told, flags = eqx.partition(moment, eqx.is_inexact_array)
        return (new, told), (kept, flags)

    def back(numbers, moving, still, action, cotangent):
        pull = jax.vjp(lambda *by: one(numbers, by[0], still, by[1])[0], moving, action)[1]
        pulled = pull(cotangent)
        length = jnp.sqrt(sum(jnp.sum(x**2) for x in jax.tree.leaves(pulled)))
        bad = ~jnp.isfinite(length)
        factor = jnp.minimum(1, steepest / jnp.maximum(length, steepest))
        cut = jax.tree.map(lambda x: jnp.where(bad, jnp.zeros_like(x), factor * x), pulled)
        return *cut, bad.astype(action.dtype)

    @jax.custom_vjp
    def step(numbers, moving, still, actions, probe):
        return batch_map(one, in_axes=(None, 0, 0, 0))(numbers, moving, still, actions)

    def forth(*given):
        return step(*given), given[:-1]

    def backwards(given, cotangents):
        moving, action, bad = batch_map(back, in_axes=(None, 0, 0, 0, 0))(*given, cotangents[0])
        return None, moving, None, action, bad

    step.defvjp(forth, backwards)
    (new, told), (kept, flags) = step(numbers, moving, still, actions, probe)
    return eqx.combine(new, kept), eqx.combine(told, flags)


def _advanced(task: Task, episode: TaskState, action: Float[Array, "na"]) -> tuple[TaskState, Moment]:
    new = task.step_and_reset(episode, action)
    told = new.reward, new.final_observation, new.observation, new.state
    finite = [jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(told) if jnp.issubdtype(x.dtype, jnp.inexact)]
    lost = ~jnp.all(jnp.stack(finite))

    def anew(_: TaskState) -> TaskState:
        fresh = task.reset(jax.random.fold_in(episode.key, episode.steps))
        return eqx.tree_at(lambda state: state.terminated, fresh, jnp.asarray(True))

    new = lax.cond(lost, anew, lambda new: new, new)
    return new, Moment(new.reward, as_row(new.final_observation), new.terminated, new.truncated, lost)
