"""Sensors of the complete model, and of the time."""

from __future__ import annotations

import jax.numpy as jnp

from ..dynamics.energy import kinetic_energy_of, potential_energy_of, spring_energy_of
from .sensor import Sensor


class WholeSensor(Sensor):
    """A sensor without a place."""

    __init__ = Sensor.__init__

    def attached(self, bodies, frames, joints):
        return self


class KineticEnergy(WholeSensor):
    """The kinetic energy of all bodies.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.sensors.KineticEnergy("energy"))
    >>> print(rbd.sense(model, rbd.State(jnp.zeros(2), jnp.array([1.0, 0.0])))["energy"].round(3))
    2.501
    """

    __init__ = WholeSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        return _for_each(sensors, kinetic_energy_of(sensing.motion))


class PotentialEnergy(WholeSensor):
    """The potential energy in gravity and in the springs at the joints.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.sensors.PotentialEnergy("energy"))
    >>> print(rbd.sense(model, rbd.State(jnp.zeros(2), jnp.zeros(2)))["energy"])
    -29.43
    """

    __init__ = WholeSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        motion = sensing.motion
        return _for_each(sensors, potential_energy_of(motion) + spring_energy_of(motion))


class Clock(WholeSensor):
    """The time.

    >>> model = rbd.attach(rbd.load("pendulum"), rbd.sensors.Clock("time"))
    >>> path = rbd.rollout(model, rbd.State(jnp.zeros(1), jnp.zeros(1)), dt=0.5, steps=2)
    >>> print(rbd.sense_along(model, path)["time"])
    [0.  0.5]
    """

    __init__ = WholeSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        return _for_each(sensors, sensing.motion.time)


def _for_each(sensors, number):
    return jnp.full((len(sensors), 1), number)
