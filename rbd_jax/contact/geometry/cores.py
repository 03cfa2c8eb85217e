"""Convex geometries as sums of a polytope, a flattened ball and a ball, so that one algorithm handles all of them.

    { place(l) } + { curve ∘ w : |w| <= 1 } + { radius w : |w| <= 1 }

A ball is the last term alone, a capsule a segment and a ball, a cylinder a segment and a disc. An ellipsoid is the second term
alone, a box or the hull of a mesh the first. The distance of two such sums is the distance of their first two terms minus the
radii. This is exact, so balls need no approximation, and derivatives distinguish flat from curved parts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._core.array import cross, dot, products
from ..._core.errors import ModelError
from ...shapes import Box, Capsule, Cylinder, Ellipsoid, Geometry, Mesh, Sphere
from ...shapes.mesh import MeshSource
from .vectors import axis, length, unit


Vector = Float[Array, "3"]


@dataclass(frozen=True)
class Core:
    """A convex geometry in its frame, as the sum of a polytope, a flattened ball and a ball.

    In place of the polytope, any convex body is possible.

    - `corner`: maps directions (n, 3) to labels (n, l) of the polytope's support points. Labels are not differentiated.
    - `place`: maps labels to points (n, 3), as a differentiable function of sizes.
    - `curve`: the semiaxes of the flattened ball; None without one.
    - `radius`: the radius of the ball.
    - `normals`: unit normals of flat sides (n, 3). There may be none; the search tests all of them.
    - `edges`: unit vectors along straight edges (e, 3), each once. There may be none; pairs of edges are tested if they are few.
    - `side`: maps a direction (3,) to the flat or straight side that faces it: its points, shape (m, 3), in order around the
      side, and its unit normal. A straight side contains each point twice, a round side repeats one point.
    - `points`: the maximum number of contact points of a side: 1 if it is round, 2 if it is straight, else 4.
    - `is_disc`: True if the flattened ball is a disc, which has flat sides.

    >>> core = rbd.contact.core(rbd.shapes.Box((0.1, 0.2, 0.3)))
    >>> print(core.normals.shape, core.radius)
    (6, 3) 0.0
    """

    corner: Callable[[Array], Array]
    place: Callable[[Array], Array]
    curve: Vector | None
    radius: Float[Array, ""]
    normals: Float[Array, "n 3"]
    edges: Float[Array, "e 3"]
    side: Callable[[Array], tuple[Array, Array]]
    points: int = 4
    is_disc: bool = False


@functools.singledispatch
def core(geometry: Geometry) -> Core:
    """Returns the convex body that represents a geometry in contact. Register a function to support your own geometry::

    @rbd.contact.core.register
    def _(geometry: Mine) -> rbd.contact.Core: ...

    >>> print(rbd.contact.core(rbd.shapes.Capsule(0.1, 0.4)).radius)  # a segment, with 0.1 m around it
    0.1
    """
    raise ModelError(
        f"core: {type(geometry).__name__} has no convex core. Register one with rbd.contact.core.register"
    )


def from_support(support: Callable[[Vector], Vector], dtype, normals: Any = ()) -> Core:
    """Returns the core of a convex body that is given by its support function.

    The derivatives of the contact normal do not include the curvature of such a body.

    Args:
      support: Maps a direction (3,) to the farthest point of the body in that direction.
      dtype: The data type of the core.
      normals: Unit normals of flat sides, if there are any.

    >>> sizes = jnp.array([0.1, 0.1, 0.2])
    >>> egg = rbd.contact.from_support(lambda n: sizes**2 * n / jnp.linalg.norm(sizes * n), jnp.float64)
    >>> print(egg.place(egg.corner(jnp.array([[0.0, 0.0, 1.0]]))))  # farthest upwards
    [[0.  0.  0.2]]
    """
    return Core(
        corner=jax.vmap(support),
        place=lambda labels: labels,
        curve=None,
        radius=jnp.zeros((), dtype),
        normals=jnp.asarray(normals, dtype).reshape(-1, 3),
        edges=jnp.zeros((0, 3), dtype),
        side=lambda direction: (support(direction)[None], direction),
        points=1,
    )


@core.register
def _(geometry: Sphere) -> Core:
    return replace(_segment(jnp.zeros_like(geometry.radius), geometry.radius), points=1)


@core.register
def _(geometry: Capsule) -> Core:
    return _segment(geometry.half_length, geometry.radius)


@core.register
def _(geometry: Ellipsoid) -> Core:
    axes = geometry.semiaxes
    zero = jnp.zeros_like(axes)

    def side(direction):
        return (axes * unit(axes * direction, zero))[None], direction

    none = jnp.zeros((0, 3), axes.dtype)
    return Core(_signs, lambda labels: zero[None] * labels, axes, zero[0], none, none, side, 1)


@core.register
def _(geometry: Cylinder) -> Core:
    r, h = geometry.radius, geometry.half_length
    scale, zero = _along_z(h), jnp.zeros_like(r)
    up = axis(2, r)

    def side(direction):
        """Returns an octagon in the end face, whose first corner is deepest, or a line along the mantle."""
        outward = unit(direction * (1 - up), axis(0, r))
        across = cross(up, outward)
        end = jnp.where(direction[2] >= 0, up, -up)
        turned = [float(np.cos(a)) * outward + float(np.sin(a)) * across for a in np.arange(8) * np.pi / 4]
        flat = r * jnp.stack(turned) + h * end[None]
        top, bottom = r * outward + h * up, r * outward - h * up
        line = jnp.stack([top] * 4 + [bottom] * 4)
        is_flat = jnp.abs(direction[2]) > 0.7
        return jnp.where(is_flat, flat, line), jnp.where(is_flat, end, outward)

    ends = jnp.stack([up, -up])
    curve = jnp.stack([r, r, zero])
    return Core(
        lambda d: _signs(scale[None] * d),
        lambda labels: scale[None] * labels,
        curve,
        zero,
        ends,
        ends[:1],
        side,
        4,
        True,
    )


@core.register
def _(geometry: Box) -> Core:
    half = geometry.half_sizes
    normals = jnp.concatenate([jnp.eye(3, dtype=half.dtype), -jnp.eye(3, dtype=half.dtype)])
    corners = jnp.asarray(_SQUARE, half.dtype)

    def side(direction):
        size = jnp.abs(direction)
        x = (size[0] >= size[1]) & (size[0] >= size[2])
        y = ~x & (size[1] >= size[2])
        # The square is defined across x, and rotated cyclically.
        turned = jnp.where(x, corners, jnp.where(y, jnp.roll(corners, 1, 1), jnp.roll(corners, 2, 1)))
        normal = jnp.where(x, axis(0, half), jnp.where(y, axis(1, half), axis(2, half)))
        outward = jnp.where(dot(normal, direction) >= 0, normal, -normal)
        square = jnp.where((normal == 1)[None], outward[None], turned)
        return half[None] * square, outward

    return Core(
        _signs, lambda labels: half[None] * labels, None, jnp.zeros_like(half[0]), normals, normals[:3], side
    )


@core.register
def _(geometry: Mesh) -> Core:
    hull = _hull(geometry.source)
    scale = geometry.scale
    vertices = jnp.asarray(hull.vertices, scale.dtype)
    given = jnp.asarray(hull.normals, scale.dtype) / scale[None]
    normals = given / length(given)[:, None]
    sides = jnp.asarray(hull.sides, scale.dtype)

    def corner(direction):
        return vertices[jnp.argmax(products(scale[None] * direction, vertices), axis=1)]

    def side(direction):
        facing = jnp.argmax(dot(normals, direction[None]))
        return scale[None] * sides[facing], normals[facing]

    along = scale[None] * jnp.asarray(hull.edges, scale.dtype)
    edges = along / length(along)[:, None]
    return Core(
        corner, lambda labels: scale[None] * labels, None, jnp.zeros_like(scale[0]), normals, edges, side
    )


#: The corners of a face of a box across x, in order around it.
_SQUARE = np.array([[0, 1, 1], [0, -1, 1], [0, -1, -1], [0, 1, -1]])

#: Maximum number of corners of a side of a mesh; the corners with the smallest area are removed.
CORNERS = 8


def _signs(direction: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
    """Returns the farthest corner of a cube in each direction."""
    return jnp.where(direction >= 0, jnp.ones_like(direction), -jnp.ones_like(direction))


def _along_z(half_length: Float[Array, ""]) -> Vector:
    return half_length * axis(2, half_length)


class _Hull(NamedTuple):
    vertices: np.ndarray  # (v, 3)
    normals: np.ndarray  # (f, 3), one for each flat side
    edges: np.ndarray  # (e, 3), directions, each once
    sides: np.ndarray  # (f, m, 3), its corners in order, the last one repeated


@functools.lru_cache(maxsize=256)
def _hull(source: MeshSource) -> _Hull:
    """Returns the hull of a mesh, with coplanar triangles merged to flat sides."""
    vertices, faces = source.hull.triangles
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    area = np.cross(b - a, c - a)
    size = np.linalg.norm(area, axis=1)
    faces, area = faces[size > 0], area[size > 0]
    normal = area / np.linalg.norm(area, axis=1)[:, None]
    height = np.einsum("fi,fi->f", normal, vertices[faces[:, 0]])
    reach = np.ptp(vertices, axis=0).max()
    left = list(np.argsort(-np.linalg.norm(area, axis=1)))
    normals, sides = [], []
    while left:
        first = left[0]
        same = [
            f
            for f in left
            if normal[f] @ normal[first] > 1 - 1e-10 and abs(height[f] - height[first]) < 1e-7 * reach
        ]
        left = [f for f in left if f not in set(same)]
        used = np.unique(faces[same])
        normals.append(normal[first])
        sides.append(_around(vertices[used], normal[first]))
    most = max(len(side) for side in sides)
    padded = [np.concatenate([side, np.repeat(side[-1:], most - len(side), 0)]) for side in sides]
    along = np.concatenate([np.roll(side, -1, 0) - side for side in sides])
    along /= np.linalg.norm(along, axis=1)[:, None]
    edges = []
    for one in along:
        if not edges or np.max(np.abs(np.array(edges) @ one)) < 1 - 1e-12:
            edges.append(one)
    return _Hull(vertices, np.array(normals), np.array(edges), np.array(padded))


def _around(points: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Sorts points of a plane around their center, and removes the corners with the smallest area beyond `CORNERS`."""
    middle = points.mean(0)
    x = np.cross(normal, np.eye(3)[np.argmin(np.abs(normal))])
    y = np.cross(normal, x)
    points = points[np.argsort(np.arctan2((points - middle) @ y, (points - middle) @ x))]
    while len(points) > CORNERS:
        before, after = np.roll(points, 1, 0), np.roll(points, -1, 0)
        lost = np.linalg.norm(np.cross(points - before, after - before), axis=1)
        points = np.delete(points, np.argmin(lost), 0)
    return points


def _segment(half_length: Float[Array, ""], radius: Float[Array, ""]) -> Core:
    """Returns the core of a segment along z, or a point, plus a ball. Its side is the line on the surface."""
    scale, up = _along_z(half_length), axis(2, radius)

    def side(direction):
        outward = unit(direction * (1 - up), axis(0, radius))
        is_line = (half_length > 0) & (jnp.abs(direction[2]) < 0.7)
        end = jnp.where(direction[2] >= 0, scale, -scale) + radius * direction
        line = jnp.stack([scale, scale, -scale, -scale]) + radius * outward[None]
        return jnp.where(is_line, line, end[None]), jnp.where(is_line, outward, direction)

    none = jnp.zeros((0, 3), radius.dtype)
    return Core(
        lambda d: _signs(scale[None] * d),
        lambda labels: scale[None] * labels,
        None,
        radius,
        none,
        up[None],
        side,
        2,
    )
