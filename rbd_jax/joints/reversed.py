"""Joints of reversed polarity: predecessor and successor swapped (book table 4.2).

With `X` the transform of motions from the old successor frame to the new one, the old predecessor frame, the placement is the
inverse, `S' = -X S`, `v_J' = -X v_J` and `c_J' = -X c_J`; q and v do not change. (The table omits a star: forces, and
with them the constraint-force subspace T, are transformed as forces.)
"""

from __future__ import annotations

import functools

from .._core.array import matvec, transpose
from ..spatial import cross_motion
from ._joint import Joint
from ._wrapped import Wrapped
from .cylindrical import Cylindrical
from .fixed import Fixed
from .helical import Helical
from .prismatic import Prismatic
from .revolute import Revolute


class Reversed(Wrapped):
    """`joint` from its successor to its predecessor. `q` and `v` do not change; only the roles of the two frames swap.

    >>> pinion = rbd.joints.Reversed(rbd.joints.RackAndPinion(radius=0.5))  # the rack moves
    >>> print(pinion.transform(jnp.array([jnp.pi])).position)
    [ 1.571  0.     0.   ]
    """

    joint: Joint

    def transform(self, q):
        return self.joint.transform(q).inverse()

    def motion_subspace(self, q):
        return -_turned(self.joint.transform(q), self.joint.motion_subspace(q))

    def subspace_rate(self, q, v):
        own = self.joint.motion_subspace(q)
        velocity = matvec(own, v) + self.joint.drift(q)
        carried = transpose(cross_motion(velocity[None], transpose(own)))
        return -_turned(self.joint.transform(q), self.joint.subspace_rate(q, v) + carried)

    def velocity_product(self, q, v):
        return -self.joint.transform(q).motion(self.joint.velocity_product(q, v))

    def drift(self, q):
        return -self.joint.transform(q).motion(self.joint.drift(q))


def _turned(placement, columns):
    return transpose(placement.motion(transpose(columns)))


@functools.singledispatch
def reverse(joint: Joint) -> Joint:
    """Returns the joint with predecessor and successor swapped: with the opposite axis if possible, else a `Reversed`.

    >>> hinge, rack = rbd.joints.Revolute((0, 0, 1)), rbd.joints.RackAndPinion(0.1)
    >>> print(rbd.joints.reverse(hinge).axis)
    [-0. -0. -1.]
    >>> type(rbd.joints.reverse(rack)).__name__, type(rbd.joints.reverse(rbd.joints.reverse(rack))).__name__
    ('Reversed', 'RackAndPinion')
    """
    return Reversed(joint)


@reverse.register
def _(joint: Reversed):
    return joint.joint


@reverse.register
def _(joint: Fixed):
    return joint


@reverse.register
def _(joint: Revolute):
    return Revolute(-joint.axis)


@reverse.register
def _(joint: Prismatic):
    return Prismatic(-joint.axis)


@reverse.register
def _(joint: Cylindrical):
    return Cylindrical(-joint.axis)


@reverse.register
def _(joint: Helical):
    return Helical(-joint.axis, joint.pitch)  # pyright: ignore[reportArgumentType]
