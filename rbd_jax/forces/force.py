"""The base class of forces: the methods that every family implements, and results that follow by differentiation."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._core.arguments import configuration, number, velocity
from .._core.array import dot, matmul, matvec, with_precision
from .._core.errors import ModelError
from ..dynamics import Motion
from ..model import Model, integrate
from ..model.attachments import after_locking, all_of, attached_to
from ..spatial import no_frames
from ..spatial.attached import Attached
from ..spatial.transform import Transform
from .joint_friction import JointFriction
from .own_state import (
    holding,
    own_after,
    own_after_explicitly,
    own_rates,
    own_response,
    own_states,
    velocity_response,
)


F = TypeVar("F", bound="Force")


class Force(Attached):
    """A force on a model, as a function of its motion and of time.

    A model carries forces (`rbd.add_forces`), or `rollout(forces=(force, ...))` gets them. `force(model, q, v)` returns the
    generalized force. Parameters are leaves: differentiate with respect to them, batch over them, replace them with
    `equinox.tree_at`. They are cast to the precision of the state. Use `equinox.filter_jit(force)` to compile a single force.

    A custom family implements `generalized_force` and `stored_energy`. `motion` provides the model, q, v, the time, and all
    quantities derived from them.

    A force may have an *internal state*, such as an activation or the deflection of a bristle. The state is stored in
    leaves of the force, whose values are the initial state. `own` returns it, `holding` replaces it, and `own_rate`
    returns its rate. Schemes integrate it together with q and v. The default scheme uses `own_after`, so that the state
    may change much faster than the step.

    >>> class Magnet(rbd.forces.Force):
    ...     joints = ("swing",)
    ...     def generalized_force(self, motion):
    ...         return -jnp.sin(2 * motion.q)
    ...     def stored_energy(self, motion):
    ...         return jnp.sin(motion.q[0]) ** 2
    >>> print(Magnet()(rbd.load("pendulum"), jnp.array([0.5]), jnp.zeros(1)))
    [-0.841]
    """

    role = "force"

    if TYPE_CHECKING:  # fields of some families, properties of others
        bodies: tuple[str, ...]
        frames: Transform
        joints: tuple[str, ...]
    else:
        #: The names of the bodies that it acts on, and of the joints that it acts along.
        bodies = joints = ()

        @property
        def frames(self) -> Transform:
            """The reference frame on each of its bodies: (k,)."""
            size = len(self.bodies)
            return Transform(jnp.broadcast_to(jnp.eye(3), (size, 3, 3)), jnp.zeros((size, 3)))

    def attached(self: F, bodies: Sequence[str], frames: Transform, joints: Sequence[str]) -> F:
        own, fields = {field.name for field in dataclasses.fields(self)}, {}
        for name, value in (("bodies", tuple(bodies)), ("joints", tuple(joints))):
            if name in own:
                fields[name] = value
            elif value != getattr(self, name):
                raise ModelError(
                    f"{type(self).__name__} must implement `attached`, because an edit moved it to other {name}"
                )
        return self.changed(**fields)

    @abc.abstractmethod
    def generalized_force(self, motion: Motion) -> Float[Array, "nv"]:
        """Returns the generalized force `tau` for a model in motion."""

    @abc.abstractmethod
    def stored_energy(self, motion: Motion) -> Float[Array, ""]:
        """Returns the stored (conservative) energy from the configuration and the internal state; zero if there is no storage."""

    def placed(self, motion: Motion) -> Motion:
        """Returns the motion with the quantities stored that several methods of this force need.

        By default these are the twists of all bodies, if the force acts on bodies.
        """
        return motion.computed("twists") if self.bodies else motion

    def joint_resistance(self, motion: Motion) -> tuple[Float[Array, "nv"], Float[Array, "nv"]] | None:
        """Returns the damping `-∂tau/∂v` and the stiffness `-∂tau/∂q` of a force along separate degrees of freedom, or None.

        The default scheme treats these implicitly, so they may be stiff. It treats the forces
        of other families (None) explicitly.
        """
        return None

    def velocity_response(self, motion: Motion) -> tuple[Float[Array, "nv k"], Float[Array, "k nv"]] | None:
        """Returns two factors of `∂tau/∂v` of a force that does not act along separate degrees of freedom, or None.

        `rbd.MujocoEuler` with `implicit="velocities"` treats these forces implicitly.
        """
        return None

    def joint_friction(self, motion: Motion, step: Float[Array, ""]) -> JointFriction | None:
        """Returns the bounded friction along joints over a step, as a function of the velocity at its end, or None.

        Schemes with Coulomb's law for dry friction solve for that velocity. They add
        `smooth_force` instead of `generalized_force`.
        """
        return None

    def smooth_force(self, motion: Motion) -> Float[Array, "nv"]:
        """Returns the generalized force without its `joint_friction`."""
        return self.generalized_force(motion)

    def body_wrenches_in(self, motion: Motion) -> Float[Array, "nb 6"] | None:
        """Returns the wrench on every body, in its own frame, for a force on bodies; None for a force along joints."""
        return None

    # Internal state.

    @property
    def own(self) -> Float[Array, "own"]:
        """The internal state of the force; of length zero by default."""
        return jnp.zeros(0)

    def holding(self: F, own: Float[Array, "own"]) -> F:
        """Returns the force with another internal state."""
        return self

    def own_rate(self, motion: Motion) -> Float[Array, "own"]:
        """Returns the rate of the internal state."""
        return jnp.zeros(0, motion.q.dtype)

    #: True if the rate depends on the velocity. The default scheme then also includes the effect of the state on the force at the
    #: end of the step.
    coupled: ClassVar[bool] = True

    @property
    def frictional_own(self) -> Bool[np.ndarray, "own"]:
        """Flags of the entries of the internal state that belong to its `joint_friction`; all False by default."""
        return np.zeros(self.own.size, bool)

    def own_after(self, motion: Motion, v: Float[Array, "nv"], step: Float[Array, ""]) -> Float[Array, "own"]:
        """Returns the internal state z after a step with the final velocity v, by default linearly implicit in z.

        `z + h (1 - h ∂ż/∂z)⁻¹ ż`, at the velocity v, is stable for any decay rate of z. Override it if a closed form exists.
        """
        after, own = motion.with_velocity(v), self.own
        return own + matvec(self._follow(after, step), self.own_rate(after)) if own.size else own

    def own_after_explicitly(self, motion: Motion, step: Float[Array, ""]) -> Float[Array, "own"]:
        """Returns the internal state after an explicit step, as `rbd.MujocoEuler` takes it."""
        return self.own + step * self.own_rate(motion)

    def own_response(
        self, motion: Motion, step: Float[Array, ""]
    ) -> tuple[Float[Array, "nv own"], Float[Array, "own"], Float[Array, "own nv"]] | None:
        """Returns the response to the internal state z over a step: `C = ∂tau/∂z h (1 - h ∂ż/∂z)⁻¹`, `ż` and `B = ∂ż/∂v`.

        The force changes with z by `C (ż + B (v⁺ - v))` until the end of the step. None if z does not depend on the velocity.
        """
        own = self.own
        if not own.size or not self.coupled or self.frictional_own.all():
            return None
        rate = self.own_rate(motion)
        by_own = jax.jacfwd(lambda z: self.holding(z).smooth_force(motion))(own)
        by_v = jax.jacrev(lambda v: self.own_rate(motion.with_velocity(v)))(motion.v)
        return matmul(by_own, self._follow(motion, step)), rate, by_v

    def _follow(self, motion: Motion, step: Float[Array, ""]) -> Float[Array, "own own"]:
        """Returns `h (1 - h ∂ż/∂z)⁻¹`."""
        by_own = jax.jacfwd(lambda z: self.holding(z).own_rate(motion))(self.own)
        unit = jnp.eye(self.own.size, dtype=by_own.dtype)
        return step * jnp.linalg.inv(unit - step * by_own)

    # Derived quantities.

    def __call__(
        self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], time=None
    ) -> Float[Array, "nv"]:
        """Returns `tau`, the generalized force."""
        force, motion = self.in_motion(model, q, v, time)
        return force.generalized_force(motion)

    def energy(self, model: Model, q: Float[Array, "nq"], time=None) -> Float[Array, ""]:
        """Returns the stored energy V; a purely conservative force is `tau = -∂V/∂q`."""
        force, motion = self.in_motion(model, q, None, time)
        return force.stored_energy(motion)

    def power(
        self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], time=None
    ) -> Float[Array, ""]:
        """Returns `tau · v`: the power of the force on the degrees of freedom of the model."""
        force, motion = self.in_motion(model, q, v, time)
        return dot(force.generalized_force(motion), motion.v)

    def dissipation(
        self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], time=None
    ) -> Float[Array, ""]:
        """Returns `-tau · v - dV/dt`: the power that the force dissipates; negative if it adds energy."""
        force, motion = self.in_motion(model, q, v, time)

        def stored(step):
            moved = Motion(motion.model, integrate(model, motion.q, step * motion.v))
            return force.holding(force.own + step * force.own_rate(motion)).stored_energy(moved)

        zero, one = jnp.zeros((), motion.v.dtype), jnp.ones((), motion.v.dtype)
        return -self.power(model, q, v, time) - jax.jvp(stored, (zero,), (one,))[1]

    def stiffness(
        self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], time=None
    ) -> Float[Array, "nv nv"]:
        """Returns `K = ∂tau/∂q` in the tangent space: the change of `tau` for a step `q ⊕ δ`; negative for a spring."""
        _, motion = self.in_motion(model, q, v, time)

        def stepped(step):
            return self(model, integrate(model, motion.q, step), motion.v, time)

        return jax.jacfwd(stepped)(jnp.zeros_like(motion.v))

    def damping(
        self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], time=None
    ) -> Float[Array, "nv nv"]:
        """Returns `D = -∂tau/∂v`; positive for a damper."""
        _, motion = self.in_motion(model, q, v, time)
        return -jax.jacfwd(lambda v: self(model, motion.q, v, time))(motion.v)

    def in_motion(self: F, model: Model, q, v=None, time=None) -> tuple[F, Motion]:
        """Returns the force in the precision of the state, and the model in that state, by default at rest."""
        name = type(self).__name__
        q = configuration(name, model, "q", q)
        v = None if v is None else velocity(name, model, "v", v)
        time = None if time is None else number(name, "time", time)
        return with_precision(self, q.dtype), Motion(model, q, v, time)


def add_forces(model: Model, *forces: Force) -> Model:
    """Returns the model with force elements added; they act in every rollout, and edits of the model preserve them.

    Args:
      model: The model.
      *forces: The forces; they follow the existing ones.

    >>> spring = rbd.forces.SpringDamper(("world", "lower"), ((0, 0, -3), (0, 0, -1)), rest_length=0.5, spring_constant=100.0)
    >>> model = rbd.add_forces(rbd.load("double_pendulum"), spring)
    >>> model.forces[0].label
    "SpringDamper('world', 'lower')"
    """
    return attached_to(model, all_of(Force, "a force; see rbd_jax.forces", forces), "add_forces")


class Together(Force):
    """Several forces as one.

    >>> wind = rbd.forces.DirectionalForce("bob", (0.0, 0.0, -1.0), (1.0, 0.0, 0.0))
    >>> both = rbd.forces.Together(wind, rbd.forces.ViscousDamping("bob", 0.5))
    >>> print(both(rbd.load("pendulum"), jnp.zeros(1), jnp.array([2.0])))
    [-2.]
    """

    forces: tuple[Force, ...]

    def __init__(self, *forces):
        for index, force in enumerate(forces):
            if not isinstance(force, Force):
                raise ValueError(f"Together: forces[{index}] is a {type(force).__name__}, not a Force")
        self.forces = forces

    def placed(self, motion):
        for force in self.forces:
            motion = force.placed(motion)
        return motion

    def generalized_force(self, motion):
        return sum((force.generalized_force(motion) for force in self.forces), jnp.zeros_like(motion.v))

    def stored_energy(self, motion):
        return sum((force.stored_energy(motion) for force in self.forces), jnp.zeros((), motion.q.dtype))

    def joint_resistance(self, motion):
        known = [pair for force in self.forces if (pair := force.joint_resistance(motion)) is not None]
        return jax.tree.map(lambda *x: sum(x), *known) if known else None

    def velocity_response(self, motion):
        return velocity_response(self.forces, motion)

    def joint_friction(self, motion, step):
        parts = [force.joint_friction(motion, step) for force in self.forces]
        known = [part for part in parts if part is not None]
        return JointFriction.joined(known) if known else None

    def smooth_force(self, motion):
        return sum((force.smooth_force(motion) for force in self.forces), jnp.zeros_like(motion.v))

    def body_wrenches_in(self, motion):
        known = [one for force in self.forces if (one := force.body_wrenches_in(motion)) is not None]
        return sum(known) if known else None

    @property
    def own(self):
        return own_states(self.forces)

    def holding(self, own):
        return self.changed(forces=holding(self.forces, own))

    def own_rate(self, motion):
        return own_rates(self.forces, motion)

    @property
    def frictional_own(self):
        return np.concatenate([np.zeros(0, bool), *(force.frictional_own for force in self.forces)])

    def own_after(self, motion, v, step):
        return own_after(self.forces, motion, v, step)

    def own_after_explicitly(self, motion, step):
        return own_after_explicitly(self.forces, motion, step)

    def own_response(self, motion, step):
        return own_response(self.forces, motion, step)

    @property
    def bodies(self):
        return tuple(body for force in self.forces for body in force.bodies)

    @property
    def frames(self):
        parts = [force.frames for force in self.forces if force.bodies]
        return jax.tree.map(lambda *x: jnp.concatenate(x), *parts) if parts else no_frames()

    @property
    def joints(self):
        return tuple(joint for force in self.forces for joint in force.joints)

    @property
    def scalar_joints(self):
        return all(force.scalar_joints for force in self.forces if force.joints)

    @property
    def refers(self):
        return tuple(one for force in self.forces for one in force.refers)

    def called(self, name, refers):
        given = iter(refers)
        own = [force.called(force.name, tuple(next(given) for _ in force.refers)) for force in self.forces]
        return self.changed(forces=tuple(own))

    def without(self, gone):
        kept = [force.without(gone) if set(gone) & set(force.refers) else force for force in self.forces]
        left = tuple(force for force in kept if force is not None)
        return self.changed(forces=left) if left else None

    def bound(self, bodies, joints):
        return self.changed(forces=tuple(force.bound(bodies, joints) for force in self.forces))

    def attached(self, bodies, frames, joints):
        moved, body, joint = [], 0, 0
        for force in self.forces:
            own = (
                slice(body, body := body + len(force.bodies)),
                slice(joint, joint := joint + len(force.joints)),
            )
            moved.append(force.attached(bodies[own[0]], frames[own[0]], joints[own[1]]))
        return self.changed(forces=tuple(moved))

    def locked(self, joints):
        left = tuple(after_locking(self.forces, joints))
        return self.changed(forces=left) if left else None
