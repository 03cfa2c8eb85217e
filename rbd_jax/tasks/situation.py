"""Where a task is: what its rewards, observations and ends are worked out from, and what an episode hands from step to step."""

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
    """An episode after some steps: what `Task.reset` begins and `Task.step` carries on.

    - `state`: of the simulation.
    - `observation`: what there is to decide the next action by: an array, or a dict of arrays.
    - `reward`: of the step that led here.
    - `terminated`: the step ended the episode by what happened in it. Nothing comes after: its value is zero.
    - `truncated`: the episode ended because its time is over. It would have gone on: its value is that of `final_observation`.
    - `final_observation`: what was observed at the end of the step. After `step_and_reset` that is another than `observation`
      where the episode has ended, which then is the first of the next one.
    - `steps`: made in this episode.
    - `metrics`: the terms of the reward, if the task tells them.
    - `memory`: what the task remembers within an episode, as a target or the action before.
    - `code`: how the simulation of the step ended, see `rbd.Result`; 0 is well.
    - `changes`: the numbers of the model that were drawn for this episode; None where they are those of the task's model.
    - `key`: what was and is drawn in this episode and in those after it follows from this.

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
        """Whether the step ended the episode, in one way or the other."""
        return self.terminated | self.truncated


class Situation(Module):
    """A moment of an episode, as a task sees it.

    - `model`: with the numbers of this episode; a `Model`, or a `ReducedModel` if the task has one.
    - `state`: of the simulation; `q` and `v` are its.
    - `time`: since the episode began.
    - `memory`: what the task remembers.
    - `key`: for what is drawn at this moment, as the noise of an observation.

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
        """The same with another memory."""
        return changed(self, memory=memory)


class EpisodeKeys(eqx.Module):
    """The keys that follow from that of an episode.

    - `model`, `start`: for the model of the episode, and for how it begins.
    - `noise`: for its moments.
    - `following`: that of the next episode.
    """

    model: PRNGKeyArray
    start: PRNGKeyArray
    noise: PRNGKeyArray
    following: PRNGKeyArray

    def __init__(self, key: PRNGKeyArray):
        self.model, self.start, self.noise, self.following = jax.random.split(key, 4)

    def at(self, steps: Int[Array, ""]) -> PRNGKeyArray:
        """For the moment after so many steps."""
        return jax.random.fold_in(self.noise, steps)
