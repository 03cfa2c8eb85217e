"""Inertial measurement units, and related sensors at a frame."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import vector
from .._core.array import vecmat
from .places import Place, PlacedSensor


class PointSensor(PlacedSensor):
    """A sensor of three numbers in the axes of its own frame.

    - `place`: The name of a site, or another frame.
    """

    size = 3

    def __init__(self, name: str, place: Place, **options: Any):
        super().__init__(name, [place], **options)


class Gyro(PointSensor):
    """The angular velocity, in the sensor's axes.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.sensors.Gyro("gyro", rbd.sensors.OnBody("lower")))
    >>> print(rbd.sense(model, rbd.State(jnp.zeros(2), jnp.array([1.0, 2.0])))["gyro"])
    [0. 3. 0.]
    """

    __init__ = PointSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        return sensing.twists(sensors)[:, :3]


class Velocimeter(PointSensor):
    """The linear velocity of the sensor's origin, in its axes.

    >>> bob = rbd.sensors.OnBody("bob", (0.0, 0.0, -1.0))
    >>> model = rbd.attach(rbd.load("pendulum"), rbd.sensors.Velocimeter("speed", bob))
    >>> print(rbd.sense(model, rbd.State(jnp.zeros(1), jnp.array([2.0])))["speed"])
    [-2.  0.  0.]
    """

    __init__ = PointSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        return sensing.twists(sensors)[:, 3:]


class Accelerometer(PointSensor):
    """The proper acceleration `Rᵀ (r̈ - g)` of the sensor's origin, in its axes: at rest it reads g upwards.

    >>> model = rbd.attach(rbd.load("pendulum"), rbd.sensors.Accelerometer("imu", rbd.sensors.OnBody("bob")))
    >>> print(rbd.sense(model, rbd.State(jnp.zeros(1), jnp.zeros(1)))["imu"])  # hanging at rest
    [0.   0.   9.81]
    """

    __init__ = PointSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        return sensing.proper_accelerations(sensors)[:, 3:]


class Magnetometer(PointSensor):
    """The magnetic field, uniform in space, in the sensor's axes.

    - `field`: The field in the world's axes. The default is MuJoCo's: half a gauss towards -y.

    >>> compass = rbd.sensors.Magnetometer("compass", rbd.sensors.OnBody("pole"), field=(0.5, 0.0, 0.0))
    >>> model = rbd.attach(rbd.load("cartpole"), compass)
    >>> print(rbd.sense(model, rbd.State(jnp.array([0.0, jnp.pi / 2]), jnp.zeros(2)))["compass"])
    [0.  0.  0.5]
    """

    field: Float[Array, "3"]

    def __init__(self, name: str, place: Place, field: Any = (0.0, -0.5, 0.0), **options: Any):
        super().__init__(name, place, **options)
        self.field = vector(f"Magnetometer {name!r}", "field", field)

    @classmethod
    def read(cls, sensors, sensing):
        rotation = sensing.frames(sensors).rotation
        field = jnp.stack([sensor.field for sensor in sensors]).astype(rotation.dtype)
        return vecmat(field, rotation)


class InterfaceSensor(PointSensor):
    """A sensor between a body and its parent."""

    __init__ = PointSensor.__init__

    @property
    def cuts(self):
        return self.places


class ForceSensor(InterfaceSensor):
    """The force that the sensor's body receives from its parent, in the sensor's axes.

    It is the force that the joint between them transmits, a weld included. It excludes forces that act directly on bodies
    (those of springs and of constraints, and `f_ext`), but includes forces along joints.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.sensors.ForceSensor("load", rbd.sensors.OnBody("upper")))
    >>> print(rbd.sense(model, rbd.State(jnp.zeros(2), jnp.zeros(2)))["load"])  # it carries 2 kg
    [0.    0.   19.62]
    """

    __init__ = InterfaceSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        return sensing.wrenches(sensors)[:, 3:]


class TorqueSensor(InterfaceSensor):
    """The torque about the sensor's origin that its body receives from its parent, in its axes (see `ForceSensor`).

    >>> model = rbd.attach(rbd.load("pendulum"), rbd.sensors.TorqueSensor("torque", rbd.sensors.OnBody("bob")))
    >>> print(rbd.sense(model, rbd.State(jnp.array([1.0]), jnp.zeros(1)), jnp.array([3.0]))["torque"])
    [0. 3. 0.]
    """

    __init__ = InterfaceSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        return sensing.wrenches(sensors)[:, :3]
