"""Contact points with terrain: nearby cells of a height field, each split into triangular prisms down to the base.

The height field is the first geometry. At most 8 prisms are tested. A body larger than a few cells covers more prisms; then the
highest prisms under the body are tested.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ..._core.array import cross, matmul, products, transpose
from ...shapes import Geometry, HeightField
from ...spatial.transform import Transform
from .closest import Separation, separation
from .convex import in_world
from .cores import Core, core
from .found import Found
from .vectors import axis, length, unit


#: Maximum number of prisms that are tested.
PRISMS = 8


def prisms(field: HeightField) -> Float[Array, "t 3 3"]:
    """Returns the corners of the triangles of the surface."""
    rows, columns = field.heights.shape
    x, y = (
        field.half_sizes[i] * jnp.linspace(-1, 1, n, dtype=field.heights.dtype)
        for i, n in enumerate((columns, rows))
    )
    x, y = jnp.broadcast_to(x[None], (rows, columns)), jnp.broadcast_to(y[:, None], (rows, columns))
    points = jnp.stack([x, y, field.heights], axis=-1)
    corner, right, up, over = points[:-1, :-1], points[:-1, 1:], points[1:, :-1], points[1:, 1:]
    both = jnp.stack([jnp.stack([corner, right, over], axis=-2), jnp.stack([corner, over, up], axis=-2)])
    return both.reshape(-1, 3, 3)


def prism_core(top: Float[Array, "3 3"], base: Float[Array, ""]) -> Core:
    """Returns the core of the prism below a triangle, down to `z = -base`.

    The triangle is counterclockwise seen from above.
    """
    up = axis(2, base)
    bottom = jnp.concatenate([top[:, :2], jnp.broadcast_to(-base, (3, 1))], axis=1)
    corners = jnp.concatenate([top, bottom])
    along = jnp.roll(top, -1, axis=0) - top
    upward = unit(cross(along[0], along[1]), up)
    outward = cross(along, up[None])
    outward = unit(outward, up[None])
    normals = jnp.concatenate([jnp.stack([upward, -up]), outward])
    edges = jnp.concatenate([unit(along, up[None]), up[None]])

    def corner(direction):
        return jax.nn.one_hot(jnp.argmax(products(direction, corners), axis=1), 6, dtype=base.dtype)

    def side(direction):
        return top, upward

    nothing = jnp.zeros_like(base)
    return Core(corner, lambda labels: matmul(labels, corners), None, nothing, normals, edges, side)


def _apart(field: HeightField, at_field: Transform, other: Geometry, at: Transform) -> Separation:
    """Returns the separation from each of the nearest prisms, in the frame of the field."""
    body = core(other)
    placed = at_field.inverse() @ at
    tops = prisms(field)
    # A box around the body, along the axes of the field.
    axes = jnp.concatenate([jnp.eye(3, dtype=tops.dtype), -jnp.eye(3, dtype=tops.dtype)])
    own = matmul(axes, placed.rotation)
    points = body.place(body.corner(own)) + body.radius * own
    if body.curve is not None:
        points = points + body.curve[None] * unit(body.curve[None] * own, jnp.zeros_like(own))
    reach = jnp.sum(axes * (matmul(points, transpose(placed.rotation)) + placed.position[None]), axis=1)
    most, least = lax.stop_gradient((reach[:3], -reach[3:]))
    corners = lax.stop_gradient(tops)
    beside = jnp.maximum(jnp.min(corners, axis=1) - most[None], least[None] - jnp.max(corners, axis=1))
    off = jnp.sum(jnp.maximum(beside[:, :2], 0), axis=1)
    # Prisms beside the body are ranked by distance, prisms under it by height.
    score = jnp.where(off > 0, off + jnp.maximum(beside[:, 2], 0), beside[:, 2])
    score = jnp.where((off > 0) & (score < 0), off, score)
    count = min(PRISMS, len(tops))
    chosen = lax.top_k(-score, count)[1]

    def cores(given):
        top, base, other = given
        return prism_core(top, base), core(other)

    return jax.vmap(lambda top: separation(cores, (top, field.base, other), placed))(tops[chosen])


def terrain_convex(field: HeightField, at_field: Transform, other: Geometry, at: Transform) -> Found:
    """Returns the deepest contact points with the nearest prisms."""
    apart = _apart(field, at_field, other, at)
    position = 0.5 * (apart.points[:, 0] + apart.points[:, 1])
    found = Found.of(apart.distance, position, apart.normal)
    order = jnp.argsort(lax.stop_gradient(apart.distance))[:4]
    found = Found(*(x[order] for x in found))
    count = len(order)
    # A point shared by two neighboring prisms counts once.
    near = length(lax.stop_gradient(found.position[:, None] - found.position[None]))
    size = jnp.max(jnp.abs(lax.stop_gradient(field.half_sizes)))
    same = (near < 1e-6 * size) & jnp.asarray(np.tri(count, k=-1) > 0)
    return in_world(found.only(~jnp.any(same, axis=1)), at_field)
