"""The system of a model with its constraints and forces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.array import with_precision, zeros
from ..constraints import Stabilization
from ..constraints.evaluate import constraint_scales, holonomic
from ..contact.law import JumpingLaw, contact_law
from ..contact.pairs import touching
from ..contact.separated import allowed_overlaps
from ..dynamics import Motion
from ..dynamics.floating import stepped_along_fixed_axes
from ..dynamics.forward import singular_inertia, surely_regular
from ..forces import Force, carried_forces
from ..forces.own_state import holding, own_states
from ..model import Model, at_time, chart_rate, chart_velocity, difference, integrate
from ..model.configuration import charted, reparametrized
from .state import State
from .system import System
from .tree_step import TreeStep


Acting: TypeAlias = Force | Callable[[Model, State, Float[Array, ""]], Float[Array, "nv"]]
"""The type of forces that can act in a rollout: a `Force`, or a function `(model, state, t) -> tau`.

>>> push: rbd.simulate.Acting = lambda model, state, t: jnp.ones(1)
>>> path = rbd.rollout(rbd.load("pendulum"), rbd.State(jnp.zeros(1), jnp.zeros(1)), dt=0.01, steps=100, forces=(push,))
>>> print(path.q[-1])
[0.205]
"""


class TreeSystem(System):
    """A model with the control `tau` of the current step.

    - `forces`: forces in addition to those that the model carries.
    - `u`: the controls of its actuators, by default zero.
    - `stabilization`: the stabilization of its constraints.
    - `law_numbers`: quantities of its contact model that are constant during a simulation; see `prepared`.
    - `overlaps`: allowed initial overlaps of pairs of shapes; see `prepared`.
    - `guess`: initial guess of the acceleration for the contact solver.
    - `phase`: the contact mode until the next event, for a contact model with velocity jumps.
    - `rubs`: whether joints may have dry friction, which each step then solves for. Compiled code does not know the
      friction, so its absence is determined before.

    >>> system = rbd.simulate.system_of(rbd.load("pendulum"), jnp.array([2.0]))
    >>> print(system.acceleration(jnp.array(0.0), rbd.State(jnp.zeros(1), jnp.zeros(1))))
    [1.998]
    """

    model: Model
    tau: Float[Array, "nv"]
    forces: tuple[Acting, ...] = ()
    stabilization: Stabilization | None = None
    u: Float[Array, "nu"] | None = None
    law_numbers: Any = None
    overlaps: Float[Array, "pairs"] | None = None
    guess: Float[Array, "nv"] | None = None
    phase: Any = None
    rubs: bool = eqx.field(static=True, default=True)

    def prepared(self):
        law = contact_law(self.model)
        if law is None:
            return self
        return replace(self, law_numbers=law.prepared(self.model), overlaps=allowed_overlaps(self.model))

    @property
    def searches(self):
        return contact_law(self.model) is not None

    @property
    def jumps(self):
        return isinstance(contact_law(self.model), JumpingLaw) and bool(touching(self.model))

    @property
    def name(self):
        return self.model.name

    @property
    def simulated(self):
        return self.model

    @property
    def nu(self):
        return self.model.nu

    @property
    def rheonomic(self):
        return self.model.topology.rheonomic

    @property
    def elements(self) -> tuple[Force, ...]:
        """The force elements: those that the model carries, its actuators, and those given to the rollout."""
        given = (force for force in self.forces if isinstance(force, Force))
        return (*carried_forces(self.model, self.u), *given)

    @property
    def own(self):
        return own_states(self.elements).astype(self.model.dtype)

    def dof(self, joints):
        entries = [np.arange(self.model.nv)[self.model.v_slice(joint)] for joint in joints]
        return np.concatenate([np.zeros(0, int), *entries])

    @property
    def dry_friction(self) -> Float[Array, "nv"]:
        """The magnitudes of the joints' dry friction, zero if the contact model includes it."""
        law = contact_law(self.model)
        if self.rubs and not (law and law.friction):
            return self.model.friction
        with jax.ensure_compile_time_eval():  # a concrete zero, so that no code is compiled for friction
            return zeros((self.model.nv,), self.model.dtype)

    @property
    def frictional_own(self):
        return np.concatenate([np.zeros(0, bool), *(force.frictional_own for force in self.elements)])

    def holding(self, state: State) -> tuple[Force, ...]:
        """Returns the force elements with their internal states, in the precision of the state."""
        elements = with_precision(self.elements, state.q.dtype)
        return holding(elements, state.internal) if state.internal.size else elements

    def motion(self, time, q, v=None):
        return Motion(self.model, q, v, time)

    def singular(self, time, q, step):
        model = self.model
        if surely_regular(model):
            return jnp.zeros((), bool)
        return singular_inertia(self.motion(time, q).with_armature(model.armature + step * model.damping))

    def evaluate(self, time, state):
        return TreeStep(self, time, state, self.motion(time, state.q, state.v))

    def move(self, q, step):
        return integrate(self.model, q, step)

    def advanced(self, q, v, a, h, fixed_axes=False):
        law = contact_law(self.model)
        if not fixed_axes and (law is None or not law.fixed_axes):
            return super().advanced(q, v, a, h)
        v, step = stepped_along_fixed_axes(self.model, v, a, h)
        return self.move(q, step), v

    def difference(self, q0, q1):
        return difference(self.model, q0, q1)

    def chart_rate(self, q, step, v):
        return chart_rate(self.model, q, step, v)

    def chart_velocity(self, q, step, rate):
        return chart_velocity(self.model, q, step, rate)

    @property
    def charted(self):
        return charted(self.model)

    def reparametrized(self, state, near=None):
        return State(*reparametrized(self.model, state.q, state.v, near), state.own)

    @property
    def constraint_rows(self):
        return sum(constraint.rows for constraint in self.model.constraints)

    @property
    def holonomic(self):
        return holonomic(self.model)

    @property
    def constraint_scales(self):
        return constraint_scales(self.model)

    def settled(self, time, state):
        if self.stabilization is None:
            return state
        now = at_time(self.model, time)
        return State(*self.stabilization.settled(now, state.q, state.v), state.internal)
