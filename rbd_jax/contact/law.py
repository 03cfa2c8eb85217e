"""What a law of contact is: how the bodies of a model that touch push each other."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int

from .._errors import ModelError
from ..dynamics import Motion
from ..model import Model
from ..spatial import Attached, no_frames
from .contacts import Contacts


class Reaction(NamedTuple):
    """What a law of contact does to a model in motion.

    - `force`: as a generalized force, with all that the law takes care of: contacts, stops, dry friction.
    - `contacts`: where shapes touch, and `pushes`, what the first does there to the second: `[f; n]` in its frame.
    - `acceleration`: of the degrees of freedom, by which the next search for it may begin.
    - `steps`, `converged`: how long the search took, and whether it found it.
    """

    force: Float[Array, "nv"]
    contacts: Contacts
    pushes: Float[Array, "n 6"]
    acceleration: Float[Array, "nv"]
    steps: Int[Array, ""]
    converged: Bool[Array, ""]


class ContactLaw(Attached):
    """How bodies that touch push each other. A model has one law, and moves under it in every simulation.

    - `limits`, `friction`: whether it also takes care of the stops of joints, and of their dry friction.
    """

    role = "contact law"
    name = "contact"
    bodies = ()
    joints = ()

    limits: eqx.AbstractVar[bool]
    friction: eqx.AbstractVar[bool]

    @property
    def frames(self):
        return no_frames()

    def attached(self, bodies, frames, joints):
        return self

    def called(self, name, refers):
        if name != self.name:
            raise ModelError(f"a model has one contact law, and it is called {self.name!r}, not {name!r}")
        return self

    def prepared(self, model: Model) -> Any:
        """What does not depend on the motion, to be worked out once for a simulation; a PyTree."""
        return None

    @abc.abstractmethod
    def reaction(
        self,
        motion: Motion,
        free: Float[Array, "nv"],
        prepared: Any,
        step: Float[Array, ""] | None = None,
        guess: Float[Array, "nv"] | None = None,
    ) -> Reaction:
        """What it does.

        - `free`: the acceleration that all else produces.
        - `step`: the time step that is being made, if one is.
        - `guess`: an acceleration to begin the search with.
        """


def contact_law(model: Model) -> ContactLaw | None:
    """The law of contact of a model, None where it has none."""
    found = model.attached_as("contact law")
    return found[0] if found else None
