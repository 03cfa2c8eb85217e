"""Forces, accelerations, momenta and constraints of a model in a state at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import velocity
from .._core.array import is_known, matvec
from .._core.errors import ModelError
from .._core.failures import first_failure
from .._core.module import changed
from .._core.positive import solve_positive
from ..constraints.consistency import nearest_velocity
from ..constraints.dynamics import motion_under_constraints, prepared
from ..constraints.evaluate import matrix_of, rate_of, residual_of, with_constraints
from ..constraints.reactions import constraint_wrenches, transmitted
from ..contact.contacts import contact_wrenches
from ..contact.law import Free, JumpingLaw, Reaction, contact_law
from ..contact.separated import overlapping
from ..dynamics import ExternalForces, passive_force
from ..dynamics.floating import turning_rates
from ..dynamics.forward import solve_inertia
from ..dynamics.inverse import recursive_newton_euler
from ..dynamics.lagrangian import gradients_of_lagrangian
from ..dynamics.mass_matrix import composite_rigid_body
from ..dynamics.passive import smooth_passive_force
from ..forces import Force, JointFriction
from ..forces.bearing import bearings_of
from ..forces.own_state import (
    own_after,
    own_after_explicitly,
    own_rates,
    own_response,
)
from ._bearings import friction_under_load
from ._implicitfast import single_free_bodies, velocity_derivative, with_coriolis_forces
from ._resistance import Coupling, Resistance, resisted, sticking_speed
from .functions import asked
from .result import Result
from .state import State
from .step_data import Accelerated, Implicit, StepData


if TYPE_CHECKING:
    from .tree_system import TreeSystem


class TreeStep(StepData):
    """A `TreeSystem` in a state at a time.

    >>> system = rbd.simulate.system_of(rbd.load("pendulum"), jnp.array([2.0]))
    >>> here = system.evaluate(jnp.array(0.0), rbd.State(jnp.zeros(1), jnp.zeros(1)))
    >>> print(type(here).__name__, here.force())
    TreeStep [2.]
    """

    system: TreeSystem

    def with_velocity(self, v):
        return changed(self, state=State(self.q, v, self.state.own), motion=self.motion.with_velocity(v))

    def prepared(self):
        motion, elements, law = self.motion, self.elements, contact_law(self.motion.model)
        things = elements if law is None else (*elements, law)
        if not things and not motion.model.constraints:
            return self
        motion = with_constraints(motion.computed("velocities"))
        if law is not None:
            motion = motion.computed("inertias", "velocity_products")
        for thing in things:
            motion = thing.placed(motion)
        return changed(self, motion=motion)

    # Acceleration.

    def accelerated(self, step=None, implicit="passive forces"):
        # A compiled function would keep alive everything that a user's function refers to.
        closed = all(isinstance(force, Force) for force in self.system.forces)
        return (_compiled_answer if closed else _answer)(self.prepared(), step, implicit)

    def contact_doubts(self, first):
        law, codes = contact_law(self.motion.model), []
        if law is not None and (lost := law.lost(self.motion)) is not None:
            codes.append(jnp.where(lost > 0, Result.CONTACTS_LOST, Result.SUCCESS))
        overlaps = self.system.overlaps
        if law is not None and overlaps is not None and (not is_known(first) or first):
            deep = overlapping(self.motion, overlaps)
            codes.append(jnp.where(first & deep, Result.OVERLAPPING, Result.SUCCESS))
        return first_failure(*codes) if codes else None

    def begun(self):
        system, law = self.system, contact_law(self.motion.model)
        if not isinstance(law, JumpingLaw):
            return super().begun()
        phase, moved, v = law.begun(self.motion, self.v)
        return replace(system, phase=phase), State(system.move(self.q, moved), v, self.state.own)

    def until(self):
        law = contact_law(self.motion.model)
        return law.until(self.motion, self.system.phase) if isinstance(law, JumpingLaw) else super().until()

    def moved(self, step=None, f_ext: ExternalForces = None, implicit: Implicit = "passive forces") -> Moved:
        """Returns the acceleration, multipliers and contact reaction, as a mean over a step or at this time."""
        motion, system = self.motion, self.system
        reaction, resistance = None, None if step is None else self.resistance(step, implicit)
        if resistance is None or system.searches:
            force = self.applied(step=step) + system.tau
            reaction = self.reaction(force, resistance, f_ext)
            force = force if reaction is None else force + reaction.force
        if reaction is not None and system.jumps and not motion.model.constraints:
            return Moved(reaction.acceleration, jnp.zeros(0, motion.v.dtype), reaction)
        if resistance is None:
            moving = motion_under_constraints(motion, force, f_ext, stabilization=system.stabilization)
            return Moved(moving.acceleration, moving.multipliers, reaction)
        resistance = resistance.under(system.tau if reaction is None else system.tau + reaction.force)
        derivative, single = None, np.zeros((0, 6), int)
        if implicit == "velocities":
            derivative, single = velocity_derivative(motion, self.elements), single_free_bodies(motion.model)
        if motion.model.constraints or (reaction is None and derivative is None and not len(single)):
            # The search for stick and slip repeats only what depends on it.
            known = prepared(motion), f_ext, system.stabilization
            a, multipliers = resisted(_accelerated, known, resistance)
            return Moved(a, multipliers, reaction)
        # The contact model has computed this matrix already; XLA merges the two.
        needed = recursive_newton_euler(motion, jnp.zeros_like(motion.v), f_ext)
        inertia = composite_rigid_body(motion)
        if derivative is not None:
            inertia = inertia - resistance.step * derivative
            needed = needed - resistance.step * matvec(derivative, turning_rates(motion))
        a = resisted(_solved, (inertia, needed), resistance)
        if len(single):
            solve = lambda x: _solved((inertia, 0), x, resistance.added)[0]
            a = with_coriolis_forces(motion, single, a, solve, resistance.step)
        return Moved(a, jnp.zeros(0, a.dtype), reaction)

    # Forces.

    @property
    def elements(self) -> tuple[Force, ...]:
        """The force elements in their states."""
        return self.system.holding(self.state)

    def force(self, friction=True):
        self._refuse_bearings()
        here = self.prepared()
        force = here.applied(friction) + self.system.tau
        reaction = here.reaction(force)
        return force if reaction is None else force + reaction.force

    def friction(self, step):
        self._refuse_bearings()
        return self.joint_friction(step), jnp.eye(self.motion.model.nv, dtype=self.q.dtype)

    def _refuse_bearings(self) -> None:
        """Raises if the model has bearings, whose friction depends on the acceleration."""
        model = self.system.model
        if bearings_of(model):
            raise ModelError(
                f"model {model.name!r} has bearings, whose friction depends on the wrenches that the joints transmit; this "
                "scheme does not support them. Use a scheme that evaluates the acceleration: rbd.SemiImplicitEuler() or an "
                "explicit scheme"
            )

    def own_rate(self):
        return own_rates(self.elements, self.motion)

    def own_after(self, v, step):
        return own_after(self.elements, self.motion, v, step)

    def residual(self, a, friction=True):
        here = self.prepared()
        return recursive_newton_euler(here.motion, a) - here.force(friction)

    def joint_friction(self, step) -> JointFriction:
        """Returns the dry friction over a step: of joints, unless the contact model includes it, and of force elements."""
        dry = self.system.dry_friction
        parts = [force.joint_friction(self.motion, step) for force in self.elements]
        known = [part for part in parts if part is not None]
        if not known or not is_known(dry) or np.any(np.asarray(dry)):
            known = [JointFriction.dry(dry, sticking_speed(dry.dtype)), *known]
        return JointFriction.joined(known)

    def applied(self, friction: bool = True, step: Float[Array, ""] | None = None) -> Float[Array, "nv"]:
        """Returns the generalized forces without the control.

        Args:
          friction: If True, includes dry friction of joints.
          step: Evaluates the friction of force elements at the end of a step of this length at constant velocity.
        """
        motion, law = self.motion, contact_law(self.motion.model)
        rubbing = friction and not (law and law.friction)
        passive = passive_force if rubbing else smooth_passive_force
        acting = passive(motion.model, motion.q, motion.v)
        for force in self.elements:
            if friction and step is None:
                acting = acting + force.generalized_force(motion)
                continue
            acting = acting + force.smooth_force(motion)
            rubbed = force.joint_friction(motion, step) if friction and step is not None else None
            acting = acting if rubbed is None else acting + rubbed.force(motion.v)
        for index, function in enumerate(self.system.forces):
            if not isinstance(function, Force):
                name = f"the result of forces[{index}]"
                now = State(motion.q, motion.v, self.state.own)
                tau = asked(function, motion.model, now, motion.time)
                acting = acting + velocity("rollout", self.system.model, name, tau)
        return acting

    def resistance(self, step, implicit: Implicit = "passive forces") -> Resistance:
        """Returns the joint-space damping, stiffness and friction over a step, and all forces without the control.

        Args:
          step: Length of the step.
          implicit: As for `StepData.accelerated`.
        """
        motion, elements = self.motion, self.elements
        damping, stiffness = motion.model.damping, motion.model.stiffness
        for force in elements if implicit != "damping" else ():
            if (own := force.joint_resistance(motion)) is not None:
                damping, stiffness = damping + own[0], stiffness + own[1]
        law, coupling = contact_law(motion.model), None
        if implicit != "passive forces" or (law and law.as_implicitfast):
            stiffness = jnp.zeros_like(stiffness)
        if implicit == "passive forces" and (response := own_response(elements, motion, step)) is not None:
            coupling = Coupling(*response)
        force = self.applied(friction=False)
        if implicit != "passive forces":
            # MuJoCo's accelerations of floating bodies are along axes that do not rotate.
            force = force - step * damping * turning_rates(motion)
        return Resistance(motion.v, force, damping, stiffness, self.joint_friction(step), step, coupling)

    def reaction(
        self, force, resistance: Resistance | None = None, f_ext: ExternalForces = None
    ) -> Reaction | None:
        """Returns the reaction of the contact model, or None if the model has no contact model.

        Args:
          force: All other generalized forces.
          resistance: Damping, stiffness and friction of the current step, if any.
          f_ext: External wrenches on bodies.
        """
        motion, system = self.motion, self.system
        law = contact_law(motion.model)
        if law is None:
            return None
        needed = (
            None if motion.model.constraints else recursive_newton_euler(motion, jnp.zeros_like(force), f_ext)
        )
        free = Free(
            lambda: (
                motion_under_constraints(
                    motion, force, f_ext, stabilization=system.stabilization
                ).acceleration
            ),
            None if needed is None else force - needed,
            None if resistance is None else resistance.added,
        )
        step = None if resistance is None else resistance.step
        numbers = law.prepared(motion.model) if system.law_numbers is None else system.law_numbers
        return law.reaction(motion, free, numbers, step, system.guess, phase=system.phase)

    # Bearings.

    def loaded(self, step=None, f_ext: ExternalForces = None) -> TreeStep:
        """Returns the step data with the dry friction of bearings under their loads.

        Args:
          step: As for `accelerated`.
          f_ext: External wrenches on bodies.
        """
        bearings = bearings_of(self.motion.model)
        if not bearings:
            return self
        # The search for the friction repeats only what depends on it.
        motion = prepared(self.motion.computed("twists", "world_frames"))

        def rubbing(friction) -> TreeStep:
            rubbed = motion.with_friction(friction)
            return changed(self, system=replace(self.system, model=rubbed.model, rubs=True), motion=rubbed)

        def wrenches(friction):
            rubbed = rubbing(friction)
            return rubbed.wrenches(rubbed.moved(step, f_ext), f_ext)

        return rubbing(friction_under_load(bearings, motion, wrenches))

    def wrenches(self, moved: Moved, f_ext: ExternalForces = None) -> Float[Array, "nb 6"]:
        """Returns the wrenches that the joints transmit, including force elements on bodies, constraints and contacts."""
        motion = self.motion
        acting = jnp.zeros((motion.model.nb, 6), motion.q.dtype)
        if moved.multipliers.size:
            acting = constraint_wrenches(motion, moved.multipliers)
        for force in self.elements:
            wrenches = force.body_wrenches_in(motion)
            if wrenches is not None:
                acting = acting + wrenches
        if moved.reaction is not None:
            acting = acting + contact_wrenches(motion, moved.reaction.contacts, moved.reaction.pushes)
        return transmitted(motion, moved.acceleration, f_ext, acting)

    # Momenta.

    def lagrangian_gradients(self):
        return gradients_of_lagrangian(self.motion)

    def mass_matrix(self):
        return composite_rigid_body(self.motion)

    def solve_mass_matrix(self, momentum):
        return solve_inertia(self.motion, momentum)

    # Constraints.

    def constraint_residual(self):
        return residual_of(self.motion)

    def constraint_velocity(self):
        return rate_of(self.motion)

    def constraint_jacobian(self):
        return matrix_of(self.motion).matrix

    def constraint_force(self, multipliers):
        return matrix_of(self.motion).transposed(multipliers)

    def admissible(self, v):
        return nearest_velocity(self.motion, v)


def _answer(here: TreeStep, step, implicit: Implicit) -> Accelerated:
    """See `StepData.accelerated`."""
    here = changed(here, system=replace(here.system, model=here.motion.model)).loaded(step)
    found = here.moved(step, implicit=implicit)
    unsolved = None if found.reaction is None else ~found.reaction.converged
    if step is None:
        return Accelerated(found.acceleration, here.own_rate(), unsolved)
    if implicit != "passive forces":
        own = own_after_explicitly(here.elements, here.motion, step)
        return Accelerated(found.acceleration, own, unsolved)
    v = here.system.advanced(here.q, here.v, found.acceleration, step)[1]
    return Accelerated(found.acceleration, here.own_after(v, step), unsolved)


#: A compiled function of its own, so that stages of a scheme and further simulations of the model share one trace.
_compiled_answer = eqx.filter_jit(_answer)


def _accelerated(known, force, armature):
    motion, f_ext, stabilization = known
    motion = motion.with_armature(motion.model.armature + armature)
    moving = motion_under_constraints(motion, force, f_ext, stabilization=stabilization)
    return (moving.acceleration, moving.multipliers), moving.acceleration


def _solved(known, force, armature):
    inertia, needed = known
    a = solve_positive(
        inertia + jnp.where(np.eye(armature.size, dtype=bool), armature[None, :], 0), force - needed
    )
    return a, a


class Moved(NamedTuple):
    """The acceleration, the multipliers of constraints, and the reaction of the contact model, if any."""

    acceleration: Float[Array, "nv"]
    multipliers: Float[Array, "m"]
    reaction: Reaction | None
