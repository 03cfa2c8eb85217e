"""Convex geometries as sums of a polytope, a flattened ball and a ball, by which all of them are treated alike.

    { place(l) } + { curve ∘ w : |w| <= 1 } + { radius w : |w| <= 1 }

A ball is the last term alone, a capsule a segment and a ball, a cylinder a segment and a disc, an ellipsoid the second term
alone, a box and the hull of a mesh the first. What separates two such sums is then what separates the first two terms, less the
radii: that is exact, so round geometries cost nothing. And derivatives know what is flat and what is curved.
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
    """A convex geometry in its frame; see above. The polytope may also be the limit of one: any convex body.

    - `corner`: of directions (n, 3), labels of the polytope's points farthest in each: (n, l). They are not differentiated.
    - `place`: the points (n, 3) with these labels, as a differentiable function of sizes.
    - `curve`: the semiaxes of the flattened ball; None where there is none.
    - `radius`: of the ball.
    - `normals`: unit normals of flat sides (n, 3), of which none should be missed; they may be many or none.
    - `edges`: unit vectors along straight edges (e, 3), each once; they may be many or none, and all are tried if they are few.
    - `side`: of a direction (3,), the points of the flat or straight side that faces it, (m, 3) in order around it, and the unit
      normal of that side. A straight side has its points twice, a round one is one point, again and again.
    - `points`: the most points that a side is touched in: 1 for what is round, 2 for what is straight, else 4.
    - `is_disc`: whether the flattened ball is flat, so that it has sides of its own.

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
    """The convex geometry with which a geometry touches. A geometry of one's own joins in by registering a function here::

    @rbd.contact.core.register
    def _(geometry: Mine) -> rbd.contact.Core: ...

    >>> print(rbd.contact.core(rbd.shapes.Capsule(0.1, 0.4)).radius)  # a segment, with 0.1 m around it
    0.1
    """
    raise ModelError(
        f"{type(geometry).__name__} has no convex core to touch with; register one: rbd.contact.core.register"
    )


def from_support(support: Callable[[Vector], Vector], dtype, normals: Any = ()) -> Core:
    """The core of any convex body, by the point of it that is farthest in a direction.

    - `dtype`: of its numbers.
    - `normals`: unit normals of its flat sides, if there are any.

    Where it is round, the derivatives of the normal do not know of its curvature.

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
        """An octagon in the end, one corner of which is deepest; or a line along the mantle, twice."""
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
        # The square is laid out across x, and turned cyclically.
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

#: Sides of meshes have so many corners at most; of more, those are left out that matter least.
CORNERS = 8


def _signs(direction: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
    """The corner of a cube that is farthest in each direction."""
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
    """The hull of a mesh, its triangles joined to flat sides."""
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
    """Points in a plane in order around their middle, the least important left out."""
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
    """A segment along z, or a point, and a ball. As a side, it is the line on the ball's surface."""
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
