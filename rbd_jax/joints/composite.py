"""Joints in series without bodies between them (Sueda eqs. 2.48 to 2.59).

Recursions go from the first joint to the last and transform to the next successor frame at each step (eq. 2.48):

    S ← [X⁻¹ S, S_i],    S̊ ← [X⁻¹ S̊ - u × X⁻¹ S, S̊_i],    u = S_i v_i + σ_i

The product appears because the observer moves with the successor. (Eq. 2.52 prints the last block with a minus.)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .._core.arguments import instance
from .._core.array import by_numpy, matvec, transpose
from ..spatial import cross_motion
from ..spatial.transform import Transform
from ._joint import Joint
from .prismatic import Prismatic
from .revolute import Revolute
from .spherical import Spherical
from .translational import Translational


class Composite(Joint):
    """Joints in series, the first on the predecessor. `q` and `v` are the concatenated coordinates of the joints.

    >>> joint = rbd.joints.Composite([rbd.joints.Prismatic(axis=(1, 0, 0)), rbd.joints.Revolute(axis=(0, 0, 1))])
    >>> place = joint.transform(jnp.array([2.0, jnp.pi / 2]))
    >>> print(joint.nv, place.point(jnp.array([1.0, 0.0, 0.0])))
    2 [2. 1. 0.]
    """

    joints: tuple[Joint, ...]

    def __init__(self, joints):
        joints = (joints,) if isinstance(joints, Joint) else tuple(joints)
        if not joints:
            raise ValueError("Composite: no joints; give at least one (or use Fixed)")
        for i, joint in enumerate(joints):
            instance("Composite", f"joints[{i}]", joint, Joint, "an instance of rbd.joints.Joint")
        self.joints = joints

    @property
    def nv(self):
        return sum(joint.nv for joint in self.joints)

    @property
    def nq(self):
        return sum(joint.nq for joint in self.joints)

    @property
    def flat(self):
        return all(joint.flat for joint in self.joints)

    @property
    def rheonomic(self):
        return any(joint.rheonomic for joint in self.joints)

    @property
    def time(self):
        """The time of its joints, if one of them is rheonomic."""
        return next((joint.time for joint in self.joints if joint.rheonomic), None)  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def charted(self):
        return any(joint.charted for joint in self.joints)

    def reparametrize(self, q, v, near=None):
        qs, vs = self._q(q), self._v(v)
        nears = [None] * len(qs) if near is None else self._q(near)
        rows = zip(self.joints, qs, vs, nears)
        pairs = [joint.reparametrize(q, v, near) for joint, q, v, near in rows]
        return jnp.concatenate([q for q, _ in pairs]), jnp.concatenate([v for _, v in pairs])

    def _q(self, q):
        return _split(q, [joint.nq for joint in self.joints])

    def _v(self, v):
        return _split(v, [joint.nv for joint in self.joints])

    def transform(self, q):
        placed = Transform.identity(q.dtype)
        for joint, qi in zip(self.joints, self._q(q)):
            placed = placed @ joint.transform(qi)
        return placed

    def neutral(self):
        return by_numpy(lambda xp, *q: xp.concatenate(q), *(joint.neutral() for joint in self.joints))

    def integrate(self, q, dv):
        moved = [joint.integrate(q, dv) for joint, q, dv in zip(self.joints, self._q(q), self._v(dv))]
        return jnp.concatenate(moved)

    def difference(self, q0, q1):
        steps = [joint.difference(q0, q1) for joint, q0, q1 in zip(self.joints, self._q(q0), self._q(q1))]
        return jnp.concatenate(steps)

    def configuration_velocity(self, q, rate):
        rows = zip(self.joints, self._q(q), self._q(rate))
        return jnp.concatenate([joint.configuration_velocity(q, rate) for joint, q, rate in rows])

    def configuration_rate(self, q, v):
        rows = zip(self.joints, self._q(q), self._v(v))
        return jnp.concatenate([joint.configuration_rate(q, v) for joint, q, v in rows])

    def chart_velocity(self, q, dv, rate):
        rows = zip(self.joints, self._q(q), self._v(dv), self._v(rate))
        return jnp.concatenate([joint.chart_velocity(q, dv, rate) for joint, q, dv, rate in rows])

    def chart_rate(self, q, dv, v):
        rows = zip(self.joints, self._q(q), self._v(dv), self._v(v))
        return jnp.concatenate([joint.chart_rate(q, dv, v) for joint, q, dv, v in rows])

    def random(self, key):
        keys = jax.random.split(key, len(self.joints))
        return jnp.concatenate([joint.random(key) for joint, key in zip(self.joints, keys)])

    def motion_subspace(self, q):
        columns = jnp.zeros((6, 0), q.dtype)
        for joint, qi in zip(self.joints, self._q(q)):
            columns = _seen_from(joint.transform(qi), columns)
            columns = jnp.concatenate([columns, joint.motion_subspace(qi)], axis=1)
        return columns

    def subspace_rate(self, q, v):
        columns = rates = jnp.zeros((6, 0), q.dtype)
        for joint, qi, vi in zip(self.joints, self._q(q), self._v(v)):
            placed, own = joint.transform(qi), joint.motion_subspace(qi)
            columns = _seen_from(placed, columns)
            rates = _seen_from(placed, rates) - _carried(matvec(own, vi) + joint.drift(qi), columns)
            columns = jnp.concatenate([columns, own], axis=1)
            rates = jnp.concatenate([rates, joint.subspace_rate(qi, vi)], axis=1)
        return rates

    def velocity_product(self, q, v):
        velocity = product = jnp.zeros(6, q.dtype)
        for joint, qi, vi in zip(self.joints, self._q(q), self._v(v)):
            placed, own = joint.transform(qi), matvec(joint.motion_subspace(qi), vi) + joint.drift(qi)
            velocity = placed.inverse_motion(velocity)
            product = (
                placed.inverse_motion(product) - cross_motion(own, velocity) + joint.velocity_product(qi, vi)
            )
            velocity = velocity + own
        return product

    def drift(self, q):
        drift = jnp.zeros(6, q.dtype)
        for joint, qi in zip(self.joints, self._q(q)):
            drift = joint.transform(qi).inverse_motion(drift) + joint.drift(qi)
        return drift

    def at_time(self, time):
        return Composite(tuple(joint.at_time(time) for joint in self.joints))


def Free2D() -> Composite:
    """Free motion in the x-y plane by its coordinates (eqs. 2.53 to 2.56): `q = (x, y, θ)` and `v = q̇`.

    `Planar` is the same motion with the velocity in body coordinates.

    >>> joint = rbd.joints.Free2D()
    >>> print(joint.integrate(jnp.array([1.0, 0.0, jnp.pi / 2]), jnp.array([0.5, 0.0, 0.0])))
    [1.5   0.    1.571]
    """
    return Composite((Prismatic((1.0, 0.0, 0.0)), Prismatic((0.0, 1.0, 0.0)), Revolute((0.0, 0.0, 1.0))))


def Free3D() -> Composite:
    """Free motion as a displacement, then a rotation about the displaced point (eqs. 2.57 to 2.59, in the other order).

    `q` is position and quaternion, as for `Free`. `v` is the velocity in the predecessor frame, followed by the angular
    velocity in the successor frame.

    >>> joint = rbd.joints.Free3D()
    >>> q = joint.neutral()
    >>> print(joint.integrate(q, jnp.array([jnp.pi / 2, 0.0, 0.0, 0.0, 0.0, jnp.pi / 2])))  # straight on, while it turns
    [1.571 0.    0.    0.707 0.    0.    0.707]
    """
    return Composite((Translational(), Spherical()))


def _split(x, sizes):
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [x[start : start + size] for start, size in zip(starts, sizes)]


def _seen_from(placed, columns):
    return transpose(placed.inverse_motion(transpose(columns)))


def _carried(velocity, columns):
    return jax.vmap(cross_motion, in_axes=(None, 1), out_axes=1)(velocity, columns)
