"""Playing and evaluating episodes of a task with a policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsIndex

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._core.arguments import instance, whole_number
from .._core.jit import compiled
from ..parallel.batch import batch_map
from ..tasks import TaskState
from ..tasks.task import Task
from .policy import Policy


#: A policy, or any function from an observation to an action.
Deciding = Callable[[Any], Float[Array, "na"]]


class Evaluation(eqx.Module):
    """The outcome of episodes.

    - `returns`: The sum of the rewards of each episode.
    - `steps`: The number of steps of each.
    - `terminated`: True for episodes that ended before their time limit.
    - `terms`: The sums of the reward terms by name, if the task returns them.

    >>> task = rbd.tasks.load("cartpole", episode_length=20)
    >>> found = rbd.learn.evaluate(task, lambda observation: jnp.zeros(1), jax.random.key(0), episodes=4)
    >>> print(found.returns.shape, found.steps, found.terminated)
    (4,) [20 20 20 20] [False False False False]
    """

    returns: Float[Array, "*episodes"]
    steps: Int[Array, "*episodes"]
    terminated: Bool[Array, "*episodes"]
    terms: dict[str, Float[Array, "*episodes"]]

    @property
    def mean(self) -> Float[Array, ""]:
        """The mean return."""
        return jnp.mean(self.returns)


class Episode(eqx.Module):
    """A played episode.

    - `states`: The states of the task, one before each step and one at the end; states after the end repeat it.
    - `actions`: The action of each step.
    - `steps`: The number of steps until the end.

    >>> task = rbd.tasks.load("cartpole")
    >>> episode = rbd.learn.play(task, lambda observation: jnp.zeros(1), jax.random.key(0), steps=10)
    >>> print(episode.states.state.q.shape, episode.actions.shape, episode.steps)
    (11, 2) (10, 1) 10
    """

    states: TaskState
    actions: Float[Array, "steps na"]
    steps: Int[Array, ""]


def evaluate(
    task: Task,
    policy: Deciding,
    key: PRNGKeyArray,
    episodes: SupportsIndex = 64,
    *,
    steps: SupportsIndex | None = None,
) -> Evaluation:
    """Evaluates a policy, without exploration noise, in complete episodes of a task.

    Args:
      task: The task.
      policy: A `Policy`, or any function of an observation.
      key: The random key, from which each episode derives its own key.
      episodes: The number of episodes.
      steps: The maximum number of steps per episode; by default `task.episode_length`, and required without it.

    Returns:
      An `Evaluation`.

    >>> task = rbd.tasks.load("cartpole")
    >>> found = rbd.learn.evaluate(task, lambda observation: jnp.zeros(1), jax.random.key(0), episodes=4)
    >>> print(found.steps, found.mean < 1)
    [250 250 250 250] True
    """
    count = whole_number("learn.evaluate", "episodes", episodes)
    steps = _length("learn.evaluate", task, policy, steps)
    return _evaluated(task, policy, key, episodes=count, steps=steps)


def play(task: Task, policy: Deciding, key: PRNGKeyArray, *, steps: SupportsIndex | None = None) -> Episode:
    """Returns one played episode. The arguments are those of `evaluate`.

    >>> task = rbd.tasks.load("cartpole")
    >>> episode = rbd.learn.play(task, lambda observation: jnp.zeros(1), jax.random.key(0), steps=10)
    >>> print(episode.states.state.q.shape, episode.actions.shape)
    (11, 2) (10, 1)
    """
    return _played(task, policy, key, steps=_length("learn.play", task, policy, steps))


def _length(owner: str, task: Task, policy: Deciding, steps: SupportsIndex | None) -> int:
    instance(owner, "task", task, Task, "a rbd.Task, as rbd.tasks.load gives one")
    if not callable(policy):
        raise ValueError(
            f"{owner}: policy is a {type(policy).__name__}; it takes a function observation -> action"
        )
    if isinstance(policy, Policy):
        policy.fits(owner, task)
    if steps is None and task.episode_length is None:
        raise ValueError(f"{owner}: steps is missing; it is needed for a task without episode_length")
    return whole_number(owner, "steps", task.episode_length if steps is None else steps)


@compiled
def _evaluated(task: Task, policy: Deciding, key, *, episodes: int, steps: int) -> Evaluation:
    def one(task, policy, key):
        start = task.reset(key)
        sums = jnp.zeros_like(start.reward), jax.tree.map(jnp.zeros_like, start.metrics)

        def add(carry, _):
            state, sums = carry
            over = state.done
            state, _ = _moved(task, policy, state)
            new = state.reward, state.metrics
            sums = jax.tree.map(lambda sum, x: sum + jnp.where(over, jnp.zeros_like(x), x), sums, new)
            return (state, sums), None

        (state, (total, terms)), _ = lax.scan(add, (start, sums), None, length=steps)
        return Evaluation(total, state.steps, state.terminated, terms)

    return batch_map(one, in_axes=(None, None, 0))(task, policy, jax.random.split(key, episodes))


@compiled
def _played(task: Task, policy: Deciding, key, *, steps: int) -> Episode:
    def move(state, _):
        new, action = _moved(task, policy, state)
        return new, (new, action)

    start = task.reset(key)
    end, (states, actions) = lax.scan(move, start, None, length=steps)
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, states)
    return Episode(states, actions, end.steps)


def _moved(task: Task, policy: Deciding, state: TaskState) -> tuple[TaskState, Float[Array, "na"]]:
    """Returns the state one step later, or unchanged if the episode has ended; and the action."""
    action = jnp.asarray(policy(state.observation), state.reward.dtype)
    return lax.cond(state.done, lambda state, _: state, task.step, state, action), action
