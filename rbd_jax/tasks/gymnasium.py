"""Tasks as Gymnasium vector environments: NumPy arrays in and out, and one compiled program in between."""

from __future__ import annotations

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arguments import choice, instance, whole_number
from ..parallel.batch import batch_map
from .situation import EpisodeKeys, TaskState
from .task import Task


#: The behavior at the end of an episode: Gymnasium's names, in lower case.
MODES = ("same_step", "next_step", "disabled")


def to_gymnasium(task: Task, num_envs: int, seed: int | None = None, *, autoreset: str = "same_step") -> Any:
    """Returns a task as a `gymnasium.vector.VectorEnv`. It requires Gymnasium 1.1 or later.

    `infos` have the task's `metrics`. `env.task` is the task, and `env.state` the batched `rbd.tasks.TaskState`.

    Args:
      task: The task.
      num_envs: The number of samples.
      seed: The seed of the first `reset()` if that call has none; every sample gets its own random numbers.
      autoreset: When an ended episode is reset: in the `"same_step"`, with `infos["final_obs"]`; in the `"next_step"`, which
        ignores the action; or `"disabled"`, by `reset(options={"reset_mask": ended})`. The metadata contain the mode for
        training code.

    >>> env = rbd.tasks.to_gymnasium(rbd.tasks.load("cartpole"), 4, seed=0)
    >>> seen, _ = env.reset()
    >>> seen, reward, terminated, truncated, infos = env.step(env.action_space.sample())
    >>> seen.shape, reward.shape
    ((4, 5), (4,))
    """
    instance("to_gymnasium", "task", task, Task, "a Task, as rbd.tasks.load gives one")
    count = whole_number("to_gymnasium", "num_envs", num_envs)
    choice("to_gymnasium", "autoreset", autoreset, MODES)
    try:
        found = importlib.import_module("gymnasium")
    except ImportError:
        raise ImportError("to_gymnasium: it needs Gymnasium: pip install 'rbd_jax[learn]'") from None
    if not hasattr(found.vector, "AutoresetMode"):
        raise ImportError(
            f"to_gymnasium: it needs Gymnasium 1.1 or later, and {found.__version__} is installed"
        )
    return _vector_env(found)(task, count, seed, autoreset)


_made: dict[Any, type] = {}


def _vector_env(gymnasium: Any) -> type:
    """Returns the environment class, which is created when Gymnasium is available as its base."""
    if gymnasium in _made:
        return _made[gymnasium]

    class TaskVectorEnv(gymnasium.vector.VectorEnv):
        """A batch of samples of a task."""

        def __init__(self, task: Task, num_envs: int, seed: int | None, autoreset: str):
            self.task, self.num_envs, self.mode = task, num_envs, autoreset
            mode = gymnasium.vector.AutoresetMode[autoreset.upper()]
            self.metadata = {
                "autoreset_mode": mode,
                "render_modes": [],
                "render_fps": round(1 / float(task.dt)),
            }
            self.state: TaskState | None = None
            self._seed = seed
            seen = jax.eval_shape(lambda: task.reset(jax.random.key(0))).observation
            self.single_observation_space = _space(gymnasium.spaces, seen)
            self.single_action_space = gymnasium.spaces.Box(-1.0, 1.0, (task.action_size,), np.float32)
            batch = gymnasium.vector.utils.batch_space
            self.observation_space = batch(self.single_observation_space, num_envs)
            self.action_space = batch(self.single_action_space, num_envs)

        def reset(self, *, seed=None, options=None):
            mask = (options or {}).get("reset_mask")
            if seed is None and self.state is None:
                seed = self._seed
            super().reset(seed=seed)
            drawn = self.np_random.integers(2**63) if seed is None else seed
            fresh = _begun(self.task, jax.random.split(jax.random.key(drawn), self.num_envs))
            if mask is not None:
                if self.state is None:
                    raise ValueError(
                        "reset: reset_mask is for an environment that has been completely reset before"
                    )
                mask = self._checked(mask, "reset_mask", (self.num_envs,)).astype(bool)
                fresh = _chosen(jnp.asarray(mask), fresh, self.state)
            self.state = fresh
            return _numpy(fresh.observation), {}

        def step(self, actions):
            if self.state is None:
                raise ValueError("step: the environment was not reset; env.reset() comes first")
            actions = self._checked(actions, "actions", (self.num_envs, self.task.action_size))
            self.state = new = _advanced(self.task, self.state, jnp.asarray(actions), mode=self.mode)
            terminated, truncated = np.array(new.terminated), np.array(new.truncated)
            infos: dict[str, Any] = {}
            for name, value in new.metrics.items():
                infos[name], infos[f"_{name}"] = np.array(value), np.ones(self.num_envs, bool)
            ended = terminated | truncated
            if self.mode == "same_step" and ended.any():
                final = _numpy(new.final_observation)
                rows = np.full(self.num_envs, None, object)
                for row in np.flatnonzero(ended):
                    rows[row] = jax.tree.map(lambda x, row=row: x[row], final)
                infos |= {"final_obs": rows, "_final_obs": ended}
                told = {name: np.where(ended, infos[name], 0) for name in new.metrics}
                told |= {f"_{name}": ended for name in new.metrics}
                infos |= {"final_info": told, "_final_info": ended}
            return _numpy(new.observation), np.array(new.reward, np.float64), terminated, truncated, infos

        def _checked(self, value, name: str, shape: tuple[int, ...]) -> np.ndarray:
            array = np.asarray(value)
            if array.shape != shape:
                raise ValueError(
                    f"{name} have shape {array.shape}; for {self.num_envs} environments it is {shape}"
                )
            return array

    _made[gymnasium] = TaskVectorEnv
    return TaskVectorEnv


def _space(spaces: Any, seen: Any) -> Any:
    """Returns the space of one observation."""
    if isinstance(seen, dict):
        return spaces.Dict({name: _space(spaces, one) for name, one in seen.items()})
    return spaces.Box(-np.inf, np.inf, seen.shape, np.dtype(seen.dtype))


def _numpy(tree: Any) -> Any:
    """Returns writable NumPy copies of the arrays."""
    return jax.tree.map(np.array, tree)


@jax.jit
def _begun(task: Task, keys) -> TaskState:
    return batch_map(task.reset)(keys)


@jax.jit
def _chosen(mask, one: TaskState, other: TaskState) -> TaskState:
    return jax.vmap(lambda first, one, other: lax.cond(first, lambda: one, lambda: other))(mask, one, other)


def _advance(task: Task, state: TaskState, action, mode: str) -> TaskState:
    if mode == "same_step":
        return task.step_and_reset(state, action)
    if mode == "disabled":
        return task.step(state, action)
    # The step after the end of an episode resets it, whatever the action.
    anew = lambda: task.reset(EpisodeKeys(state.key).following)
    return lax.cond(state.done, anew, lambda: task.step(state, action))


def _advanced(task: Task, state: TaskState, actions, *, mode: str) -> TaskState:
    return _PROGRAMS[mode](task, state, actions)


_PROGRAMS = {
    mode: jax.jit(
        lambda task, state, actions, mode=mode: batch_map(
            lambda one, action: _advance(task, one, action, mode),
        )(state, actions)
    )
    for mode in MODES
}
