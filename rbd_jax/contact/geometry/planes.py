"""Contact points with a plane: the lowest points of the other geometry.

The plane is the first geometry. As in MuJoCo, a capsule has two points and a box its four lower corners. A cylinder has up to
four points: the lowest, the lowest of the other end, and two at 120° from the first.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._core.array import cross, dot, matmul, transpose, vecmat
from ...shapes import Box, Capsule, Cylinder, Ellipsoid, Geometry, Plane, Sphere
from ...spatial.transform import Transform
from .cores import core
from .found import Found, spread
from .vectors import unit


def _found(at_plane: Transform, points: Float[Array, "k 3"]) -> Found:
    """Returns the contact points for given points of the second geometry."""
    normal = at_plane.rotation[:, 2]
    distance = dot(points - at_plane.position[None], normal[None])
    return Found.of(distance, points - 0.5 * distance[:, None] * normal[None], normal)


def plane_sphere(plane: Plane, at_plane: Transform, ball: Sphere, at: Transform) -> Found:
    return _found(at_plane, (at.position - ball.radius * at_plane.rotation[:, 2])[None])


def plane_capsule(plane: Plane, at_plane: Transform, capsule: Capsule, at: Transform) -> Found:
    axis = at.rotation[:, 2]
    half, down = capsule.half_length * axis, capsule.radius * at_plane.rotation[:, 2]
    found = _found(at_plane, at.position[None] + jnp.stack([half - down, -half - down]))
    return found._replace(tangent=jnp.broadcast_to(axis, (2, 3)))


def plane_ellipsoid(plane: Plane, at_plane: Transform, ellipsoid: Ellipsoid, at: Transform) -> Found:
    axes = ellipsoid.semiaxes
    up = vecmat(at_plane.rotation[:, 2], at.rotation)
    return _found(at_plane, at.point(-axes * unit(axes * up, jnp.zeros_like(axes)))[None])


def plane_cylinder(plane: Plane, at_plane: Transform, cylinder: Cylinder, at: Transform) -> Found:
    normal, radius = at_plane.rotation[:, 2], cylinder.radius
    axis = at.rotation[:, 2]
    axis = jnp.where(dot(normal, axis) > 0, -axis, axis)
    # A rim that is parallel to the plane has no lowest point.
    level = cross(axis, normal)
    is_level = dot(level, level) <= (8 * jnp.finfo(radius.dtype).eps) ** 2
    down = axis * dot(normal, axis) - normal
    down = jnp.where(is_level, at.rotation[:, 0], unit(down, at.rotation[:, 0]))
    across = cross(down, axis)
    near, far = cylinder.half_length * axis, radius * down
    aside = radius * np.asarray(3**0.5 / 2, radius.dtype) * across
    points = jnp.stack([near + far, far - near, near - far / 2 + aside, near - far / 2 - aside])
    return _found(at_plane, at.position[None] + points)


def plane_box(plane: Plane, at_plane: Transform, box: Box, at: Transform) -> Found:
    # The lower one of each two opposite corners.
    corners = jnp.asarray([[-1, -1, -1], [1, -1, -1], [-1, 1, -1], [1, 1, -1]], box.half_sizes.dtype)
    points = matmul(box.half_sizes[None] * corners, transpose(at.rotation))
    height = dot(points, at_plane.rotation[:, 2][None])
    return _found(at_plane, at.position[None] + jnp.where((height > 0)[:, None], -points, points))


def plane_convex(plane: Plane, at_plane: Transform, convex: Geometry, at: Transform) -> Found:
    """Returns the lowest point and points of the lowest side, reduced to the core's number of contact points."""
    body = core(convex)
    down = -vecmat(at_plane.rotation[:, 2], at.rotation)
    side, _ = body.side(down)
    label = body.corner(down[None])
    lowest = body.place(label) + body.radius * down[None]
    if body.curve is not None:
        lowest = lowest + (body.curve * unit(body.curve * down, jnp.zeros_like(down)))[None]
    points = matmul(jnp.concatenate([lowest, side]), transpose(at.rotation)) + at.position[None]
    found = _found(at_plane, points)
    return spread(found, jnp.ones(len(points), bool), body.points)
