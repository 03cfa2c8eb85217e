"""Sensors at joints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import number
from .._core.array import gather, gather_or_zero
from .._core.errors import ModelError
from ..joints import Spherical
from ..lie import quaternion
from ..model import Model
from .sensor import JointSensor


class JointPosition(JointSensor):
    """The coordinate of a joint with one degree of freedom.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.sensors.JointPosition("angle", "elbow"))
    >>> print(rbd.sense(model, rbd.State(jnp.array([0.1, 0.2]), jnp.array([1.0, 2.0])))["angle"])
    0.2
    """

    __init__ = JointSensor.__init__

    scalar_joints = True

    @classmethod
    def read(cls, sensors, sensing):
        return sensing.motion.coordinates(_joints(sensors))[:, None]


class JointVelocity(JointSensor):
    """The rate of the coordinate of a joint with one degree of freedom.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.sensors.JointVelocity("rate", "elbow"))
    >>> print(rbd.sense(model, rbd.State(jnp.array([0.1, 0.2]), jnp.array([1.0, 2.0])))["rate"])
    2.0
    """

    __init__ = JointSensor.__init__

    scalar_joints = True

    @classmethod
    def read(cls, sensors, sensing):
        return sensing.motion.speeds(_joints(sensors))[:, None]


class JointForce(JointSensor):
    """The generalized force that drives a joint with one degree of freedom: from its actuators and from `tau`.

    It is zero for a mimic joint.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.sensors.JointForce("torque", "elbow"))
    >>> print(rbd.sense(model, rbd.State(jnp.zeros(2), jnp.zeros(2)), jnp.array([3.0, 4.0]))["torque"])
    4.0
    """

    __init__ = JointSensor.__init__

    scalar_joints = True

    @classmethod
    def read(cls, sensors, sensing):
        topology = sensing.motion.model.topology
        rows = [int(topology.joint_v(topology.joint_index(joint))[0]) for joint in _joints(sensors)]
        return gather_or_zero(sensing.loads.driving, [row if row < topology.nv else -1 for row in rows])[
            :, None
        ]


class JointOrientation(JointSensor):
    """The unit quaternion of a ball joint (`joints.Spherical`).

    >>> builder = rbd.ModelBuilder()
    >>> ball = builder.add_body("ball", joint=rbd.joints.Spherical(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    >>> model = rbd.attach(builder.build(), rbd.sensors.JointOrientation("turned", "ball"))
    >>> print(rbd.sense(model, rbd.State(jnp.array([0.6, 0.0, 0.0, 0.8]), jnp.zeros(3)))["turned"])
    [0.6 0.  0.  0.8]
    """

    __init__ = JointSensor.__init__

    size = 4
    unit = True

    @classmethod
    def read(cls, sensors, sensing):
        motion = sensing.motion
        rows = [motion.model.topology.joint_q(body) for body in _balls(sensors, motion.model)]
        q = motion.model.joint_configurations(motion.q)
        return quaternion.normalize(gather(q, np.concatenate(rows)).reshape(-1, 4))


class JointAngularVelocity(JointSensor):
    """The angular velocity of a ball joint, in the axes of the body that it moves.

    >>> builder = rbd.ModelBuilder()
    >>> ball = builder.add_body("ball", joint=rbd.joints.Spherical(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    >>> model = rbd.attach(builder.build(), rbd.sensors.JointAngularVelocity("turns", "ball"))
    >>> print(rbd.sense(model, rbd.State(rbd.neutral(model), jnp.array([0.0, 0.0, 1.0])))["turns"])
    [0. 0. 1.]
    """

    __init__ = JointSensor.__init__

    size = 3

    @classmethod
    def read(cls, sensors, sensing):
        motion = sensing.motion
        rows = [motion.model.topology.joint_v(body) for body in _balls(sensors, motion.model)]
        return gather(motion.model.joint_velocities(motion.v), np.concatenate(rows)).reshape(-1, 3)


class LimitSensor(JointSensor):
    """A sensor of the limit of a joint with one degree of freedom.

    - `margin`: The distance from which the limit is active.
    """

    margin: Float[Array, ""]

    scalar_joints = True

    def __init__(self, name: str, joint: str, margin: Any = 0.0, **options: Any):
        super().__init__(name, joint, **options)
        self.margin = number(f"{type(self).__name__} {name!r}", "margin", margin)

    @classmethod
    def seen(cls, sensors: Sequence[LimitSensor], sensing):
        """Returns the distance of each joint beyond the margin, the sign (-1 for the upper limit), and whether it is active."""
        motion, topology = sensing.motion, sensing.motion.model.topology
        places = [int(topology.joint_q(topology.joint_index(joint))[0]) for joint in _joints(sensors)]
        margin = jnp.stack([sensor.margin for sensor in sensors]).astype(motion.q.dtype)
        position = motion.coordinates(_joints(sensors))
        lower, upper = (_bounds(motion.model, places, bound) for bound in ("lower", "upper"))
        below, above = position - lower - margin, upper - position - margin
        sign = jnp.where(below < 0, 1, -1).astype(position.dtype)
        distance = jnp.where(below < 0, below, above)
        return distance, sign, distance < 0


class JointLimitPosition(LimitSensor):
    """The distance of a joint from its active limit, less the margin: never positive, zero without an active limit.

    >>> builder = rbd.ModelBuilder()
    >>> ball = rbd.Inertia.sphere(1.0, 0.1)
    >>> slide = builder.add_body("slide", joint=rbd.joints.Prismatic(), inertia=ball, lower=-1.0, upper=1.0)
    >>> model = rbd.attach(builder.build(), rbd.sensors.JointLimitPosition("stop", "slide", margin=0.1))
    >>> print(rbd.sense(model, rbd.State(jnp.array([0.95]), jnp.zeros(1)))["stop"].round(3))
    -0.05
    """

    __init__ = LimitSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        distance, _, seen = cls.seen(sensors, sensing)
        return jnp.where(seen, distance, 0)[:, None]


class JointLimitVelocity(LimitSensor):
    """The rate of the distance from the active limit; zero without an active limit.

    >>> builder = rbd.ModelBuilder()
    >>> ball = rbd.Inertia.sphere(1.0, 0.1)
    >>> slide = builder.add_body("slide", joint=rbd.joints.Prismatic(), inertia=ball, lower=-1.0, upper=1.0)
    >>> model = rbd.attach(builder.build(), rbd.sensors.JointLimitVelocity("stop", "slide", margin=0.1))
    >>> print(rbd.sense(model, rbd.State(jnp.array([0.95]), jnp.array([2.0])))["stop"])
    -2.0
    """

    __init__ = LimitSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        _, sign, seen = cls.seen(sensors, sensing)
        return jnp.where(seen, sign * sensing.motion.speeds(_joints(sensors)), 0)[:, None]


def _joints(sensors) -> list[str]:
    return [sensor.joint for sensor in sensors]


def _bounds(model: Model, places: list[int], bound: str):
    """Returns the limits of joints; infinite for mimic joints."""
    far = jnp.full(1, -jnp.inf if bound == "lower" else jnp.inf, model.dtype)
    own = [place if place < model.nq else -1 for place in places]
    return gather(jnp.concatenate([getattr(model, bound), far]), own)


def _balls(sensors, model: Model) -> list[int]:
    """Returns the bodies that the joints attach; each joint must be a ball joint."""
    found = []
    for sensor in sensors:
        body = model.topology.joint_index(sensor.joint)
        kind = type(model.joints[model.topology.kind_of[body][0]])
        if not issubclass(kind, Spherical):
            raise ModelError(
                f"{sensor.label}: joint {sensor.joint!r} is a {kind.__name__}; this is measured of a Spherical one"
            )
        found.append(body)
    return found
