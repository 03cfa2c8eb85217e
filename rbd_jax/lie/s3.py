"""The unit quaternions, S³, as a group: arrays `(w, x, y, z)`, scalar first, and rotation vectors.

S³ covers the rotations twice and has the same algebra: with the rotation vector `ω` for the quaternion `(0, ω/2)`,
everything that depends only on the algebra is as in SO(3). `q` and `-q` are two elements, a full turn apart. To treat them as one
rotation, use the functions of `quaternion.py`.

The Cayley map is defined by the quaternions and differs from the one of SO(3): its vectors are four times the modified Rodrigues
parameters, which are infinite only at a full turn (Schaub & Junkins 1996).
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import dot, identity_like, matrix, outer, skew, transpose
from . import quaternion
from .so3 import RotationVectors


class UnitQuaternions(RotationVectors):
    """The unit quaternions. Vectors are rotation vectors `ω` in rad; a full turn is the element -1."""

    def __repr__(self) -> str:
        return "S3"

    def identity(self, dtype=None) -> Float[Array, "4"]:
        return jnp.eye(4, dtype=dtype)[0]

    def compose(self, a: Float[Array, "*batch 4"], b: Float[Array, "*batch 4"]) -> Float[Array, "*batch 4"]:
        return quaternion.multiply(a, b)

    def inverse(self, a: Float[Array, "*batch 4"]) -> Float[Array, "*batch 4"]:
        return quaternion.conjugate(a)

    def exp(self, x: Float[Array, "*batch 3"]) -> Float[Array, "*batch 4"]:
        return quaternion.exp(x)

    def log(self, g: Float[Array, "*batch 4"]) -> Float[Array, "*batch 3"]:
        """Returns the shortest vector, of length at most 2π; `-g` is the same rotation and has another vector.

        At -1, where all vectors of that length are solutions, it is along the first axis, with derivative zero.
        """
        root = jnp.concatenate(_root(g), axis=-1)
        about_x = jnp.broadcast_to(jnp.eye(4, dtype=g.dtype)[1], root.shape)
        opposite = jnp.all(root == 0, axis=-1, keepdims=True)
        return 2 * quaternion.log(jnp.where(opposite, about_x, root))

    def matrix(self, g: Float[Array, "*batch 4"]) -> Float[Array, "*batch 4 4"]:
        """Returns the matrix of multiplication from the left: `matrix(a) b = a ∘ b`."""
        w, x, y, z = (g[..., i] for i in range(4))
        return matrix([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])

    def hat(self, x: Float[Array, "*batch 3"]) -> Float[Array, "*batch 4 4"]:
        return self.matrix(jnp.concatenate([jnp.zeros_like(x[..., :1]), x / 2], axis=-1))

    def vee(self, m: Float[Array, "*batch 4 4"]) -> Float[Array, "*batch 3"]:
        return 2 * m[..., 1:, 0]

    def adjoint(self, g: Float[Array, "*batch 4"]) -> Float[Array, "*batch 3 3"]:
        """Returns the rotation matrix."""
        return quaternion.to_matrix(g)

    def cayley(self, x: Float[Array, "*batch 3"]) -> Float[Array, "*batch 4"]:
        """Returns `(1 + x/4)² / (1 + |x|²/16)`, the turn by `4 arctan(|x|/4)`, which is less than a full turn."""
        quarter = x / 4
        square = dot(quarter, quarter)[..., None]
        return jnp.concatenate([1 - square, 2 * quarter], axis=-1) / (1 + square)

    def cayley_inverse(self, g: Float[Array, "*batch 4"]) -> Float[Array, "*batch 3"]:
        """Returns `4 v / (1 + w)`, of length `4 tan(θ/4)`: infinite only at a full turn."""
        scalar, v = _root(g)
        return 4 * v / scalar

    def dcay_left(self, x: Float[Array, "*batch 3"]) -> Float[Array, "*batch 3 3"]:
        """Returns the transpose of its inverse divided by `(1 + |x|²/16)²`."""
        square = dot(x, x)[..., None, None]
        return transpose(self.dcay_left_inverse(x)) / (1 + square / 16) ** 2

    def dcay_left_inverse(self, x: Float[Array, "*batch 3"]) -> Float[Array, "*batch 3 3"]:
        """`(1 - |x|²/16) I - x×/2 + x xᵀ/8`."""
        hat, square = skew(x), dot(x, x)[..., None, None]
        return (1 - square / 16) * identity_like(hat) - hat / 2 + outer(x, x) / 8


def _root(g):
    """Returns the scalar and the vector part of `1 + g`, with `g` normalized; it lies along the square root of `g`."""
    g = quaternion.normalize(g)
    w, v = g[..., :1], g[..., 1:]
    # Near -1 the sum cancels, so |v|²/(1 - w) is used there.
    behind = w < 0
    scalar = jnp.where(behind, dot(v, v)[..., None] / jnp.where(behind, 1 - w, 1), 1 + w)
    return scalar, v


S3 = UnitQuaternions()
"""Rotations as unit quaternions, scalar first. The methods are those of `Group`.

>>> S3 = rbd.lie.S3
>>> q = S3.exp(jnp.array([0.0, 0.0, jnp.pi / 2]))
>>> print(q, S3.log(S3.compose(q, q)))
[0.707 0.    0.    0.707] [0.    0.    3.142]
"""
