"""How far along a ray each kind of geometry begins.

A ray is `o + t d`, t >= 0, in the frame of the geometry; its distance is the least such t on the surface, infinite where the ray
misses. From inside it is where the ray leaves. Differentiable, with gradients of zero where the ray misses.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._core.array import cross, dot


Point = Float[Array, "3"]
Distance = Float[Array, ""]


def nearest(times: Float[Array, "*k"], there: Bool[Array, "*k"]) -> Distance:
    """The least of the times that are not negative, of those that are there."""
    return jnp.min(jnp.where(there & (times >= 0), times, jnp.inf))


def ball(o: Point, d: Point, radius: Distance) -> Distance:
    """With a ball about the origin."""
    return nearest(*_round(dot(d, d), dot(o, d), jnp.sum(cross(o, d) ** 2), radius))


def ellipsoid(o: Point, d: Point, semiaxes: Point) -> Distance:
    """With an ellipsoid along the axes: a ball, where lengths are measured in semiaxes."""
    return ball(o / semiaxes, d / semiaxes, jnp.ones_like(o[0]))


def capsule(o: Point, d: Point, radius: Distance, half_length: Distance) -> Distance:
    """With a cylinder along z between two half balls."""
    side, there = _side(o, d, radius)
    times, found = [side], [there & (jnp.abs(o[2] + side * d[2]) <= half_length)]
    for end in (-1, 1):
        from_end = jnp.stack([o[0], o[1], o[2] - end * half_length])
        own, there = _round(dot(d, d), dot(from_end, d), jnp.sum(cross(from_end, d) ** 2), radius)
        times.append(own)
        found.append(there & (end * (from_end[2] + own * d[2]) >= 0))
    return nearest(jnp.concatenate(times), jnp.concatenate(found))


def cylinder(o: Point, d: Point, radius: Distance, half_length: Distance) -> Distance:
    """With a cylinder along z."""
    side, there = _side(o, d, radius)
    on_side = there & (jnp.abs(o[2] + side * d[2]) <= half_length)
    ends, crosses = _crossings(o[2], d[2], half_length)
    x, y = o[0] + ends * d[0], o[1] + ends * d[1]
    on_end = crosses & (x**2 + y**2 <= radius**2)
    return nearest(jnp.concatenate([side, ends]), jnp.concatenate([on_side, on_end]))


def box(o: Point, d: Point, half_sizes: Point) -> Distance:
    """With a cuboid."""
    times, found = [], []
    for axis in range(3):
        own, crosses = _crossings(o[axis], d[axis], half_sizes[axis])
        for other in {0, 1, 2} - {axis}:
            crosses = crosses & (jnp.abs(o[other] + own * d[other]) <= half_sizes[other])
        times.append(own)
        found.append(crosses)
    return nearest(jnp.concatenate(times), jnp.concatenate(found))


def plane(o: Point, d: Point, half_sizes: Float[Array, "2"]) -> Distance:
    """With the rectangle of these half sizes in the plane z = 0, infinite where they are zero; from above alone."""
    down = d[2] < 0
    time = -o[2] / jnp.where(down, d[2], -1)
    place = jnp.abs(o[:2] + time * d[:2])
    within = jnp.all((place <= half_sizes) | (half_sizes == 0))
    return nearest(time[None], (down & within)[None])


def triangles(o: Point, d: Point, corners: Float[Array, "f 3 3"]) -> Distance:
    """With triangles, from either side (Möller and Trumbore): `o + t d = a + u (b - a) + v (c - a)`."""
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
    """Where a ray goes through the side of an infinite cylinder about z, and whether it does."""
    offset = (o[0] * d[1] - o[1] * d[0]) ** 2
    return _round(d[0] ** 2 + d[1] ** 2, o[0] * d[0] + o[1] * d[1], offset, radius)


def _round(square: Distance, along: Distance, offset: Distance, radius: Distance):
    """Where a ray is at a distance from a point or an axis, and whether it is: of `d²`, `o·d` and `|o × d|²` of the parts across.

    That is `|o + t d|² = r²`, with Lagrange's `(o·d)² - d² o² = -|o × d|²`, which does not cancel far away.
    """
    under = square * radius**2 - offset
    there = (under > 0) & (square > 0)
    root, square = jnp.sqrt(jnp.where(there, under, 1)), jnp.where(there, square, 1)
    return jnp.stack([-along - root, -along + root]) / square, jnp.stack([there, there])


def _crossings(o: Distance, d: Distance, half: Distance):
    """Where a ray goes through the two planes at `±half` across an axis, and whether it does."""
    there = d != 0
    safe = jnp.where(there, d, 1)
    return jnp.stack([-half - o, half - o]) / safe, jnp.stack([there, there])
