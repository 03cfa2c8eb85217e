"""Joints that wrap another joint: the same configurations and velocities, with another placement."""

from __future__ import annotations

import equinox as eqx

from ._joint import Joint


class Wrapped(Joint):
    """A joint with the manifold of the wrapped joint and another placement."""

    joint: eqx.AbstractVar[Joint]

    @property
    def nv(self):
        return self.joint.nv

    @property
    def nq(self):
        return self.joint.nq

    @property
    def flat(self):
        return self.joint.flat

    @property
    def charted(self):
        return self.joint.charted

    @property
    def quaternion(self):
        return self.joint.quaternion

    @property
    def rheonomic(self):
        return self.joint.rheonomic

    @property
    def time(self):
        """The time of the wrapped joint, if it is rheonomic."""
        return self.joint.time if self.rheonomic else None  # pyright: ignore[reportAttributeAccessIssue]

    def at_time(self, time):
        return eqx.tree_at(lambda it: it.joint, self, self.joint.at_time(time)) if self.rheonomic else self

    def neutral(self):
        return self.joint.neutral()

    def integrate(self, q, dv):
        return self.joint.integrate(q, dv)

    def difference(self, q0, q1):
        return self.joint.difference(q0, q1)

    def configuration_velocity(self, q, rate):
        return self.joint.configuration_velocity(q, rate)

    def configuration_rate(self, q, v):
        return self.joint.configuration_rate(q, v)

    def chart_velocity(self, q, dv, rate):
        return self.joint.chart_velocity(q, dv, rate)

    def chart_rate(self, q, dv, v):
        return self.joint.chart_rate(q, dv, v)

    def reparametrize(self, q, v, near=None):
        return self.joint.reparametrize(q, v, near)

    def random(self, key):
        return self.joint.random(key)
