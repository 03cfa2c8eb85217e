"""Sensors of a body and all that it carries."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from .._core.array import cross, matmul, matvec
from ..model import Model
from ..spatial import Reference
from ..spatial.transform import Transform
from .sensor import BodySensor


class SubtreeSensor(BodySensor):
    """A sensor of a body and its descendants. For the world it includes all bodies."""

    __init__ = BodySensor.__init__

    size = 3

    @property
    def bodies(self):
        return (self.body,)

    @property
    def frames(self):
        return Transform(jnp.eye(3)[None], jnp.zeros((1, 3)))

    @property
    def cuts(self):
        return (Reference("body", self.body),)

    def attached(self, bodies, frames, joints):
        return self.changed(body=bodies[0])

    @staticmethod
    def members(sensors: Sequence[SubtreeSensor], model: Model) -> np.ndarray:
        """Returns the bodies of each sensor: (k, nb)."""
        above = np.eye(model.nb, dtype=bool)
        for body, parent in enumerate(model.topology.parents):
            if parent >= 0:
                above[body] |= above[parent]
        bodies = [sensor.body for sensor in sensors]
        rows = [None if body == "world" else above[:, model.topology.body_index(body)] for body in bodies]
        return np.stack([np.ones(model.nb, bool) if row is None else row for row in rows])


class SubtreeCenterOfMass(SubtreeSensor):
    """The center of mass, in the world; for zero mass the origin of the body.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.sensors.SubtreeCenterOfMass("all", "upper"))
    >>> print(rbd.sense(model, rbd.State(jnp.zeros(2), jnp.zeros(2)))["all"])
    [ 0.   0.  -1.5]
    """

    __init__ = SubtreeSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        masses = sensing.masses
        return _center(sensors, sensing) + masses.origin[None]


class SubtreeLinearVelocity(SubtreeSensor):
    """The velocity of the center of mass, in the world's axes; zero for zero mass.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.sensors.SubtreeLinearVelocity("all", "upper"))
    >>> print(rbd.sense(model, rbd.State(jnp.zeros(2), jnp.array([1.0, 0.0])))["all"])
    [-1.5  0.   0. ]
    """

    __init__ = SubtreeSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        members = _members(sensors, sensing)
        momentum, mass = matmul(members, sensing.masses.momentum), matvec(members, sensing.masses.mass)
        return momentum / jnp.where(mass > 0, mass, 1)[:, None]


class SubtreeAngularMomentum(SubtreeSensor):
    """The angular momentum about the center of mass, in the world's axes.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.sensors.SubtreeAngularMomentum("all", "upper"))
    >>> print(rbd.sense(model, rbd.State(jnp.zeros(2), jnp.array([1.0, 0.0])))["all"])
    [0.    0.502 0.   ]
    """

    __init__ = SubtreeSensor.__init__

    @classmethod
    def read(cls, sensors, sensing):
        masses, members = sensing.masses, _members(sensors, sensing)
        about_origin = matmul(members, masses.spin + cross(masses.position, masses.momentum))
        return about_origin - cross(_center(sensors, sensing), matmul(members, masses.momentum))


def _members(sensors, sensing):
    motion = sensing.motion
    return jnp.asarray(SubtreeSensor.members(sensors, motion.model), motion.q.dtype)


def _center(sensors, sensing):
    """Returns the centers of mass about the origin of `sensing.masses`."""
    masses, members = sensing.masses, _members(sensors, sensing)
    mass = matvec(members, masses.mass)
    known = mass > 0
    center = matmul(members, masses.first_moment) / jnp.where(known, mass, 1)[:, None]
    if sensing.motion.model.nb == 0:
        return center
    rows = [
        -1 if one.body == "world" else sensing.motion.model.topology.body_index(one.body) for one in sensors
    ]
    return jnp.where(known[:, None], center, masses.position[np.array(rows)])
