"""Poses and velocities of frames, in the world or relative to another frame.

A relative quantity is in the axes of the reference frame, which may move: velocities are those for an observer that moves with
it. Accelerations are relative to the world.
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

    - `place`: The frame: the name of a site, or another frame.
    - `relative_to`: The reference frame, by default the world.
    """

    size = 3

    def __init__(self, name: str, place: Place, relative_to: Place | None = None, **options: Any):
        super().__init__(name, [place] if relative_to is None else [place, relative_to], **options)


class FramePosition(FrameSensor):
    """The position of the origin of a frame.

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
    """The orientation of a frame as a unit quaternion `w x y z`, with `w >= 0`.

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
    """One of the axes of a frame.

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
    """The velocity of the origin of a frame, relative to the reference frame.

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
    """The angular velocity of a frame, relative to the reference frame.

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
    """The proper acceleration `r̈ - g` of the origin of a frame, in the world's axes: at rest g upwards, as in MuJoCo.

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
    """The angular acceleration of a frame, in the world's axes.

    >>> model = rbd.attach(rbd.load("pendulum"), rbd.sensors.FrameAngularAcceleration("turns", rbd.sensors.OnBody("bob")))
    >>> print(rbd.sense(model, rbd.State(jnp.array([jnp.pi / 2]), jnp.zeros(1)))["turns"])
    [ 0.  -9.8  0. ]
    """

    def __init__(self, name: str, place: Place, **options: Any):
        super().__init__(name, place, **options)

    @classmethod
    def read(cls, sensors, sensing):
        return matvec(sensing.frames(sensors).rotation, sensing.proper_accelerations(sensors)[:, :3])
