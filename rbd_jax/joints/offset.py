"""A joint whose successor frame is not the frame of its body (book §4.2: the transform on the successor's side)."""

from __future__ import annotations

from .._core.array import transpose
from ..spatial.transform import Transform
from ._joint import Joint
from ._wrapped import Wrapped


class Offset(Wrapped):
    """`joint`, followed by the fixed frame `frame` of the body, which is placed in the joint's successor frame.

    It lets a body keep its own frame regardless of the joint that attaches it.

    >>> joint = rbd.joints.Offset(rbd.joints.Revolute(axis=(0, 0, 1)), rbd.Transform.from_position(jnp.array([1.0, 0.0, 0.0])))
    >>> print(joint.transform(jnp.array([jnp.pi / 2])).position)
    [0. 1. 0.]
    """

    joint: Joint
    frame: Transform

    def transform(self, q):
        return self.joint.transform(q) @ self.frame

    def motion_subspace(self, q):
        return self._seen(self.joint.motion_subspace(q))

    def subspace_rate(self, q, v):
        return self._seen(self.joint.subspace_rate(q, v))

    def velocity_product(self, q, v):
        return self.frame.inverse_motion(self.joint.velocity_product(q, v))

    def drift(self, q):
        return self.frame.inverse_motion(self.joint.drift(q))

    def _seen(self, columns):
        return transpose(self.frame.inverse_motion(transpose(columns)))
