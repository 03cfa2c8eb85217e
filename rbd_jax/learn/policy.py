"""Policies: functions from observations to actions, and their files."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import instance
from .._core.array import from_numpy
from .._core.files import whole_file
from .._core.jit import compiled
from ..tasks.task import Task
from .network import Network, Normalization


#: The format of policy files.
FORMAT = 1


def as_row(observation: Any, dims: int = 1) -> Float[Array, "... n"]:
    """Returns an observation, an array or a dict of arrays, as one row of numbers.

    `dims` is one more than the number of batch dimensions.
    """
    leaves = jax.tree.leaves(observation)
    return jnp.concatenate([jnp.reshape(x, (*x.shape[: dims - 1], -1)) for x in leaves], axis=-1)


class Policy(eqx.Module):
    """A policy: `policy(observation) -> action`, the mean action without exploration noise.

    During training, actions are drawn around this one. Before squashing they have a normal distribution, whose width does not
    depend on the observation.

    - `network`: Maps the normalized observation to the mean of the distribution.
    - `log_deviation`: The logarithm of the standard deviation, for each entry of an action.
    - `normalization`: The normalization of observations.
    - `squashed`: If True, the hyperbolic tangent maps actions into [-1, 1]; otherwise the task clips them.
    - `task`: The name of the task that it was made for.

    It is a PyTree of arrays, like every `equinox.Module`. `rbd.learn.save` and `load` store it in a file, and
    `rbd.learn.Controller` makes it the controls of `rbd.rollout`.

    >>> task = rbd.tasks.load("cartpole")
    >>> policy = rbd.learn.Policy.drawn(task, jax.random.key(0))
    >>> print(policy(task.reset(jax.random.key(1)).observation).shape)
    (1,)
    """

    network: Network
    log_deviation: Float[Array, "na"]
    normalization: Normalization
    squashed: bool = eqx.field(static=True)
    task: str = eqx.field(static=True)

    @staticmethod
    def drawn(
        task: Task,
        key: Any,
        widths: tuple[int, ...] = (64, 64),
        deviation: float = 0.5,
        squashed: bool = True,
    ) -> Policy:
        """Returns an untrained policy: its actions are near zero.

        Args:
          task: The task.
          key: The random key.
          widths: The widths of the hidden layers of its network.
          deviation: The standard deviation of exploration, before squashing.
          squashed: If True, the hyperbolic tangent maps actions into [-1, 1].
        """
        instance("Policy.drawn", "task", task, Task, "a rbd.Task, as rbd.tasks.load gives one")
        seen = jax.eval_shape(lambda: task.reset(jax.random.key(0))).observation
        size, dtype = jax.eval_shape(as_row, seen).shape[0], task.model.dtype
        return Policy(
            Network.drawn(key, size, widths, task.action_size, 0.01, dtype),
            jnp.full(task.action_size, np.log(deviation), dtype),
            Normalization.of_size(size, dtype),
            squashed,
            type(task).__name__,
        )

    @property
    def observation_size(self) -> int:
        return self.normalization.mean.size

    @property
    def action_size(self) -> int:
        return self.log_deviation.size

    def __call__(self, observation: Any) -> Float[Array, "na"]:
        return _decided(self, observation)

    def explored(
        self, observed: Float[Array, "*batch n"], noise: Float[Array, "*batch na"]
    ) -> Float[Array, "*batch na"]:
        """Returns the actions for standard normal noise; observations are rows of numbers."""
        middle = self.network(self.normalization(observed))
        action = middle + jnp.broadcast_to(jnp.exp(self.log_deviation), noise.shape) * noise
        return jnp.tanh(action) if self.squashed else action

    def fits(self, owner: str, task: Task) -> None:
        """Raises an error for a task with observations or actions of another size."""
        seen = jax.eval_shape(lambda: as_row(task.reset(jax.random.key(0)).observation)).shape[0]
        for what, own, its in (
            ("observations", self.observation_size, seen),
            ("actions", self.action_size, task.action_size),
        ):
            if own != its:
                raise ValueError(
                    f"{owner}: the policy was made for {what} of {own} numbers (of {self.task}), and those of "
                    f"{type(task).__name__} have {its}; take a policy that has learned this task"
                )


@compiled
def _decided(policy: Policy, observation: Any) -> Float[Array, "na"]:
    observed = as_row(jax.tree.map(jnp.asarray, observation)).astype(policy.log_deviation.dtype)
    if observed.shape != (policy.observation_size,):
        hint = (
            "; it takes one sample, so batch: jax.vmap(policy)"
            if observed.size > policy.observation_size
            else ""
        )
        raise ValueError(
            f"Policy: the observation has {observed.size} numbers; this policy, made for {policy.task}, takes "
            f"{policy.observation_size}{hint}"
        )
    return policy.explored(observed, jnp.zeros_like(policy.log_deviation))


# Files.


def save(path: str | os.PathLike, policy: Policy) -> None:
    """Writes a policy atomically to a file, a NumPy archive (.npz).

    It contains the weights of all layers, the normalization, and a description in `about`. `rbd.learn.load` reads it.

    >>> import tempfile
    >>> policy = rbd.learn.Policy.drawn(rbd.tasks.load("cartpole"), jax.random.key(0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rbd.learn.save(f"{folder}/policy.npz", policy)
    ...     print(rbd.learn.load(f"{folder}/policy.npz").task)
    Cartpole
    """
    instance("learn.save", "policy", policy, Policy, "a rbd.learn.Policy: trained.policy")
    about = {
        "format": FORMAT,
        "task": policy.task,
        "squashed": policy.squashed,
        "layers": len(policy.network.weights),
        "observation_size": policy.observation_size,
        "action_size": policy.action_size,
    }
    arrays = {"about": np.array(json.dumps(about))}
    for name, layers in (("weight", policy.network.weights), ("bias", policy.network.biases)):
        arrays |= {f"{name}_{i}": np.asarray(x) for i, x in enumerate(layers)}
    arrays |= {"log_deviation": np.asarray(policy.log_deviation)}
    arrays |= {
        name: np.asarray(getattr(policy.normalization, name)) for name in ("count", "mean", "variance")
    }
    with whole_file(Path(path)) as part, open(part, "wb") as file:
        np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]


def load(path: str | os.PathLike, task: Task | None = None) -> Policy:
    """Returns a policy from a file written by `rbd.learn.save`.

    Without 64-bit numbers (`jax_enable_x64`) the policy has 32-bit numbers, regardless of the file.

    Args:
      path: The file.
      task: The task that it is for; observations or actions of another size raise an error.

    >>> import tempfile
    >>> task = rbd.tasks.load("cartpole")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rbd.learn.save(f"{folder}/policy.npz", rbd.learn.Policy.drawn(task, jax.random.key(0)))
    ...     policy = rbd.learn.load(f"{folder}/policy.npz", task)
    >>> print(policy(task.reset(jax.random.key(1)).observation).shape)
    (1,)
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(str(arrays["about"]))
        if about["format"] == FORMAT:
            policy = _of_file(about, arrays)
    except FileNotFoundError:
        raise
    except (OSError, EOFError, KeyError, ValueError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise ValueError(f"learn.load: {path} is no file of a policy, or it is damaged: {error}") from error
    if about["format"] != FORMAT:
        raise ValueError(
            f"learn.load: {path} has the format {about['format']}, and this version of rbd_jax reads {FORMAT}"
        )
    if task is not None:
        policy.fits("learn.load", task)
    return policy


def _of_file(about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Policy:
    layers = lambda name: tuple(from_numpy(arrays[f"{name}_{i}"]) for i in range(about["layers"]))
    return Policy(
        Network.of(layers("weight"), layers("bias")),
        from_numpy(arrays["log_deviation"]),
        Normalization(*(from_numpy(arrays[name]) for name in ("count", "mean", "variance"))),
        bool(about["squashed"]),
        str(about["task"]),
    )
