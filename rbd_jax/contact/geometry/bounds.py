"""Bounding spheres of geometries, for the broad phase of collision detection."""

from __future__ import annotations

import functools

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._core.array import by_numpy
from ...shapes import Box, Capsule, Cylinder, Ellipsoid, Geometry, HeightField, Mesh, Plane, Sphere
from .cores import core
from .vectors import length, unit


Ball = tuple[Float[Array, "3"], Float[Array, ""]]


@functools.singledispatch
def bounding_sphere(geometry: Geometry) -> Ball:
    """Returns the center (3,) and radius () of a sphere around a geometry, in its frame. The radius is infinite for a plane.

    For a user-defined geometry, the sphere encloses the axis-aligned bounding box of its core.

    >>> ball = rbd.contact.bounding_sphere(rbd.shapes.Capsule(0.1, 0.4))
    >>> print(ball)
    (Array([0., 0., 0.], dtype=float64), Array(0.5, dtype=float64))
    """
    body = core(geometry)
    dtype = body.radius.dtype
    axes = jnp.concatenate([jnp.eye(3, dtype=dtype), -jnp.eye(3, dtype=dtype)])
    points = body.place(body.corner(axes)) + body.radius * axes
    if body.curve is not None:
        points = points + body.curve[None] * unit(body.curve[None] * axes, jnp.zeros_like(axes))
    reach = jnp.sum(axes * points, axis=1)
    most, least = reach[:3], -reach[3:]
    return 0.5 * (most + least), length(0.5 * (most - least))


def _centred(radius: Float[Array, ""]) -> Ball:
    return by_numpy(lambda xp: xp.zeros(3, radius.dtype)), radius


@bounding_sphere.register
def _(geometry: Sphere) -> Ball:
    return _centred(geometry.radius)


@bounding_sphere.register
def _(geometry: Capsule) -> Ball:
    return _centred(geometry.radius + geometry.half_length)


@bounding_sphere.register
def _(geometry: Cylinder) -> Ball:
    return _centred(length(jnp.stack([geometry.radius, geometry.half_length])))


@bounding_sphere.register
def _(geometry: Box) -> Ball:
    return _centred(length(geometry.half_sizes))


@bounding_sphere.register
def _(geometry: Ellipsoid) -> Ball:
    return _centred(jnp.max(geometry.semiaxes))


@bounding_sphere.register
def _(geometry: Plane) -> Ball:
    return _centred(jnp.full((), jnp.inf, geometry.half_sizes.dtype))


@bounding_sphere.register
def _(geometry: HeightField) -> Ball:
    high, low = jnp.max(geometry.heights), -geometry.base
    half = jnp.stack([geometry.half_sizes[0], geometry.half_sizes[1], 0.5 * (high - low)])
    zero = jnp.zeros_like(high)
    return jnp.stack([zero, zero, 0.5 * (high + low)]), length(half)


@bounding_sphere.register
def _(geometry: Mesh) -> Ball:
    vertices = geometry.scale[None] * jnp.asarray(geometry.source.hull.triangles[0], geometry.scale.dtype)
    middle = 0.5 * (jnp.max(vertices, axis=0) + jnp.min(vertices, axis=0))
    return middle, jnp.max(length(vertices - middle[None]))
