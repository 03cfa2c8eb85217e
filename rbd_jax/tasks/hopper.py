"""The hopper: hopping forward on one leg, in a plane."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..forces import JointLimit
from ..forces.force import add_forces
from ..robots.loading import load
from ..simulate.state import State
from .ground import on_ground
from .task import Task


class Hopper(Task):
    """One leg hops forward, at one meter per second, without falling.

    The observation has height and pitch of the trunk, the three angles of the leg, the velocities of all of them, and the
    trunk's velocity along x: eleven numbers. Actions are the torques of the motors. An episode terminates when the trunk is
    too low, or leans by more than 0.8 rad.
    """

    speed: float = eqx.field(kw_only=True, default=1.0)

    def begin(self, model: Any, key):
        q, v = 0.02 * jax.random.normal(key, (2, model.nv), model.dtype)
        return State(model.reference + q, v)

    def observe(self, now):
        return jnp.concatenate([now.q[1:], 0.2 * now.v])

    def reward(self, before, action, now):
        _, height, pitch = now.q[:3]
        return {
            "speed": 1.0 / (1.0 + (now.v[0] - self.speed) ** 2),
            "height": -2.0 * height**2,
            "upright": 0.5 * jnp.cos(pitch),
            "effort": -0.02 * jnp.sum(action**2),
        }

    def terminated(self, now):
        _, height, pitch = now.q[:3]
        return (height < -0.35) | (jnp.abs(pitch) > 0.8)


def hopper(**options: Any) -> Hopper:
    """Returns the hopping task of `rbd.load("hopper")`: 500 steps of 0.02 s.

    >>> task = rbd.tasks.hopper()
    >>> print(task.observation_size, task.action_size, task.dt)
    11 3 0.02
    """
    if "model" not in options:
        model = on_ground(load("hopper"), ("heel", "toe"), stiffness=6e3, damping=80.0)
        options["model"] = add_forces(model, JointLimit(100.0, 2.0, joints=("hip", "knee", "ankle")))
    return Hopper(**{"dt": 0.02, "substeps": 5, "episode_length": 500} | options)
