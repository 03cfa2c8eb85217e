"""Forces, accelerations and joint wrenches of a model in a state."""

from __future__ import annotations

import functools
from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.module import changed
from ..contact.compliant import Compliant
from ..contact.contacts import Contacts, contacts_of, joined, without_pairs
from ..contact.law import Reaction
from ..dynamics import ExternalForces, Motion
from ..forces.actuators import Drive
from ..sensors.sensing import Loads
from .state import State
from .tree_step import Moved
from .tree_system import TreeSystem


class TreeLoads(Loads):
    """Forces and accelerations of a model in a state, computed on first access.

    - `system`: the model with the control and the forces.
    - `f_ext`: wrenches on bodies, in world axes about the world origin.
    - `dt`: the step over which passive joint forces are taken implicitly, or None.
    """

    def __init__(self, system: TreeSystem, time, state: State, f_ext: ExternalForces = None, dt=None):
        self.f_ext, self.dt = f_ext, dt
        here = system.evaluate(time, state).prepared()
        here = changed(here, motion=here.motion.computed("world_frames", "twists"))
        self.here = here.loaded(dt, f_ext)

    @property
    def motion(self) -> Motion:
        """The kinematics of the model."""
        return self.here.motion

    @functools.cached_property
    def _moved(self) -> Moved:
        return self.here.moved(self.dt, self.f_ext)

    @property
    def reaction(self) -> Reaction | None:
        """The reaction of the contact model; None without a contact model."""
        return self._moved.reaction if self.here.system.searches else None

    @property
    def contacts(self) -> Contacts:
        """The contacts of the model with their forces, including compliant contacts; forces are zero without a contact model."""
        compliant = [force for force in self.here.elements if isinstance(force, Compliant)]
        of_each = [force.contacts(self.motion) for force in compliant]
        if self.reaction is not None:
            return joined(replace(self.reaction.contacts, force=self.reaction.pushes), *of_each)
        own = {frozenset((force.first, force.second)) for force in compliant}
        found = without_pairs(contacts_of(self.motion), own)
        force = jnp.zeros((*found.distance.shape, 6), found.distance.dtype)
        return joined(replace(found, force=force), *of_each)

    @property
    def acceleration(self) -> Float[Array, "nv"]:
        """The acceleration of the model."""
        return self._moved.acceleration

    @property
    def multipliers(self) -> Float[Array, "m"]:
        """The multipliers of its constraints."""
        return self._moved.multipliers

    @property
    def driving(self) -> Float[Array, "nv"]:
        """The generalized force that drives the joints: `tau` plus the forces of the actuators."""
        return self.here.system.tau + sum(
            (drive.generalized_force(self.motion) for drive in self._drives),
            jnp.zeros_like(self.here.system.tau),
        )

    @property
    def actuator_forces(self) -> Float[Array, "nu"]:
        """The force of each actuator along its length."""
        forces = [drive.forces(self.motion) for drive in self._drives]
        return jnp.concatenate(forces) if forces else jnp.zeros(0, self.motion.q.dtype)

    @property
    def _drives(self) -> list[Drive]:
        """The actuators of the model, as one force element."""
        return [force for force in self.here.elements if isinstance(force, Drive)]

    @functools.cached_property
    def joint_wrenches(self) -> Float[Array, "nb 6"]:
        """The wrenches that the joints transmit.

        They include the effect of force elements and constraints on bodies, but not forces along joints.
        """
        return self.here.wrenches(self._moved, self.f_ext)
