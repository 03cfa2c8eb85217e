"""Tasks as Brax environments, with the interface that Brax's wrappers and training code require."""

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
    """The state of a Brax environment; Brax's wrappers add their own entries to `metrics` and `info`.

    - `pipeline_state`: The `TaskState`.
    - `done`: 1 if the episode has terminated, else 0. Brax handles the episode length.
    """

    pipeline_state: Any
    obs: Any
    reward: Any
    done: Any
    metrics: dict[str, Any] = dataclasses.field(default_factory=dict)
    info: dict[str, Any] = dataclasses.field(default_factory=dict)

    def replace(self, **changes: Any) -> BraxState:
        """Returns the state with other fields."""
        return dataclasses.replace(self, **changes)


class BraxEnv:
    """A task with the interface of `brax.envs.Env`.

    - `sys`: The model. Brax's domain randomization assigns models with batched leaves to it.
    - `task`: The task with that model.
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
    """Returns a task as an environment for `brax.training`: `reset(rng)`, `step(state, action)` and the sizes.

    Brax wraps it like its own environments: batches, episodes of the length passed to its `train`, and the same initial state
    after each episode. Pass the task's `episode_length` to `train`. Domain randomization of Brax,
    `(sys, rng) -> (sys, in_axes)`, receives the model; a task's own `randomization` draws once per sample. The environment
    also works without Brax. With Brax, import Brax before this call.

    >>> env = rbd.tasks.to_brax(rbd.tasks.load("cartpole"))
    >>> state = env.step(env.reset(jax.random.key(0)), jnp.array([0.5]))
    >>> state.obs.shape, env.observation_size, env.action_size
    ((5,), 5, 1)
    """
    instance("to_brax", "task", task, Task, "a Task, as rbd.tasks.load gives one")
    # Some Brax algorithms check for its base class to choose the wrappers. Brax takes seconds to import.
    if (base := sys.modules.get("brax.envs.base")) is not None:
        base.Env.register(BraxEnv)
    return BraxEnv(task)


def _plain(state: TaskState) -> TaskState:
    """Returns the state with the key as raw data, since Brax's wrappers read the shapes of all leaves."""
    return eqx.tree_at(lambda one: one.key, state, jax.random.key_data(state.key))


def _keyed(state: TaskState) -> TaskState:
    return eqx.tree_at(lambda one: one.key, state, jax.random.wrap_key_data(state.key))
