"""Sensors of actuators and of tendons."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._core.arguments import names
from .._core.array import gather, sum_rows
from ..forces.actuators import OnTendon
from ..forces.actuators.drive import actuators_of
from ..forces.actuators.transmission import Transmissions
from ..forces.tendon import Tendons
from ..model import Model
from ..spatial import Reference
from .sensor import Sensor


class NamedSensor(Sensor):
    """A sensor of another attachment, by its name. Detaching that attachment also removes the sensor."""

    measured: str = eqx.field(static=True)

    #: The role of the measured attachment.
    of: ClassVar[str]

    def __init__(self, name: str, measured: str, **options: Any):
        super().__init__(name, **options)
        (self.measured,) = names(f"{type(self).__name__} {name!r}", self.of, measured, 1)

    @property
    def refers(self):
        return (Reference(self.of, self.measured),)

    def attached(self, bodies, frames, joints):
        return self

    def called(self, name, refers):
        return self.changed(name=name, measured=refers[0].name)

    @classmethod
    def rows(cls, sensors, model: Model) -> np.ndarray:
        """Returns the row of each sensor's attachment among those of its role in the model."""
        known = {thing.name: row for row, thing in enumerate(model.attached_as(cls.of))}
        return np.array([known[sensor.measured] for sensor in sensors])


class ActuatorSensor(NamedSensor):
    """A sensor of an actuator, by name."""

    __init__ = NamedSensor.__init__

    of = "actuator"


class ActuatorPosition(ActuatorSensor):
    """The length of an actuator.

    >>> model = rbd.attach(rbd.load("cartpole"), rbd.sensors.ActuatorPosition("length", "motor"))
    >>> print(rbd.sense(model, rbd.State(jnp.array([0.5, 0.0]), jnp.zeros(2)))["length"])
    0.5
    """

    __init__ = ActuatorSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        motion = sensing.motion
        known = Transmissions(motion, actuators_of(motion.model))
        return gather(known.lengths, cls.rows(sensors, motion.model))[:, None]


class ActuatorVelocity(ActuatorSensor):
    """The rate of the length of an actuator.

    >>> model = rbd.attach(rbd.load("cartpole"), rbd.sensors.ActuatorVelocity("speed", "motor"))
    >>> print(rbd.sense(model, rbd.State(jnp.zeros(2), jnp.array([0.5, 0.0])))["speed"])
    0.5
    """

    __init__ = ActuatorSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        motion = sensing.motion
        known = Transmissions(motion, actuators_of(motion.model))
        return gather(known.rates, cls.rows(sensors, motion.model))[:, None]


class ActuatorForce(ActuatorSensor):
    """The force of an actuator along its length.

    >>> model = rbd.attach(rbd.load("cartpole"), rbd.sensors.ActuatorForce("force", "motor"))
    >>> print(rbd.sense(model, rbd.State(jnp.zeros(2), jnp.zeros(2)), rbd.Controls(jnp.array([3.0])))["force"])
    3.0
    """

    __init__ = ActuatorSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        return gather(sensing.loads.actuator_forces, cls.rows(sensors, sensing.motion.model))[:, None]


class TendonSensor(NamedSensor):
    """A sensor of a tendon, by name."""

    __init__ = NamedSensor.__init__

    of = "tendon"


class TendonPosition(TendonSensor):
    """The length of a tendon.

    >>> rope = rbd.forces.FixedTendon("rope", {"shoulder": 0.1, "elbow": 0.2})
    >>> model = rbd.attach(rbd.load("double_pendulum"), rope, rbd.sensors.TendonPosition("length", "rope"))
    >>> print(rbd.sense(model, rbd.State(jnp.array([1.0, 2.0]), jnp.zeros(2)))["length"])
    0.5
    """

    __init__ = TendonSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        return gather(Tendons(sensing.motion).lengths, cls.rows(sensors, sensing.motion.model))[:, None]


class TendonVelocity(TendonSensor):
    """The rate of the length of a tendon.

    >>> rope = rbd.forces.FixedTendon("rope", {"shoulder": 0.1, "elbow": 0.2})
    >>> model = rbd.attach(rbd.load("double_pendulum"), rope, rbd.sensors.TendonVelocity("speed", "rope"))
    >>> print(rbd.sense(model, rbd.State(jnp.zeros(2), jnp.array([1.0, 2.0])))["speed"])
    0.5
    """

    __init__ = TendonSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        return gather(Tendons(sensing.motion).rates, cls.rows(sensors, sensing.motion.model))[:, None]


class TendonForce(TendonSensor):
    """The total force of all actuators of a tendon, each along its own length.

    >>> rope = rbd.forces.FixedTendon("rope", {"shoulder": 0.1, "elbow": 0.2})
    >>> winch = rbd.actuators.Motor("winch", rbd.actuators.OnTendon("rope"))
    >>> model = rbd.attach(rbd.load("double_pendulum"), rope, winch, rbd.sensors.TendonForce("pull", "rope"))
    >>> print(rbd.sense(model, rbd.State(jnp.zeros(2), jnp.zeros(2)), rbd.Controls(jnp.array([5.0])))["pull"])
    5.0
    """

    __init__ = TendonSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        model = sensing.motion.model
        tendons = {tendon.name: row for row, tendon in enumerate(model.tendons)}
        on = [one.transmission for one in actuators_of(model)]
        rows = [tendons[one.tendon] if isinstance(one, OnTendon) else -1 for one in on]
        if not rows:
            return jnp.zeros((len(sensors), 1), sensing.motion.q.dtype)
        forces = sum_rows(sensing.loads.actuator_forces, np.array(rows), len(tendons))
        return gather(forces, cls.rows(sensors, model))[:, None]
