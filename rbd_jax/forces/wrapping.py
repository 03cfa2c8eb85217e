"""The shortest path of a string from point to point around a sphere or a cylinder, as in MuJoCo.

All quantities are in the frame of the surface: the center of a sphere, or a cylinder along z. A string wraps in the plane
through its ends and the center, or in the x-y plane. If it touches neither surface nor side, it is straight.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._core.array import cross, dot
from ..optimize.implicit import remembered


#: Number of Newton iterations for a string inside; convergence from an upper bound is quadratic.
STEPS = 20


class Wrap(NamedTuple):
    """The wrap of a string: whether it wraps, the points where it touches the surface, and the length between them."""

    wraps: Bool[Array, ""]
    first: Float[Array, "3"]
    second: Float[Array, "3"]
    length: Float[Array, ""]


def wrapped(
    start: Float[Array, "3"],
    end: Float[Array, "3"],
    radius: Float[Array, ""],
    is_sphere: Bool[Array, ""],
    side: Float[Array, "3"],
    has_side: Bool[Array, ""],
) -> Wrap:
    """Returns the wrap of a string from start to end around a surface.

    Args:
      start: Start point.
      end: End point.
      radius: Radius of the surface.
      is_sphere: True for a sphere, False for a cylinder.
      side: A point on the side of the string, used if `has_side`; inside of the surface if the string is inside.
      has_side: True if `side` is given.
    """
    x, y = _plane(start, end, is_sphere)
    flat = lambda p: jnp.stack([dot(p, x), dot(p, y)])
    a, b, s = flat(start), flat(end), flat(side)
    s = radius * _unit(s)
    inside = has_side & (dot(side, side) < radius**2)
    outer, inner = _around(a, b, radius, s, has_side), _within(a, b, radius)
    wraps, p, q, arc = jax.tree.map(lambda i, o: jnp.where(inside, i, o), inner, outer)
    far = (dot(start, start) > TINY) & (dot(end, end) > TINY) & (radius > TINY)
    wraps = wraps & far
    # The slope along a cylinder is constant.
    before, after = (_length(one - two) for one, two in ((a, p), (b, q)))
    whole = before + arc + after
    share = jnp.where(whole > 0, 1 / jnp.where(whole > 0, whole, 1), 0)
    rise = end[2] - start[2]
    low = start[2] + rise * before * share
    high = start[2] + rise * (before + arc) * share
    round_ = jnp.stack([p[0] * x + p[1] * y, q[0] * x + q[1] * y])
    climbing = jnp.stack([jnp.stack([*p, low]), jnp.stack([*q, high])])
    first, second = jnp.where(is_sphere, round_, climbing)
    climbed = arc * jnp.sqrt(1 + (rise * share) ** 2)
    return Wrap(wraps, first, second, jnp.where(is_sphere, arc, climbed))


TINY = 1e-15


def _plane(start, end, is_sphere):
    """Returns two axes of unit length in the plane of the string."""
    first = _unit(start)
    normal = cross(start, end)
    steep = dot(normal, normal) > TINY**2
    # If the ends and the center are collinear, choose any plane through them.
    other = jnp.where(jnp.arange(3) == jnp.argmax(jnp.abs(first)), 0.0, 1.0).astype(start.dtype)
    normal = _unit(jnp.where(steep, normal, cross(first, other)))
    unit = jnp.eye(3, dtype=start.dtype)
    return (jnp.where(is_sphere, first, unit[0]), jnp.where(is_sphere, _unit(cross(normal, first)), unit[1]))


def _around(a, b, radius, side, has_side):
    """Solves for a string outside of a circle."""
    square, difference = radius**2, b - a
    la, lb, apart = dot(a, a), dot(b, b), dot(difference, difference)
    free = (la >= square) & (lb >= square) & (apart > TINY)
    la, lb, apart = (jnp.where(free, value, 1) for value in (la, lb, apart))
    nearest = a + jnp.clip(-dot(difference, a) / apart, 0, 1) * difference
    straight = (dot(nearest, nearest) > square) & (~has_side | ~_passes_behind(a, b, side))
    free = free & ~straight
    ra, rb = (_root(jnp.where(free, value - square, 1)) for value in (la, lb))

    def solution(sign):
        p = (square * a + sign * radius * ra * jnp.stack([a[1], -a[0]])) / la
        q = (square * b - sign * radius * rb * jnp.stack([b[1], -b[0]])) / lb
        crossing = _intersect(a, p, b, q)
        turn = p[0] * q[1] - p[1] * q[0]
        cosine = dot(p, q) / jnp.where(square > 0, square, 1)
        angle = jnp.arctan2(-sign * turn / jnp.where(square > 0, square, 1), cosine)
        angle = jnp.where(angle < 0, angle + 2 * jnp.pi, angle)
        # Choose the shorter of the two paths, but prefer a path on the given side.
        on_arc = jnp.arctan2(sign * (p[0] * side[1] - p[1] * side[0]), -dot(p, side)) % (2 * jnp.pi) < angle
        behind = has_side & (on_arc | _passes_behind(a, p, side) | _passes_behind(b, q, side))
        way = _length(a - p) + _length(b - q) + radius * angle
        good = jnp.where(has_side, -way, -dot(p - q, p - q))
        good = good - jnp.where(behind, 1e4, 0.0) - jnp.where(crossing, 1e8, 0.0)
        return good, crossing, p, q, radius * angle

    one, two = solution(1.0), solution(-1.0)
    _, crossing, p, q, arc = jax.tree.map(lambda x, y: jnp.where(one[0] > two[0], x, y), one, two)
    return free & ~crossing, p, q, arc


def _passes_behind(a, b, side):
    """Returns whether the segment between two points crosses the ray from the center away from the side."""
    beside_a, beside_b = side[0] * a[1] - side[1] * a[0], side[0] * b[1] - side[1] * b[0]
    along = dot(a, side) * jnp.abs(beside_b) + dot(b, side) * jnp.abs(beside_a)
    return (beside_a * beside_b <= 0) & (along < 0)


def _within(a, b, radius):
    """Solves for a string inside of a circle, which touches it in the one point that minimizes its length."""
    la, lb, difference = _length(a), _length(b), b - a
    apart = dot(difference, difference)
    free = (la > radius) & (lb > radius)
    share = -dot(difference, a) / jnp.where(apart > TINY, apart, 1)
    nearest = a + share * difference
    through = (apart > TINY) & (share > 0) & (share < 1) & (dot(nearest, nearest) <= radius**2)
    free = free & ~through
    la, lb = jnp.where(free, la, 2), jnp.where(free, lb, 2)
    ratio_a, ratio_b = jnp.where(free, radius, 1) / la, jnp.where(free, radius, 1) / lb
    cosine = (la**2 + lb**2 - apart) / (2 * la * lb)
    turned = free & (cosine > -1 + TINY)
    regular = turned & (cosine < 1 - TINY)
    gap = jnp.where(regular, jnp.arccos(jnp.where(regular, cosine, 0)), 1.0)

    # `asin(A z) + asin(B z) - 2 asin(z) + G = 0`, which decreases from z = 0.
    def residual(z):
        return jnp.arcsin(ratio_a * z) + jnp.arcsin(ratio_b * z) - 2 * jnp.arcsin(z) + gap

    def slope(z):
        falls = (ratio / _root(1 - (ratio * z) ** 2) for ratio in (ratio_a, ratio_b))
        return sum(falls) - 2 / _root(1 - z**2)

    last = 1 - 1e-7
    solvable = regular & (residual(jnp.full_like(gap, last)) <= 0)

    def newton(_, z):
        return jnp.clip(z - residual(z) / slope(z), 0, last)

    search = jax.lax.fori_loop(0, STEPS, newton, jnp.full_like(gap, last))
    found = remembered(jax.lax.stop_gradient(search))
    z = jnp.where(solvable, found - residual(found) / jax.lax.stop_gradient(slope(found)), 0.0)
    ahead = a[0] * b[1] - a[1] * b[0] > 0
    base, ratio = jnp.where(ahead, a, b), jnp.where(ahead, ratio_a, ratio_b)
    angle = jnp.arcsin(z) - jnp.arcsin(ratio * z)
    base = _unit(base)
    turn = jnp.stack(
        [
            base[0] * jnp.cos(angle) - base[1] * jnp.sin(angle),
            base[0] * jnp.sin(angle) + base[1] * jnp.cos(angle),
        ]
    )
    point = radius * jnp.where(solvable, turn, _unit(a + b))
    return turned, point, point, jnp.zeros_like(gap)


def _intersect(p1, p2, p3, p4):
    """Returns whether two segments of the plane cross."""
    one, two, between = p2 - p1, p4 - p3, p3 - p1
    det = two[1] * one[0] - two[0] * one[1]
    apart = jnp.abs(det) > TINY
    det = jnp.where(apart, det, 1)
    first = (two[1] * between[0] - two[0] * between[1]) / det
    second = (one[1] * between[0] - one[0] * between[1]) / det
    return apart & (first >= 0) & (first <= 1) & (second >= 0) & (second <= 1)


def _length(x):
    square = dot(x, x)
    return _root(square)


def _root(square):
    """Returns the square root, with a derivative of zero at zero."""
    positive = square > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1)), 0)


def _unit(x):
    """Returns the direction of a vector, or zero for a zero vector."""
    square = dot(x, x)
    positive = square > float(jnp.finfo(x.dtype).tiny) ** 0.4
    return jnp.where(positive, x / jnp.sqrt(jnp.where(positive, square, 1)), 0)
