"""What is learned: a policy, which decides by what is observed; how it drives a simulation, and how it is kept in a file."""

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


#: Of files with policies.
FORMAT = 1


def as_row(observation: Any, dims: int = 1) -> Float[Array, "... n"]:
    """An observation, an array or a dict of arrays, as one row of numbers; `dims` is one more than the dimensions of the
    batch."""
    leaves = jax.tree.leaves(observation)
    return jnp.concatenate([jnp.reshape(x, (*x.shape[: dims - 1], -1)) for x in leaves], axis=-1)


class Policy(eqx.Module):
    """What to do by what is observed: `policy(observation) -> action`, the action that it takes for the best.

    While it learns, actions are drawn around that one. Before they are squashed they have a normal distribution, of the same
    width wherever they are.

    - `network`: from the normalized observation to the middle of the distribution.
    - `log_deviation`: the logarithm of its standard deviation, for each number of an action.
    - `normalization`: of observations.
    - `squashed`: whether actions are brought into [-1, 1] by the hyperbolic tangent; otherwise the task cuts off what is beyond.
    - `task`: the name of the task that it was made for.

    It is a PyTree of arrays as every `equinox.Module`. `rbd.learn.save` and `load` keep it in a file, `rbd.learn.Controller` lets
    it drive `rbd.rollout`.

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
        """One that has learned nothing yet: its actions are near zero.

        - `widths`: of the hidden layers of its network.
        - `deviation`: of the actions that it tries, before they are squashed.
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
        """The actions for standard normal noise, of observations that are rows of numbers."""
        middle = self.network(self.normalization(observed))
        action = middle + jnp.broadcast_to(jnp.exp(self.log_deviation), noise.shape) * noise
        return jnp.tanh(action) if self.squashed else action

    def fits(self, owner: str, task: Task) -> None:
        """Refuse a task that has observations or actions of another size."""
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
    """Write a policy to a file, an archive of NumPy's (.npz) that is whole or absent.

    It has the weights of all layers, the normalization, and in `about` what they are for. `rbd.learn.load` reads it.

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
    """A policy from a file that `rbd.learn.save` has written.

    - `task`: the task that it is for; one with observations or actions of another size is refused.

    Without 64-bit numbers (`jax_enable_x64`) it has 32-bit ones, whatever is in the file.

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
