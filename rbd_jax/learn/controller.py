"""A policy as the controls of a rollout."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from .._core.arguments import instance
from .._core.array import clamped
from ..simulate.state import State
from ..tasks import Situation, TaskState
from ..tasks.task import Task


class Controller(eqx.Module):
    """The controls that a policy gives to the actuators of a task's model, for `rbd.rollout(..., controls=...)`.

    - `task`: Defines the observation and the effect of an action.
    - `policy`: Maps an observation to an action.

    Called with `(t, state)`, it evaluates the policy at every call. This is for tasks without a memory. Called with
    `(t, state, memory)`, it does the same as an episode of the task, with the same motion: it evaluates the policy at every
    `substeps`-th call, holds the action in between, and updates the task's memory. `begin` returns the initial memory.

    >>> task = rbd.tasks.load("cartpole")
    >>> policy = rbd.learn.Policy.drawn(task, jax.random.key(0))
    >>> controller, start = rbd.learn.Controller(task, policy), task.reset(jax.random.key(1))
    >>> path = rbd.rollout(
    ...     task.model, start.state, controller, dt=task.dt / task.substeps, steps=10, memory=controller.begin(start)
    ... )
    >>> print(path.q.shape)
    (11, 2)
    """

    task: Task
    policy: Any

    def __check_init__(self):
        instance("Controller", "task", self.task, Task, "a rbd.Task, as rbd.tasks.load gives one")
        if not callable(self.policy):
            raise ValueError(
                f"Controller: policy is a {type(self.policy).__name__}; it takes a function observation -> action"
            )

    def begin(self, start: TaskState) -> Driven:
        """Returns the memory at the start of an episode, as `task.reset` returns it."""
        instance("Controller.begin", "start", start, TaskState, "a TaskState, as task.reset gives it")
        action = jnp.zeros(self.task.action_size, start.state.q.dtype)
        return Driven(eqx.tree_at(_key, start, jax.random.key_data(start.key)), action, jnp.int32(0))

    def __call__(self, t: Float[Array, ""], state: State, memory: Driven | None = None):
        if memory is None:
            return self._at_once(t, state)
        episode, action = lax.cond(
            memory.calls % self.task.substeps == 0,
            lambda state, memory: self._decided(state, memory),
            lambda state, memory: memory[:2],
            state,
            memory,
        )
        told = self.task.controls(self._situation(episode), action)
        return told, Driven(episode, action, memory.calls + 1)

    def _at_once(self, t, state: State):
        """Returns the controls from the current state alone."""
        start = jax.eval_shape(lambda: self.task.reset(jax.random.key(0)))
        if jax.tree.leaves((start.memory, start.changes)):
            raise ValueError(
                f"Controller: a {type(self.task).__name__} has a memory in an episode, or draws its model, so the state "
                "alone does not determine the observation; take rbd.rollout(..., memory=controller.begin(task.reset(key)))"
            )
        now = Situation(self.task.model, state, t, start.memory, jax.random.key(0))
        return self.task.controls(now, self._action(now))

    def _decided(self, state: State, memory: Driven) -> tuple[TaskState, Float[Array, "na"]]:
        """Returns the episode at this moment, and the action that is held from now on."""
        before, action, calls = memory

        def later(before: TaskState) -> TaskState:
            episode = eqx.tree_at(lambda one: (one.state, one.steps), before, (state, before.steps + 1))
            remembered = self.task.remember(self._situation(before), action, self._situation(episode))
            return eqx.tree_at(lambda one: one.memory, episode, remembered)

        episode = lax.cond(calls == 0, lambda before: before, later, before)
        return episode, self._action(self._situation(episode))

    def _situation(self, episode: TaskState) -> Situation:
        return self.task.situation(eqx.tree_at(_key, episode, jax.random.wrap_key_data(episode.key)))

    def _action(self, now: Situation) -> Float[Array, "na"]:
        return clamped(self.policy(self.task.observe(now)), -1, 1)


class Driven(NamedTuple):
    """The memory of a controller: the episode at its last decision, the action, and the number of calls.

    The key of the episode is stored as raw data, as required for the memory of a rollout.
    """

    episode: TaskState
    action: Float[Array, "na"]
    calls: Int[Array, ""]


def _key(episode: TaskState):
    return episode.key
