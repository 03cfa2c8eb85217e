"""The helical joint: a turn and a slide along one axis, geared together like nut and screw (book table 4.1)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import direction, number
from ..spatial.transform import Transform
from ._joint import ConstantSubspaceJoint
from .revolute import turn


class Helical(ConstantSubspaceJoint):
    """A screw along `axis`. `q` is the angle; the successor slides by `pitch` per radian.

    >>> screw = rbd.joints.Helical(axis=(0, 0, 1), pitch=0.1)
    >>> print(screw.transform(jnp.array([2 * jnp.pi])).position)
    [0.    0.    0.628]
    """

    axis: Float[Array, "3"]
    pitch: Float[Array, ""]

    nv = 1

    def __init__(self, axis=(0.0, 0.0, 1.0), pitch=1.0):
        self.axis = direction("Helical", axis)
        self.pitch = number("Helical", "pitch", pitch, dtype=self.axis.dtype)

    def transform(self, q):
        return Transform(turn(self.axis, q[0]), self.pitch * q[0] * self.axis)

    def columns(self):
        return jnp.concatenate([self.axis, self.pitch * self.axis])[:, None]

    def random(self, key):
        return jax.random.uniform(key, (1,), minval=-jnp.pi, maxval=jnp.pi)
