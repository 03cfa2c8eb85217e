"""Contact points and forces along a recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from ..contact import Compliant
from ..contact.contacts import Contacts
from ..contact.law import contact_law
from ..model import Model
from ..simulate.systems import Simulated
from ..simulate.tree_system import Acting
from .recording import Recording


class Pushes(NamedTuple):
    """The active contacts in some rows of a recording, concatenated row by row.

    - `count`: the number of contacts in each row.
    - `point`: their points in the world (n, 3).
    - `force`: the forces on the shape of the body; between two bodies, the force of the first shape on the second (n, 3).
    """

    count: np.ndarray
    point: np.ndarray
    force: np.ndarray


def has_pushes(model: Simulated, forces: Sequence[Acting] = ()) -> bool:
    """Returns whether contacts of a model exert forces, by a contact model or as forces between two shapes."""
    if not isinstance(model, Model):
        return False
    return contact_law(model) is not None or any(
        isinstance(force, Compliant) for force in (*model.forces, *forces)
    )


def pushes_of(recording: Recording, sample: int, rows: np.ndarray, forces: Sequence[Acting] = ()) -> Pushes:
    """Returns the contacts of a sample in some of its rows.

    Args:
      recording: The recording.
      sample: The sample.
      rows: The rows.
      forces: The `forces` of the rollout.
    """
    model = recording.tree
    found = recording.steps(sample, rows).contacts(model, forces)
    found = jax.tree.map(lambda x: np.asarray(x)[: len(rows)], found)
    acting, point, force = acting_in(model, found)
    return Pushes(acting.sum(axis=1), point[acting], force[acting])


def acting_in(model: Model, found: Contacts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns a mask of active contacts, their positions, and their forces as in `Pushes`, with the shape of `found`."""
    distance, position, frame, push = (
        np.asarray(x, float) for x in (found.distance, found.position, found.frame, found.force)
    )
    force = np.einsum("...ij,...j->...i", frame, push[..., :3])
    # The pair of a contact may differ from row to row: a contact model may return only the deepest contacts.
    on_world = found.bodies(model)[np.asarray(found.pair), 1] < 0
    force = np.where(on_world[..., None], -force, force)
    acting = distance < np.asarray(found.margin, float)
    acting |= (force != 0).any(axis=-1)
    acting &= np.isfinite(force).all(axis=-1) & np.isfinite(position).all(axis=-1)
    return acting, position, force
