"""Contact points of spheres and capsules with each other, with boxes and with cylinders, in closed form."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from ..._core.array import cross, dot, matmul, matvec, transpose, vecmat
from ...shapes import Box, Capsule, Cylinder, Sphere
from ...spatial.transform import Transform
from .found import Found
from .vectors import axis, length, unit


Vector = Float[Array, "3"]
Number = Float[Array, ""]


def _balls(a: Vector, radius_a: Number, b: Vector, radius_b: Number, otherwise: Vector):
    """Returns distance, position and normal of two balls. `otherwise` is the normal of concentric balls."""
    between = b - a
    normal = unit(between, otherwise)
    # Unlike the length, this has a derivative along the normal also for concentric balls.
    apart = dot(between, normal)
    distance = apart - radius_a - radius_b
    return distance, a + (radius_a + 0.5 * distance) * normal, normal


def _otherwise(at_a: Transform, at_b: Transform) -> Vector:
    """Returns the default normal as in MuJoCo: the cross product of both z axes, or x if they are parallel."""
    across = cross(at_a.rotation[:, 2], at_b.rotation[:, 2])
    parallel = dot(across, across) <= (8 * jnp.finfo(across.dtype).eps) ** 2
    x = axis(0, across)
    return lax.stop_gradient(jnp.where(parallel, x, unit(across, x)))


def sphere_sphere(a: Sphere, at_a: Transform, b: Sphere, at_b: Transform) -> Found:
    origin = jnp.zeros_like(at_a.position)
    between = at_b.position - at_a.position
    found = _balls(origin, a.radius, between, b.radius, _otherwise(at_a, at_b))
    return Found.one(*found).moved(at_a.position)


def sphere_capsule(a: Sphere, at_a: Transform, b: Capsule, at_b: Transform) -> Found:
    between = at_b.position - at_a.position
    along = at_b.rotation[:, 2]
    nearest = between + along * jnp.clip(-dot(along, between), -b.half_length, b.half_length)
    found = _balls(jnp.zeros_like(between), a.radius, nearest, b.radius, _otherwise(at_a, at_b))
    return Found.one(*found).moved(at_a.position)


def capsule_capsule(a: Capsule, at_a: Transform, b: Capsule, at_b: Transform) -> Found:
    """Returns the contact point at the nearest points of both segments; two points, at segment ends, if they are parallel."""
    between = at_b.position - at_a.position
    half_a, half_b = a.half_length, b.half_length
    along_a, along_b = at_a.rotation[:, 2], at_b.rotation[:, 2]
    cosine, to_a, to_b = dot(along_a, along_b), dot(along_a, between), dot(along_b, between)
    across = cross(along_a, along_b)
    sine = dot(across, across)
    parallel = sine <= 8 * jnp.finfo(sine.dtype).eps
    clip_a, clip_b = (lambda x: jnp.clip(x, -half_a, half_a)), (lambda x: jnp.clip(x, -half_b, half_b))
    on_a, on_b = (lambda y: clip_a(to_a + cosine * y)), (lambda x: clip_b(cosine * x - to_b))
    # Nearest points of the lines, then of the segments: each clip gives the nearest point on the other segment.
    x = clip_a((to_a - cosine * to_b) / jnp.where(parallel, 1, sine))
    y = on_b(x)
    x = on_a(y)
    xs = jnp.stack([half_a, -half_a, on_a(half_b), on_a(-half_b)])
    ys = jnp.stack([on_b(half_a), on_b(-half_a), half_b, -half_b])
    off = length(between[None] + ys[:, None] * along_b[None] - xs[:, None] * along_a[None])
    first = jnp.argmin(off)
    reach = half_a + half_b
    others = (jnp.abs(xs - xs[first]) + jnp.abs(ys - ys[first])) > 1e-4 * reach
    second = jnp.argmin(jnp.where(others, off, jnp.inf))
    x0, y0 = jnp.where(parallel, xs[first], x), jnp.where(parallel, ys[first], y)
    otherwise = _otherwise(at_a, at_b)
    found = [
        _balls(x * along_a, a.radius, between + y * along_b, b.radius, otherwise)
        for x, y in ((x0, y0), (xs[second], ys[second]))
    ]
    two = Found.of(*(jnp.stack(part) for part in zip(*found)))
    there = jnp.stack([jnp.ones_like(parallel), parallel & jnp.any(others)])
    return two.only(there).moved(at_a.position)


def _within(q: Float[Array, "n"]) -> tuple[Number, Float[Array, "n"]]:
    """Returns the signed distance of a point from a box and the outward direction.

    `q` is the distance beyond each pair of sides.
    """
    outside = jnp.maximum(q, 0)
    is_outside = jnp.any(q > 0)
    nearest = lax.stop_gradient(jnp.eye(len(q), dtype=q.dtype)[jnp.argmax(q)])
    outward = jnp.where(is_outside, unit(outside, nearest), nearest)
    return dot(q, outward), outward


def point_box(x: Vector, half_sizes: Vector) -> tuple[Number, Vector]:
    """Returns the signed distance of a point from a box centered at the origin, and its gradient."""
    sign = jnp.where(x < 0, -jnp.ones_like(x), jnp.ones_like(x))
    distance, outward = _within(sign * x - half_sizes)
    return distance, sign * outward


def sphere_box(a: Sphere, at_a: Transform, b: Box, at_b: Transform) -> Found:
    x = vecmat(at_a.position - at_b.position, at_b.rotation)
    apart, outward = point_box(x, b.half_sizes)
    return _of_ball(a.radius, apart, -matvec(at_b.rotation, outward), at_a)


def sphere_cylinder(a: Sphere, at_a: Transform, b: Cylinder, at_b: Transform) -> Found:
    x = vecmat(at_a.position - at_b.position, at_b.rotation)
    flat = jnp.stack([x[0], x[1]])
    radial = unit(flat, jnp.asarray([1, 0], x.dtype))
    size = dot(flat, radial)
    up = jnp.where(x[2] < 0, -jnp.ones_like(size), jnp.ones_like(size))
    apart, outward = _within(jnp.stack([size - b.radius, up * x[2] - b.half_length]))
    outward = jnp.stack([outward[0] * radial[0], outward[0] * radial[1], outward[1] * up])
    return _of_ball(a.radius, apart, -matvec(at_b.rotation, outward), at_a)


def _of_ball(radius: Number, apart: Number, normal: Vector, at: Transform) -> Found:
    distance = apart - radius
    return Found.one(distance, at.position + (radius + 0.5 * distance) * normal, normal)


def capsule_box(a: Capsule, at_a: Transform, b: Box, at_b: Transform) -> Found:
    """Returns contact points of a capsule and a box.

    The points are the point of the segment nearest to the box, and the farther end of the part of the segment over the same side.
    A segment that intersects the box is pushed out along the shortest direction.
    """
    half = b.half_sizes
    middle = vecmat(at_a.position - at_b.position, at_b.rotation)
    along = a.half_length * vecmat(at_a.rotation[:, 2], at_b.rotation)
    t, is_through = _nearest_on_segment(middle, along, half)
    x = middle + t * along
    apart, outward = point_box(x, half)

    # For a segment through the box, the best direction among normals of sides, and cross products of edges and segment.
    outward = jnp.where(is_through, _out_of_box(middle, along, half), outward)

    # The part of the segment over that side.
    size = jnp.abs(lax.stop_gradient(outward))
    facing = jnp.arange(3) == jnp.argmax(size)
    moves = (jnp.abs(along) > jnp.finfo(half.dtype).eps * jnp.max(half)) & ~facing
    step = jnp.where(moves, along, 1)
    ends = jnp.stack([-half - middle, half - middle]) / step[None]
    far = jnp.asarray(1, half.dtype)
    low = jnp.maximum(jnp.max(jnp.where(moves, jnp.min(ends, axis=0), -far)), -far)
    high = jnp.minimum(jnp.min(jnp.where(moves, jnp.max(ends, axis=0), far)), far)
    over = jnp.all(facing | moves | (jnp.abs(middle) <= half)) & (low < high)
    # For a segment through the box, the first point is the deeper end.
    deeper = jnp.where(dot(along, outward) > 0, low, high)
    t = jnp.where(is_through, deeper, t)
    other = jnp.where(jnp.abs(high - t) >= jnp.abs(low - t), high, low)
    there = over & (jnp.abs(other - t) > 1e-4)

    def of(t):
        x = middle + t * along
        apart, direction = point_box(x, half)
        apart = jnp.where(is_through, dot(x, outward) - dot(half, jnp.abs(outward)), apart)
        direction = jnp.where(is_through, outward, direction)
        distance = apart - a.radius
        return distance, x - (a.radius + 0.5 * distance) * direction, -direction

    other = jnp.where(there, other, 0)
    distance, position, normal = (jnp.stack(pair) for pair in zip(of(t), of(other)))
    world = transpose(at_b.rotation)
    found = Found.of(distance, matmul(position, world) + at_b.position[None], matmul(normal, world))
    return found.only(jnp.stack([jnp.ones_like(there), there]))


def _nearest_on_segment(middle: Vector, along: Vector, half: Vector) -> tuple[Number, Bool[Array, ""]]:
    """Returns the smallest t in [-1, 1] at which `middle + t along` is nearest to a box, and whether that point is inside.

    Half the squared distance is convex in t, and its derivative is linear between the planes of the sides.
    """

    def rise(t):
        x = middle[None] + t[:, None] * along[None]
        return dot(x - jnp.clip(x, -half[None], half[None]), along[None])

    moves = along != 0
    step = jnp.where(moves, along, 1)
    planes = jnp.concatenate([jnp.where(moves, (side - middle) / step, 1) for side in (-half, half)])
    one = jnp.ones_like(planes[:1])
    places = jnp.concatenate([-one, one, jnp.clip(planes, -1, 1)])
    slope = rise(places)
    last = jnp.argmax(jnp.where(slope < 0, places, -jnp.inf))
    next_ = jnp.argmin(jnp.where(slope >= 0, places, jnp.inf))
    down, up = jnp.any(slope < 0), jnp.any(slope >= 0)
    low, high = places[last], places[next_]
    fall = slope[next_] - slope[last]
    share = jnp.where(down & up, -slope[last] / jnp.where(fall > 0, fall, 1), 0)
    t = jnp.where(down, jnp.where(up, low + share * (high - low), 1), -1)
    x = middle + t * along
    return t, jnp.all(jnp.abs(x) <= half)


def _out_of_box(middle: Vector, along: Vector, half: Vector) -> Vector:
    """Returns the direction in which a segment leaves a box by the shortest displacement."""
    sides = jnp.eye(3, dtype=half.dtype)
    across = cross(sides, along[None])
    there = jnp.concatenate([jnp.ones(3, bool), dot(across, across) > 1e-12 * dot(along, along)])
    directions = jnp.concatenate([sides, jnp.where(there[3:, None], unit(across, sides), sides)])
    middles = dot(directions, middle[None])
    directions = jnp.where((middles < 0)[:, None], -directions, directions)
    depth = jnp.abs(middles) - jnp.abs(dot(directions, along[None])) - dot(jnp.abs(directions), half[None])
    best = jnp.argmax(jnp.where(there, depth, -jnp.inf))
    return directions[best]
