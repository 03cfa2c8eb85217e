"""Contacts in groups whose rows depend on the same unknowns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.array import cross, gather
from .._core.branches import only_if
from ..dynamics import Motion
from ..dynamics.columns import to_columns
from .contacts import Contacts, deepest, rows_at


class Groups(NamedTuple):
    """Groups with the same number of contacts and of axes.

    A group contains the contacts of one moving body with the world. All other contacts form one group of their own.

    - `contacts`: the contacts of all groups, group by group.
    - `places`: the index of each contact among all contacts; None if it depends on the configuration.
    - `size`: the number of axes along which each contact acts.
    - `ends`: the last column of each group's body; None for contacts that depend on the motion of the whole model.
    - `signs`: 1 if the group's body has the second shape of each pair, -1 if it has the first.
    """

    contacts: Contacts
    places: np.ndarray | None
    size: int
    ends: np.ndarray | None = None
    signs: np.ndarray = np.ones(1)

    def stacked(self, x: Float[Array, "n *k"]) -> Float[Array, "g c *k"]:
        """Returns a quantity of each contact, by groups."""
        return x.reshape(len(self.signs), -1, *x.shape[1:])

    def origins(self, motion: Motion) -> Float[Array, "g 3"]:
        """Returns the origins of the common frames of the bodies, in the world."""
        return gather(motion.common.origins, motion.model.topology.column_owner[self.ends])

    def unknowns(self, motion: Motion, v: Float[Array, "nv"]) -> Float[Array, "g k"]:
        """Returns the velocities of the bodies, or v itself."""
        if self.ends is None:
            return v[None]
        model = motion.model
        # The velocities in `motion` include those of prescribed joints, so they are not used here.
        moved = model.topology.tree.path_sum(motion.common.subspace * to_columns(model, v)[:, None])
        return gather(moved, self.ends)


def rows_of_body(
    position: Float[Array, "n 3"], frame: Float[Array, "n 3 3"], origin: Float[Array, "3"], sign, size: int
) -> Float[Array, "n d 6"]:
    """Returns the Jacobian from the velocity of a body, in the common frame, to velocities along the first contact axes."""
    arms, rows = position - origin[None], []
    for row in range(size):
        axis = sign * frame[:, :, row % 3]
        linear = [cross(arms, axis), axis]
        rows.append(jnp.concatenate(linear if row < 3 else [axis, jnp.zeros_like(axis)], axis=1))
    return jnp.stack(rows, axis=1)


def contact_groups(motion: Motion, found: Contacts, most: int | None) -> list[Groups]:
    """Returns all contacts in groups.

    Args:
      motion: The model in motion.
      found: Its contacts.
      most: The maximum number of contacts that act at once, of each number of axes. Contacts between two moving bodies are
        reduced to that many.
    """
    ends, signs = _ends(motion, found)
    sizes = np.array(found.condim, int)
    groups, of_bodies = [], {}
    for end, sign, size in sorted(set(zip(ends.tolist(), signs.tolist(), sizes.tolist()))):
        places = np.flatnonzero((ends == end) & (signs == sign) & (sizes == size))
        if end >= 0:
            of_bodies.setdefault((len(places), size), []).append((end, sign, places))
            continue
        own = rows_of(found, places)
        if most is None or len(places) <= most:
            groups.append(Groups(own, places, size))
        else:
            groups.append(Groups(_deepest_if_any(own, most), None, size))
    for (_, size), alike in of_bodies.items():
        own, own_signs, places = zip(*alike)
        places = np.concatenate(places)
        groups.append(Groups(rows_of(found, places), places, size, np.array(own), np.array(own_signs)))
    return groups


def _deepest_if_any(found: Contacts, most: int) -> Contacts:
    """Returns `deepest`, which is computed only if a contact acts."""
    acts = jnp.any(found.active)
    own = only_if(acts, lambda: deepest(found, most))
    return replace(own, distance=jnp.where(acts, own.distance, jnp.inf))


def _ends(motion: Motion, found: Contacts) -> tuple[np.ndarray, np.ndarray]:
    """Returns the last column of the body of each contact with the world, otherwise -1; and 1 if the body is the second."""
    count, topology = len(found.condim), motion.model.topology
    ends, signs = np.full(count, -1), np.ones(count, int)
    if found.of_pair is None or not count:
        return ends, signs
    bodies = found.bodies(motion.model)[np.array(found.of_pair)]
    carriers = np.where(bodies < 0, -1, topology.carriers[bodies])
    one = (carriers < 0).sum(axis=1) == 1
    ends[one] = topology.last_column[carriers.max(axis=1)[one]]
    signs[one & (carriers[:, 1] < 0)] = -1
    return ends, signs


def rows_of(found: Contacts, places: np.ndarray) -> Contacts:
    """Returns the contacts at the given indices."""
    arrays = replace(found, lost=None, of_pair=None, condim=())
    return replace(
        jax.tree.map(lambda leaf: rows_at(leaf, places), arrays),
        condim=tuple(found.condim[place] for place in places),
        of_pair=None if found.of_pair is None else tuple(found.of_pair[place] for place in places),
    )


def together(groups: Sequence[Groups], forces: Sequence[Array], found: Contacts) -> Contacts:
    """Returns the contacts of all groups with their forces, in the order in which they were found if that is known."""
    if not groups:
        return replace(found, force=jnp.zeros((0, 6), found.distance.dtype))
    arrays = []
    for group, force in zip(groups, forces):
        flat = force.reshape(-1, group.size)
        padded = jnp.pad(flat, ((0, 0), (0, 6 - group.size)))
        arrays.append(replace(group.contacts, force=padded, lost=None, condim=(), of_pair=None))
    joined = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *arrays)
    condim = sum((group.contacts.condim for group in groups), ())
    joined = replace(joined, condim=condim)
    places = [group.places for group in groups if group.places is not None]
    if len(places) < len(groups):
        return replace(joined, lost=found.lost)
    order = np.argsort(np.concatenate(places), kind="stable")
    return replace(rows_of(joined, order), lost=found.lost, of_pair=found.of_pair)
