"""The state of an episode, and the quantities from which a task computes rewards, observations and terminations."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._core.module import Module, changed
from ..constraints.closure import ReducedModel
from ..dynamics import Motion
from ..simulate.state import State


class TaskState(eqx.Module):
    """The state of an episode, created by `Task.reset` and advanced by `Task.step`.

    - `state`: The state of the simulation.
    - `observation`: The observation for the next action: an array, or a dict of arrays.
    - `reward`: The reward of the last step.
    - `terminated`: True if the last step ended the episode by an event in it. The value of the end state is zero.
    - `truncated`: True if the episode reached its time limit. The value of the end state is that of `final_observation`.
    - `final_observation`: The observation at the end of the step. After `step_and_reset` it differs from `observation`
      if the episode has ended; `observation` is then the first of the next episode.
    - `steps`: The number of steps in this episode.
    - `metrics`: The terms of the reward, if the task returns them.
    - `memory`: The memory of the task within an episode, such as a target or the previous action.
    - `code`: The result code of the simulation of the step, see `rbd.Result`; 0 is success.
    - `changes`: The model parameters drawn for this episode; None for those of the task's model.
    - `key`: The key that determines all random numbers in this episode and in later ones.

    >>> task = rbd.tasks.load("cartpole")
    >>> episode = task.step(task.reset(jax.random.key(0)), jnp.zeros(1))
    >>> print(episode.observation.shape, episode.steps, episode.done)
    (5,) 1 False
    """

    state: State
    observation: Any
    reward: Float[Array, "*batch"]
    terminated: Bool[Array, "*batch"]
    truncated: Bool[Array, "*batch"]
    final_observation: Any
    steps: Int[Array, "*batch"]
    metrics: dict[str, Float[Array, "*batch"]]
    memory: Any
    code: Int[Array, "*batch"]
    changes: Any
    key: PRNGKeyArray

    @property
    def done(self) -> Bool[Array, "*batch"]:
        """True if the step ended the episode, by termination or truncation."""
        return self.terminated | self.truncated


class Situation(Module):
    """The quantities of one moment of an episode.

    - `model`: The model with the parameters of this episode; a `Model`, or a `ReducedModel` if the task has one.
    - `state`: The state of the simulation; `q` and `v` are its fields.
    - `time`: The time since the start of the episode.
    - `memory`: The memory of the task.
    - `key`: The key for random numbers at this moment, such as the noise of an observation.

    >>> state = rbd.State(jnp.array([0.1, 0.2]), jnp.zeros(2))
    >>> now = rbd.tasks.Situation(rbd.load("cartpole"), state, jnp.array(0.0), memory=None, key=jax.random.key(0))
    >>> print(now.q, rbd.tasks.load("cartpole").observe(now))
    [0.1 0.2] [0.1   0.98  0.199 0.    0.   ]
    """

    model: Any
    state: State
    time: Float[Array, ""]
    memory: Any
    key: PRNGKeyArray
    _motion: Motion | None

    def __init__(self, model: Any, state: State, time: Float[Array, ""], memory: Any, key: PRNGKeyArray):
        self.model, self.state, self.time, self.memory, self.key = model, state, time, memory, key
        reduced = isinstance(model, ReducedModel)
        self._motion = (
            None if reduced else Motion(model, state.q, state.v, time).computed("world_frames", "twists")
        )

    @property
    def q(self) -> Float[Array, "nq"]:
        return self.state.q

    @property
    def v(self) -> Float[Array, "nv"]:
        return self.state.v

    @property
    def motion(self) -> Motion:
        """The model in motion: frames, velocities, Jacobians."""
        if self._motion is None:
            raise ValueError(
                f"motion: the reduced model {self.model.name!r} moves in a few variables; ask `now.model` for its bodies"
            )
        return self._motion

    def with_memory(self, memory: Any) -> Situation:
        """Returns the same moment with another memory."""
        return changed(self, memory=memory)


class EpisodeKeys(eqx.Module):
    """The keys derived from the key of an episode.

    - `model`, `start`: For the model of the episode, and for its initial state.
    - `noise`: For the moments of the episode.
    - `following`: The key of the next episode.
    """

    model: PRNGKeyArray
    start: PRNGKeyArray
    noise: PRNGKeyArray
    following: PRNGKeyArray

    def __init__(self, key: PRNGKeyArray):
        self.model, self.start, self.noise, self.following = jax.random.split(key, 4)

    def at(self, steps: Int[Array, ""]) -> PRNGKeyArray:
        """Returns the key for the moment after `steps` steps."""
        return jax.random.fold_in(self.noise, steps)
