"""Lengths and directions with finite derivatives at zero vectors."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._core.array import cross, dot, matrix


def length(x: Float[Array, "*k n"]) -> Float[Array, "*k"]:
    """Returns `|x|`, with a zero gradient at zero."""
    square = dot(x, x)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)


def unit(x: Float[Array, "*k n"], otherwise: Float[Array, "*l n"]) -> Float[Array, "*k n"]:
    """Returns `x / |x|`, or `otherwise` if x is zero."""
    square = dot(x, x)
    there = (square > 0)[..., None]
    scale = 1 / jnp.sqrt(jnp.where(square > 0, square, 1))
    return jnp.where(there, x * scale[..., None], otherwise)


def turned(points: Float[Array, "k 3"], rotation: Float[Array, "3 3"]) -> Float[Array, "k 3"]:
    """Returns `R x` for each row x. The product is written out, so that XLA fuses it with surrounding operations."""
    return sum_of(points[:, i, None] * rotation[None, :, i] for i in range(3))


def turned_back(points: Float[Array, "k 3"], rotation: Float[Array, "3 3"]) -> Float[Array, "k 3"]:
    """Returns `Rᵀ x` for each row x."""
    return sum_of(points[:, i, None] * rotation[None, i] for i in range(3))


def sum_of(terms: Iterable[Array]) -> Array:
    return functools.reduce(jnp.add, terms)


def axis(i: int, like: Float[Array, "*k"]) -> Float[Array, "3"]:
    """Returns the unit vector along x, y or z, in the precision of `like`."""
    return jnp.eye(3, dtype=like.dtype)[i]


def tangents(normal: Float[Array, "3"]) -> Float[Array, "2 3"]:
    """Returns two unit vectors, as rows, orthogonal to a unit vector and to each other. They vary smoothly nearby."""
    x, y, z = normal[0], normal[1], normal[2]
    sign = jnp.where(z >= 0, jnp.ones_like(z), -jnp.ones_like(z))
    a = -1 / (sign + z)
    b = x * y * a
    return matrix([[1 + sign * x * x * a, sign * b, -sign * x], [b, sign + y * y * a, -y]])


def frame(normal: Float[Array, "3"], tangent: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """Returns the rotation whose columns are the normal and two tangents.

    The first tangent is the projection of `tangent`. If `tangent` is zero, it is the projection of y, or of z if the normal is
    within 60° of y, as in MuJoCo.
    """
    given = dot(tangent, tangent) > 0.25
    y_is_free = jnp.abs(normal[1]) < 0.5
    usual = jnp.where(y_is_free, axis(1, normal), axis(2, normal))
    hint = jnp.where(given, tangent, usual)
    across = hint - normal * dot(normal, hint)
    # A hint along the normal is useless: then use x, as in MuJoCo, unless the normal is along x.
    tiny = dot(across, across) <= (8 * jnp.finfo(normal.dtype).eps) ** 2
    spare = jnp.where(jnp.abs(normal[0]) < 0.9, axis(0, normal), usual)
    across = jnp.where(tiny, spare - normal * dot(normal, spare), across)
    first = unit(across, usual)
    return jnp.stack([normal, first, cross(normal, first)], axis=-1)
