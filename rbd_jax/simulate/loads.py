"""What acts on a model in a state, and what follows from it: how it accelerates, and what its joints transmit."""

from __future__ import annotations

import functools
from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..constraints.dynamics import motion_under_constraints
from ..constraints.reactions import constraint_wrenches, transmitted
from ..contact.compliant import Compliant
from ..contact.contacts import Contacts, contact_wrenches, contacts_of, joined, without_pairs
from ..contact.law import Reaction
from ..dynamics import ExternalForces, Motion
from ..forces.actuators import Drive
from ..sensors.sensing import Loads
from ._resistance import Resistance, resisted
from .state import State
from .tree_system import TreeSystem


class TreeLoads(Loads):
    """What acts on a model in a state. All is computed when it is first asked for.

    - `system`: the model with the control and the forces.
    - `f_ext`: wrenches on bodies, in the world's axes about the world's origin.
    - `dt`: the step over which what resists along the joints is taken implicitly, or None.
    """

    def __init__(self, system: TreeSystem, time, state: State, f_ext: ExternalForces = None, dt=None):
        self.system, self.state, self.f_ext, self.dt = system, state, f_ext, dt
        self.motion: Motion = system.motion(time, state.q, state.v)

    @functools.cached_property
    def _moving(self) -> tuple[Float[Array, "nv"], Float[Array, "m"]]:
        motion, tau = self.motion, self.system.tau
        if self._resistance is None:
            none = jnp.zeros_like(tau)
            return _accelerated((motion, self.f_ext), self._acting + self._reacting, none)[0]
        resistance = self._resistance.under(tau + self._reacting)
        motion.computed("velocities", "velocity_products", "inertias")
        return resisted(_accelerated, (motion, self.f_ext), resistance)

    @functools.cached_property
    def _resistance(self) -> Resistance | None:
        """What resists along the joints, without the control."""
        return None if self.dt is None else self.system.resistance(self.motion, self.state, self.dt)

    @property
    def _acting(self) -> Float[Array, "nv"]:
        """All forces but those of contact."""
        return self.system.applied(self.motion, self.state) + self.system.tau

    @functools.cached_property
    def reaction(self) -> Reaction | None:
        """What the contact law of the model does; None where it has none."""
        return (
            self.system.reaction(self.motion, self._acting, self._resistance, self.f_ext)
            if self.system.searches
            else None
        )

    @property
    def contacts(self) -> Contacts:
        """The contacts of the model, with their forces, and those of its compliant ones; zero where nothing acts."""
        compliant = [force for force in self.system.holding(self.state) if isinstance(force, Compliant)]
        of_each = [force.contacts(self.motion) for force in compliant]
        if self.reaction is not None:
            return joined(replace(self.reaction.contacts, force=self.reaction.pushes), *of_each)
        own = {frozenset((force.first, force.second)) for force in compliant}
        found = without_pairs(contacts_of(self.motion), own)
        force = jnp.zeros((*found.distance.shape, 6), found.distance.dtype)
        return joined(replace(found, force=force), *of_each)

    @property
    def _reacting(self) -> Float[Array, "nv"]:
        return jnp.zeros_like(self.system.tau) if self.reaction is None else self.reaction.force

    @property
    def acceleration(self) -> Float[Array, "nv"]:
        """How the model accelerates."""
        return self._moving[0]

    @property
    def multipliers(self) -> Float[Array, "m"]:
        """Those of its constraints."""
        return self._moving[1]

    @property
    def driving(self) -> Float[Array, "nv"]:
        """The generalized force that drives its joints: `tau` and what the actuators do."""
        return self.system.tau + sum(
            (drive.generalized_force(self.motion) for drive in self._drives), jnp.zeros_like(self.system.tau)
        )

    @property
    def actuator_forces(self) -> Float[Array, "nu"]:
        """What each actuator exerts along its length."""
        forces = [drive.forces(self.motion) for drive in self._drives]
        return jnp.concatenate(forces) if forces else jnp.zeros(0, self.motion.q.dtype)

    @property
    def _drives(self) -> list[Drive]:
        """The actuators of the model: all of them in one."""
        return [force for force in self.system.holding(self.state) if isinstance(force, Drive)]

    @functools.cached_property
    def joint_wrenches(self) -> Float[Array, "nb 6"]:
        """What its joints transmit. What force elements and constraints do to bodies is counted, what acts along joints not."""
        motion, multipliers = self.motion, self.multipliers
        model = motion.model
        acting = jnp.zeros((model.nb, 6), motion.q.dtype)
        if multipliers.size:
            acting = constraint_wrenches(motion, multipliers)
        for force in self.system.holding(self.state):
            wrenches = force.body_wrenches_in(motion)
            if wrenches is not None:
                acting = acting + wrenches
        if self.reaction is not None:
            acting = acting + contact_wrenches(motion, self.reaction.contacts, self.reaction.pushes)
        return transmitted(motion, self.acceleration, self.f_ext, acting)


def _accelerated(known, force, added):
    """What moves and what holds under forces, with something added to the armature; and the acceleration alone."""
    motion, f_ext = known
    motion = motion.with_armature(motion.model.armature + added)
    moving = motion_under_constraints(motion, force, f_ext)
    return (moving.acceleration, moving.multipliers), moving.acceleration
