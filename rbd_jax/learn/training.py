"""Training: a policy for a task, epoch by epoch, with checkpoints and multiple devices."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PRNGKeyArray

from .._core.arguments import instance
from .._core.devices import set_devices
from .._core.jit import compiled
from ..checkpoints import Checkpoint, plain_leaves, running, with_leaves
from ..tasks.task import Task
from .policy import Policy
from .short_horizon_actor_critic import Learner, ShortHorizonActorCritic


#: Called after each epoch with the number of epochs and the statistics of the last one. If it returns True, training stops.
OnProgress = Callable[[int, dict[str, float]], Any]


class Trained(NamedTuple):
    """The result of training.

    - `policy`: The trained policy.
    - `curve`: The statistics of the epochs by name, arrays with one entry per epoch.
    - `learner`: The state from which training can continue.

    >>> task = rbd.tasks.load("cartpole")
    >>> small = rbd.learn.ShortHorizonActorCritic(epochs=2, environments=4, horizon=4)
    >>> trained = rbd.learn.train(task, small, key=jax.random.key(0))
    >>> print(trained.epochs, sorted(trained.curve)[:3])
    2 ['deviation', 'dropped', 'episodes']
    """

    policy: Policy
    curve: dict[str, np.ndarray]
    learner: Learner

    @property
    def epochs(self) -> int:
        return int(self.learner.epoch)


def train(
    task: Task,
    config: ShortHorizonActorCritic | None = None,
    *,
    key: PRNGKeyArray,
    on_progress: OnProgress | None = None,
    checkpoint: Checkpoint | str | os.PathLike | None = None,
) -> Trained:
    """Trains a policy for a task by gradients through its simulation.

    The episodes are distributed over the CPU devices of the process (`rbd.parallel.use_cores`), or over the devices of
    `rbd.parallel.use_devices`. Random draws depend on the number of devices.

    The statistics of an epoch, stored in `Trained.curve`, are:

    - `reward`: the mean reward of a step.
    - `return`: the mean return of the `episodes` that ended in the epoch; NaN if none has.
    - `terminated`: how many of these episodes ended before their time limit.
    - `value`: the mean value of the critic.
    - `error`: the mean square error of the critic, in rewards.
    - `gradient`: the length of the policy gradient before clipping.
    - `deviation`: the standard deviation of the actions.
    - `dropped`: the number of sample derivatives that were not finite and were left out.
    - `lost`: the number of steps that were not finite.

    Args:
      task: The task; `episode_length` may be None.
      config: The training settings; by default `ShortHorizonActorCritic()`. `rbd.learn.settings_for` has settings for the
        bundled tasks.
      key: The random key of the initial networks, the episodes, and the noise of the actions.
      on_progress: A function called after each epoch with the number of epochs and the statistics; if it returns True,
        training stops.
      checkpoint: A file to save to and to resume from with the same result (see `rbd.Checkpoint`).

    Returns:
      A `Trained`.

    >>> task = rbd.tasks.load("cartpole")
    >>> small = rbd.learn.ShortHorizonActorCritic(epochs=2, environments=4, horizon=4)
    >>> trained = rbd.learn.train(task, small, key=jax.random.key(0))
    >>> print(trained.epochs, trained.curve["reward"].shape, trained.policy.action_size)
    2 (2,) 1
    """
    owner = "learn.train"
    config = ShortHorizonActorCritic() if config is None else config
    instance(owner, "task", task, Task, "a rbd.Task, as rbd.tasks.load gives one")
    instance(owner, "config", config, ShortHorizonActorCritic, "rbd.learn.ShortHorizonActorCritic(...)")
    if not (
        isinstance(key, jax.Array)
        and (jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key) or key.shape == (2,))
    ):
        raise ValueError(f"{owner}: key is {key!r}; it takes a key: jax.random.key(0)")
    curve: dict[str, list[float]] = {}
    mesh = _devices(config)
    # The number of devices affects rounding of sums.
    named = {"task": task, "config": config, "key": key, "devices": 1 if mesh is None else mesh.size}
    with running(owner, checkpoint, lambda: named) as run:
        learner = _begun(config, task, key)
        if run.found:
            learner = with_leaves(learner, run.found["learner"])
            curve = {name: np.asarray(rows).tolist() for name, rows in run.found["curve"].items()}
        reached = lambda: {
            "learner": plain_leaves(learner),
            "curve": {name: np.array(rows) for name, rows in curve.items()},
        }
        if mesh is not None:
            learner = _placed(learner, mesh)
        epochs = found = int(learner.epoch)
        while epochs < config.epochs:
            learner, told = _epoch(config, task, learner)
            epochs += 1
            told = {name: float(value) for name, value in jax.device_get(told).items()}
            for name, value in told.items():
                curve.setdefault(name, []).append(value)
            _refuse_lost(owner, task, config, learner, epochs, told)
            run.offer(reached)
            if on_progress is not None and on_progress(epochs, told) is True:
                break
        if epochs > found:
            run.save(reached())
    return Trained(learner.policy, {name: np.array(rows) for name, rows in curve.items()}, learner)


@compiled
def _begun(config: ShortHorizonActorCritic, task: Task, key: PRNGKeyArray) -> Learner:
    return config.begin(task, key)


@compiled
def _epoch(config: ShortHorizonActorCritic, task: Task, learner: Learner):
    """Runs an epoch, with the episodes distributed over the devices if there are several."""
    mesh = _devices(config)
    if mesh is None:
        return config.epoch(task, learner)
    axis, whole, parts = mesh.axis_names[0], PartitionSpec(), _specs(mesh)
    numbers, rest = eqx.partition(task, eqx.is_array)
    on_each = jax.shard_map(
        lambda numbers, learner: config.epoch(eqx.combine(numbers, rest), learner, axis),
        mesh=mesh,
        in_specs=(whole, parts),
        out_specs=(parts, whole),
        check_vma=False,
    )
    return on_each(numbers, learner)


def _placed(learner: Learner, mesh: Mesh) -> Learner:
    put = lambda spec, part: jax.device_put(part, NamedSharding(mesh, spec))
    return jax.tree.map(put, _specs(mesh), learner, is_leaf=lambda x: isinstance(x, PartitionSpec))


def _specs(mesh: Mesh) -> Learner:
    """Returns the partition of a learner: each device has all of it, but only some of the episodes."""
    whole: Any = PartitionSpec()
    split: Any = PartitionSpec(mesh.axis_names[0])
    return Learner(whole, whole, whole, whole, whole, split, split, whole, whole)


def _devices(config: ShortHorizonActorCritic) -> Mesh | None:
    """Returns the devices that share the episodes: those set, or as many of this process as divide them; None for one."""
    mesh: Any = set_devices()
    if mesh is None:
        there = jax.local_devices()
        count = max(n for n in range(1, len(there) + 1) if config.environments % n == 0)
        mesh = Mesh(np.array(there[:count]), ("batch",))
    if config.environments % mesh.size:
        raise ValueError(
            f"learn.train: environments is {config.environments}, and {mesh.size} devices are to share them; make it a multiple"
        )
    if len(mesh.axis_names) > 1:
        raise ValueError(
            f"learn.train: the devices stand along the axes {mesh.axis_names}; here they are to stand in a row"
        )
    return mesh if mesh.size > 1 else None


def _refuse_lost(
    owner: str,
    task: Task,
    config: ShortHorizonActorCritic,
    learner: Learner,
    epochs: int,
    told: dict[str, float],
) -> None:
    """Raises an error if most simulated steps are not finite, which training cannot correct."""
    steps = config.horizon * config.environments
    if told["lost"] <= 0.5 * steps:
        return
    state = task.step(task.reset(learner.key), jnp.zeros(task.action_size))
    names = {f"the term {name!r} of the reward": value for name, value in state.metrics.items()}
    names |= {"the reward": state.reward, "the observation": state.observation}
    bad = [
        name for name, value in names.items() if not all(np.isfinite(x).all() for x in jax.tree.leaves(value))
    ]
    said = f": after the first step of an episode {' and '.join(bad)} is not finite" if bad else ""
    raise FloatingPointError(
        f"{owner}: in {told['lost']:.0f} of the {steps} steps of epoch {epochs} the reward, the observation or the state was "
        "not "
        f"finite{said}. {type(task).__name__} must return finite numbers in all states that it can reach"
    )
