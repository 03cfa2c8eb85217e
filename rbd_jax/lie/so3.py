"""The rotations of space, SO(3): 3x3 rotation matrices and rotation vectors.

All maps are polynomials `I + α ω× + β ω×²` whose coefficients are functions of `|ω|²`. In the Stumpff
functions `c_k` of `_series.py`, `exp` has `c_1` and `c_2` (Rodrigues; Müller & Terze 2013 eq. 9, which
misprints the second: it is `(1 - cos|ω|)/|ω|²`) and its left Jacobian has `c_2` and `c_3`. The coefficients of the Cayley
map are rational. The inverses of both maps use the quaternion, which unlike the trace determines the angle accurately near
half a turn.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import cross, dot, identity_like, matmul, outer, skew, transpose, unskew
from . import quaternion
from ._series import stumpff
from .group import Group


class RotationVectors(Group):
    """The part that groups with rotation vectors `ω` (rad) share: everything that depends only on the algebra."""

    @property
    def dim(self) -> int:
        return 3

    def ad(self, x: Float[Array, "*batch 3"]) -> Float[Array, "*batch 3 3"]:
        return skew(x)

    def bracket(self, x: Float[Array, "*batch 3"], y: Float[Array, "*batch 3"]) -> Float[Array, "*batch 3"]:
        return cross(x, y)

    def dexp_left(self, x: Float[Array, "*batch 3"]) -> Float[Array, "*batch 3 3"]:
        """`I + c_2 ω× + c_3 ω×²`."""
        square = dot(x, x)
        return _polynomial(x, stumpff(2, square), stumpff(3, square))

    def dexp_left_inverse(self, x: Float[Array, "*batch 3"]) -> Float[Array, "*batch 3 3"]:
        """`I - ω×/2 + β ω×²` with `β = (1 - (θ/2) cot(θ/2))/θ²`; infinite at full turns, where `dexp` is singular.

        With `h = (θ/2)²` this is `β = (c_2(h) - c_3(h)) / (4 c_1(h))`, without a small divisor.
        """
        half = dot(x, x) / 4
        second = (stumpff(2, half) - stumpff(3, half)) / (4 * stumpff(1, half))
        return _polynomial(x, jnp.full_like(half, -0.5), second)


class SpecialOrthogonal3(RotationVectors):
    """The rotations of space. Elements are rotation matrices, vectors are rotation vectors `ω` in rad.

    Gebhardt & Romero 2020 eqs. 14 to 17; Müller & Terze 2013 eqs. 9 and 11.
    """

    def __repr__(self) -> str:
        return "SO3"

    def identity(self, dtype=None) -> Float[Array, "3 3"]:
        return jnp.eye(3, dtype=dtype)

    def compose(
        self, a: Float[Array, "*batch 3 3"], b: Float[Array, "*batch 3 3"]
    ) -> Float[Array, "*batch 3 3"]:
        return matmul(a, b)

    def inverse(self, a: Float[Array, "*batch 3 3"]) -> Float[Array, "*batch 3 3"]:
        return transpose(a)

    def exp(self, x: Float[Array, "*batch 3"]) -> Float[Array, "*batch 3 3"]:
        """`I + c_1 ω× + c_2 ω×²`, the rotation by `|ω|` about the axis along `ω`."""
        square = dot(x, x)
        return _polynomial(x, stumpff(1, square), stumpff(2, square))

    def log(self, g: Float[Array, "*batch 3 3"]) -> Float[Array, "*batch 3"]:
        """Returns the shortest rotation vector. At half a turn there are two, and `quaternion.log` makes the choice."""
        return quaternion.log(quaternion.from_matrix(g))

    def matrix(self, g: Float[Array, "*batch 3 3"]) -> Float[Array, "*batch 3 3"]:
        return g

    def hat(self, x: Float[Array, "*batch 3"]) -> Float[Array, "*batch 3 3"]:
        return skew(x)

    def vee(self, m: Float[Array, "*batch 3 3"]) -> Float[Array, "*batch 3"]:
        return unskew(m)

    def adjoint(self, g: Float[Array, "*batch 3 3"]) -> Float[Array, "*batch 3 3"]:
        return g

    def cayley(self, x: Float[Array, "*batch 3"]) -> Float[Array, "*batch 3 3"]:
        """`I + (ω× + ω×²/2) / (1 + |ω|²/4)`, the turn by `2 arctan(|ω|/2)` about `ω` (Gibbs, Rodrigues)."""
        first = 1 / (1 + dot(x, x) / 4)
        return _polynomial(x, first, first / 2)

    def cayley_inverse(self, g: Float[Array, "*batch 3 3"]) -> Float[Array, "*batch 3"]:
        """Returns the vector of length `2 tan(θ/2)`; near half a turn as accurate as the angle in the matrix."""
        q = quaternion.from_matrix(g)
        return 2 * q[..., 1:] / q[..., :1]

    def dcay_left(self, x: Float[Array, "*batch 3"]) -> Float[Array, "*batch 3 3"]:
        """`(I + ω×/2) / (1 + |ω|²/4)`."""
        hat = skew(x)
        return (identity_like(hat) + hat / 2) / (1 + dot(x, x) / 4)[..., None, None]

    def dcay_left_inverse(self, x: Float[Array, "*batch 3"]) -> Float[Array, "*batch 3 3"]:
        """`I - ω×/2 + ω ωᵀ/4`."""
        hat = skew(x)
        return identity_like(hat) - hat / 2 + outer(x, x) / 4


def _polynomial(x, first, second):
    """Returns `I + first x× + second x×²`. The square of the cross product matrix is `x xᵀ - |x|² I`."""
    first, second, square = (scalar[..., None, None] for scalar in (first, second, dot(x, x)))
    hat = skew(x)
    one = identity_like(hat)
    return one + first * hat + second * (outer(x, x) - square * one)


SO3 = SpecialOrthogonal3()
"""Rotations as matrices, 3 by 3. The methods are those of `Group`.

>>> SO3 = rbd.lie.SO3
>>> R = SO3.exp(jnp.array([0.0, 0.0, jnp.pi / 2]))
>>> print(R @ jnp.array([1.0, 0.0, 0.0]), SO3.log(SO3.compose(R, R)))
[0. 1. 0.] [0.    0.    3.142]
"""
