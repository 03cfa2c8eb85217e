"""What a law of contact is: how the bodies of a model that touch push each other."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int

from .._core.array import times
from .._core.errors import ModelError
from ..constraints import Closure
from ..dynamics import Motion
from ..model import Model
from ..spatial import no_frames
from ..spatial.attached import Attached
from .contacts import Contacts, with_contacts


class Reaction(NamedTuple):
    """What a law of contact does to a model in motion.

    - `force`: as a generalized force, with all that the law takes care of: contacts, stops, dry friction.
    - `contacts`: where shapes touch, and `pushes`, what the first does there to the second: `[f; n]` in its frame.
    - `acceleration`: what it is under the law.
    - `steps`, `converged`: how long the search took, and whether it found it.

    >>> print(rbd.contact.Reaction._fields)
    ('force', 'contacts', 'pushes', 'acceleration', 'steps', 'converged')
    """

    force: Float[Array, "n"]
    contacts: Contacts
    pushes: Float[Array, "n 6"]
    acceleration: Float[Array, "n"]
    steps: Int[Array, ""]
    converged: Bool[Array, ""]


class Free:
    """How a model would move without its contact law.

    - `acceleration`: worked out where it is asked for.
    - `resisting`: what resists along the degrees of freedom during a step, as what it adds to the inertia; None where no step
      is made.
    """

    def __init__(
        self,
        accelerate: Callable[[], Float[Array, "n"]],
        force: Float[Array, "n"] | None = None,
        resisting: Float[Array, "nv"] | None = None,
    ):
        self._accelerate, self._force, self.resisting = accelerate, force, resisting

    @functools.cached_property
    def acceleration(self) -> Float[Array, "n"]:
        return self._accelerate()

    def force(self, inertia: Float[Array, "n n"]) -> Float[Array, "n"]:
        """`M a`, with the inertia of what moves: what acts, less what it takes not to accelerate."""
        return times(inertia, self.acceleration) if self._force is None else self._force


class ContactLaw(Attached):
    """How bodies that touch push each other. A model has one law, and moves under it in every simulation.

    - `limits`, `friction`: whether it also takes care of the stops of joints, and of their dry friction.

    >>> print(isinstance(rbd.contact.Soft(), rbd.contact.ContactLaw), rbd.contact.Soft().friction)
    True True
    """

    #: Whether a step of `SemiImplicitEuler` is that of MuJoCo's `implicitfast`: springs along joints are taken at its start, and
    #: damping after the law.
    as_implicitfast: ClassVar[bool] = False

    #: Whether the model may have soft equality constraints.
    holds_equalities: ClassVar[bool] = False

    #: Whether floating bodies move along axes that do not turn in a step of `SemiImplicitEuler`.
    fixed_axes: ClassVar[bool] = False

    role = "contact law"
    single = True
    bodies = ()
    joints = ()

    limits: eqx.AbstractVar[bool]
    friction: eqx.AbstractVar[bool]

    @property
    def frames(self):
        return no_frames()

    def attached(self, bodies, frames, joints):
        return self

    def prepared(self, model: Model) -> Any:
        """What does not depend on the motion, to be worked out once for a simulation; a PyTree."""
        return None

    def placed(self, motion: Motion) -> Motion:
        """Returns the motion with the contacts stored that this contact model uses."""
        return with_contacts(motion.computed("frames"))

    def lost(self, motion: Motion) -> Int[Array, ""] | None:
        """How many contacts that should act it leaves out; None where it leaves out none."""
        return None

    @abc.abstractmethod
    def reaction(
        self,
        motion: Motion,
        free: Free,
        prepared: Any,
        step: Float[Array, ""] | None = None,
        guess: Float[Array, "n"] | None = None,
        within: Closure | None = None,
        phase: Any = None,
    ) -> Reaction:
        """What it does.

        - `free`: how the model would move without it.
        - `step`: the time step that is being made, if one is.
        - `guess`: an acceleration to begin the search with.
        - `within`: how the model moves with a few independent variables, if it does: accelerations and forces are theirs then.
        - `phase`: what contacts do until the next event, of a law under which velocities jump; by default what they do in this
          state.
        """


class JumpingLaw(ContactLaw):
    """A law under which velocities jump at events. Between them contacts go on doing what they do: a phase, which is a PyTree.

    Simulations take a scheme that finds events (`Scheme.finds_events`).

    >>> print(isinstance(rbd.contact.Hard(), rbd.contact.JumpingLaw), isinstance(rbd.contact.Soft(), rbd.contact.JumpingLaw))
    True False
    """

    @abc.abstractmethod
    def begun(
        self, motion: Motion, v: Float[Array, "n"], within: Closure | None = None
    ) -> tuple[Any, Float[Array, "n"], Float[Array, "n"]]:
        """The phase that begins in a state, by how much the configuration changes at once, and the velocity to go on with.

        - `v`: the velocity, of the few independent variables that the model moves with, if it does.
        """

    @abc.abstractmethod
    def until(self, motion: Motion, phase: Any) -> Float[Array, "k"]:
        """Numbers that are positive as long as a phase lasts."""


def contact_law(model: Model) -> ContactLaw | None:
    """Returns the contact model of a model, or None.

    Raises:
      ModelError: If the model has soft equality constraints, and no contact model that supports them.
    """
    laws: tuple[ContactLaw, ...] = model.attached_as("contact law")  # pyright: ignore[reportAssignmentType]
    law = laws[0] if laws else None
    if model.attached_as("soft equality") and not (law and law.holds_equalities):
        own = "no contact model" if law is None else f"the contact model {type(law).__name__}"
        raise ModelError(
            f"model {model.name!r} has soft equality constraints and {own}. Attach rbd.contact.Soft(), or make the constraints "
            'hard: rbd.load_mjcf(..., equalities="hard")'
        )
    return law
