"""The revolute joint: one turn about a fixed axis (book table 4.1; Sueda eq. 2.41)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import direction
from .._core.array import by_numpy, cross, dot, matmul, skew
from ..spatial import planar
from ..spatial.transform import Transform
from ._joint import ConstantSubspaceJoint


class Revolute(ConstantSubspaceJoint):
    """A hinge about `axis`, through the origin of the joint frame. `q` is the angle.

    >>> hinge = rbd.joints.Revolute(axis=(0, 0, 1))
    >>> print(hinge.transform(jnp.array([jnp.pi / 2])).point(jnp.array([1.0, 0.0, 0.0])))
    [0. 1. 0.]
    """

    axis: Float[Array, "3"]

    nv = 1

    def __init__(self, axis=(0.0, 0.0, 1.0)):
        self.axis = direction("Revolute", axis)

    def transform(self, q):
        return Transform(turn(self.axis, q[0]), jnp.zeros(3, q.dtype))

    def in_plane(self, q, axes):
        return planar.Transform.from_angle(
            dot(cross(axes[0], axes[1]), self.axis) * q[0], jnp.zeros(2, q.dtype)
        )

    def columns(self):
        return by_numpy(lambda xp, axis: xp.concatenate([axis, xp.zeros_like(axis)])[:, None], self.axis)

    def random(self, key):
        return jax.random.uniform(key, (1,), minval=-jnp.pi, maxval=jnp.pi)


def turn(axis: Float[Array, "3"], angle: Float[Array, ""]) -> Float[Array, "3 3"]:
    """Returns the rotation by `angle` about the unit vector `axis`: `1 + sin θ a× + (1 - cos θ) a×²` (Rodrigues)."""
    a = skew(axis)
    return jnp.eye(3, dtype=a.dtype) + jnp.sin(angle) * a + (1 - jnp.cos(angle)) * matmul(a, a)
