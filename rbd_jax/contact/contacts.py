"""Contacts of a model in a configuration: contact points, contact Jacobians and contact wrenches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Shaped

from .._core.arguments import configuration, takes
from .._core.array import cross, dot, gather, matmul, matvec, transpose, with_precision
from .._core.branches import only_if
from ..dynamics import Motion
from ..dynamics.columns import from_columns
from ..dynamics.sites import fixed_frames
from ..model import Model
from ..shapes import Plane
from ..shapes.geometry import Geometry
from ..shapes.shape import Shape
from .each import each
from .geometry.bounds import bounding_sphere
from .geometry.pairs import contact_points
from .pairs import Numbers, Touching, numbers, touching


class Contacts(eqx.Module):
    """The contact points of a model, one row per possible contact. Rows without a contact have an infinite distance.

    - `distance`: the distance, negative where the shapes overlap.
    - `position`: the point midway between both surfaces, in the world.
    - `frame`: the contact frame in the world. Its columns are the normal, from the first shape into the second, and two
      tangents.
    - `margin`: the distance below which a contact acts.
    - `friction`: the coefficients of sliding along both tangents, spinning, and rolling about both tangents.
    - `solref`, `solimp`: MuJoCo's stiffness and damping parameters.
    - `pair`: the index of each contact's pair of shapes in `shapes`.
    - `shapes`: the names of the shapes of each pair.
    - `condim`: the number of directions in which each contact acts.
    - `force`: the wrench of the first shape on the second, `[f; n]` in the contact frame; None if it was not computed.
    - `lost`: the number of active contacts beyond the bound on their number; None without a bound.
    - `of_pair`: `pair` as a tuple if it is the same in all configurations; otherwise None.

    >>> robot = rbd.load("quadruped")
    >>> touching = rbd.contacts(robot, rbd.neutral(robot))
    >>> print(touching.shapes[:2], touching.distance.shape, touching.normal[0])
    (('trunk', 'floor'), ('FL_hip', 'floor')) (56,) [ 0.  0. -1.]
    """

    distance: Float[Array, "*batch n"]
    position: Float[Array, "*batch n 3"]
    frame: Float[Array, "*batch n 3 3"]
    margin: Float[Array, "*batch n"]
    friction: Float[Array, "*batch n 5"]
    solref: Float[Array, "*batch n 2"]
    solimp: Float[Array, "*batch n 5"]
    pair: Int[Array, "*batch n"]
    shapes: tuple[tuple[str, str], ...] = eqx.field(static=True)
    condim: tuple[int, ...] = eqx.field(static=True)
    force: Float[Array, "*batch n 6"] | None = None
    lost: Int[Array, "*batch"] | None = None
    of_pair: tuple[int, ...] | None = eqx.field(static=True, default=None)

    @property
    def normal(self) -> Float[Array, "*batch n 3"]:
        """The unit normal of each contact, from the first shape into the second."""
        return self.frame[..., 0]

    def bodies(self, model: Model) -> np.ndarray:
        """Returns the body indices of each pair of shapes, -1 for the world: (pairs, 2)."""
        index = {name: body for body, name in enumerate(model.body_names)} | {"world": -1}
        shapes: tuple[Shape, ...] = model.shapes  # pyright: ignore[reportAssignmentType]
        bodies = {shape.name: index[shape.body] for shape in shapes}
        return np.array([[bodies[name] for name in pair] for pair in self.shapes], int).reshape(-1, 2)

    @property
    def active(self) -> Bool[Array, "*batch n"]:
        """Which contacts act: those whose distance is below the margin."""
        return self.distance < self.margin


@takes(q=configuration)
def contacts(model: Model, q: Float[Array, "nq"]) -> Contacts:
    """Returns the contact points between the shapes of a model; see `Contacts`.

    >>> ball = rbd.Shape("ball", "bob", rbd.shapes.Sphere(0.1), (0, 0, -1))
    >>> floor = rbd.Shape("floor", "world", rbd.shapes.Plane(), (0, 0, -1.05))
    >>> pendulum = rbd.attach(rbd.detach(rbd.load("pendulum"), "shape"), ball, floor)
    >>> found = rbd.contacts(pendulum, jnp.array([0.0]))
    >>> print(found.distance, found.shapes)
    [-0.05] (('ball', 'floor'),)
    """
    return contacts_of(Motion(model, q))


def contacts_of(motion: Motion, most: int | None = None, pairs: int | None = None) -> Contacts:
    """Returns the `contacts` of a model in motion.

    Args:
      motion: The model in motion.
      most: The maximum number of active contacts for each `condim`. All but the deepest get an infinite distance.
      pairs: The maximum number of pairs of shapes for each pair of geometry types. Pairs with the nearest bounding spheres are
        selected.
    """
    if (known := motion.known(f"{most} contacts of {pairs} pairs")) is not None:
        return known
    found = _found(motion, pairs)
    return found if most is None else _bounded_to(found, most)


def with_contacts(motion: Motion, most: int | None = None, pairs: int | None = None) -> Motion:
    """Returns the motion with its contacts stored; `contacts_of` with the same bounds returns them."""
    return motion.knowing(
        f"{most} contacts of {pairs} pairs", lambda motion: contacts_of(motion, most, pairs)
    )


def _bounded_to(found: Contacts, most: int) -> Contacts:
    """Returns the contacts with infinite distances for all but the `most` deepest active ones for each `condim`.

    `lost` counts the discarded contacts.
    """
    lost = jnp.zeros((), int) if found.lost is None else found.lost
    kept = np.ones(len(found.condim), bool)
    for size in sorted(set(found.condim)):
        own = np.array(found.condim) == size
        if own.sum() <= most:
            continue
        acts = found.active & own
        beyond = jnp.maximum(jnp.sum(acts) - most, 0)
        over = jnp.where(acts, found.distance - found.margin, jnp.inf)
        few = lax.cond(beyond > 0, lambda over: _among_least(over, most), jnp.isfinite, over)
        kept, lost = kept & jnp.where(own, few | ~acts, True), lost + beyond
    return replace(found, distance=jnp.where(kept, found.distance, jnp.inf), lost=lost)


def deepest(found: Contacts, most: int) -> Contacts:
    """Returns at most `most` contacts for each `condim`: active ones in order of depth, then others."""
    order, there = [], []
    for size in sorted(set(found.condim)):
        own = np.flatnonzero(np.array(found.condim) == size)
        if len(own) <= most:
            order.append(jnp.asarray(own))
            there.append(jnp.ones(len(own), bool))
            continue
        over = jnp.where(found.active, found.distance - found.margin, jnp.inf)
        chosen, count = _least(gather(over, own), most)
        order.append(jnp.asarray(own)[chosen])
        there.append(np.arange(most) < count)
    if not order:
        return found
    rows, there = jnp.concatenate(order), jnp.concatenate(there)
    whole = replace(found, lost=None, condim=(), of_pair=None)
    # A kernel selects each entry of a row among all rows, so it skips rows that no sample needs.
    row = lambda own: only_if(own[1], lambda: jax.tree.map(lambda leaf: leaf[own[0]], whole))
    kept = each(row, (rows, there))
    condim = tuple(size for size, part in zip(sorted(set(found.condim)), order) for _ in range(len(part)))
    return replace(
        kept, distance=jnp.where(there, kept.distance, jnp.inf), condim=condim, lost=found.lost, of_pair=None
    )


def _among_least(values: Float[Array, "n"], most: int) -> Bool[Array, "n"]:
    """Returns which values are among the `most` smallest."""
    chosen, count = _least(values, most)
    is_chosen = chosen[None] == np.arange(len(values))[:, None]
    return jnp.any(is_chosen & (np.arange(most) < count)[None], axis=1)


def _least(values: Float[Array, "n"], most: int) -> tuple[Int[Array, "most"], Int[Array, ""]]:
    """Returns the indices of the smallest finite values in ascending order, and their number.

    The number of iterations equals the number of values found. There is no sort, so that kernels can contain this function.
    """

    def pick(k, at):
        left, chosen = at
        least = jnp.argmin(left)
        return left.at[least].set(jnp.inf), chosen.at[k].set(least)

    values = lax.stop_gradient(values)
    count = jnp.minimum(jnp.sum(jnp.isfinite(values)), most)
    start = values, jnp.zeros(most, int)
    return lax.fori_loop(0, count, pick, start)[1], count


def _found(motion: Motion, most: int | None) -> Contacts:
    model, dtype = motion.model, motion.q.dtype
    shapes: tuple[Shape, ...] = model.shapes  # pyright: ignore[reportAssignmentType]
    pairs = touching(model)
    if not pairs:
        return _none(dtype)
    placed = fixed_frames(motion, shapes)
    found, rows, dims, lost = [], [], [], jnp.zeros((), int)
    margins = numbers(model, pairs, dtype).margin
    for own, first, second in of_one_kind(shapes, pairs):
        members = own
        ends = [
            placed.frames.gather(np.array([(pairs[k].first, pairs[k].second)[end] for k in members]))
            for end in (0, 1)
        ]
        first, second = with_precision((first, second), dtype)
        if most is not None and most < len(members) and _bounded(shapes, pairs[members[0]]):
            near, more = _nearest(first, ends[0], second, ends[1], gather(margins, members), most)
            first, second, ends, members = jax.tree.map(
                lambda leaf, near=near: leaf[near], (first, second, ends, jnp.asarray(members))
            )
            lost = lost + more
        points = jax.vmap(contact_points)(first, ends[0], second, ends[1])
        count = points.distance.shape[1]
        found.append(jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), points))
        rows.append(members.repeat(count))
        dims += [pairs[own[0]].condim] * len(rows[-1])
    points = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *found)
    if all(isinstance(own, np.ndarray) for own in rows):
        pair = np.concatenate(rows)
        of_each = Numbers(*(gather(value, pair) for value in numbers(model, pairs, dtype)))
    else:
        pair = jnp.concatenate(rows)
        of_each = jax.tree.map(lambda value: value[pair], numbers(model, pairs, dtype))
    return Contacts(
        points.distance,
        points.position + placed.origin[None],
        points.frame,
        of_each.margin,
        of_each.friction,
        of_each.solref,
        of_each.solimp,
        jnp.asarray(pair),
        tuple((shapes[pair.first].name, shapes[pair.second].name) for pair in pairs),
        tuple(dims),
        lost=None if most is None else lost,
        of_pair=tuple(pair.tolist()) if isinstance(pair, np.ndarray) else None,
    )


def _bounded(shapes: Sequence[Shape], pair: Touching) -> bool:
    """Returns True if both shapes have finite bounding spheres."""
    return not any(isinstance(shapes[end].geometry, Plane) for end in (pair.first, pair.second))


def _nearest(first, at_first, second, at_second, margins, most: int):
    """Returns the pairs of geometries with the nearest bounding spheres, and the number of other pairs that might touch."""

    def sphere(geometry, frame):
        middle, radius = bounding_sphere(geometry)
        return frame.point(middle), radius

    (a, r), (b, s) = (jax.vmap(sphere)(*end) for end in ((first, at_first), (second, at_second)))
    apart = jnp.sqrt(jnp.sum((b - a) ** 2, axis=1)) - r - s - margins
    near, _ = _least(apart, most)
    return near, jnp.sum(apart < 0) - jnp.sum(apart[near] < 0)


def _none(dtype) -> Contacts:
    zeros = lambda *shape: jnp.zeros(shape, dtype)
    return Contacts(
        zeros(0),
        zeros(0, 3),
        zeros(0, 3, 3),
        zeros(0),
        zeros(0, 5),
        zeros(0, 2),
        zeros(0, 5),
        jnp.zeros(0, int),
        (),
        (),
    )


def of_one_kind(
    shapes: Sequence[Shape], pairs: Sequence[Touching]
) -> list[tuple[np.ndarray, Geometry, Geometry]]:
    """Returns the pairs grouped by geometry types and `condim`: their indices, and both geometries stacked."""
    kinds: dict[object, list[int]] = {}
    for index, pair in enumerate(pairs):
        key = (pair.condim, *(_kind(shapes[end].geometry) for end in (pair.first, pair.second)))
        kinds.setdefault(key, []).append(index)

    def stacked(members: list[int], end: int) -> Geometry:
        geometries = [shapes[(pairs[k].first, pairs[k].second)[end]].geometry for k in members]
        return jax.tree.map(lambda *x: jnp.stack(x), *geometries)

    return [(np.array(own), stacked(own, 0), stacked(own, 1)) for own in kinds.values()]


def _kind(geometry: Geometry) -> object:
    leaves, structure = jax.tree.flatten(geometry)
    return structure, tuple(np.shape(leaf) for leaf in leaves)


def without_pairs(found: Contacts, pairs: set[frozenset[str]]) -> Contacts:
    """Returns the contacts with infinite distances for some pairs of shapes."""
    if not found.shapes:
        return found
    gone = of_pairs(found, jnp.array([frozenset(pair) in pairs for pair in found.shapes]))
    return replace(found, distance=jnp.where(gone, jnp.inf, found.distance))


def joined(first: Contacts, *others: Contacts) -> Contacts:
    """Returns all contacts concatenated, in the precision of the first."""
    for other in others:
        count = len(first.shapes)
        moved = replace(other, pair=other.pair + count, lost=None, shapes=(), condim=(), of_pair=None)
        own = replace(first, lost=None, shapes=(), condim=(), of_pair=None)
        leaves = jax.tree.map(lambda a, b: jnp.concatenate([a, b.astype(a.dtype)]), own, moved)
        condim, shapes = first.condim + other.condim, first.shapes + other.shapes
        first = replace(leaves, lost=first.lost, condim=condim, shapes=shapes)
    return first


def contact_jacobian(motion: Motion, found: Contacts, size: int = 6) -> Float[Array, "n size nv"]:
    """Returns the Jacobian J of the contacts.

    `J v` is the velocity `[v; ω]` of the second body relative to the first, at the contact point and in the contact frame. The
    first row of each contact is the book's `tᵀ` (eq. 11.28) and Sueda's N (eq. 1.78).

    Args:
      motion: The model in motion.
      found: Its contacts.
      size: The number of rows per contact.
    """
    model = motion.model
    if not found.shapes:
        return jnp.zeros((0, size, model.nv), motion.q.dtype)
    # For each column: +1 if it moves only the second shape of a pair, -1 if it moves only the first.
    first, second = (columns_that_move(model, bodies) for bodies in found.bodies(model).T)
    moved = of_pairs(found, jnp.asarray(second - first, motion.q.dtype))
    return point_jacobians(motion, moved, found.position, found.frame, size)


def point_jacobians(
    motion: Motion,
    moved: Float[Array, "n columns"],
    points: Float[Array, "n 3"],
    frames: Float[Array, "n 3 3"],
    size: int = 6,
) -> Float[Array, "n size nv"]:
    """Returns the Jacobian of the velocities `[v; ω]` at points, along the columns of frames.

    Args:
      motion: The model in motion.
      moved: The weight of each column of the tree.
      points: The points, in the world.
      frames: A frame at each point.
      size: The number of rows per point.
    """
    model, common = motion.model, motion.common
    origins = gather(common.origins, model.topology.column_owner)
    arms = points[:, None] - origins[None]
    angular, linear = common.subspace[None, :, :3], common.subspace[None, :, 3:]
    linear = linear + cross(jnp.broadcast_to(angular, arms.shape), arms)
    motions = (linear, jnp.broadcast_to(angular, arms.shape))
    rows = [moved * dot(motions[row // 3], frames[:, None, :, row % 3]) for row in range(size)]
    columns = jnp.stack(rows, axis=-1)  # (n, columns, size)
    return jnp.transpose(from_columns(model, jnp.transpose(columns, (1, 0, 2))), (1, 2, 0))


def of_pairs(found: Contacts, values: Shaped[Array, "pairs *k"]) -> Shaped[Array, "n *k"]:
    """Returns a quantity of each pair of shapes, for each contact."""
    return values[found.pair] if found.of_pair is None else rows_at(values, np.array(found.of_pair, int))


def rows_at(x: Shaped[Array, "m *k"], places: np.ndarray) -> Shaped[Array, "n *k"]:
    """Returns the rows of an array of any type at constant indices."""
    return gather(x, places) if jnp.issubdtype(x.dtype, jnp.floating) else x[places]


def columns_that_move(model: Model, bodies: np.ndarray) -> np.ndarray:
    """Returns 1 where a column of the tree moves a body, else 0. Body -1 is the world."""
    topology = model.topology
    carriers = np.where(bodies < 0, -1, topology.carriers[bodies])
    columns = topology.last_column[carriers]
    return np.where((carriers >= 0)[:, None], topology.tree.supports[columns], False).astype(float)


def contact_wrenches(motion: Motion, found: Contacts, pushes: Float[Array, "n 6"]) -> Float[Array, "nb 6"]:
    """Returns the total contact wrench on each body, in the body frame.

    Args:
      motion: The model in motion.
      found: Its contacts.
      pushes: The wrench `[f; n]` on the second body of each contact, in the contact frame.
    """
    model, frames = motion.model, motion.world_frames
    force, moment = (matvec(found.frame, pushes[:, part]) for part in (slice(0, 3), slice(3, 6)))
    about_world = jnp.concatenate([moment + cross(found.position, force), force], axis=1)
    first, second = found.bodies(model).T[:, :, None] == np.arange(model.nb)
    share = of_pairs(found, jnp.asarray(second.astype(float) - first, pushes.dtype))
    return frames.inverse_force(matmul(transpose(share), about_world))
