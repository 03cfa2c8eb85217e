"""Quadruped tasks: standing up, and trotting at a commanded velocity."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model import Model, attach
from ..robots.loading import load
from ..shapes import Capsule
from ..shapes.shape import Shape
from ..simulate.control import Controls
from ..simulate.state import State
from ..spatial.transform import Transform
from .ground import on_ground
from .situation import Situation
from .task import Task


LEGS = ("FL", "FR", "RL", "RR")

FEET = tuple(f"{leg}_foot" for leg in LEGS)


class Quadruped(Task):
    """The common part of the quadruped tasks. The root joint is free, and all others are hinges with a servo each.

    The observation has the up direction and the velocity of the trunk, in its own axes (3 and 6), and the previous action
    (12). It also has the joint angles relative to the reference, and their rates (12 each). The action sets the targets of
    the servos.

    - `reach`: The range of these targets, in rad.
    """

    reach: float = eqx.field(kw_only=True, default=0.5)

    def remember(self, before, action, now):
        return before.memory | {"action": action}

    def observe(self, now):
        joints = now.q[7:] - now.model.reference[7:]
        turning = jnp.concatenate([0.2 * now.v[:3], now.v[3:6]])
        return jnp.concatenate([self.up(now), turning, joints, 0.1 * now.v[6:], now.memory["action"]])

    def up(self, now: Situation) -> Float[Array, "3"]:
        """Returns the world's z axis in the axes of the trunk."""
        return now.motion.world_frames[0].rotation[2]

    def height(self, now: Situation) -> Float[Array, ""]:
        """Returns the height of the trunk above the reference."""
        return now.q[2] - now.model.reference[2]

    def effort(
        self, before: Situation, action: Float[Array, "na"], now: Situation
    ) -> dict[str, Float[Array, ""]]:
        """Returns the reward terms for effort: large or changing actions, and fast joints."""
        return {
            "steady": -0.02 * jnp.sum((action - before.memory["action"]) ** 2),
            "effort": -0.01 * jnp.sum(action**2),
            "slow": -2e-4 * jnp.sum(now.v[6:] ** 2),
        }


class Stand(Quadruped):
    """The quadruped stands up from any lying pose, and then stands still.

    An episode begins with the robot lying on the ground, tilted by up to 0.5 rad, at any yaw angle, with its legs in any pose.
    An action is relative to the current joint angles, so a zero action leaves the robot limp.
    """

    def controls(self, now, action):
        return Controls(now.q[7:] + self.reach * action)

    def begin(self, model: Any, key):
        keys = jax.random.split(key, 3)
        yaw, roll, pitch = jax.random.uniform(keys[0], (3,), model.dtype, -1, 1) * jnp.array(
            [np.pi, 0.5, 0.5], model.dtype
        )
        folded = jnp.asarray(np.tile([0.0, 0.6, -0.9], 4), model.dtype)
        spread = jnp.asarray(np.tile([0.4, 0.5, 0.3], 4), model.dtype)
        joints = (
            model.reference[7:] + folded + spread * jax.random.uniform(keys[1], (12,), model.dtype, -1, 1)
        )
        joints = jnp.clip(joints, model.lower[7:], model.upper[7:])
        turn = _quaternion(yaw, pitch, roll)
        lying = State(jnp.concatenate([model.reference[:3], turn, joints]), jnp.zeros(model.nv, model.dtype))
        memory = {"action": jnp.zeros(self.action_size, model.dtype)}
        now = Situation(model, lying, jnp.zeros((), model.dtype), memory, keys[2])
        frames = now.motion.world_frames
        feet = _heights(model, frames, [*FEET, *(f"{leg}_calf" for leg in LEGS)]) - FOOT
        corners = np.array([[x, y, -0.055] for x in (-0.19, 0.19) for y in (-0.1, 0.1)])
        trunk = frames[0].position[2] + jnp.asarray(corners, model.dtype) @ frames[0].rotation[2]
        lowest = jnp.min(jnp.concatenate([feet, trunk]))
        floor = _floor(model)
        q = lying.q.at[2].add(floor - lowest)
        return State(q, lying.v), memory

    def reward(self, before, action, now):
        upright = 0.5 * (1.0 + self.up(now)[2])
        pose = now.q[7:] - now.model.reference[7:]
        near = 1.0 / (1.0 + (self.height(now) / 0.1) ** 2)
        return {
            "upright": upright,
            "height": upright * near,
            "pose": -0.1 * upright * jnp.sum(pose**2),
            "still": -0.05 * near * (jnp.sum(now.v[3:6] ** 2) + 0.2 * jnp.sum(now.v[:3] ** 2)),
        } | self.effort(before, action, now)


class Trot(Quadruped):
    """The quadruped trots at a commanded velocity, forward, sideways and turning, which is drawn for every episode.

    The observation also has the command and the phase of the gait cycle: 50 numbers. Diagonal legs swing together. An episode
    terminates when the trunk falls or tips over. An action is relative to the reference.

    - `least`, `most`: The bounds of the commanded velocity, in m/s along x and y of the trunk, and rad/s.
    - `period`, `lift`: The period of a cycle, in s, and the desired foot clearance, in m.
    """

    least: tuple[float, float, float] = eqx.field(kw_only=True, default=(0.3, -0.2, -0.4))
    most: tuple[float, float, float] = eqx.field(kw_only=True, default=(0.8, 0.2, 0.4))
    period: float = eqx.field(kw_only=True, default=0.5)
    lift: float = eqx.field(kw_only=True, default=0.06)

    def begin(self, model: Any, key):
        pose, command, phase = jax.random.split(key, 3)
        low, high = jnp.array(self.least, model.dtype), jnp.array(self.most, model.dtype)
        moved = 0.05 * jax.random.normal(pose, (12,), model.dtype)
        q = jnp.concatenate([model.reference[:7], model.reference[7:] + moved])
        memory = {
            "action": jnp.zeros(self.action_size, model.dtype),
            "command": jax.random.uniform(command, (3,), model.dtype, low, high),
            "phase": jax.random.uniform(phase, (), model.dtype, 0, 2 * np.pi),
        }
        return State(q, jnp.zeros(model.nv, model.dtype)), memory

    def controls(self, now, action):
        return Controls(now.model.reference[7:] + self.reach * action)

    def phase(self, now: Situation) -> Float[Array, ""]:
        """Returns the phase of the gait cycle, as an angle."""
        return now.memory["phase"] + 2 * np.pi * now.time / self.period

    def observe(self, now):
        phase = self.phase(now)
        cycle = jnp.stack([jnp.cos(phase), jnp.sin(phase)])
        return jnp.concatenate([super().observe(now), now.memory["command"], cycle])

    def reward(self, before, action, now):
        # The velocity of the trunk along horizontal axes that turn with it.
        frame = now.motion.world_frames[0]
        forward = frame.rotation[:, 0]
        ahead = forward[:2] / jnp.sqrt(jnp.sum(forward[:2] ** 2) + 1e-6)
        moving = frame.rotation @ now.v[3:6]
        along, aside = ahead @ moving[:2], ahead[0] * moving[1] - ahead[1] * moving[0]
        turning = frame.rotation[2] @ now.v[:3]
        speed, side, turn = now.memory["command"]
        off = (along - speed) ** 2 + (aside - side) ** 2
        swing = jnp.sin(self.phase(now)) * jnp.asarray([1.0, -1.0, -1.0, 1.0], now.q.dtype)
        wanted = self.lift * jnp.maximum(swing, 0) ** 2
        clear = _heights(now.model, now.motion.world_frames, FEET) - FOOT - _floor(now.model)
        return {
            "velocity": 1.0 / (1.0 + off / 0.1),
            "turn": 0.5 / (1.0 + (turning - turn) ** 2 / 0.1),
            "level": 0.5 * (self.up(now)[2] - 1.0),
            "height": -20.0 * self.height(now) ** 2,
            "bounce": -0.2 * moving[2] ** 2,
            "feet": -50.0 * jnp.sum((clear - wanted) ** 2),
        } | self.effort(before, action, now)

    def terminated(self, now):
        return (self.up(now)[2] < 0.5) | (self.height(now) < -0.15)


#: The radius of feet and knees, and the distance between them.
FOOT, SHANK = 0.02, 0.21


def _heights(model: Model, frames, bodies) -> Float[Array, "k"]:
    """Returns the heights of the origins of some bodies, in the world."""
    return jnp.stack([frames.position[model.body_index(body), 2] for body in bodies])


def _floor(model: Model) -> Float[Array, ""]:
    """Returns the height of the floor."""
    floor: Any = model.named("shape", "floor")
    return floor.placement.position[2].astype(model.dtype)


def _quaternion(yaw, pitch, roll) -> Float[Array, "4"]:
    (cy, cp, cr), (sy, sp, sr) = (turn(0.5 * jnp.stack([yaw, pitch, roll])) for turn in (jnp.cos, jnp.sin))
    return jnp.stack(
        [
            cr * cp * cy + sr * sp * sy,
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
        ]
    )


def _robot(knees: bool) -> Model:
    """Returns the bundled quadruped on the ground, with contact at the feet, or at trunk and knees as well."""
    model, touching = load("quadruped"), list(FEET)
    if knees:
        # A capsule from knee to foot, so that one contact element serves both.
        shank = Capsule(FOOT, SHANK / 2)
        middle = Transform.from_position(jnp.array([0.0, 0.0, -SHANK / 2]))
        model = attach(
            model,
            *(Shape(f"{leg}_shank", f"{leg}_calf", shank, middle, contype=0, visual=False) for leg in LEGS),
        )
        touching = [*(f"{leg}_shank" for leg in LEGS), "trunk"]
    return on_ground(model, touching, stiffness=5e3, damping=100.0)


def quadruped_stand(**options: Any) -> Stand:
    """Returns the stand-up task of `rbd.load("quadruped")`: 150 steps of 0.02 s.

    >>> task = rbd.tasks.quadruped_stand()
    >>> print(task.observation_size, task.action_size, task.dt)
    45 12 0.02
    """
    if "model" not in options:
        options["model"] = _robot(knees=True)
    return Stand(**({"dt": 0.02, "substeps": 5, "episode_length": 150} | options))


def quadruped_trot(**options: Any) -> Trot:
    """Returns the trotting task of `rbd.load("quadruped")`: 500 steps of 0.02 s.

    >>> task = rbd.tasks.quadruped_trot()
    >>> print(task.observation_size, task.action_size, task.dt)
    50 12 0.02
    """
    if "model" not in options:
        options["model"] = _robot(knees=False)
    return Trot(**({"dt": 0.02, "substeps": 5, "episode_length": 500} | options))
