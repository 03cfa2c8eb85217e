"""The fixed joint: no degree of freedom. It welds its body to the parent, and the dynamics see the two as one."""

import jax.numpy as jnp

from ..spatial import Transform, planar
from ._joint import ConstantSubspaceJoint


class Fixed(ConstantSubspaceJoint):
    """A weld."""

    nv = 0

    def transform(self, q):
        return Transform.identity(q.dtype)

    def in_plane(self, q, axes):
        return planar.Transform.identity(q.dtype)

    def columns(self):
        return jnp.zeros((6, 0))
