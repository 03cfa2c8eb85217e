"""Where a model touches along a recording, and with what force."""

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
    """The contacts that act in some rows of a recording, those of a row one after the other.

    - `count`: how many there are in each row.
    - `point`: where, in the world (n, 3).
    - `force`: what the other shape does there to that of a body; where both are on bodies, the first to the second (n, 3).
    """

    count: np.ndarray
    point: np.ndarray
    force: np.ndarray


def has_pushes(model: Simulated, forces: Sequence[Acting] = ()) -> bool:
    """Whether contacts of a model act: under its law, or as forces between two shapes."""
    if not isinstance(model, Model):
        return False
    return contact_law(model) is not None or any(
        isinstance(force, Compliant) for force in (*model.forces, *forces)
    )


def pushes_of(recording: Recording, sample: int, rows: np.ndarray, forces: Sequence[Acting] = ()) -> Pushes:
    """The contacts of a sample in some of its rows.

    - `forces`: what the rollout was given beside what the model carries.
    """
    model = recording.tree
    found = recording.steps(sample, rows).contacts(model, forces)
    found = jax.tree.map(lambda x: np.asarray(x)[: len(rows)], found)
    acting, point, force = acting_in(model, found)
    return Pushes(acting.sum(axis=1), point[acting], force[acting])


def acting_in(model: Model, found: Contacts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which contacts act, where they are, and the forces as `Pushes` has them, with the axes of what was found."""
    distance, position, frame, push = (
        np.asarray(x, float) for x in (found.distance, found.position, found.frame, found.force)
    )
    force = np.einsum("...ij,...j->...i", frame, push[..., :3])
    # Which pair a contact is of is known row by row: a law may keep the deepest alone.
    on_world = found.bodies(model)[np.asarray(found.pair), 1] < 0
    force = np.where(on_world[..., None], -force, force)
    acting = distance < np.asarray(found.margin, float)
    acting |= (force != 0).any(axis=-1)
    acting &= np.isfinite(force).all(axis=-1) & np.isfinite(position).all(axis=-1)
    return acting, position, force
