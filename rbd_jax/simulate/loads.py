"""What acts on a model in a state, and what follows from it: how it accelerates, and what its joints transmit."""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._array import sum_rows
from ..constraints.dynamics import ConstrainedMotion, motion_under_constraints
from ..constraints.reactions import constraint_wrenches, transmitted
from ..dynamics import ExternalForces, Motion
from ..forces import on_bodies
from ..sensors.sensing import Loads
from .state import State
from .tree_system import TreeSystem


class TreeLoads(Loads):
    """What acts on a model in a state. All is computed when it is first asked for.

    - `system`: the model with the control and the forces.
    - `f_ext`: wrenches on bodies, in the world's axes about the world's origin.
    """

    def __init__(self, system: TreeSystem, time, state: State, f_ext: ExternalForces = None):
        self.system, self.state, self.f_ext = system, state, f_ext
        self.motion: Motion = system.motion(time, state.q, state.v)

    @functools.cached_property
    def moving(self) -> ConstrainedMotion:
        """How it accelerates, and the multipliers of its constraints."""
        force = self.system.applied(self.motion, self.state) + self.system.tau
        return motion_under_constraints(self.motion, force, self.f_ext)

    @property
    def acceleration(self) -> Float[Array, "nv"]:
        return self.moving.acceleration

    @property
    def driving(self) -> Float[Array, "nv"]:
        """The generalized force that drives its joints."""
        return self.system.tau

    @functools.cached_property
    def joint_wrenches(self) -> Float[Array, "nb 6"]:
        """What its joints transmit. What force elements and constraints do to bodies is counted, what acts along joints not."""
        motion, multipliers = self.motion, self.moving.multipliers
        model = motion.model
        acting = jnp.zeros((model.nb, 6), motion.q.dtype)
        if multipliers.size:
            acting = constraint_wrenches(motion, multipliers)
        for force in on_bodies(self.system.holding(self.state)):
            bodies = force.acts_on(model)
            if bodies:
                wrenches = force.body_wrenches(model, motion.bodies(bodies))
                acting = acting + sum_rows(wrenches, np.array(bodies, int), model.nb)
        return transmitted(motion, self.acceleration, self.f_ext, acting)
