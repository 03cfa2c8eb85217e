"""The system of a model that moves with a few independent variables, `q = γ(y)` (Sueda's notes, §2.6).

With `v = G ẏ` and `a = G ÿ + g`, everything that acts is multiplied by `Gᵀ`, and the mass matrix is `Gᵀ M G` (2.83). Schemes
do not see the difference: y is a vector space, and there are no constraints.
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
from ..constraints import Closure, ReducedModel
from ..constraints.closure import reduced_acceleration, reduced_inertia
from ..contact.law import Free, JumpingLaw, contact_law
from ..dynamics import Motion, kinetic_energy
from ..dynamics.forward import singular_matrix
from ..dynamics.inverse import recursive_newton_euler, weight
from ._resistance import Resistance, resisted
from .state import State
from .system import System
from .tree_system import Acting, TreeSystem


class ReducedSystem(System):
    """A `ReducedModel` with the control `tau` of the present step: q and v are its variables y and their rates.

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

    def contact_doubts(self, time, state, first):
        if contact_law(self.reduced.model) is None:
            return None
        return self.whole.doubts_of(self.moving(time, state.q, state.v)[1], first)

    def with_guess(self, acceleration):
        other = super().with_guess(acceleration)
        vars(other)["_searched"] = self._searched
        return other

    def unsolved(self, time, state):
        known = self._searched.get("last")
        return known[1] if known and known[0] is state.v else None

    @property
    def jumps(self):
        return self.whole.jumps

    def phase_from(self, time, state):
        law = contact_law(self.reduced.model)
        if not isinstance(law, JumpingLaw):
            return self, state
        at, motion = self.moving(time, state.q, state.v)
        phase, moved, v = law.begun(motion, state.v, at)
        return replace(self, phase=phase), State(self.move(state.q, moved), v, state.own)

    def until(self, time, state):
        law = contact_law(self.reduced.model)
        if not isinstance(law, JumpingLaw):
            return super().until(time, state)
        return law.until(self.moving(time, state.q, state.v)[1], self.phase)

    @property
    def _searched(self) -> dict:
        """The velocities at which the forces of contact were last searched for, and whether in vain."""
        return vars(self).setdefault("_searched", {})  # pyright: ignore[reportArgumentType]

    @property
    def whole(self) -> TreeSystem:
        """The tree that moves along, without `tau`."""
        still = jnp.zeros(self.reduced.model.nv, self.tau.dtype)
        system = TreeSystem(model=self.reduced.model, tau=still, forces=self.forces, u=self.u)
        return replace(system, overlaps=self.overlaps, rubs=self.rubs)

    def moving(self, time, y, y_rate) -> tuple[Closure, Motion]:
        """How the tree depends on the variables, and the tree in motion."""
        at = self.reduced.at(y, y_rate)
        return at, Motion(self.reduced.model, at.q, at.v, time)

    def motion(self, time, q, v=None):
        return self.moving(time, q, jnp.zeros_like(q) if v is None else v)[1]

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
            f"joints {joints} of model {self.name!r} have no degrees of freedom of their own: they move with the variables of a "
            "ReducedModel"
        )

    def _force(self, at: Closure, motion: Motion, state: State, friction: bool = True):
        force = self.tau + vecmat(self.whole.applied(motion, state, friction), at.jacobian)
        return force + self._reaction(at, motion, state, force)

    def _reaction(
        self, at: Closure, motion: Motion, state: State, force, resistance: Resistance | None = None
    ):
        """What the contact law of the model does along the variables, where all other forces are these.

        - `resistance`: what resists along the joints in the step that is being made, if one is.
        """
        law, model = contact_law(motion.model), motion.model
        if law is None:
            return jnp.zeros_like(force)
        numbers = law.prepared(model) if self.law_numbers is None else self.law_numbers
        missing = force - vecmat(recursive_newton_euler(motion, at.bias), at.jacobian)
        added = None if resistance is None else resistance.added
        step = None if resistance is None else resistance.step
        free = Free(lambda: reduced_acceleration(motion, at, force), missing, added)
        reaction = law.reaction(motion, free, numbers, step, self.guess, at, self.phase)
        self._searched["last"] = state.v, ~reaction.converged
        return reaction.force

    def force(self, time, state, friction=True):
        return self._force(*self.moving(time, state.q, state.v), state, friction)

    def friction(self, time, state, step):
        at, motion = self.moving(time, state.q, state.v)
        return self.whole.joint_friction(motion, state, step), at.jacobian

    def own_rate(self, time, state):
        return self.whole.own_rates(self.moving(time, state.q, state.v)[1], state)

    def own_after(self, time, state, v, step):
        at, motion = self.moving(time, state.q, state.v)
        # That of the joints, as they accelerate in the step.
        v = motion.v + matvec(at.jacobian, v - state.v) + step * at.bias
        return self.whole.own_states_after(motion, state, v, step)

    @property
    def frictional_own(self):
        return self.whole.frictional_own

    def acceleration(self, time, state, step=None):
        at, motion = self.moving(time, state.q, state.v)
        if step is None:
            return reduced_acceleration(motion, at, self._force(at, motion, state))
        motion.computed("velocities", "velocity_products", "inertias")
        force, resistance = self.tau, self.whole.resistance(motion, state, step)
        if self.searches:
            all_else = force + vecmat(self.whole.applied(motion, state, step=step), at.jacobian)
            force = force + self._reaction(at, motion, state, all_else, resistance)
        return resisted(_accelerated, (motion, at, force), resistance)

    def residual(self, time, state, a, friction=True):
        at, motion = self.moving(time, state.q, state.v)
        needed = recursive_newton_euler(motion, matvec(at.jacobian, a) + at.bias)
        return vecmat(needed, at.jacobian) - self._force(at, motion, state, friction)

    def lagrangian_gradients(self, time, q, v):
        at, motion = self.moving(time, q, v)

        def energy(q, v):
            at = self.reduced.at(q, v)
            return kinetic_energy(motion.model, at.q, at.v)

        by_q, by_v = jax.grad(energy, argnums=(0, 1))(q, v)
        return by_q - vecmat(weight(motion), at.jacobian), by_v

    def mass_matrix(self, time, q):
        at, motion = self.moving(time, q, jnp.zeros_like(q))
        return reduced_inertia(motion, at.jacobian)

    def solve_mass_matrix(self, time, q, momentum):
        return jnp.linalg.solve(self.mass_matrix(time, q), momentum)

    def singular(self, time, q, step):
        at, motion = self.moving(time, q, jnp.zeros_like(q))
        motion = motion.with_armature(motion.model.armature + step * motion.model.damping)
        return singular_matrix(reduced_inertia(motion, at.jacobian))

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

    def constraint_residual(self, time, q):
        return jnp.zeros(0, q.dtype)

    def constraint_velocity(self, time, q, v):
        return jnp.zeros(0, q.dtype)

    def constraint_jacobian(self, time, q):
        return jnp.zeros((0, q.size), q.dtype)

    def constraint_force(self, time, q, multipliers):
        return jnp.zeros_like(q)

    def admissible(self, time, q, v):
        return v

    def settled(self, time, state):
        return state


def _accelerated(known, force, armature):
    motion, at, tau = known
    motion = motion.with_armature(motion.model.armature + armature)
    a = reduced_acceleration(motion, at, tau + vecmat(force, at.jacobian))
    return a, matvec(at.jacobian, a) + at.bias
