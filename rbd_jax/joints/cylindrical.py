"""The cylindrical joint: a turn about an axis and a slide along it (book table 4.1)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import direction
from .._core.array import blocks
from ..spatial.transform import Transform
from ._joint import ConstantSubspaceJoint
from .revolute import turn


class Cylindrical(ConstantSubspaceJoint):
    """A turn about and an independent slide along `axis`. `q` is the angle and the distance.

    >>> joint = rbd.joints.Cylindrical(axis=(0, 0, 1))
    >>> print(joint.transform(jnp.array([jnp.pi / 2, 0.3])).point(jnp.array([1.0, 0.0, 0.0])))
    [0.  1.  0.3]
    """

    axis: Float[Array, "3"]

    nv = 2

    def __init__(self, axis=(0.0, 0.0, 1.0)):
        self.axis = direction("Cylindrical", axis)

    def transform(self, q):
        return Transform(turn(self.axis, q[0]), q[1] * self.axis)

    def columns(self):
        axis = self.axis[:, None]
        return blocks(axis, jnp.zeros_like(axis), jnp.zeros_like(axis), axis)

    def random(self, key):
        return jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0) * jnp.array([jnp.pi, 1.0])
