"""A task for whoever trains with Brax: an environment with what Brax's wrappers and its training code ask for."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._core.arguments import instance
from ..simulate import Simulated
from .situation import TaskState
from .task import Task


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class BraxState:
    """What Brax calls the state of an environment: its wrappers put more into `metrics` and `info`, which are their own.

    - `pipeline_state`: the `TaskState`.
    - `done`: whether the episode has ended for good, as a number. Its length is looked after by Brax.
    """

    pipeline_state: Any
    obs: Any
    reward: Any
    done: Any
    metrics: dict[str, Any] = dataclasses.field(default_factory=dict)
    info: dict[str, Any] = dataclasses.field(default_factory=dict)

    def replace(self, **changes: Any) -> BraxState:
        """The same with other fields."""
        return dataclasses.replace(self, **changes)


class BraxEnv:
    """A task with the interface of `brax.envs.Env`.

    - `sys`: the model. Brax's domain randomization puts models with batched leaves there.
    - `task`: with that model.
    """

    def __init__(self, task: Task):
        self.task = task

    @property
    def sys(self) -> Simulated:
        return self.task.model

    @sys.setter
    def sys(self, model: Simulated) -> None:
        self.task = eqx.tree_at(lambda task: task.model, self.task, model)

    def reset(self, rng) -> BraxState:
        state = self.task.reset(rng)
        done = jnp.zeros_like(state.reward)
        return BraxState(_plain(state), state.observation, state.reward, done, dict(state.metrics), {})

    def step(self, state: BraxState, action) -> BraxState:
        new = self.task.step(_keyed(state.pipeline_state), action)
        done = new.terminated.astype(new.reward.dtype)
        metrics = {**state.metrics, **new.metrics}
        return state.replace(
            pipeline_state=_plain(new), obs=new.observation, reward=new.reward, done=done, metrics=metrics
        )

    @property
    def observation_size(self) -> Any:
        return self.task.observation_size

    @property
    def action_size(self) -> int:
        return self.task.action_size

    @property
    def dt(self):
        return self.task.dt

    @property
    def backend(self) -> str:
        return "rbd_jax"

    @property
    def unwrapped(self) -> BraxEnv:
        return self


def to_brax(task: Task) -> BraxEnv:
    """A task as an environment for `brax.training`: `reset(rng)`, `step(state, action)` and the sizes.

    Brax wraps it as its own: batches, episodes of the length that its `train` is told, the same beginning again after each; give
    it the task's `episode_length`. Domain randomization of Brax's kind, `(sys, rng) -> (sys, in_axes)`, gets the model; a task's
    own `randomization` draws once for each sample. It is made, and runs, where Brax is not installed; where it
    is, import it before.

    >>> env = rbd.tasks.to_brax(rbd.tasks.load("cartpole"))
    >>> state = env.step(env.reset(jax.random.key(0)), jnp.array([0.5]))
    >>> state.obs.shape, env.observation_size, env.action_size
    ((5,), 5, 1)
    """
    instance("to_brax", "task", task, Task, "a Task, as rbd.tasks.load gives one")
    # Some of its algorithms ask whether it is one of Brax's, to choose the wrappers. It takes seconds to import.
    if (base := sys.modules.get("brax.envs.base")) is not None:
        base.Env.register(BraxEnv)
    return BraxEnv(task)


def _plain(state: TaskState) -> TaskState:
    """With the key as numbers: Brax's wrappers look at the shapes of all leaves."""
    return eqx.tree_at(lambda one: one.key, state, jax.random.key_data(state.key))


def _keyed(state: TaskState) -> TaskState:
    return eqx.tree_at(lambda one: one.key, state, jax.random.wrap_key_data(state.key))
