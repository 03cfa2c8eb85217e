"""Where frames are and how they move, in the world or as seen from another frame.

A frame seen from another is given in the axes of that, which may move itself: velocities are those that an observer has who moves
along. Accelerations are those in the world.
"""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._core.arguments import choice
from .._core.array import cross, matmul, matvec, transpose, vecmat
from ..lie import quaternion
from .places import Place, PlacedSensor


AXES = ("x", "y", "z")


class FrameSensor(PlacedSensor):
    """A sensor of a frame.

    - `place`: the frame: the name of a site, or another.
    - `relative_to`: the frame that it is seen from, by default the world.
    """

    size = 3

    def __init__(self, name: str, place: Place, relative_to: Place | None = None, **options: Any):
        super().__init__(name, [place] if relative_to is None else [place, relative_to], **options)


class FramePosition(FrameSensor):
    """The position of its origin.

    >>> seen = rbd.sensors.FramePosition("elbow", rbd.sensors.OnBody("lower"), relative_to=rbd.sensors.OnBody("upper"))
    >>> model = rbd.attach(rbd.load("double_pendulum"), seen)
    >>> print(rbd.sense(model, rbd.State(jnp.array([0.5, 1.0]), jnp.zeros(2)))["elbow"])
    [ 0.  0. -1.]
    """

    __init__ = FrameSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        own, other = sensing.frames(sensors), sensing.frames(sensors, 1)
        return vecmat(own.position - other.position, other.rotation)


class FrameOrientation(FrameSensor):
    """Its orientation as a unit quaternion `w x y z`, of the two the one with `w >= 0`.

    >>> model = rbd.attach(rbd.load("pendulum"), rbd.sensors.FrameOrientation("turned", rbd.sensors.OnBody("bob")))
    >>> print(rbd.sense(model, rbd.State(jnp.array([jnp.pi / 2]), jnp.zeros(1)))["turned"])
    [0.707 0.    0.707 0.   ]
    """

    __init__ = FrameSensor.__init__

    size = 4
    unit = True

    @classmethod
    def read(cls, sensors, sensing):
        own, other = sensing.frames(sensors), sensing.frames(sensors, 1)
        return quaternion.from_matrix(matmul(transpose(other.rotation), own.rotation))


class FrameAxis(FrameSensor):
    """One of its axes.

    - `axis`: `"x"`, `"y"` or `"z"`.

    >>> model = rbd.attach(rbd.load("pendulum"), rbd.sensors.FrameAxis("up", rbd.sensors.OnBody("bob"), "z"))
    >>> print(rbd.sense(model, rbd.State(jnp.array([jnp.pi / 2]), jnp.zeros(1)))["up"])
    [1. 0. 0.]
    """

    axis: Literal["x", "y", "z"] = eqx.field(static=True)

    unit = True

    def __init__(self, name: str, place: Place, axis: str, relative_to: Place | None = None, **options: Any):
        super().__init__(name, place, relative_to, **options)
        self.axis = choice(f"FrameAxis {name!r}", "axis", axis, AXES)  # pyright: ignore[reportAttributeAccessIssue]

    @classmethod
    def read(cls, sensors, sensing):
        own, other = sensing.frames(sensors), sensing.frames(sensors, 1)
        axes = jnp.asarray(np.eye(3)[[AXES.index(one.axis) for one in sensors]], own.rotation.dtype)
        return vecmat(matvec(own.rotation, axes), other.rotation)


class FrameLinearVelocity(FrameSensor):
    """The velocity of its origin, as seen from the other frame.

    >>> tip = rbd.sensors.OnBody("lower", (0.0, 0.0, -1.0))
    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.sensors.FrameLinearVelocity("tip", tip))
    >>> print(rbd.sense(model, rbd.State(jnp.zeros(2), jnp.array([1.0, 0.0])))["tip"])
    [-2.  0.  0.]
    """

    __init__ = FrameSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        own, other = sensing.frames(sensors), sensing.frames(sensors, 1)
        twist, carrying = sensing.twists(sensors), sensing.twists(sensors, 1)
        seen = vecmat(matvec(own.rotation, twist[:, 3:]), other.rotation)
        place = vecmat(own.position - other.position, other.rotation)
        return seen - carrying[:, 3:] - cross(carrying[:, :3], place)


class FrameAngularVelocity(FrameSensor):
    """Its angular velocity, as seen from the other frame.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.sensors.FrameAngularVelocity("turns", rbd.sensors.OnBody("lower")))
    >>> print(rbd.sense(model, rbd.State(jnp.zeros(2), jnp.array([1.0, 2.0])))["turns"])
    [0. 3. 0.]
    """

    __init__ = FrameSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        own, other = sensing.frames(sensors), sensing.frames(sensors, 1)
        turning = vecmat(matvec(own.rotation, sensing.twists(sensors)[:, :3]), other.rotation)
        return turning - sensing.twists(sensors, 1)[:, :3]


class FrameLinearAcceleration(FrameSensor):
    """The proper acceleration `r̈ - g` of its origin, in the world's axes: at rest it is g upwards, as MuJoCo has it.

    >>> tip = rbd.sensors.OnBody("bob", (0.0, 0.0, -1.0))
    >>> model = rbd.attach(rbd.load("pendulum"), rbd.sensors.FrameLinearAcceleration("tip", tip))
    >>> print(rbd.sense(model, rbd.State(jnp.zeros(1), jnp.array([2.0])))["tip"])  # towards the hinge, and gravity
    [0.    0.   13.81]
    """

    def __init__(self, name: str, place: Place, **options: Any):
        super().__init__(name, place, **options)

    @classmethod
    def read(cls, sensors, sensing):
        return matvec(sensing.frames(sensors).rotation, sensing.proper_accelerations(sensors)[:, 3:])


class FrameAngularAcceleration(FrameSensor):
    """Its angular acceleration, in the world's axes.

    >>> model = rbd.attach(rbd.load("pendulum"), rbd.sensors.FrameAngularAcceleration("turns", rbd.sensors.OnBody("bob")))
    >>> print(rbd.sense(model, rbd.State(jnp.array([jnp.pi / 2]), jnp.zeros(1)))["turns"])
    [ 0.  -9.8  0. ]
    """

    def __init__(self, name: str, place: Place, **options: Any):
        super().__init__(name, place, **options)

    @classmethod
    def read(cls, sensors, sensing):
        return matvec(sensing.frames(sensors).rotation, sensing.proper_accelerations(sensors)[:, :3])
