"""Contact points of any two convex bodies, from the intersection of the sides that face each other.

If the normal is that of a flat side, the contact points are corners of the intersection of this side with the side of the other
body, at most four. Otherwise there is one contact point, between the nearest points of both bodies.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from ..._core.array import cross, dot, matmul, matvec, transpose, vecmat
from ...shapes import Box, Geometry
from ...spatial.transform import Transform
from .closest import Separation, separation
from .cores import Core, core
from .found import Found, spread
from .vectors import tangents, unit


#: Maximum deviation (1 - cos) of the normal from that of a flat side.
ALIGNED = 1e-6


def convex_convex(a: Geometry, at_a: Transform, b: Geometry, at_b: Transform) -> Found:
    """Returns the contact points of any two geometries that have a core."""
    first, second = core(a), core(b)
    at = at_a.inverse() @ at_b
    apart = separation(_cores, (a, b), at)
    found = sides(first, second, at, apart, min(first.points, second.points))
    return in_world(found, at_a)


def _cores(bodies: tuple[Geometry, Geometry]) -> tuple[Core, Core]:
    return core(bodies[0]), core(bodies[1])


def apart(a: Geometry, at_a: Transform, b: Geometry, at_b: Transform) -> Separation:
    """Returns the separation of two geometries that have a core, in the world."""
    found = separation(_cores, (a, b), at_a.inverse() @ at_b)
    points = matmul(found.points, transpose(at_a.rotation)) + at_a.position[None]
    return Separation(found.distance, matvec(at_a.rotation, found.normal), points)


def in_world(found: Found, at: Transform) -> Found:
    """Transforms contact points from the frame of the first geometry to the world."""
    turn = transpose(at.rotation)
    return Found(
        found.distance,
        matmul(found.position, turn) + at.position[None],
        matmul(found.normal, turn),
        matmul(found.tangent, turn),
    )


def sides(
    a: Core,
    b: Core,
    at: Transform,
    apart: Separation,
    count: int,
    nearest_counts: Bool[Array, ""] | bool = True,
) -> Found:
    """Returns the contact points of two bodies with a given separation, in the frame of the first.

    Args:
      a: The first body.
      b: The second body.
      at: The placement of the second body in the frame of the first.
      apart: The separation of the bodies.
      count: The maximum number of contact points.
      nearest_counts: If True, the point between the nearest points is a candidate, too.
    """
    n = apart.normal
    nearest = Found.one(apart.distance, 0.5 * (apart.points[0] + apart.points[1]), n)
    if count == 1:
        return nearest
    side_a, up_a = a.side(n)
    side_b, up_b = b.side(-vecmat(n, at.rotation))
    side_b, up_b = matmul(side_b, transpose(at.rotation)) + at.position[None], matvec(at.rotation, up_b)
    rise_a, rise_b = dot(n, up_a), -dot(n, up_b)
    held = lax.stop_gradient
    is_flat = jnp.maximum(held(rise_a), held(rise_b)) > 1 - ALIGNED
    is_seen = is_flat & (jnp.minimum(held(rise_a), held(rise_b)) > 0.1)
    basis = tangents(n)
    flat_a, flat_b = matmul(side_a, transpose(basis)), matmul(side_b, transpose(basis))
    places, there = _common(flat_a, flat_b)

    def height(up, rise, point):
        """Returns the height of the plane of a side at places across the normal."""
        slope = matvec(basis, up) / jnp.where(is_seen, rise, 1)
        return dot(n, point) - dot(places - matvec(basis, point)[None], slope[None])

    low = height(up_a, rise_a, side_a[0])
    high = height(-up_b, rise_b, side_b[0])
    position = matmul(places, basis) + (0.5 * (low + high))[:, None] * n[None]
    common = Found.of(high - low, position, n)
    together = Found(*(jnp.concatenate(pair) for pair in zip(nearest, common)))
    there = jnp.concatenate([jnp.asarray(nearest_counts)[None], there & is_seen])
    return spread(together, there, count)


def _common(a: Float[Array, "m 2"], b: Float[Array, "n 2"]) -> tuple[Float[Array, "c 2"], Bool[Array, "c"]]:
    """Returns the corners of the intersection of two convex polygons, and a mask of valid ones.

    Candidates are corners of one polygon in the other, and intersections of edges. Points may be repeated; a polygon of two
    points is a segment.
    """
    reach = lax.stop_gradient(jnp.maximum(jnp.max(jnp.abs(a - a[:1])), jnp.max(jnp.abs(b - a[:1]))))
    edge_a, edge_b = jnp.roll(a, -1, axis=0) - a, jnp.roll(b, -1, axis=0) - b
    start, e, f = (b[None] - a[:, None]), edge_a[:, None], edge_b[None]
    across = _cross(e, f)
    tiny = 1e-5 * reach
    regular = jnp.abs(across) > tiny * jnp.sqrt(dot(e, e) + dot(f, f) + tiny**2)
    scale = 1 / jnp.where(regular, across, 1)
    on_a, on_b = _cross(start, f) * scale, _cross(start, e) * scale
    crossing = regular & (on_a > 0) & (on_a < 1) & (on_b > 0) & (on_b < 1)
    crossings = a[:, None] + on_a[..., None] * e
    places = jnp.concatenate([a, b, crossings.reshape(-1, 2)])
    held_a, held_b, edge_a, edge_b = lax.stop_gradient((a, b, edge_a, edge_b))
    there = [
        _inside(held_a, held_b, edge_b, tiny),
        _inside(held_b, held_a, edge_a, tiny),
        crossing.reshape(-1),
    ]
    return places, jnp.concatenate(there)


def _cross(a: Float[Array, "*k 2"], b: Float[Array, "*l 2"]) -> Float[Array, "*c"]:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _inside(points, corners, edges, tiny):
    """Returns which points are in a polygon, or on its edges up to rounding."""
    start = points[:, None] - corners[None]
    side = _cross(edges[None], start)
    square = dot(edges, edges)
    size = jnp.sqrt(square)
    doubled = jnp.sum(_cross(corners - corners[:1], edges))
    turn = jnp.sign(doubled)
    within = jnp.all(turn * side >= -tiny * size[None], axis=1) & (turn != 0)
    share = jnp.clip(dot(start, edges[None]) / jnp.where(square > 0, square, 1)[None], 0, 1)
    off = start - share[..., None] * edges[None]
    wide = jnp.abs(doubled) > tiny * jnp.max(size)
    return (within & wide) | jnp.any(dot(off, off) <= tiny**2, axis=1)


def box_box(a: Box, at_a: Transform, b: Box, at_b: Transform) -> Found:
    """Returns the contact points of two boxes by the separating-axis test with fifteen axes.

    The axes are normals of sides and cross products of edges. As in MuJoCo, sides are preferred if an edge is only slightly
    better, because more contact points are more stable. For separated boxes, the distance is that along the best axis; between
    corners it is less than the true distance.
    """
    at = at_a.inverse() @ at_b
    n, is_edge, edge_a, edge_b = _axis(a.half_sizes, b.half_sizes, at)
    against = vecmat(n, at.rotation)
    distance = dot(n, at.position) - dot(jnp.abs(n), a.half_sizes) - dot(jnp.abs(against), b.half_sizes)
    # The nearest points of the two edges that face each other.
    corner_a = jnp.where(n < 0, -a.half_sizes, a.half_sizes) * (1 - edge_a)
    corner_b = at.point(jnp.where(against < 0, b.half_sizes, -b.half_sizes) * (1 - edge_b))
    along = matvec(at.rotation, edge_b)
    cosine, between = dot(edge_a, along), corner_b - corner_a
    sine = jnp.where(is_edge, 1 - cosine**2, 1)
    point = corner_a + edge_a * (dot(edge_a, between) - cosine * dot(along, between)) / sine
    nearest = Separation(distance, n, jnp.stack([point, point + distance * n]))
    return in_world(sides(core(a), core(b), at, nearest, 4, is_edge), at_a)


def _axis(a: Float[Array, "3"], b: Float[Array, "3"], at: Transform):
    """Returns the axis of maximum separation from the first box to the second.

    Returns:
      The axis, whether it is a cross product of edges, and these edges.
    """
    unit_axes = jnp.eye(3, dtype=a.dtype)
    others = transpose(at.rotation)
    across = cross(unit_axes[:, None], others[None]).reshape(9, 3)
    there = lax.stop_gradient(dot(across, across)) > 64 * jnp.finfo(a.dtype).eps
    across = jnp.where(
        there[:, None], unit(jnp.where(there[:, None], across, 1), unit_axes[:1]), unit_axes[:1]
    )
    axes = jnp.concatenate([unit_axes, others, across])
    toward = dot(axes, at.position[None])
    axes = jnp.where((toward < 0)[:, None], -axes, axes)
    apart = jnp.abs(toward) - dot(jnp.abs(axes), a[None]) - dot(jnp.abs(matmul(axes, at.rotation)), b[None])
    apart = lax.stop_gradient(apart)
    side, edge = jnp.argmax(apart[:6]), jnp.argmax(jnp.where(there, apart[6:], -jnp.inf))
    best_side, best_edge = apart[side], apart[6 + edge]
    beside = jnp.abs(dot(axes[side], axes[6 + edge])) > 0.99
    is_edge = best_edge - 1e-6 * jnp.abs(best_edge) > best_side
    is_edge &= ~(beside & (best_edge < best_side + 0.05 * jnp.abs(best_side))) & jnp.any(there)
    return axes[jnp.where(is_edge, 6 + edge, side)], is_edge, unit_axes[edge // 3], unit_axes[edge % 3]
