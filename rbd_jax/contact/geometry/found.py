"""Contact points of two geometries, and their reduction to a few points."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from ..._core.array import cross, dot
from .vectors import length, unit


class Found(NamedTuple):
    """Contact points of two geometries: distance, midway position, normal from the first to the second, and tangent hint.

    The hint is a direction for the first tangent, or zero. Invalid points have an infinite distance.
    """

    distance: Float[Array, "k"]
    position: Float[Array, "k 3"]
    normal: Float[Array, "k 3"]
    tangent: Float[Array, "k 3"]

    @staticmethod
    def of(distance: Array, position: Array, normal: Array) -> Found:
        """Returns points without tangent hints. One normal may be given for all points."""
        normal = jnp.broadcast_to(normal, position.shape)
        return Found(distance, position, normal, jnp.zeros_like(position))

    @staticmethod
    def one(distance: Float[Array, ""], position: Float[Array, "3"], normal: Float[Array, "3"]) -> Found:
        """Returns a single point."""
        return Found.of(distance[None], position[None], normal[None])

    def only(self, there: Bool[Array, "k"]) -> Found:
        """Returns the points with all others marked as invalid, with zero derivatives."""
        held = lax.stop_gradient(self)
        keep = there[:, None]
        return Found(
            jnp.where(there, self.distance, jnp.inf),
            jnp.where(keep, self.position, held.position),
            jnp.where(keep, self.normal, held.normal),
            jnp.where(keep, self.tangent, held.tangent),
        )

    def swapped(self) -> Found:
        """Returns the points for the two geometries in the opposite order."""
        return self._replace(normal=-self.normal)

    def moved(self, by: Float[Array, "3"]) -> Found:
        """Returns the points with their positions moved by a vector."""
        return self._replace(position=self.position + by[None])


def spread(found: Found, there: Bool[Array, "c"], count: int) -> Found:
    """Selects at most `count` representative contact points, up to four.

    These are the deepest point, the point farthest from it, the point farthest from the line of these two, and the point farthest
    outside the triangle of these three. Points at larger distances than the deepest have a low weight. Redundant points are
    invalid.

    Args:
      found: The points.
      there: Which points are valid.
      count: The number of points to return.
    """
    distance, position, normal = (lax.stop_gradient(x) for x in found[:3])
    off = jnp.where(there, distance, jnp.inf)
    least = jnp.min(off)
    middle = jnp.sum(jnp.where(there[:, None], position, 0), axis=0) / jnp.maximum(jnp.sum(there), 1).astype(
        position.dtype
    )
    around = jnp.where(there[:, None], position - middle[None], 0)
    reach = jnp.max(jnp.abs(around))
    # Among equally deep points, take the outermost along a fixed direction, so that rounding does not decide.
    odd = jnp.asarray([0.83, 0.51, 0.22], distance.dtype)
    first = jnp.argmin(jnp.where(there, off - 1e-5 * dot(around, odd[None]), jnp.inf))
    touching = off <= jnp.maximum(least, 0) + 1e-4 * reach
    weight = jnp.where(there, jnp.where(touching, 1.0, 1e-3), 0.0).astype(distance.dtype)
    from_first = around - around[first][None]
    apart = weight * length(from_first)
    second = jnp.argmax(apart)
    tiny = 1e-4 * reach
    up = normal[first]
    aside = weight * dot(from_first, cross(up, from_first[second])[None])
    third = jnp.argmax(jnp.abs(aside))
    turn = jnp.where(aside[third] < 0, -jnp.ones_like(reach), jnp.ones_like(reach))
    corners = jnp.stack([around[first], around[second], around[third]])
    edges = jnp.roll(corners, -1, axis=0) - corners
    outward = -turn * cross(up[None], edges)
    outward = unit(outward, up[None])
    beyond = weight * jnp.max(dot(around[:, None] - corners[None], outward[None]), axis=1)
    fourth = jnp.argmax(beyond)
    held = [
        jnp.isfinite(least),
        length(from_first[second]) > tiny,
        jnp.abs(aside[third]) > weight[third] * tiny * length(from_first[second]),
        beyond[fourth] > weight[fourth] * tiny,
    ]
    held[3] &= held[2]
    chosen = jnp.stack([first, second, third, fourth])[:count]
    held = jnp.stack(held)[:count]
    picked = Found(*(x[chosen] for x in found))
    return picked.only(held)
