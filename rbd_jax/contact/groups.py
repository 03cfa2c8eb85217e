"""Contacts in groups whose rows depend on the same unknowns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.array import gather
from ..dynamics import Motion
from ..dynamics.columns import to_columns
from .contacts import Contacts, contact_jacobian, deepest
from .on_bodies import contact_rows


class Group(NamedTuple):
    """Contacts that act along the same number of axes: of one body with the world, or any others.

    - `places`: the numbers of the contacts among all; None if they depend on the configuration.
    - `size`: the number of axes.
    - `end`: the last column of the body, `sign` 1 if it has the second shapes, otherwise -1. None if the contacts depend on the
      motion of the whole model.
    """

    contacts: Contacts
    places: np.ndarray | None
    size: int
    end: int | None = None
    sign: int = 1

    def rows(self, motion: Motion) -> Float[Array, "n d k"]:
        """Returns the velocities of the contacts by that of the body, or by those of the model."""
        if self.end is None:
            return contact_jacobian(motion, self.contacts, self.size)
        owner = motion.model.topology.column_owner[self.end]
        return contact_rows(self.contacts, motion.common.origins[owner], self.sign)

    def unknown(self, motion: Motion, v: Float[Array, "nv"]) -> Float[Array, "k"]:
        """Returns the velocity of the body, or v itself."""
        if self.end is None:
            return v
        model = motion.model
        # Not that of `motion`, which has the velocities of prescribed joints in it.
        return model.topology.tree.path_sum(motion.common.subspace * to_columns(model, v)[:, None])[self.end]


def contact_groups(motion: Motion, found: Contacts, most: int | None) -> list[Group]:
    """Returns the groups of all contacts.

    Args:
      motion: The model in motion.
      found: Its contacts.
      most: The maximum number of contacts that act at once, of each number of axes. Contacts between two moving bodies are
        reduced to that many.
    """
    ends, signs = _ends(motion, found)
    sizes = np.array(found.condim, int)
    groups = []
    for end, sign, size in sorted(set(zip(ends.tolist(), signs.tolist(), sizes.tolist()))):
        places = np.flatnonzero((ends == end) & (signs == sign) & (sizes == size))
        own = rows_of(found, places)
        if end >= 0:
            groups.append(Group(own, places, size, end, sign))
        elif most is not None and most < len(places):
            groups.append(Group(deepest(own, most), None, size))
        else:
            groups.append(Group(own, places, size))
    return groups


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
    """Returns some of the contacts, by their numbers."""
    arrays = replace(found, lost=None, of_pair=None, condim=())
    return replace(
        jax.tree.map(
            lambda leaf: gather(leaf, places) if jnp.issubdtype(leaf, jnp.floating) else leaf[places], arrays
        ),
        condim=tuple(found.condim[place] for place in places),
        of_pair=None if found.of_pair is None else tuple(found.of_pair[place] for place in places),
    )


def together(groups: Sequence[Group], forces: Sequence[Float[Array, "n d"]], found: Contacts) -> Contacts:
    """Returns the contacts of all groups with their forces, in the order in which they were found if that is known."""
    if not groups:
        return replace(found, force=jnp.zeros((0, 6), found.distance.dtype))
    padded = [
        jnp.pad(force.reshape(len(force), -1), ((0, 0), (0, 6 - group.size)))
        for group, force in zip(groups, forces)
    ]
    arrays = [
        replace(group.contacts, force=force, lost=None, condim=(), of_pair=None)
        for group, force in zip(groups, padded)
    ]
    joined = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *arrays)
    condim = sum((group.contacts.condim for group in groups), ())
    joined = replace(joined, lost=found.lost, condim=condim)
    if any(group.places is None for group in groups):
        return joined
    order = np.argsort(np.concatenate([group.places for group in groups]), kind="stable")
    return replace(rows_of(joined, order), lost=found.lost, of_pair=found.of_pair)
