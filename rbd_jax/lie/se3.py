"""The rigid motions of space, SE(3): `Transform`s and twists `[ω; v]`, angular part first.

A twist is a rotation vector with dual-number entries, `ω + ε v` with `ε² = 0`: its matrix `ad = [[ω×, 0],
[v×, ω×]]` multiplies like `ω× + ε v×`. So each function of `ad` is the SO(3) function with, as its lower left
block, its derivative along `v` (the principle of transference; written out, that block of the left
Jacobian is the `Q` of Barfoot 2017). The code therefore only differentiates the maps of SO(3), which is accurate
near zero.

The Cayley map is defined by the 4x4 matrices (Kobilarov & Marsden 2011), not by the 6x6 matrices `ad` as the
principle would suggest. Both have the same rotation, but only the first preserves the component of `v` along the axis: a screw
motion keeps its advance, and a constant twist moves a slider on its guide by exactly `v`.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import blocks, cross, identity_like, matmul, matvec, skew
from ..spatial import cross_motion, cross_motion_matrix
from ..spatial.transform import Transform
from .group import Group
from .so3 import SO3


class SpecialEuclidean3(Group):
    """The rigid motions of space. Elements are `Transform`s, vectors are twists `[ω; v]` in rad and m.

    Müller & Terze 2013 eqs. 4 to 7; Sueda eqs. 1.1 to 1.11 and 1.14 to 1.19.
    """

    def __repr__(self) -> str:
        return "SE3"

    @property
    def dim(self) -> int:
        return 6

    def identity(self, dtype=None) -> Transform:
        return Transform.identity(dtype)

    def compose(self, a: Transform, b: Transform) -> Transform:
        return a @ b

    def inverse(self, a: Transform) -> Transform:
        return a.inverse()

    def exp(self, x: Float[Array, "*batch 6"]) -> Transform:
        """Returns the screw motion with rotation `exp(ω)` and position `dexp_left(ω) v`, both of SO(3).

        Müller & Terze 2013 eq. 8; Sueda eq. 1.10.
        """
        angular, linear = x[..., :3], x[..., 3:]
        return Transform(SO3.exp(angular), matvec(SO3.dexp_left(angular), linear))

    def log(self, g: Transform) -> Float[Array, "*batch 6"]:
        """Returns the twist of the screw motion with the smallest angle; at half a turn SO(3) makes the choice."""
        angular = SO3.log(g.rotation)
        return jnp.concatenate([angular, matvec(SO3.dexp_left_inverse(angular), g.position)], axis=-1)

    def matrix(self, g: Transform) -> Float[Array, "*batch 4 4"]:
        return g.matrix

    def hat(self, x: Float[Array, "*batch 6"]) -> Float[Array, "*batch 4 4"]:
        """`[[ω×, v], [0, 0]]`."""
        top = jnp.concatenate([SO3.hat(x[..., :3]), x[..., 3:, None]], axis=-1)
        return jnp.concatenate([top, jnp.zeros_like(top[..., :1, :])], axis=-2)

    def vee(self, m: Float[Array, "*batch 4 4"]) -> Float[Array, "*batch 6"]:
        return jnp.concatenate([SO3.vee(m[..., :3, :3]), m[..., :3, 3]], axis=-1)

    def adjoint(self, g: Transform) -> Float[Array, "*batch 6 6"]:
        """`[[R, 0], [p× R, R]]`."""
        return g.motion_matrix

    def ad(self, x: Float[Array, "*batch 6"]) -> Float[Array, "*batch 6 6"]:
        """`[[ω×, 0], [v×, ω×]]`."""
        return cross_motion_matrix(x)

    def bracket(self, x: Float[Array, "*batch 6"], y: Float[Array, "*batch 6"]) -> Float[Array, "*batch 6"]:
        """`[ω_x × ω_y; ω_x × v_y + v_x × ω_y]`."""
        return cross_motion(x, y)

    def dexp_left(self, x: Float[Array, "*batch 6"]) -> Float[Array, "*batch 6 6"]:
        return _dual(SO3.dexp_left, x)

    def dexp_left_inverse(self, x: Float[Array, "*batch 6"]) -> Float[Array, "*batch 6 6"]:
        """Müller & Terze 2013 eq. 10, whose coefficients lose all digits near zero."""
        return _dual(SO3.dexp_left_inverse, x)

    def cayley(self, x: Float[Array, "*batch 6"]) -> Transform:
        """Returns the rotation `R`, the Cayley map of `ω`, and the position `(I - ω×/2)⁻¹ v = (v + R v)/2`."""
        rotation, linear = SO3.cayley(x[..., :3]), x[..., 3:]
        return Transform(rotation, (linear + matvec(rotation, linear)) / 2)

    def cayley_inverse(self, g: Transform) -> Float[Array, "*batch 6"]:
        angular = SO3.cayley_inverse(g.rotation)
        return jnp.concatenate([angular, g.position - cross(angular, g.position) / 2], axis=-1)

    def dcay_left(self, x: Float[Array, "*batch 6"]) -> Float[Array, "*batch 6 6"]:
        """`[[D, 0], [v× D/2, (I + R)/2]]` with `D` and `R` the derivative and the Cayley map of `ω`."""
        upper, rotation = SO3.dcay_left(x[..., :3]), SO3.cayley(x[..., :3])
        lower = matmul(skew(x[..., 3:]), upper) / 2
        return blocks(upper, jnp.zeros_like(upper), lower, (identity_like(rotation) + rotation) / 2)

    def dcay_left_inverse(self, x: Float[Array, "*batch 6"]) -> Float[Array, "*batch 6 6"]:
        """`[[I - ω×/2 + ω ωᵀ/4, 0], [-A v×/2, A]]` with `A = I - ω×/2`."""
        upper, turn = SO3.dcay_left_inverse(x[..., :3]), skew(x[..., :3])
        half = identity_like(turn) - turn / 2
        return blocks(upper, jnp.zeros_like(upper), -matmul(half, skew(x[..., 3:])) / 2, half)


def _dual(function, x):
    """Returns a function of SO(3) at a twist: `[[f, 0], [f', f]]` with `f'` the derivative of `f(ω)` along `v`."""
    value, slope = jax.jvp(function, (x[..., :3],), (x[..., 3:],))
    return blocks(value, jnp.zeros_like(value), slope, value)


SE3 = SpecialEuclidean3()
"""Rigid motions as `Transform`s, which compose as frames do. The methods are those of `Group`.

>>> SE3 = rbd.lie.SE3
>>> X = SE3.exp(jnp.array([0.0, 0.0, jnp.pi / 2, jnp.pi / 2, 0.0, 0.0]))  # a quarter of a circle of radius 1
>>> print(X.position, SE3.log(X))
[1. 1. 0.] [0.    0.    1.571 1.571 0.    0.   ]
"""
