"""Distances along rays to each type of geometry.

A ray is `o + t d`, t >= 0, in the frame of the geometry. Its distance is the least such t on the surface, and infinite if the
ray misses. From inside it is the t where the ray leaves. Distances are differentiable, with gradients of zero if the ray
misses.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._core.array import cross, dot


Point = Float[Array, "3"]
Distance = Float[Array, ""]


def nearest(times: Float[Array, "*k"], there: Bool[Array, "*k"]) -> Distance:
    """Returns the least of the non-negative times for which `there` is true, or infinity."""
    return jnp.min(jnp.where(there & (times >= 0), times, jnp.inf))


def ball(o: Point, d: Point, radius: Distance) -> Distance:
    """Returns the distance to a ball about the origin."""
    return nearest(*_round(dot(d, d), dot(o, d), jnp.sum(cross(o, d) ** 2), radius))


def ellipsoid(o: Point, d: Point, semiaxes: Point) -> Distance:
    """Returns the distance to an ellipsoid along the axes: a ball in coordinates scaled by the semiaxes."""
    return ball(o / semiaxes, d / semiaxes, jnp.ones_like(o[0]))


def capsule(o: Point, d: Point, radius: Distance, half_length: Distance) -> Distance:
    """Returns the distance to a cylinder along z between two half balls."""
    side, there = _side(o, d, radius)
    times, found = [side], [there & (jnp.abs(o[2] + side * d[2]) <= half_length)]
    for end in (-1, 1):
        from_end = jnp.stack([o[0], o[1], o[2] - end * half_length])
        own, there = _round(dot(d, d), dot(from_end, d), jnp.sum(cross(from_end, d) ** 2), radius)
        times.append(own)
        found.append(there & (end * (from_end[2] + own * d[2]) >= 0))
    return nearest(jnp.concatenate(times), jnp.concatenate(found))


def cylinder(o: Point, d: Point, radius: Distance, half_length: Distance) -> Distance:
    """Returns the distance to a cylinder along z."""
    side, there = _side(o, d, radius)
    on_side = there & (jnp.abs(o[2] + side * d[2]) <= half_length)
    ends, crosses = _crossings(o[2], d[2], half_length)
    x, y = o[0] + ends * d[0], o[1] + ends * d[1]
    on_end = crosses & (x**2 + y**2 <= radius**2)
    return nearest(jnp.concatenate([side, ends]), jnp.concatenate([on_side, on_end]))


def box(o: Point, d: Point, half_sizes: Point) -> Distance:
    """Returns the distance to a box."""
    times, found = [], []
    for axis in range(3):
        own, crosses = _crossings(o[axis], d[axis], half_sizes[axis])
        for other in {0, 1, 2} - {axis}:
            crosses = crosses & (jnp.abs(o[other] + own * d[other]) <= half_sizes[other])
        times.append(own)
        found.append(crosses)
    return nearest(jnp.concatenate(times), jnp.concatenate(found))


def plane(o: Point, d: Point, half_sizes: Float[Array, "2"]) -> Distance:
    """Returns the distance to a rectangle in the plane z = 0, from above only; zero half sizes mean infinite."""
    down = d[2] < 0
    time = -o[2] / jnp.where(down, d[2], -1)
    place = jnp.abs(o[:2] + time * d[:2])
    within = jnp.all((place <= half_sizes) | (half_sizes == 0))
    return nearest(time[None], (down & within)[None])


def triangles(o: Point, d: Point, corners: Float[Array, "f 3 3"]) -> Distance:
    """Returns the distance to triangles, from either side (Möller and Trumbore): `o + t d = a + u (b - a) + v (c - a)`."""
    a, ab, ac = corners[:, 0], corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    across = cross(d[None], ac)
    volume = dot(ab, across)
    crosses = volume != 0
    scale = 1 / jnp.where(crosses, volume, 1)
    start = o[None] - a
    u = scale * dot(start, across)
    turned = cross(start, ab)
    v = scale * dot(d[None], turned)
    return nearest(scale * dot(ac, turned), crosses & (u >= 0) & (v >= 0) & (u + v <= 1))


def _side(o: Point, d: Point, radius: Distance):
    """Returns the times where a ray crosses the side of an infinite cylinder about z, and whether it does."""
    offset = (o[0] * d[1] - o[1] * d[0]) ** 2
    return _round(d[0] ** 2 + d[1] ** 2, o[0] * d[0] + o[1] * d[1], offset, radius)


def _round(square: Distance, along: Distance, offset: Distance, radius: Distance):
    """Returns the times where a ray is at `radius` from a point or an axis, and whether it is.

    The arguments are `d²`, `o·d` and `|o × d|²` of the perpendicular parts. The equation is `|o + t d|² = r²`, with Lagrange's
    `(o·d)² - d² o² = -|o × d|²`, which does not cancel far away.
    """
    under = square * radius**2 - offset
    there = (under > 0) & (square > 0)
    root, square = jnp.sqrt(jnp.where(there, under, 1)), jnp.where(there, square, 1)
    return jnp.stack([-along - root, -along + root]) / square, jnp.stack([there, there])


def _crossings(o: Distance, d: Distance, half: Distance):
    """Returns the times where a ray crosses the two planes at `±half` across an axis, and whether it does."""
    there = d != 0
    safe = jnp.where(there, d, 1)
    return jnp.stack([-half - o, half - o]) / safe, jnp.stack([there, there])
