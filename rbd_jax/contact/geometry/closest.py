"""Signed distance of two convex bodies: the direction of maximum separation.

Along a unit vector n, two bodies have the separation `s(n) = min n·(b - a)` over their points a and b. Their signed distance is
the maximum of s. Any n gives a lower bound, so candidates from different searches can be compared by their s.

The search has three parts, none of which is differentiated. (1) The Gilbert-Johnson-Keerthi (GJK) method finds the nearest
points of separated bodies. (2) For overlapping bodies, the same method runs twice on copies that are moved apart along the best
directions of a fixed grid and of the flat sides; this leads to the smallest separating translation. (3) Newton's method runs on
the features (corners, edges, flat sides, curved parts) of the candidates. The candidate with the largest separation wins.

Two more Newton iterations are differentiated. They do not change the value, but they provide the derivatives of the solution up
to third order, because each iteration squares the error of the previous one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..._core.array import cross, dot, matmul, matvec, transpose, vecmat
from ...optimize.implicit import remembered
from ...spatial.transform import Transform
from .cores import Core
from .vectors import length, tangents, turned, turned_back, unit


#: Number of grid directions tested for overlapping bodies, and number of neighbors that a local maximum must exceed.
DIRECTIONS = 96
NEIGHBOURS = 6
#: Number of grid directions and of flat sides from which searches start, and number of GJK runs per start.
PEAKS = 2
FLATS = 2
ROUNDS = 2
#: Maximum number of pairs of edges for which all cross products are tested.
EDGE_PAIRS = 256
#: Maximum number of GJK iterations.
STEPS = 16
#: Relative tolerance of the squared distance at which GJK stops; Newton's method refines curved parts.
TOLERANCE = 1e-10
#: Number of Newton iterations on features.
NEWTON_STEPS = 4


class Separation(NamedTuple):
    """The signed distance, the normal from the first body to the second, and a point of each, in the frame of the first."""

    distance: Float[Array, ""]
    normal: Float[Array, "3"]
    points: Float[Array, "2 3"]


class _Support(NamedTuple):
    """Support points of two bodies in opposite directions, one pair for each direction."""

    label_a: Float[Array, "*m la"]
    round_a: Float[Array, "*m 3"]
    label_b: Float[Array, "*m lb"]
    round_b: Float[Array, "*m 3"]


class _Simplex(NamedTuple):
    """Three pairs of points, their differences, and the point of their convex hull that is nearest to the origin."""

    support: _Support  # (m, 3, ...)
    difference: Float[Array, "m 3 3"]
    nearest: Float[Array, "m 3"]


def separation(cores: Callable[..., tuple[Core, Core]], given: Any, at: Transform) -> Separation:
    """Returns the separation of two bodies.

    Args:
      cores: Returns both bodies for `given`. It is called twice, because the search uses bodies without derivatives.
      given: The argument of `cores`.
      at: The placement of the second body in the frame of the first.
    """
    # Scaled by the size of the larger body, because products of six lengths may exceed the range of single precision.
    first, second = cores(given)
    unit_length = lax.stop_gradient(jnp.maximum(_size(first), _size(second)))

    def pair_of(given, at):
        first, second = cores(given)
        return _Pair(_scaled(first, unit_length), _scaled(second, unit_length), at)

    at = Transform(at.rotation, at.position / unit_length)
    pair = pair_of(*lax.stop_gradient((given, at)))
    found = remembered(_search(pair))
    ends = jax.vmap(lambda support, normal: _polished(pair, support, normal))(*found)
    best = jnp.argmax(ends[2])
    support, choice, normal = lax.stop_gradient(jax.tree.map(lambda x: x[best], (found[0], *ends[:2])))
    found = _solution(pair_of(given, at), support, choice, normal)
    return Separation(unit_length * found.distance, found.normal, unit_length * found.points)


def _size(body: Core) -> Float[Array, ""]:
    """Returns the largest coordinate of a body in its frame."""
    axes = jnp.eye(3, dtype=body.radius.dtype)
    own = jnp.max(jnp.abs(body.place(body.corner(jnp.concatenate([axes, -axes])))))
    return own + body.radius + (0 if body.curve is None else jnp.max(body.curve))


def _scaled(body: Core, length: Float[Array, ""]) -> Core:
    """Returns the body in units of a length."""
    curve = None if body.curve is None else body.curve / length
    return replace(
        body, place=lambda labels: body.place(labels) / length, curve=curve, radius=body.radius / length
    )


class _Pair:
    """Two bodies, in the frame of the first."""

    def __init__(self, a: Core, b: Core, at: Transform):
        self.a, self.b, self.at = a, b, at
        nothing = jnp.zeros(3, at.position.dtype)
        self.curve_a = nothing if a.curve is None else a.curve
        self.curve_b = nothing if b.curve is None else b.curve

    def support(self, direction: Float[Array, "m 3"]) -> tuple[_Support, Float[Array, "m 3"]]:
        """Returns the pair of points with the smallest separation along each direction, and b - a."""
        against = -turned_back(direction, self.at.rotation)
        zero = jnp.zeros_like(direction)
        label_a, label_b = self.a.corner(direction), self.b.corner(against)
        round_a = zero if self.a.curve is None else unit(self.curve_a[None] * direction, zero)
        round_b = zero if self.b.curve is None else unit(self.curve_b[None] * against, zero)
        support = _Support(label_a, round_a, label_b, round_b)
        first, second = self.points(support, True, True)
        return support, second - first

    def points(self, support: _Support, with_a, with_b) -> tuple[Float[Array, "m 3"], Float[Array, "m 3"]]:
        """Returns the points of pairs, with or without their curved parts."""
        first, second = self.a.place(support.label_a), self.b.place(support.label_b)
        if self.a.curve is not None:
            first = first + jnp.where(with_a, self.curve_a, 0)[None] * support.round_a
        if self.b.curve is not None:
            second = second + jnp.where(with_b, self.curve_b, 0)[None] * support.round_b
        return first, turned(second, self.at.rotation) + self.at.position[None]

    def flats(self) -> Float[Array, "k 3"]:
        """Returns normals of the flat sides of the Minkowski difference b - a.

        These are normals of both bodies, and cross products of edges if there are at most `EDGE_PAIRS` pairs.
        """
        found = [self.a.normals, -turned(self.b.normals, self.at.rotation)]
        if 0 < len(self.a.edges) * len(self.b.edges) <= EDGE_PAIRS:
            across = cross(self.a.edges[:, None], turned(self.b.edges, self.at.rotation)[None]).reshape(-1, 3)
            across = unit(across, jnp.broadcast_to(self.a.edges[0], across.shape))
            found += [across, -across]
        return jnp.concatenate(found)

    def apart(self, direction: Float[Array, "m 3"]) -> Float[Array, "m"]:
        """Returns `s(n)`."""
        return dot(direction, self.support(direction)[1])


def _grid() -> tuple[np.ndarray, np.ndarray]:
    """Returns directions distributed over the sphere, and the indices of the nearest neighbors of each."""
    i = np.arange(DIRECTIONS) + 0.5
    z, angle = 1 - 2 * i / DIRECTIONS, np.pi * (1 + 5**0.5) * i
    r = np.sqrt(1 - z**2)
    directions = np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=1)
    return directions, np.argsort(-(directions @ directions.T), axis=1)[:, 1 : NEIGHBOURS + 1]


GRID, NEXT = _grid()


def _search(pair: _Pair) -> tuple[_Support, Float[Array, "m 3"]]:
    """Returns candidates, each with three pairs of points and a normal. One has the features of the solution."""
    dtype = pair.at.position.dtype
    grid = jnp.asarray(GRID, dtype)
    apart = pair.apart(grid)
    peak = jnp.all(apart[:, None] >= apart[NEXT], axis=1)
    starts = [grid[_largest(jnp.where(peak, apart, -jnp.inf), PEAKS)]]
    flats = pair.flats()
    if len(flats):
        starts.append(flats[_largest(pair.apart(flats), min(FLATS, len(flats)))])
    toward = unit(pair.at.position, grid[0])[None]
    starts = jnp.concatenate([toward, *starts])
    beyond = 0.05 * jnp.max(jnp.abs(apart))

    # The first search uses the original bodies, the others use copies that are moved apart.
    copies = jnp.asarray(np.arange(len(starts)) > 0, dtype)

    def closer(_, state):
        directions, _ = state
        moved = (copies * (beyond - pair.apart(directions)))[:, None] * directions
        simplex = _nearest(pair, directions, moved)
        return unit(simplex.nearest, directions), simplex

    directions, simplex = lax.fori_loop(0, ROUNDS, closer, (starts, _corner(pair, starts)))
    return simplex.support, directions


def _largest(values: Float[Array, "n"], count: int) -> Int[Array, "count"]:
    """Returns the indices of the `count` largest values. For few values this takes less time than `top_k`, which sorts all."""
    chosen = []
    for _ in range(count):
        chosen.append(jnp.argmax(values))
        values = jnp.where(jnp.arange(len(values)) == chosen[-1], -jnp.inf, values)
    return jnp.stack(chosen)


def _corner(
    pair: _Pair, directions: Float[Array, "m 3"], moved: Float[Array, "m 3"] | float = 0.0
) -> _Simplex:
    """Returns a simplex of three equal pairs of points."""
    support, difference = pair.support(directions)
    nearest = difference + moved
    thrice = lambda x: jnp.repeat(x[:, None], 3, axis=1)
    return _Simplex(jax.tree.map(thrice, support), thrice(nearest), nearest)


def _nearest(pair: _Pair, directions: Float[Array, "m 3"], moved: Float[Array, "m 3"]) -> _Simplex:
    """Returns the simplices nearest to the origin, by GJK searches from several directions at once.

    Args:
      pair: Both bodies.
      directions: The initial direction of each search.
      moved: A displacement of the second body in each search.
    """
    tolerance = max(30 * float(jnp.finfo(directions.dtype).eps), TOLERANCE)
    start = _corner(pair, directions, moved)

    def going_on(carry):
        _, done, steps = carry
        return ~jnp.all(done) & (steps < STEPS)

    def advance(carry):
        simplex, done, steps = carry
        near = simplex.nearest
        square = dot(near, near)
        support, difference = pair.support(unit(near, directions))
        difference = difference + moved
        arrived = square - dot(near, difference) <= tolerance * square
        four = jnp.concatenate([simplex.difference, difference[:, None]], axis=1)
        chosen, new, inside = _nearest_of_four(four)
        stuck = dot(new, new) >= square
        done = done | arrived | stuck | inside
        pick = lambda old, one: matmul(chosen, jnp.concatenate([old, one[:, None]], axis=1))
        after = _Simplex(
            jax.tree.map(pick, simplex.support, support), pick(simplex.difference, difference), new
        )
        kept = lambda old, new: jnp.where(done.reshape(-1, *[1] * (old.ndim - 1)), old, new)
        return jax.tree.map(kept, simplex, after), done, steps + 1

    done = jnp.zeros(len(directions), bool)
    return lax.while_loop(going_on, advance, (start, done, jnp.int32(0)))[0]


#: Candidate selections among the three old points and the new point (index 3).
_KEPT = np.array([[3, 3, 3], [3, 0, 0], [3, 1, 1], [3, 2, 2], [3, 0, 1], [3, 1, 2], [3, 2, 0]])
_PICKED = np.eye(4)[_KEPT]


def _nearest_of_four(
    four: Float[Array, "m 4 3"],
) -> tuple[Float[Array, "m 3 4"], Float[Array, "m 3"], Bool[Array, "m"]]:
    """Returns the point nearest to the origin in the hull of four points. The last point is always part of its simplex.

    Returns:
      A matrix that selects three points whose hull contains the nearest point; the nearest point; and whether the origin is
      inside the tetrahedron.
    """
    new = four[:, 3]
    edges = four[:, :3] - new[:, None]
    onto = jnp.roll(edges, -1, axis=1)
    minus = -new[:, None]
    # Nearest points on lines from the new point to an old one.
    square = dot(edges, edges)
    share = dot(minus, edges) / jnp.where(square > 0, square, 1)
    on_line = new[:, None] + share[..., None] * edges
    line_holds = (square > 0) & (share > 0) & (share < 1)
    # Nearest points on triangles of the new point and two old ones.
    normal = cross(edges, onto)
    area = dot(normal, normal)
    eps = jnp.finfo(four.dtype).eps
    flat = area > (64 * eps) ** 2 * square * dot(onto, onto)
    scale = 1 / jnp.where(flat, area, 1)
    first, second = dot(normal, cross(minus, onto)) * scale, dot(normal, cross(edges, minus)) * scale
    on_triangle = normal * (dot(normal, new[:, None]) * scale)[..., None]
    triangle_holds = flat & (first > 0) & (second > 0) & (first + second < 1)
    # Barycentric coordinates in the tetrahedron: each is a determinant over that of the three edges.
    volume = dot(edges[:, 0], normal[:, 1])
    solid = volume**2 > (64 * eps) ** 2 * jnp.prod(square, axis=1)
    shares = dot(minus, jnp.roll(normal, -1, axis=1)) / jnp.where(solid, volume, 1)[:, None]
    inside = solid & jnp.all(shares >= 0, axis=1) & (jnp.sum(shares, axis=1) <= 1)

    points = jnp.concatenate([new[:, None], on_line, on_triangle], axis=1)
    holds = jnp.concatenate([jnp.ones_like(volume, bool)[:, None], line_holds, triangle_holds], axis=1)
    size = jnp.where(holds, dot(points, points), jnp.inf)
    best = jax.nn.one_hot(jnp.argmin(size, axis=1), 7, dtype=four.dtype)
    picked = jnp.asarray(_PICKED.reshape(7, 12), four.dtype)
    chosen = matmul(best, picked).reshape(-1, 3, 4)
    return chosen, jnp.sum(best[..., None] * points, axis=1), inside


class _Choice(NamedTuple):
    """A feature hypothesis: which of three pairs of points define it, and which discs contribute a flat side."""

    first: Float[Array, "*c 3"]
    second: Float[Array, "*c 3"]
    third: Float[Array, "*c 3"]
    flat_a: Bool[Array, "*c"]
    flat_b: Bool[Array, "*c"]


def _choices(disc_a: bool, disc_b: bool, dtype) -> _Choice:
    """Returns all hypotheses: three, two or one of the points; flat sides only with all three."""
    flats = [(a, b) for a in (False, True)[: 1 + disc_a] for b in (False, True)[: 1 + disc_b]]
    rows = [(0, 1, 2, *flat) for flat in flats[::-1]]
    rows += [(i, j, j, False, False) for i, j in ((0, 1), (1, 2), (2, 0))]
    rows += [(i, i, i, False, False) for i in range(3)]
    table = np.array(rows, int)
    eye = np.eye(3)
    first, second, third = (jnp.asarray(eye[table[:, i]], dtype) for i in range(3))
    return _Choice(first, second, third, jnp.asarray(table[:, 3] > 0), jnp.asarray(table[:, 4] > 0))


class _Feature(NamedTuple):
    """A corner, line or plane of the Minkowski difference b - a, with its curved parts and the points of the first body."""

    corner: Float[Array, "3"]
    sides: Float[Array, "2 3"]
    is_line: Bool[Array, ""]
    is_plane: Bool[Array, ""]
    curve_a: Float[Array, "3"]
    curve_b: Float[Array, "3"]
    point: Float[Array, "3"]
    point_sides: Float[Array, "2 3"]


def _feature(pair: _Pair, support: _Support, choice: _Choice) -> _Feature:
    a, b = pair.points(support, choice.flat_a, choice.flat_b)
    rows = jnp.stack([choice.first, choice.second, choice.third])
    a, b = matmul(rows, a), matmul(rows, b)
    difference = b - a
    sides, own = difference[1:] - difference[:1], a[1:] - a[:1]
    size = lax.stop_gradient(jnp.sqrt(dot(sides, sides)))
    reach = lax.stop_gradient(jnp.max(jnp.abs(jnp.concatenate([a, b - pair.at.position[None]]))))
    tiny = 30 * jnp.finfo(size.dtype).eps * reach
    # The longer side first.
    turned = size[1] > size[0]
    sides, own = jnp.where(turned, sides[::-1], sides), jnp.where(turned, own[::-1], own)
    is_line = jnp.max(size) > tiny
    area = lax.stop_gradient(cross(sides[0], sides[1]))
    longest = jnp.max(size)
    is_plane = is_line & (jnp.sqrt(dot(area, area)) > tiny * longest)
    curve_a = jnp.where(choice.flat_a, 0, pair.curve_a)
    curve_b = jnp.where(choice.flat_b, 0, pair.curve_b)
    return _Feature(difference[0], sides, is_line, is_plane, curve_a, curve_b, a[0], own)


def _bulge(curve: Float[Array, "3"], n: Float[Array, "3"]) -> tuple[Float[Array, "3"], Float[Array, "3 3"]]:
    """Returns the support point of a flattened ball along n, and its derivative by n."""
    size = length(curve * n)
    there = size > 0
    scale = jnp.where(there, 1 / jnp.where(there, size, 1), 0)
    point = curve**2 * n * scale
    return point, scale * (jnp.diag(curve**2) - point[:, None] * point[None, :])


def _curved(pair: _Pair, feature: _Feature, n: Float[Array, "3"]):
    """Returns the sum of both curved parts along n, its derivative by n, and the curved part of the first body alone."""
    a, turning_a = _bulge(feature.curve_a, n)
    b, turning_b = _bulge(feature.curve_b, vecmat(n, pair.at.rotation))
    turned = matmul(matmul(pair.at.rotation, turning_b), transpose(pair.at.rotation))
    return a + matvec(pair.at.rotation, b), turning_a + turned, a


def _improved(pair: _Pair, feature: _Feature, n: Float[Array, "3"]) -> Float[Array, "3"]:
    """Returns the normal after one Newton iteration for `b - a = d n`, where a and b move on curved parts with n.

    A plane determines n, a line leaves one angle free, and a corner two.
    """
    first, second = feature.sides[0], feature.sides[1]
    along = unit(first, n)
    in_line = unit(n - along * dot(along, n), n)
    across = cross(first, second)
    upright = unit(jnp.where(dot(lax.stop_gradient(across), n) < 0, -across, across), n)
    n = jnp.where(feature.is_plane, upright, jnp.where(feature.is_line, in_line, n))
    free = tangents(n)
    basis = jnp.where(feature.is_line, jnp.stack([along, cross(n, along)]), free)
    bulge, turning, _ = _curved(pair, feature, n)
    between = feature.corner - bulge
    residual = matvec(basis, between)
    stiffness = matmul(matmul(basis, turning), transpose(basis))
    distance = dot(n, between)
    p, q = stiffness[0, 0] + distance, stiffness[1, 1] + distance
    o, first_residual = stiffness[0, 1], residual[0]
    one, zero = jnp.ones_like(p), jnp.zeros_like(p)
    p, o, first_residual = (
        jnp.where(feature.is_line, fixed, value)
        for fixed, value in ((one, p), (zero, o), (zero, first_residual))
    )
    determinant = p * q - o * o
    reach = jnp.max(jnp.abs(feature.corner)) + jnp.max(jnp.abs(bulge))
    size = jnp.where(feature.is_line, reach, reach**2)
    regular = ~feature.is_plane & (jnp.abs(determinant) > 10 * jnp.finfo(n.dtype).eps * size)
    scale = jnp.where(regular, 1 / jnp.where(regular, determinant, 1), 0)
    step = scale * jnp.stack([q * first_residual - o * residual[1], p * residual[1] - o * first_residual])
    shortened = lax.stop_gradient(jnp.maximum(jnp.max(jnp.abs(step)), 1))
    return unit(n + vecmat(step / shortened, basis), n)


def _polished(pair: _Pair, support: _Support, normal: Float[Array, "3"]) -> tuple[_Choice, Array, Array]:
    """Returns the hypothesis with the largest separation, its normal, and its score."""
    dtype = normal.dtype
    choices = _choices(pair.a.is_disc, pair.b.is_disc, dtype)
    features = jax.vmap(lambda choice: _feature(pair, support, choice))(choices)
    step = jax.vmap(lambda feature, n: _improved(pair, feature, n))
    count = len(choices.flat_a)
    start = jnp.broadcast_to(normal, (count, 3))
    normals = lax.fori_loop(0, NEWTON_STEPS, lambda _, n: step(features, n), start)
    own = jax.vmap(lambda feature, n: dot(n, feature.corner - _curved(pair, feature, n)[0]))(
        features, normals
    )
    apart = pair.apart(normals)
    # A feature is no solution if the bodies have another support feature along its normal.
    missed = jnp.abs(own - apart)
    eps = jnp.finfo(dtype).eps
    reach = jnp.max(jnp.abs(features.corner))
    preferred = jnp.asarray(4.0 * np.arange(count)[::-1], dtype) * eps * reach
    score = apart - 10 * missed + preferred
    # The flat side of a disc is valid only for normals along its axis.
    across_a = length(pair.curve_a[None] * normals)
    across_b = length(pair.curve_b[None] * turned_back(normals, pair.at.rotation))
    tilted = (choices.flat_a & (across_a > 1e-5 * reach)) | (choices.flat_b & (across_b > 1e-5 * reach))
    score = jnp.where(jnp.isfinite(score) & ~tilted, score, -jnp.inf)
    best = jnp.argmax(score)
    return jax.tree.map(lambda x: x[best], choices), normals[best], score[best]


def _solution(pair: _Pair, support: _Support, choice: _Choice, normal: Float[Array, "3"]) -> Separation:
    """Returns the solution on given features, from a converged normal."""
    feature = _feature(pair, support, choice)
    n = lax.fori_loop(0, 2, lambda _, n: _improved(pair, feature, n), normal)
    bulge, _, bulge_a = _curved(pair, feature, n)
    between = feature.corner - bulge
    distance = dot(n, between)
    # Coordinates of the points on the line or in the plane, at which the residual across n is zero.
    first, second = feature.sides[0], feature.sides[1]
    across = cross(first, second)
    both, one = feature.is_plane, feature.is_line & ~feature.is_plane
    # Computed from areas: with products of the sides, thin triangles would lose twice as many digits.
    areas = jnp.stack([dot(across, cross(second, between)), dot(across, cross(between, first))])
    on_plane = areas / jnp.where(both, dot(across, across), 1)
    along = -dot(first, between) / jnp.where(one, dot(first, first), 1)
    on_line = jnp.stack([along, jnp.zeros_like(along)])
    shares = jnp.where(both, on_plane, jnp.where(one, on_line, jnp.zeros_like(on_line)))
    a = feature.point + vecmat(shares, feature.point_sides) + bulge_a
    # If the second body has a single point, use it: the points that define the plane of the first may be close together.
    moving = lax.stop_gradient(jnp.max(jnp.abs(feature.sides + feature.point_sides)))
    fixed = feature.corner + feature.point - (bulge - bulge_a)
    size = lax.stop_gradient(jnp.max(jnp.abs(feature.corner)))
    b = jnp.where(moving <= 30 * jnp.finfo(n.dtype).eps * size, fixed, a + distance * n)
    a = b - distance * n
    a, b = a + pair.a.radius * n, b - pair.b.radius * n
    return Separation(distance - pair.a.radius - pair.b.radius, n, jnp.stack([a, b]))
