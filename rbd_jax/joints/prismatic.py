"""The prismatic joint: one slide along a fixed axis (book table 4.1; Sueda eqs. 2.22 to 2.24)."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import direction
from .._core.array import matvec
from ..spatial import planar
from ..spatial.transform import Transform
from ._joint import ConstantSubspaceJoint


class Prismatic(ConstantSubspaceJoint):
    """A slide along `axis`. `q` is the distance.

    >>> slide = rbd.joints.Prismatic(axis=(1, 0, 0))
    >>> print(slide.transform(jnp.array([0.3])).position)
    [0.3 0.  0. ]
    """

    axis: Float[Array, "3"]

    nv = 1

    def __init__(self, axis=(0.0, 0.0, 1.0)):
        self.axis = direction("Prismatic", axis)

    def transform(self, q):
        return Transform(jnp.eye(3, dtype=q.dtype), self.axis * q[0])

    def in_plane(self, q, axes):
        return planar.Transform.identity(q.dtype).at(matvec(axes, self.axis) * q[0])

    def columns(self):
        return jnp.concatenate([jnp.zeros_like(self.axis), self.axis])[:, None]
