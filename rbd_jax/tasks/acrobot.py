"""The acrobot: a double pendulum with a motor only at the elbow, to be swung up."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..robots.loading import load
from ..simulate.state import State
from .task import Task


class Acrobot(Task):
    """Two rods swing up from hanging, driven only at the elbow, and stay up.

    The observation has the cosines and sines of the angles of both rods to the vertical, and their rates: six numbers. The
    action is the torque at the elbow, at most 20 Nm.
    """

    def begin(self, model, key):
        q, v = 0.1 * jax.random.normal(key, (2, 2), model.dtype)
        return State(q, v)

    def observe(self, now):
        angles = self._angles(now)
        return jnp.concatenate([jnp.cos(angles), jnp.sin(angles), 0.2 * now.v])

    def reward(self, before, action, now):
        height = -jnp.sum(jnp.cos(self._angles(now)))  # height of the tip above the shoulder, in rod lengths
        near = jnp.exp(-2.0 * (2.0 - height))
        return {
            "height": 0.25 * (2.0 + height),
            "upright": near,
            "slow": -0.02 * near * jnp.sum(now.v**2),
            "effort": -0.01 * jnp.sum(action**2),
        }

    def _angles(self, now):
        """Returns the angles of both rods, from hanging."""
        shoulder, elbow = now.q
        return jnp.stack([shoulder, shoulder + elbow])


def acrobot(**options: Any) -> Acrobot:
    """Returns the swing-up task of `rbd.load("acrobot")`: 250 steps of 0.04 s.

    >>> task = rbd.tasks.acrobot()
    >>> print(task.observation_size, task.action_size, task.dt)
    6 1 0.04
    """
    options = {"model": load("acrobot"), "dt": 0.04, "substeps": 4, "episode_length": 250} | options
    return Acrobot(**options)
