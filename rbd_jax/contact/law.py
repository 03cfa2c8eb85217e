"""Base classes of contact models."""

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
    """The result of a contact model for a model in motion.

    - `force`: the generalized force of everything the contact model covers: contacts, joint limits, dry friction.
    - `contacts`: the contact points.
    - `pushes`: the wrench of the first shape on the second at each contact, `[f; n]` in the contact frame.
    - `acceleration`: the acceleration under the contact model.
    - `steps`: the number of solver iterations.
    - `converged`: True if the solver found the solution.

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
    """The motion of a model without its contact model.

    - `acceleration`: the acceleration, computed on first access.
    - `resisting`: the diagonal that implicit resistance along the degrees of freedom adds to the inertia during a step; None
      outside of a step.
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
        """Returns `M a`: the applied forces minus the bias forces."""
        return times(inertia, self.acceleration) if self._force is None else self._force


class ContactLaw(Attached):
    """Base class of contact models. A model has at most one, and every simulation uses it.

    - `limits`: True if the contact model also covers joint limits.
    - `friction`: True if the contact model also covers the dry friction of joints.

    >>> print(isinstance(rbd.contact.Soft(), rbd.contact.ContactLaw), rbd.contact.Soft().friction)
    True True
    """

    #: If True, `SemiImplicitEuler` makes the steps of MuJoCo's `implicitfast`: joint springs are evaluated at the start of the
    #: step, and damping is applied after the contact model.
    as_implicitfast: ClassVar[bool] = False

    #: If True, the model may have soft equality constraints.
    holds_equalities: ClassVar[bool] = False

    #: If True, floating bodies move along axes that do not rotate during a step of `SemiImplicitEuler`.
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
        """Returns a PyTree of quantities that do not depend on the motion. A simulation computes it once."""
        return None

    def placed(self, motion: Motion) -> Motion:
        """Returns the motion with the contacts stored that this contact model uses."""
        return with_contacts(motion.computed("frames"))

    def lost(self, motion: Motion) -> Int[Array, ""] | None:
        """Returns the number of active contacts that the contact model ignores; None if it never ignores any."""
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
        """Returns the forces and the acceleration under the contact model.

        Args:
          motion: The model in motion.
          free: The motion of the model without its contact model.
          prepared: The result of `prepared`.
          step: The length of the current time step; None outside of a step.
          guess: An acceleration from which the solver starts.
          within: The map from a few independent variables to the model's velocities. If given, accelerations and forces are
            those of the independent variables.
          phase: The contact phase until the next event, for a `JumpingLaw`. By default it follows from the current state.
        """


class JumpingLaw(ContactLaw):
    """Base class of contact models with velocity jumps at events.

    Between two events the contact mode is constant. The mode is called a phase, and it is a PyTree. Simulations require a
    scheme that finds events (`Scheme.finds_events`).

    >>> print(isinstance(rbd.contact.Hard(), rbd.contact.JumpingLaw), isinstance(rbd.contact.Soft(), rbd.contact.JumpingLaw))
    True False
    """

    @abc.abstractmethod
    def begun(
        self, motion: Motion, v: Float[Array, "n"], within: Closure | None = None
    ) -> tuple[Any, Float[Array, "n"], Float[Array, "n"]]:
        """Returns the phase that starts in a state, with the jumps of the configuration and the velocity at its start.

        Args:
          motion: The model in motion.
          v: The velocity, or that of the independent variables of `within`.
          within: The map from a few independent variables to the model's velocities, if any.

        Returns:
          The phase, the change of the configuration, and the velocity after the event.
        """

    @abc.abstractmethod
    def until(self, motion: Motion, phase: Any) -> Float[Array, "k"]:
        """Returns the guard functions of a phase: all are positive while the phase lasts."""


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
