"""The system of a model that moves with a few independent variables, `q = γ(y)` (Sueda's notes, §2.6).

With `v = G ẏ` and `a = G ÿ + g`, all forces are multiplied by `Gᵀ`, and the mass matrix is `Gᵀ M G` (2.83). Schemes need no
special treatment: y is a vector space, and there are no constraints.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.array import matvec, vecmat
from .._core.module import changed
from ..constraints import Closure
from ..constraints.closure import ReducedModel, reduced_acceleration, reduced_inertia
from ..contact.law import Free, JumpingLaw, Reaction, contact_law
from ..dynamics import kinetic_energy
from ..dynamics.forward import singular_matrix
from ..dynamics.inverse import recursive_newton_euler, weight
from ..forces.own_state import own_after_explicitly
from ._resistance import Resistance, resisted
from .state import State
from .step_data import Accelerated, StepData
from .system import System
from .tree_step import TreeStep
from .tree_system import Acting, TreeSystem


class ReducedSystem(System):
    """A `ReducedModel` with the control `tau` of the current step; q and v are its variables y and their rates.

    >>> model = rbd.ReducedModel(rbd.load("double_pendulum"), lambda y: jnp.concatenate([y, -2 * y]), size=1)
    >>> system = rbd.simulate.system_of(model, jnp.zeros(1))
    >>> print(type(system).__name__, system.acceleration(jnp.array(0.0), rbd.State(jnp.array([0.5]), jnp.zeros(1))))
    ReducedSystem [-7.343]
    """

    reduced: ReducedModel
    tau: Float[Array, "ny"]
    forces: tuple[Acting, ...] = ()
    u: Float[Array, "nu"] | None = None
    law_numbers: Any = None
    overlaps: Float[Array, "pairs"] | None = None
    guess: Float[Array, "ny"] | None = None
    phase: Any = None
    rubs: bool = eqx.field(static=True, default=True)

    def prepared(self):
        whole = self.whole.prepared()
        return replace(self, law_numbers=whole.law_numbers, overlaps=whole.overlaps)

    @property
    def searches(self):
        return self.whole.searches

    @property
    def jumps(self):
        return self.whole.jumps

    @property
    def whole(self) -> TreeSystem:
        """The tree of the reduced model, without `tau`."""
        still = jnp.zeros(self.reduced.model.nv, self.tau.dtype)
        system = TreeSystem(model=self.reduced.model, tau=still, forces=self.forces, u=self.u)
        return replace(system, overlaps=self.overlaps, rubs=self.rubs)

    @property
    def name(self):
        return self.reduced.name

    @property
    def simulated(self):
        return self.reduced

    @property
    def nu(self):
        return self.reduced.model.nu

    @property
    def rheonomic(self):
        return self.whole.rheonomic

    @property
    def own(self):
        return self.whole.own

    def dof(self, joints):
        if not len(joints):
            return np.zeros(0, int)
        raise ValueError(
            f"joints {joints} of model {self.name!r} have no independent degrees of freedom: they move with the variables of a "
            "ReducedModel"
        )

    @property
    def frictional_own(self):
        return self.whole.frictional_own

    def motion(self, time, q, v=None):
        at = self.reduced.at(q, jnp.zeros_like(q) if v is None else v)
        return self.whole.motion(time, at.q, at.v)

    def singular(self, time, q, step):
        at = self.reduced.at(q, jnp.zeros_like(q))
        motion = self.whole.motion(time, at.q, at.v)
        stiffer = motion.with_armature(motion.model.armature + step * motion.model.damping)
        return singular_matrix(reduced_inertia(stiffer, at.jacobian))

    def evaluate(self, time, state):
        at = self.reduced.at(state.q, state.v)
        whole = self.whole.evaluate(time, State(at.q, at.v, state.own))
        return ReducedStep(self, time, state, whole.motion, at, whole)

    def move(self, q, step):
        return q + step

    def difference(self, q0, q1):
        return q1 - q0

    def chart_rate(self, q, step, v):
        return v

    def chart_velocity(self, q, step, rate):
        return rate

    @property
    def constraint_rows(self):
        return 0

    def settled(self, time, state):
        return state


class ReducedStep(StepData):
    """A `ReducedSystem` in a state at a time.

    - `closure`: the configuration of the tree as a function of the variables.
    - `whole`: the step data of the tree, without the control.

    >>> model = rbd.ReducedModel(rbd.load("double_pendulum"), lambda y: jnp.concatenate([y, -2 * y]), size=1)
    >>> system = rbd.simulate.system_of(model, jnp.zeros(1))
    >>> here = system.evaluate(jnp.array(0.0), rbd.State(jnp.array([0.5]), jnp.zeros(1)))
    >>> print(type(here).__name__, here.closure.q)
    ReducedStep [ 0.5 -1. ]
    """

    system: ReducedSystem
    closure: Closure
    whole: TreeStep

    def prepared(self):
        whole = self.whole.prepared()
        whole = changed(whole, motion=whole.motion.computed("inertias"))
        return changed(self, whole=whole, motion=whole.motion)

    # Acceleration.

    def accelerated(self, step=None, implicit="passive forces"):
        here, at, system = self.prepared(), self.closure, self.system
        if step is None:
            force, unsolved = here._forced()
            return Accelerated(reduced_acceleration(here.motion, at, force), here.own_rate(), unsolved)
        force, resistance, unsolved = system.tau, here.whole.resistance(step, implicit), None
        if system.searches:
            all_else = force + vecmat(here.whole.applied(step=step), at.jacobian)
            reaction = here._reaction(all_else, resistance)
            force, unsolved = force + reaction.force, ~reaction.converged
        a = resisted(_accelerated, (here.motion, at, force), resistance)
        if implicit != "passive forces":
            whole = here.whole
            return Accelerated(a, own_after_explicitly(whole.elements, whole.motion, step), unsolved)
        return Accelerated(a, here.own_after(system.advanced(self.q, self.v, a, step)[1], step), unsolved)

    def contact_doubts(self, first):
        return self.whole.contact_doubts(first)

    def begun(self):
        system, law = self.system, contact_law(self.motion.model)
        if not isinstance(law, JumpingLaw):
            return super().begun()
        phase, moved, v = law.begun(self.motion, self.v, self.closure)
        return replace(system, phase=phase), State(system.move(self.q, moved), v, self.state.own)

    def until(self):
        law = contact_law(self.motion.model)
        return law.until(self.motion, self.system.phase) if isinstance(law, JumpingLaw) else super().until()

    # Forces.

    def force(self, friction=True):
        return self.prepared()._forced(friction)[0]

    def _forced(self, friction: bool = True):
        """Returns all forces, and whether the contact solver did not converge (None without a contact model)."""
        force = self.system.tau + vecmat(self.whole.applied(friction), self.closure.jacobian)
        if not self.system.searches:
            return force, None
        reaction = self._reaction(force)
        return force + reaction.force, ~reaction.converged

    def _reaction(self, force, resistance: Resistance | None = None) -> Reaction:
        """Returns the reaction of the contact model along the variables.

        Args:
          force: All other generalized forces.
          resistance: Damping, stiffness and friction of the current step, if any.
        """
        at, motion, system = self.closure, self.motion, self.system
        law = contact_law(motion.model)
        assert law is not None
        numbers = law.prepared(motion.model) if system.law_numbers is None else system.law_numbers
        missing = force - vecmat(recursive_newton_euler(motion, at.bias), at.jacobian)
        added = None if resistance is None else resistance.added
        step = None if resistance is None else resistance.step
        free = Free(lambda: reduced_acceleration(motion, at, force), missing, added)
        return law.reaction(motion, free, numbers, step, system.guess, at, system.phase)

    def friction(self, step):
        return self.whole.joint_friction(step), self.closure.jacobian

    def own_rate(self):
        return self.whole.own_rate()

    def own_after(self, v, step):
        # With the velocity of the joints, as they accelerate in the step.
        moved = self.motion.v + matvec(self.closure.jacobian, v - self.v) + step * self.closure.bias
        return self.whole.own_after(moved, step)

    def residual(self, a, friction=True):
        here, at = self.prepared(), self.closure
        needed = recursive_newton_euler(here.motion, matvec(at.jacobian, a) + at.bias)
        return vecmat(needed, at.jacobian) - here.force(friction)

    # Momenta.

    def lagrangian_gradients(self):
        def energy(q, v):
            at = self.system.reduced.at(q, v)
            return kinetic_energy(self.motion.model, at.q, at.v)

        by_q, by_v = jax.grad(energy, argnums=(0, 1))(self.q, self.v)
        return by_q - vecmat(weight(self.motion), self.closure.jacobian), by_v

    def mass_matrix(self):
        return reduced_inertia(self.motion, self.closure.jacobian)

    def solve_mass_matrix(self, momentum):
        return jnp.linalg.solve(self.mass_matrix(), momentum)

    # There are no constraint equations: the closure satisfies the constraints.

    def constraint_residual(self):
        return jnp.zeros(0, self.q.dtype)

    def constraint_velocity(self):
        return jnp.zeros(0, self.q.dtype)

    def constraint_jacobian(self):
        return jnp.zeros((0, self.q.size), self.q.dtype)

    def constraint_force(self, multipliers):
        return jnp.zeros_like(self.q)

    def admissible(self, v):
        return v


def _accelerated(known, force, armature):
    motion, at, tau = known
    motion = motion.with_armature(motion.model.armature + armature)
    a = reduced_acceleration(motion, at, tau + vecmat(force, at.jacobian))
    return a, matvec(at.jacobian, a) + at.bias
