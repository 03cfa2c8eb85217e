"""What is measured of the whole model, and the time."""

from __future__ import annotations

import jax.numpy as jnp

from ..dynamics.energy import kinetic_energy_of, potential_energy_of, spring_energy_of
from .sensor import Sensor


class WholeSensor(Sensor):
    """A sensor that is nowhere in particular."""

    __init__ = Sensor.__init__

    def attached(self, bodies, frames, joints):
        return self


class KineticEnergy(WholeSensor):
    """The kinetic energy of all bodies."""

    __init__ = WholeSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        return _for_each(sensors, kinetic_energy_of(sensing.motion))


class PotentialEnergy(WholeSensor):
    """The potential energy in gravity and in the springs at the joints."""

    __init__ = WholeSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        motion = sensing.motion
        return _for_each(sensors, potential_energy_of(motion) + spring_energy_of(motion))


class Clock(WholeSensor):
    """The time."""

    __init__ = WholeSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        return _for_each(sensors, sensing.motion.time)


def _for_each(sensors, number):
    return jnp.full((len(sensors), 1), number)
