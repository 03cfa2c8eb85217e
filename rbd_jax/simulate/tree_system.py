"""A model, with its constraints and what acts on it, as a system that schemes step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._core.arguments import velocity
from .._core.array import is_known, with_precision, zeros
from .._core.errors import ModelError
from .._core.failures import first_failure
from .._core.positive import solve_positive
from .._core.versions import get_opaque_trace_state
from ..constraints import Stabilization
from ..constraints.consistency import nearest_velocity
from ..constraints.dynamics import motion_under_constraints
from ..constraints.evaluate import bias_of, constraint_scales, holonomic, matrix_of, rate_of, residual_of
from ..constraints.reactions import constraint_wrenches, transmitted
from ..contact.contacts import contact_wrenches
from ..contact.law import Free, JumpingLaw, Reaction, contact_law
from ..contact.separated import allowed_overlaps, overlapping
from ..dynamics import ExternalForces, Motion, passive_force
from ..dynamics.floating import stepped_along_fixed_axes
from ..dynamics.forward import singular_inertia, solve_inertia
from ..dynamics.inverse import recursive_newton_euler
from ..dynamics.lagrangian import gradients_of_lagrangian
from ..dynamics.mass_matrix import composite_rigid_body
from ..dynamics.passive import smooth_passive_force
from ..forces import Force, JointFriction, carried_forces
from ..forces.bearing import bearings_of
from ..forces.own_state import holding, own_after, own_rates, own_response, own_states
from ..model import Model, at_time, chart_rate, chart_velocity, difference, integrate
from ..model.configuration import charted, reparametrized
from ._bearings import friction_under_load
from ._resistance import Coupling, Resistance, resisted, sticking_speed
from .functions import asked
from .result import Result
from .state import State
from .system import System


Acting: TypeAlias = Force | Callable[[Model, State, Float[Array, ""]], Float[Array, "nv"]]
"""What can act in a rollout: a `Force`, or a function `(model, state, t) -> tau`.

>>> push: rbd.simulate.Acting = lambda model, state, t: jnp.ones(1)
>>> path = rbd.rollout(rbd.load("pendulum"), rbd.State(jnp.zeros(1), jnp.zeros(1)), dt=0.01, steps=100, forces=(push,))
>>> print(path.q[-1])
[0.205]
"""

#: So many motions are remembered, for the next who asks about the same state.
REMEMBERED = 4


class TreeSystem(System):
    """A model with the control `tau` of the present step.

    - `forces`: what acts beside what the model carries.
    - `u`: the controls of its actuators, by default zero.
    - `stabilization`: what holds its constraints.
    - `law_numbers`: what its contact law has worked out for the whole simulation; see `prepared`.
    - `overlaps`: by how much pairs of shapes may overlap at the start; see `prepared`.
    - `guess`: an acceleration for that law to begin with.
    - `phase`: what contacts do until the next event, under a law by which velocities jump.
    - `rubs`: whether joints may have dry friction, which is then searched for in each step. To what is compiled the friction is
      unknown; that there is none is seen before.

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

    def with_guess(self, acceleration):
        other = replace(self, guess=acceleration)
        vars(other).update(_motions=self._recent, _home=vars(self)["_home"])
        return other

    @property
    def jumps(self):
        return isinstance(contact_law(self.model), JumpingLaw)

    def phase_from(self, time, state):
        law = contact_law(self.model)
        if not isinstance(law, JumpingLaw):
            return self, state
        phase, moved, v = law.begun(self.motion(time, state.q, state.v), state.v)
        return replace(self, phase=phase), State(self.move(state.q, moved), v, state.own)

    def until(self, time, state):
        law = contact_law(self.model)
        if not isinstance(law, JumpingLaw):
            return super().until(time, state)
        return law.until(self.motion(time, state.q, state.v), self.phase)

    def contact_doubts(self, time, state, first):
        if contact_law(self.model) is None:
            return None
        return self.doubts_of(self.motion(time, state.q, state.v), first)

    def doubts_of(self, motion: Motion, first: Bool[Array, ""] | np.bool) -> Int[Array, ""] | None:
        """`contact_doubts` of the model in motion."""
        law, codes = contact_law(motion.model), []
        if law is not None and (lost := law.lost(motion)) is not None:
            codes.append(jnp.where(lost > 0, Result.CONTACTS_LOST, Result.SUCCESS))
        if self.overlaps is not None and (not is_known(first) or first):
            deep = overlapping(motion, self.overlaps)
            codes.append(jnp.where(first & deep, Result.OVERLAPPING, Result.SUCCESS))
        return first_failure(*codes) if codes else None

    def unsolved(self, time, state):
        known = self.motion(time, state.q, state.v).kept("answer")
        return known.unsolved if known else None

    def motion(self, time, q, v=None) -> Motion:
        """The model in motion. Asked again about the same arrays, it has what was computed before."""
        here, motions = get_opaque_trace_state(), self._recent
        # One that was made on the way into a loop is of no use after it; one made where the system was is everywhere.
        home = vars(self).setdefault("_home", here)
        for known in motions:
            if not known.motion.made_in(here, home):
                continue
            if known.q is q and (known.asked is time or not self._timed):
                if v is None or (known.motion.v is v and known.asked is time):
                    return known.motion
                motion = known.motion.with_velocity(v, time)
                break
        else:
            motion = Motion(self.model, q, v, time)
        motions.appendleft(_Asked(q, time, motion))
        return motion

    @property
    def _recent(self) -> deque:
        """The motions asked for lately. A system lives as long as a step is traced."""
        return vars(self).setdefault("_motions", deque(maxlen=REMEMBERED))  # pyright: ignore[reportArgumentType]

    def __check_init__(self):
        vars(self)["_home"] = get_opaque_trace_state()  # pyright: ignore[reportIndexIssue]

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
    def _timed(self) -> bool:
        """Whether the model at one time is not the model at another."""
        acting = (getattr(force, "rheonomic", True) for force in self.forces)
        return self.rheonomic or any(thing.rheonomic for thing in self.model.attached) or any(acting)

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

    def force(self, time, state, friction=True):
        self._refuse_bearings()
        motion = self.motion(time, state.q, state.v)
        force = self.applied(motion, state, friction) + self.tau
        reaction = self.reaction(motion, force)
        return force if reaction is None else force + reaction.force

    def friction(self, time, state, step):
        self._refuse_bearings()
        motion = self.motion(time, state.q, state.v)
        return self.joint_friction(motion, state, step), jnp.eye(self.model.nv, dtype=state.q.dtype)

    def joint_friction(self, motion: Motion, state: State, step) -> JointFriction:
        """The friction of the joints over a step: their own, if no contact law takes care of it, and that of force elements."""
        dry = self.dry_friction
        parts = [force.joint_friction(motion, step) for force in self.holding(state)]
        known = [part for part in parts if part is not None]
        if not known or not is_known(dry) or np.any(np.asarray(dry)):
            known = [JointFriction.dry(dry, sticking_speed(dry.dtype)), *known]
        return JointFriction.joined(known)

    @property
    def dry_friction(self) -> Float[Array, "nv"]:
        """The sizes of the joints' own dry friction, as far as no contact law takes care of it."""
        law = contact_law(self.model)
        if self.rubs and not (law and law.friction):
            return self.model.friction
        with jax.ensure_compile_time_eval():  # known to be none, so that nothing is compiled for it
            return zeros((self.model.nv,), self.model.dtype)

    def _refuse_bearings(self) -> None:
        """Where forces are asked for that do not depend on what comes of them, the friction of bearings is not among them."""
        if bearings_of(self.model):
            raise ModelError(
                f"model {self.model.name!r} has bearings, whose friction depends on what the joints transmit: that is known to "
                "schemes that ask how the model accelerates, rbd.SemiImplicitEuler() and the explicit ones, and not to this one"
            )

    def loaded(
        self, motion: Motion, state: State, step=None, f_ext: ExternalForces = None
    ) -> tuple[TreeSystem, Motion]:
        """The system and the model in motion with the dry friction that the bearings have under their loads there.

        - `step`: as for `acceleration`.
        """
        bearings = bearings_of(motion.model)
        if not bearings:
            return self, motion
        # What does not depend on the friction is worked out before it is searched for.
        motion.computed("velocities", "velocity_products", "twists", "inertias", "world_frames")
        if motion.model.constraints:
            matrix_of(motion)
            bias_of(motion)

        def wrenches(friction):
            rubbed = motion.with_friction(friction)
            system = replace(self, model=rubbed.model, rubs=True)
            return system.wrenches(rubbed, state, moved(rubbed, state, system, step, f_ext), f_ext)

        rubbed = motion.with_friction(friction_under_load(bearings, motion, wrenches))
        return replace(self, model=rubbed.model, rubs=True), rubbed

    def wrenches(
        self, motion: Motion, state: State, moved: Moved, f_ext: ExternalForces = None
    ) -> Float[Array, "nb 6"]:
        """What the joints transmit. What force elements and constraints do to bodies is counted, what acts along joints not."""
        acting = jnp.zeros((motion.model.nb, 6), motion.q.dtype)
        if moved.multipliers.size:
            acting = constraint_wrenches(motion, moved.multipliers)
        for force in self.holding(state):
            wrenches = force.body_wrenches_in(motion)
            if wrenches is not None:
                acting = acting + wrenches
        if moved.reaction is not None:
            acting = acting + contact_wrenches(motion, moved.reaction.contacts, moved.reaction.pushes)
        return transmitted(motion, moved.acceleration, f_ext, acting)

    def reaction(
        self, motion: Motion, force, resistance: Resistance | None = None, f_ext: ExternalForces = None
    ) -> Reaction | None:
        """What the contact law of the model does where all other forces are these; None where it has none.

        - `resistance`: what resists along the joints in the step that is being made, if one is.
        """
        law = contact_law(motion.model)
        if law is None:
            return None
        needed = (
            None if motion.model.constraints else recursive_newton_euler(motion, jnp.zeros_like(force), f_ext)
        )
        free = Free(
            lambda: (
                motion_under_constraints(motion, force, f_ext, stabilization=self.stabilization).acceleration
            ),
            None if needed is None else force - needed,
            None if resistance is None else resistance.added,
        )
        step = None if resistance is None else resistance.step
        numbers = law.prepared(motion.model) if self.law_numbers is None else self.law_numbers
        return law.reaction(motion, free, numbers, step, self.guess, phase=self.phase)

    def applied(
        self, motion: Motion, state: State, friction: bool = True, step: Float[Array, ""] | None = None
    ) -> Float[Array, "nv"]:
        """What acts without the control, with or without the dry friction of joints.

        - `step`: that of force elements is then what it would be at the end of such a step if the velocity stayed as it is.
        """
        law = contact_law(motion.model)
        rubbing = friction and not (law and law.friction)
        passive = passive_force if rubbing else smooth_passive_force
        acting = passive(motion.model, motion.q, motion.v)
        for force in self.holding(state):
            if friction and step is None:
                acting = acting + force.generalized_force(motion)
                continue
            acting = acting + force.smooth_force(motion)
            rubbed = force.joint_friction(motion, step) if friction and step is not None else None
            acting = acting if rubbed is None else acting + rubbed.force(motion.v)
        for index, function in enumerate(self.forces):
            if not isinstance(function, Force):
                name = f"the result of forces[{index}]"
                now = State(motion.q, motion.v, state.own)
                tau = asked(function, motion.model, now, motion.time)
                acting = acting + velocity("rollout", self.model, name, tau)
        return acting

    def resistance(self, motion: Motion, state: State, step) -> Resistance:
        """What resists along each degree of freedom during a step, and all forces but the control."""
        model = motion.model
        damping, stiffness = model.damping, model.stiffness
        elements = self.holding(state)
        for force in elements:
            if (own := force.joint_resistance(motion)) is not None:
                damping, stiffness = damping + own[0], stiffness + own[1]
        if (law := contact_law(model)) and law.as_implicitfast:
            stiffness = jnp.zeros_like(stiffness)
        force = self.applied(motion, state, friction=False)
        response = own_response(elements, motion, step)
        coupling = None if response is None else Coupling(*response)
        friction = self.joint_friction(motion, state, step)
        return Resistance(motion.v, force, damping, stiffness, friction, step, coupling)

    def own_rate(self, time, state):
        motion = self.motion(time, state.q, state.v)
        known = motion.kept("answer")
        asked = known and known.own is state.own and known.step is None
        return known.own_change if asked else self.own_rates(motion, state)

    def own_after(self, time, state, v, step):
        return self.own_states_after(self.motion(time, state.q, state.v), state, v, step)

    def own_states_after(self, motion: Motion, state: State, v, step) -> Float[Array, "own"]:
        """`own_after` of the model in motion."""
        return own_after(self.holding(state), motion, v, step)

    @property
    def frictional_own(self):
        return np.concatenate([np.zeros(0, bool), *(force.frictional_own for force in self.elements)])

    def own_rates(self, motion: Motion, state: State) -> Float[Array, "own"]:
        """`own_rate` of the model in motion."""
        return own_rates(self.holding(state), motion)

    def holding(self, state: State) -> tuple[Force, ...]:
        """The force elements in their states, in the precision of the state."""
        elements = with_precision(self.elements, state.q.dtype)
        return holding(elements, state.internal) if state.internal.size else elements

    def acceleration(self, time, state, step=None):
        return self._answered(time, state, step).acceleration

    def stepped(self, time, state, step):
        answer = self._answered(time, state, step)
        return answer.acceleration, answer.own_change

    def _answered(self, time, state, step) -> _Answer:
        motion = self.motion(time, state.q, state.v)

        # Functions may refer to anything, which what is compiled would hold on to.
        closed = all(isinstance(force, Force) for force in self.forces)

        def ask():
            answer = _compiled_answer if closed else _answer
            given = state.own, self, step
            return _Answer(state.own, step, *answer(motion, *given))

        known = motion.keep("answer", ask, velocity=True)
        return known if known.own is state.own and known.step is step else ask()

    def residual(self, time, state, a, friction=True):
        motion = self.motion(time, state.q, state.v)
        return recursive_newton_euler(motion, a) - self.force(time, state, friction)

    def lagrangian_gradients(self, time, q, v):
        return gradients_of_lagrangian(self.motion(time, q, v))

    def mass_matrix(self, time, q):
        return composite_rigid_body(self.motion(time, q))

    def solve_mass_matrix(self, time, q, momentum):
        return solve_inertia(self.motion(time, q), momentum)

    def singular(self, time, q, step):
        model = self.model
        return singular_inertia(self.motion(time, q).with_armature(model.armature + step * model.damping))

    def move(self, q, step):
        return integrate(self.model, q, step)

    def advanced(self, q, v, a, h):
        law = contact_law(self.model)
        if law is None or not law.fixed_axes:
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

    def constraint_residual(self, time, q):
        return residual_of(self.motion(time, q))

    @property
    def holonomic(self):
        return holonomic(self.model)

    @property
    def constraint_scales(self):
        return constraint_scales(self.model)

    def constraint_velocity(self, time, q, v):
        return rate_of(self.motion(time, q, v))

    def constraint_jacobian(self, time, q):
        return matrix_of(self.motion(time, q)).matrix

    def constraint_force(self, time, q, multipliers):
        return matrix_of(self.motion(time, q)).transposed(multipliers)

    def admissible(self, time, q, v):
        return nearest_velocity(self.motion(time, q), v)

    def settled(self, time, state):
        if self.stabilization is None:
            return state
        now = at_time(self.model, time)
        return State(*self.stabilization.settled(now, state.q, state.v), state.internal)


def _answer(motion: Motion, own, system: TreeSystem, step):
    """The acceleration of a model in motion (see `System.acceleration`), the rates of the forces' own states, or with a step what
    they are after it, and whether the search of a contact law ended without forces."""
    state = State(motion.q, motion.v, own)
    system, motion = replace(system, model=motion.model).loaded(motion, state, step)
    found = moved(motion, state, system, step)
    unsolved = None if found.reaction is None else ~found.reaction.converged
    if step is None:
        return found.acceleration, system.own_rates(motion, state), unsolved
    v = system.advanced(motion.q, motion.v, found.acceleration, step)[1]
    return found.acceleration, system.own_states_after(motion, state, v, step), unsolved


def moved(motion: Motion, state: State, system: TreeSystem, step=None, f_ext: ExternalForces = None) -> Moved:
    """How the model moves under all that acts, over a step or at this moment; the `system` is of the model in motion."""
    tau, stabilization = system.tau, system.stabilization
    reaction, resistance = None, None if step is None else system.resistance(motion, state, step)
    if resistance is None or system.searches:
        force = system.applied(motion, state, step=step) + tau
        reaction = system.reaction(motion, force, resistance, f_ext)
        force = force if reaction is None else force + reaction.force
    if reaction is not None and system.jumps and not motion.model.constraints:
        return Moved(reaction.acceleration, jnp.zeros(0, motion.v.dtype), reaction)
    if resistance is None:
        moving = motion_under_constraints(motion, force, f_ext, stabilization=stabilization)
        return Moved(moving.acceleration, moving.multipliers, reaction)
    pushed = tau if reaction is None else tau + reaction.force
    resistance = resistance.under(pushed)
    # What does not depend on what resists is worked out before that is searched for.
    motion.computed("velocities", "velocity_products")
    if motion.model.constraints:
        matrix_of(motion)
        bias_of(motion)
        motion.computed("inertias")
    if reaction is None or motion.model.constraints:
        known = motion, f_ext, stabilization
        a, multipliers = resisted(_accelerated, known, resistance)
        return Moved(a, multipliers, reaction)
    # With the matrix that the law has made.
    needed = recursive_newton_euler(motion, jnp.zeros_like(motion.v), f_ext)
    a = resisted(_solved, (composite_rigid_body(motion), needed), resistance)
    return Moved(a, jnp.zeros(0, a.dtype), reaction)


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


#: Compiled for itself: the stages of a scheme are traced once, and so is what another simulation of the model asks.
_compiled_answer = eqx.filter_jit(_answer)


class Moved(NamedTuple):
    """How a model moves: its acceleration, the multipliers of its constraints, and what its contact law does, if it has one."""

    acceleration: Float[Array, "nv"]
    multipliers: Float[Array, "m"]
    reaction: Reaction | None


class _Answer(NamedTuple):
    """What `_answer` gave, and for which states of the forces and which step.

    - `own_change`: the rates of the forces' own states; with a step those states at its end.
    """

    own: Float[Array, "own"] | None
    step: Float[Array, ""] | None
    acceleration: Float[Array, "nv"]
    own_change: Float[Array, "own"]
    unsolved: Bool[Array, ""] | None


class _Asked(NamedTuple):
    """A motion, with the arrays that it was asked for by."""

    q: Float[Array, "nq"]
    asked: Float[Array, ""]
    motion: Motion
