"""Batches of episodes, and their derivatives, which are separate for each sample."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Shaped

from ..parallel.batch import batch_map
from ..tasks import TaskState
from ..tasks.situation import EpisodeKeys
from ..tasks.task import Task, after
from .policy import as_row


class Moment(NamedTuple):
    """The outcome of a step of one or many episodes.

    - `reward`: The reward of the step.
    - `reached`: The observation at its end.
    - `terminated`, `truncated`: Flags of how the episode has ended, if it has.
    - `lost`: True if the reward or the state is not finite. The episode is then over, and its results are discarded.
    """

    reward: Float[Array, "*batch"]
    reached: Float[Array, "*batch size"]
    terminated: Bool[Array, "*batch"]
    truncated: Bool[Array, "*batch"]
    lost: Bool[Array, "*batch"]

    @property
    def done(self) -> Bool[Array, "*batch"]:
        return self.terminated | self.truncated


def begun(task: Task, keys: Shaped[Array, "environments"]) -> TaskState:
    """Returns the starts of episodes, one per key."""
    return batch_map(task.reset)(keys)


def advanced(
    task: Task,
    episodes: TaskState,
    actions: Float[Array, "n na"],
    probe: Float[Array, "n"],
    steepest: float,
) -> tuple[TaskState, Moment]:
    """Returns all episodes one step later; episodes that have ended are reset.

    Reverse-mode derivatives are by the states and the actions. A step stores its initial state and is recomputed in the
    backward pass, so each pass is one loop over the samples. Derivatives do not cross the end of an episode, so the backward
    pass computes no resets. The derivative of a step is clipped to the length `steepest`, and set to zero if it is not finite.
    The argument `probe` has no effect, and its derivative is 1 for those samples.
    """
    numbers, rest = eqx.partition(task, eqx.is_array)
    moving, still = eqx.partition(episodes, eqx.is_inexact_array)

    def one(numbers, moving, still, action):
        new, moment = _advanced(eqx.combine(numbers, rest), eqx.combine(moving, still), action)
        new, kept = eqx.partition(new, eqx.is_inexact_array)
        told, flags = eqx.partition(moment, eqx.is_inexact_array)
        return (new, told), (kept, flags)

    def back(numbers, moving, still, action, flags, cotangent):
        task, (of_new, of_told) = eqx.combine(numbers, rest), cotangent

        def stepped(moving, action):
            new = task.step(eqx.combine(moving, still), action)
            return eqx.filter(new, eqx.is_inexact_array), (new.reward, as_row(new.final_observation))

        pull = jax.vjp(stepped, moving, action)[1]
        lost, over = flags.lost, flags.done
        pulled = pull((_without(over, of_new), _without(lost, (of_told.reward, of_told.reached))))
        length = length_of(pulled)
        bad = ~jnp.isfinite(length)
        factor = jnp.minimum(1, steepest / jnp.maximum(length, steepest))
        cut = _without(bad, jax.tree.map(lambda x: factor * x, pulled))
        return *cut, bad.astype(action.dtype)

    @jax.custom_vjp
    def step(numbers, moving, still, actions, probe):
        return batch_map(one, in_axes=(None, 0, 0, 0))(numbers, moving, still, actions)

    def forth(numbers, moving, still, actions, probe):
        made = step(numbers, moving, still, actions, probe)
        return made, (numbers, moving, still, actions, made[1][1])

    def backwards(given, cotangents):
        moving, action, bad = batch_map(back, in_axes=(None, 0, 0, 0, 0, 0))(*given, cotangents[0])
        return None, moving, None, action, bad

    step.defvjp(forth, backwards)
    (new, told), (kept, flags) = step(numbers, moving, still, actions, probe)
    return eqx.combine(new, kept), eqx.combine(told, flags)


def _advanced(task: Task, episode: TaskState, action: Float[Array, "na"]) -> tuple[TaskState, Moment]:
    new = task.step(episode, action)
    told = new.reward, new.final_observation, new.state
    finite = [jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(told) if eqx.is_inexact_array(x)]
    lost = ~jnp.all(jnp.stack(finite))

    def anew(new: TaskState) -> TaskState:
        # A separate key if the state is not finite, because the following key may lead to the same failure.
        key = jnp.where(
            lost, jax.random.fold_in(episode.key, episode.steps), EpisodeKeys(episode.key).following
        )
        fresh = task.reset(key)
        nothing = eqx.tree_at(lambda one: one.terminated, fresh, jnp.asarray(True))
        return jax.tree.map(lambda a, b: jnp.where(lost, a, b), nothing, after(new, fresh))

    new = lax.cond(lost | new.done, anew, lambda new: new, new)
    return new, Moment(new.reward, as_row(new.final_observation), new.terminated, new.truncated, lost)


def length_of(tree: Any) -> Float[Array, ""]:
    """Returns the norm of all numbers of a tree as one vector."""
    return jnp.sqrt(sum(jnp.sum(x**2) for x in jax.tree.leaves(tree)))


def _without(where: Bool[Array, ""], tree: Any) -> Any:
    """Returns the tree with zeros where the flag is set."""
    return jax.tree.map(lambda x: jnp.where(where, jnp.zeros_like(x), x), tree)
