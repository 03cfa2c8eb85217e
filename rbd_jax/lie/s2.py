"""The unit sphere S²: directions in space, as unit vectors, and its geometry as a surface in space.

It is not a group: a group has one exponential map, and the sphere has one at every point. The maps are those of Gebhardt &
Romero 2020 (§2.1), written in the Stumpff functions `c_k(θ²)` of `_series.py`, so they and all their derivatives are accurate
at zero length too. Vectors of the tangent plane at `d` are vectors of space perpendicular to `d`. All functions
broadcast over leading axes, which must be the same for all arguments. Points are not normalized.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import dot, matmul, matvec, outer
from .._core.jit import compiled
from ._series import arctan_ratio, stumpff
from .quaternion import _unit


class Sphere2(eqx.Module):
    """The unit sphere of space. Points are unit vectors `d`, tangent vectors are perpendicular to them (eqs. 1 to 3)."""

    @compiled
    def project(
        self, d: Float[Array, "*batch 3"], vector: Float[Array, "*batch 3"]
    ) -> Float[Array, "*batch 3"]:
        """Returns `(I - d dᵀ) v`, the part of a vector in the tangent plane at the unit vector `d`.

        Applied to the rate `v̇` of a tangent vector along a curve `d(t)`, it gives the covariant derivative (eq. 5).
        """
        return vector - dot(d, vector)[..., None] * d

    def covariant_derivative(
        self,
        field: Callable[[Float[Array, "3"]], Float[Array, "3"]],
        d: Float[Array, "3"],
        w: Float[Array, "3"],
    ) -> Float[Array, "3"]:
        """Returns `∇_w v = (I - d dᵀ) Dv·w` of a tangent vector field `v(d)` along the tangent vector `w` (eq. 4)."""
        return self.project(d, jax.jvp(field, (d,), (w,))[1])

    @compiled
    def exp(self, d: Float[Array, "*batch 3"], v: Float[Array, "*batch 3"]) -> Float[Array, "*batch 3"]:
        """Returns `cos|v| d + sin|v| v/|v|`: the end of the geodesic that leaves `d` with the velocity `v` (eq. 6).

        `d` must have unit length and `v` must be perpendicular to it; otherwise the result is not on the sphere.
        """
        square = dot(v, v)[..., None]
        return stumpff(0, square) * d + stumpff(1, square) * v

    @compiled
    def geodesic(
        self, d: Float[Array, "*batch 3"], v: Float[Array, "*batch 3"], s: Float[Array, "*batch"]
    ) -> Float[Array, "*batch 3"]:
        """Returns the point at `s` of the great circle that leaves `d` with the velocity `v` (eq. 9)."""
        return self.exp(d, s[..., None] * v)

    @compiled
    def log(self, d: Float[Array, "*batch 3"], e: Float[Array, "*batch 3"]) -> Float[Array, "*batch 3"]:
        """Returns the shortest tangent vector `v` at `d` with `exp(d, v) = e` (eq. 7).

        Both points must have unit length; otherwise the result is wrong, so normalize them first.

        The length of `v` is the angle between the points, at most π. It is accurate near the antipode, but sensitive to `e`: its
        derivatives grow as π divided by the distance. At the antipode, where all directions are equally
        short, it is π along the coordinate axis most perpendicular to `d`, projected onto the tangent plane.
        Derivatives there are those of this rule by `d`, and zero by `e`.
        """
        cosine = dot(d, e)[..., None]
        behind = cosine < 0
        # The tangent part of e equals that of e - d or e + d. The shorter of the two keeps its digits.
        sine = self.project(d, jnp.where(behind, e + d, e - d))
        square = dot(sine, sine)[..., None]
        # The angle to d or -d, divided by its sine. Adding the length to the cosine halves the angle; after three halvings,
        # none of which is singular, a short series is accurate.
        near = jnp.where(behind, -cosine, cosine)
        for _ in range(3):
            near = near + jnp.sqrt(near * near + square)
        short = 8 * arctan_ratio(square / (near * near)) / near * sine

        forward, antipodal = _unit(sine)
        across = jax.nn.one_hot(jnp.argmin(jnp.abs(d), axis=-1), 3, dtype=d.dtype)
        forward = jnp.where(antipodal, _unit(self.project(d, across))[0], forward)
        return jnp.where(behind, jnp.pi * forward - short, short)

    @compiled
    def transport(
        self, d: Float[Array, "*batch 3"], v: Float[Array, "*batch 3"], w: Float[Array, "*batch 3"]
    ) -> Float[Array, "*batch 3"]:
        """Returns the tangent vector `w` at `d` after parallel transport along the geodesic to `exp(d, v)` (eq. 10).

        `d` must have unit length, and `v` and `w` must be perpendicular to it. The component of `w` across the geodesic does not
        change; the component along it turns with the geodesic. The formula of the paper is this one with `v = log(d, e)`.
        """
        square = dot(v, v)[..., None]
        along = dot(v, w)[..., None]
        return w - along * (stumpff(2, square) * v + stumpff(1, square) * d)

    @compiled
    def split(
        self, tensor: Float[Array, "*batch 3 3"], d: Float[Array, "*batch 3"], e: Float[Array, "*batch 3"]
    ) -> tuple[Float[Array, "*batch 3 3"], Float[Array, "*batch 3 3"]]:
        """Returns the parts of a tensor from the tangent plane at `d` to that at `e`, and from `d` to `e` (eq. 13).

        Both points must have unit length. The two parts add up to the tensor if it maps `d` along `e`, and vectors across `d` to
        vectors across `e`.
        """
        one = jnp.broadcast_to(jnp.eye(3, dtype=tensor.dtype), tensor.shape)
        perpendicular = matmul(one - outer(e, e), matmul(tensor, one - outer(d, d)))
        parallel = dot(e, matvec(tensor, d))[..., None, None] * outer(e, d)
        return perpendicular, parallel


S2 = Sphere2()
"""Directions as unit vectors. Not a group, but it has `exp`, `log` and their derivatives at a point.

>>> S2 = rbd.lie.S2
>>> x, y = jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 1.0, 0.0])
>>> print(S2.log(x, y), S2.exp(x, S2.log(x, y)))
[0.    1.571 0.   ] [0. 1. 0.]
"""
