"""Cart-pole: swing up from hanging, and balance."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..robots.loading import load
from ..simulate.state import State
from .task import Task


class Cartpole(Task):
    """The cart swings its pole up from hanging, and holds it upright near the middle of the rail.

    The observation has the position and velocity of the cart, cosine and sine of the pole's angle, and its rate: five numbers.
    The action is the force on the cart, at most 20 N. An episode terminates when the cart leaves its rail.
    """

    def begin(self, model: Any, key):
        hanging = jnp.array([0.0, jnp.pi], model.dtype)
        q, v = 0.1 * jax.random.normal(key, (2, 2), model.dtype)
        return State(hanging + q, v)

    def observe(self, now):
        (x, angle), (speed, rate) = now.q, now.v
        return jnp.stack([x, jnp.cos(angle), jnp.sin(angle), speed, rate])

    def reward(self, before, action, now):
        x, angle = now.q
        return {
            "upright": 0.5 * (1 + jnp.cos(angle)),
            "middle": -0.05 * x**2,
            "slow": -0.005 * now.v[1] ** 2 * 0.5 * (1 + jnp.cos(angle)),
            "effort": -0.01 * jnp.sum(action**2),
        }

    def terminated(self, now):
        limit = now.model.upper[0]
        return jnp.abs(now.q[0]) > limit


def cartpole(**options: Any) -> Cartpole:
    """Returns the swing-up task of `rbd.load("cartpole")`: 250 steps of 0.04 s.

    >>> task = rbd.tasks.cartpole(episode_length=100)
    >>> print(task.observation_size, task.action_size, task.dt)
    5 1 0.04
    """
    options = {"model": load("cartpole"), "dt": 0.04, "substeps": 2, "episode_length": 250} | options
    return Cartpole(**options)
