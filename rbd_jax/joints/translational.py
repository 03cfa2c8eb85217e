"""The translational joint: free motion without turning (Sueda eqs. 2.27, 2.28)."""

import jax.numpy as jnp

from ..spatial.transform import Transform
from ._joint import ConstantSubspaceJoint


class Translational(ConstantSubspaceJoint):
    """Three slides. `q` is the position.

    >>> print(rbd.joints.Translational().transform(jnp.array([1.0, 2.0, 3.0])).position)
    [1. 2. 3.]
    """

    nv = 3

    def transform(self, q):
        return Transform.from_position(q)

    def columns(self):
        return jnp.concatenate([jnp.zeros((3, 3)), jnp.eye(3)])
