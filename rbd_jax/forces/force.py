"""What a force is: the protocol that every family implements, and what follows from it by differentiation."""

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
from .own_state import holding, own_after, own_rates, own_response, own_states


F = TypeVar("F", bound="Force")


class Force(Attached):
    """Something that acts on a model, as a function of its motion and of time.

    A model carries it (`rbd.add_forces`), or `rollout(forces=(force, ...))` is given it. Called as `force(model, q, v)` it
    gives its generalized force. Parameters are leaves: differentiate with respect to them, batch over them, replace them with
    `equinox.tree_at`. They are cast to the precision of the state. To compile one by itself, `equinox.filter_jit(force)`.

    A family of your own implements `generalized_force` and `stored_energy`; `motion` has the model, q, v, the time, and
    whatever follows from them.

    A force may have a *state of its own*: an activation, the deflection of a bristle. It is kept in leaves of the force,
    which say where it starts. `own` reads it, `holding` replaces it, `own_rate` says how it changes. Schemes integrate it
    beside q and v; the default scheme does so by `own_after`, in which the state may change much faster than the step is long.

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
        #: The names of the bodies that it is on, and of the joints that it acts along.
        bodies = joints = ()

        @property
        def frames(self) -> Transform:
            """A frame on each of its bodies, where what it does is given: (k,)."""
            size = len(self.bodies)
            return Transform(jnp.broadcast_to(jnp.eye(3), (size, 3, 3)), jnp.zeros((size, 3)))

    def attached(self: F, bodies: Sequence[str], frames: Transform, joints: Sequence[str]) -> F:
        own, fields = {field.name for field in dataclasses.fields(self)}, {}
        for name, value in (("bodies", tuple(bodies)), ("joints", tuple(joints))):
            if name in own:
                fields[name] = value
            elif value != getattr(self, name):
                raise ModelError(
                    f"{type(self).__name__} does not say how it goes to other {name}: it implements `attached` for that"
                )
        return self.changed(**fields)

    @abc.abstractmethod
    def generalized_force(self, motion: Motion) -> Float[Array, "nv"]:
        """`tau`, from a model in motion."""

    @abc.abstractmethod
    def stored_energy(self, motion: Motion) -> Float[Array, ""]:
        """The energy that the force keeps and gives back, from the configuration and its own state; zero where it keeps none."""

    def placed(self, motion: Motion) -> Motion:
        """Returns the motion with the quantities stored that several methods of this force need.

        By default the twists of all bodies, if the force acts on bodies.
        """
        return motion.computed("twists") if self.bodies else motion

    def joint_resistance(self, motion: Motion) -> tuple[Float[Array, "nv"], Float[Array, "nv"]] | None:
        """Of a force that acts along each degree of freedom by itself, its damping `-∂tau/∂v` and its stiffness `-∂tau/∂q` there.

        The default scheme takes those implicitly, so that they may be stiff; the forces of other families, None, not.
        """
        return None

    def joint_friction(self, motion: Motion, step: Float[Array, ""]) -> JointFriction | None:
        """The bounded friction along joints over a step, as a function of the velocity at its end; None without any.

        Schemes that take dry friction by Coulomb's law solve for that velocity. They add `smooth_force` to it, in place of
        `generalized_force`.
        """
        return None

    def smooth_force(self, motion: Motion) -> Float[Array, "nv"]:
        """The generalized force without its `joint_friction`."""
        return self.generalized_force(motion)

    def body_wrenches_in(self, motion: Motion) -> Float[Array, "nb 6"] | None:
        """The wrench on every body, in its own frame, of a force that acts on bodies; None for what acts along joints."""
        return None

    # A state of its own.

    @property
    def own(self) -> Float[Array, "own"]:
        """The state that the force has itself; of length zero by default."""
        return jnp.zeros(0)

    def holding(self: F, own: Float[Array, "own"]) -> F:
        """The force in another state of its own."""
        return self

    def own_rate(self, motion: Motion) -> Float[Array, "own"]:
        """The rate at which its own state changes."""
        return jnp.zeros(0, motion.q.dtype)

    #: Whether the rate depends on the velocity. The default scheme then also takes the effect of the state on the force at the
    #: end of the step.
    coupled: ClassVar[bool] = True

    @property
    def frictional_own(self) -> Bool[np.ndarray, "own"]:
        """Which entries of its own state belong to its `joint_friction`; none by default."""
        return np.zeros(self.own.size, bool)

    def own_after(self, motion: Motion, v: Float[Array, "nv"], step: Float[Array, ""]) -> Float[Array, "own"]:
        """Its own state z after a step of that length at whose end the velocity is v: by default linearly implicit in z.

        `z + h (1 - h ∂ż/∂z)⁻¹ ż`, at the velocity v, is stable however fast z decays. A family with a closed form implements it.
        """
        after, own = motion.with_velocity(v), self.own
        return own + matvec(self._follow(after, step), self.own_rate(after)) if own.size else own

    def own_response(
        self, motion: Motion, step: Float[Array, ""]
    ) -> tuple[Float[Array, "nv own"], Float[Array, "own"], Float[Array, "own nv"]] | None:
        """How the force responds to its own state z over a step: `C = ∂tau/∂z h (1 - h ∂ż/∂z)⁻¹`, `ż` and `B = ∂ż/∂v`.

        By `C (ż + B (v⁺ - v))` the force changes with z until the end of the step. None where z does not follow the velocity.
        """
        own = self.own
        if not own.size or not self.coupled or self.frictional_own.all():
            return None
        rate = self.own_rate(motion)
        by_own = jax.jacfwd(lambda z: self.holding(z).smooth_force(motion))(own)
        by_v = jax.jacrev(lambda v: self.own_rate(motion.with_velocity(v)))(motion.v)
        return matmul(by_own, self._follow(motion, step)), rate, by_v

    def _follow(self, motion: Motion, step: Float[Array, ""]) -> Float[Array, "own own"]:
        """`h (1 - h ∂ż/∂z)⁻¹`."""
        by_own = jax.jacfwd(lambda z: self.holding(z).own_rate(motion))(self.own)
        unit = jnp.eye(self.own.size, dtype=by_own.dtype)
        return step * jnp.linalg.inv(unit - step * by_own)

    # What follows.

    def __call__(
        self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], time=None
    ) -> Float[Array, "nv"]:
        """`tau`, the generalized force."""
        force, motion = self.in_motion(model, q, v, time)
        return force.generalized_force(motion)

    def energy(self, model: Model, q: Float[Array, "nq"], time=None) -> Float[Array, ""]:
        """V, the energy that the force keeps and gives back: `tau = -∂V/∂q` where nothing else is in it."""
        force, motion = self.in_motion(model, q, None, time)
        return force.stored_energy(motion)

    def power(
        self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], time=None
    ) -> Float[Array, ""]:
        """`tau · v`: the rate at which the force works on the degrees of freedom of the model."""
        force, motion = self.in_motion(model, q, v, time)
        return dot(force.generalized_force(motion), motion.v)

    def dissipation(
        self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], time=None
    ) -> Float[Array, ""]:
        """`-tau · v - dV/dt`: the rate at which energy is lost in the force; negative where it brings energy in."""
        force, motion = self.in_motion(model, q, v, time)

        def stored(step):
            moved = Motion(motion.model, integrate(model, motion.q, step * motion.v))
            return force.holding(force.own + step * force.own_rate(motion)).stored_energy(moved)

        zero, one = jnp.zeros((), motion.v.dtype), jnp.ones((), motion.v.dtype)
        return -self.power(model, q, v, time) - jax.jvp(stored, (zero,), (one,))[1]

    def stiffness(
        self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], time=None
    ) -> Float[Array, "nv nv"]:
        """`K = ∂tau/∂q`, in the tangent space: the change of `tau` for a step `q ⊕ δ`. A spring's is negative."""
        _, motion = self.in_motion(model, q, v, time)

        def stepped(step):
            return self(model, integrate(model, motion.q, step), motion.v, time)

        return jax.jacfwd(stepped)(jnp.zeros_like(motion.v))

    def damping(
        self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], time=None
    ) -> Float[Array, "nv nv"]:
        """`D = -∂tau/∂v`. A damper's is positive."""
        _, motion = self.in_motion(model, q, v, time)
        return -jax.jacfwd(lambda v: self(model, motion.q, v, time))(motion.v)

    def in_motion(self: F, model: Model, q, v=None, time=None) -> tuple[F, Motion]:
        """The force in the precision of the state, and the model in that state; at rest by default."""
        name = type(self).__name__
        q = configuration(name, model, "q", q)
        v = None if v is None else velocity(name, model, "v", v)
        time = None if time is None else number(name, "time", time)
        return with_precision(self, q.dtype), Motion(model, q, v, time)


def add_forces(model: Model, *forces: Force) -> Model:
    """The model with force elements after those that it has. They act in every rollout, and stay through every edit.

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
