"""The fixed joint: no degree of freedom. It welds its body to the parent, and the dynamics treat both as one body."""

import jax.numpy as jnp

from ..spatial import planar
from ..spatial.transform import Transform
from ._joint import ConstantSubspaceJoint


class Fixed(ConstantSubspaceJoint):
    """A weld.

    >>> builder = rbd.ModelBuilder()
    >>> ball = rbd.Inertia.sphere(1.0, 0.1)
    >>> arm = builder.add_body("arm", joint=rbd.joints.Revolute(axis=(0, 1, 0)), inertia=ball)
    >>> hand = builder.add_body("hand", parent=arm, joint=rbd.joints.Fixed(), placement=(0.0, 0.0, -0.5), inertia=ball)
    >>> print(builder.build().nv)
    1
    """

    nv = 0

    def transform(self, q):
        return Transform.identity(q.dtype)

    def in_plane(self, q, axes):
        return planar.Transform.identity(q.dtype)

    def columns(self):
        return jnp.zeros((6, 0))
