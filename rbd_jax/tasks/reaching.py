"""Reaching: the end of an arm moves to a target, which is drawn for every episode."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..dynamics import gravity_force
from ..robots.loading import load
from ..simulate.state import State
from .task import Task


#: The distance that counts as reached, in m.
NEAR = 0.05


def closeness(offset: Float[Array, "k"]) -> dict[str, Float[Array, ""]]:
    """Returns two reward terms for the distance to a target, one for far and one for near; both are smooth at the target."""
    square = jnp.sum(offset**2)
    return {
        "distance": -(jnp.sqrt(square + 0.01**2) - 0.01),
        "near": jnp.exp(-0.5 * square / NEAR**2),
    }


class Reacher(Task):
    """The fingertip of an arm with two links in a plane moves to a target.

    The observation has the cosines and sines of both angles, the rates, the target, and the vector from the fingertip to it:
    ten numbers. The action is the torques at the joints, at most 1 Nm.
    """

    def begin(self, model: Any, key):
        start, where = jax.random.split(key)
        shoulder, elbow = jax.random.uniform(start, (2,), model.dtype, -1, 1)
        radius, angle = jax.random.uniform(where, (2,), model.dtype)
        radius, angle = 0.15 + 0.4 * radius, 2 * jnp.pi * angle
        target = radius * jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        return State(jnp.stack([jnp.pi * shoulder, 2.0 * elbow]), jnp.zeros(2, model.dtype)), target

    def observe(self, now):
        rates = 0.1 * now.v
        return jnp.concatenate([jnp.cos(now.q), jnp.sin(now.q), rates, now.memory, self._offset(now)])

    def reward(self, before, action, now):
        return closeness(self._offset(now)) | {"effort": -0.01 * jnp.sum(action**2)}

    def _offset(self, now):
        """Returns the vector from the fingertip to the target."""
        row = now.model.body_index("lower")
        tip = now.model.named("site", "fingertip").placement.position
        frame = now.motion.world_frames[row]
        return now.memory - frame.point(tip)[:2]


def reacher(**options: Any) -> Reacher:
    """Returns the reaching task of `rbd.load("reacher")`: 150 steps of 0.02 s.

    >>> task = rbd.tasks.reacher()
    >>> print(task.observation_size, task.action_size, task.dt)
    10 2 0.02
    """
    options = {"model": load("reacher"), "dt": 0.02, "substeps": 2, "episode_length": 150} | options
    return Reacher(**options)


class ArmReach(Task):
    """The tool of an arm with seven joints moves to a target in front of it.

    The observation has the seven angles and rates, the target, and the vector from the tool to it: 20 numbers. The action is
    the torques at the joints, relative to a third of the effort limits, in addition to gravity compensation.
    """

    body: str = eqx.field(static=True, default="tool")

    @property
    def action_size(self):
        return self.model.nv

    def begin(self, model: Any, key):
        start, where = jax.random.split(key)
        q = model.reference + 0.2 * jax.random.normal(start, (model.nq,), model.dtype)
        low, high = jnp.array([[0.3, -0.4, 0.15], [0.7, 0.4, 0.75]], model.dtype)
        target = jax.random.uniform(where, (3,), model.dtype, low, high)
        return State(q, jnp.zeros(model.nv, model.dtype)), target

    def controls(self, now, action):
        return gravity_force(now.model, now.q) + now.model.effort_limit * action / 3

    def observe(self, now):
        return jnp.concatenate([now.q, now.v, now.memory, self._offset(now)])

    def reward(self, before, action, now):
        beyond = jnp.maximum(now.q - now.model.upper, 0) + jnp.maximum(now.model.lower - now.q, 0)
        return closeness(self._offset(now)) | {
            "slow": -0.01 * jnp.sum(now.v**2),
            "limits": -jnp.sum(beyond**2),
            "effort": -0.01 * jnp.sum(action**2),
        }

    def _offset(self, now):
        """Returns the vector from the tool to the target."""
        return now.memory - now.motion.world_frames[now.model.body_index(self.body)].position


def arm_reach(**options: Any) -> ArmReach:
    """Returns the reaching task of `rbd.load("arm7")`: 150 steps of 0.02 s.

    >>> task = rbd.tasks.arm_reach()
    >>> print(task.observation_size, task.action_size, task.dt)
    20 7 0.02
    """
    options = {"model": load("arm7"), "dt": 0.02, "substeps": 2, "episode_length": 150} | options
    return ArmReach(**options)
