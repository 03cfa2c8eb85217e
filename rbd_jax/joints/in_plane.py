"""Joints of planar models: spatial joints, restricted to the plane that they move in (book §2.16)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import cross, matmul, matvec
from ._joint import Joint
from ._wrapped import Wrapped


class InPlane(Wrapped):
    """`joint` with a planar placement and motions of three entries; `q` and `v` do not change.

    `axes` are the x and y axes of the plane, as rows, in the frames of the joint. `rbd.planar` creates these joints.

    >>> flat = rbd.planar(rbd.load("double_pendulum"))
    >>> print(type(flat.joints[0]).__name__, flat.joints[0].axes[0])
    InPlane [[ 1.  0.  0.]
     [0.  0.  1.]]
    """

    joint: Joint
    axes: Float[Array, "2 3"]

    @property
    def constant_subspace(self):
        return self.joint.constant_subspace

    def transform(self, q):
        return self.joint.in_plane(q, self.axes)

    def motion_subspace(self, q):
        return matmul(self._shadow, self.joint.motion_subspace(q))

    def subspace_rate(self, q, v):
        return matmul(self._shadow, self.joint.subspace_rate(q, v))

    def velocity_product(self, q, v):
        return matvec(self._shadow, self.joint.velocity_product(q, v))

    def drift(self, q):
        return matvec(self._shadow, self.joint.drift(q))

    @property
    def _shadow(self) -> Float[Array, "3 6"]:
        """The matrix that extracts the planar entries of a spatial motion vector."""
        normal = cross(self.axes[0], self.axes[1])
        top = jnp.concatenate([normal, jnp.zeros_like(normal)])
        return jnp.concatenate([top[None], jnp.concatenate([jnp.zeros_like(self.axes), self.axes], axis=1)])
