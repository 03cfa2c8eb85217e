"""The model: a PyTree whose leaves are all parameters of a mechanism, and whose structure is its topology."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import pick
from .._core.errors import UnknownNameError, suggest
from .._core.module import Module
from ..joints import Joint
from ..loops import Constraint
from ..spatial import AnyInertia, AnyTransform, planar
from ..spatial.attached import Attached
from .settings import Settings
from .topology import Topology


class Model(Module):
    """A mechanism of rigid bodies in a tree, each attached to its parent by a joint (book table 4.3).

    Every field except the topology is an array and a leaf: differentiate with respect to it (book §5.5), batch over
    it with `vmap`, replace it with `equinox.tree_at`. Create models with `rbd.load`, `rbd.load_urdf`,
    `rbd.load_mjcf` or a `ModelBuilder`.

    - `gravity`: the acceleration of free fall, in the world. It is (2,) in a planar model, whose `placements`, `inertias` and
      `joints` are planar too; see `planar`.
    - `placements`: the joint frame of each body, in its parent's frame.
    - `inertias`: the inertia of each body, in its own frame.
    - `joints`: the joints, with equal ones stacked in a group.
    - `armature`: inertia added to each degree of freedom (rotor inertias reflected through gears).
    - `damping`, `friction`: viscous coefficient and Coulomb force of each degree of freedom.
    - `stiffness`, `spring_reference`: stiffness of the spring at each degree of freedom, and its rest configuration.
    - `lower`, `upper`: position limits, for each entry of q; infinite for entries without limits.
    - `velocity_limit`, `effort_limit`: limits for each degree of freedom.
    - `mimic_multiplier`, `mimic_offset`: `q_follower = multiplier q_leader + offset`, for each joint that mimics another.
    - `reference`: the reference configuration, see `neutral`; every joint at its zero unless a file defines another one.
    - `attached`: constraints, force elements, sites, shapes, actuators, sensors; see `attach`.
    - `settings`: the simulation settings of the model file.

    >>> model = rbd.load("double_pendulum")
    >>> print(model.nq, model.nv, model.body_names, model.inertias.mass)
    2 2 ('upper', 'lower') [1. 1.]
    >>> of_mass = jax.grad(lambda model: rbd.potential_energy(model, jnp.array([0.3, 0.1])))(model).inertias.mass
    >>> print(of_mass)
    [ 0.    -9.372]
    """

    gravity: Float[Array, "k"]
    placements: AnyTransform
    inertias: AnyInertia
    joints: tuple[Joint, ...]
    armature: Float[Array, "nv"]
    damping: Float[Array, "nv"]
    friction: Float[Array, "nv"]
    stiffness: Float[Array, "nv"]
    spring_reference: Float[Array, "nq"]
    lower: Float[Array, "nq"]
    upper: Float[Array, "nq"]
    reference: Float[Array, "nq"]
    velocity_limit: Float[Array, "nv"]
    effort_limit: Float[Array, "nv"]
    mimic_multiplier: Float[Array, "mimic_joints"]
    mimic_offset: Float[Array, "mimic_joints"]
    topology: Topology = eqx.field(static=True)
    attached: tuple[Attached, ...] = ()
    settings: Settings = eqx.field(static=True, default=Settings())

    @property
    def name(self) -> str:
        return self.topology.name

    @property
    def nq(self) -> int:
        """The length of a configuration."""
        return self.topology.nq

    @property
    def nv(self) -> int:
        """The number of degrees of freedom."""
        return self.topology.nv

    @property
    def nu(self) -> int:
        """The number of controls: one for each actuator."""
        return len(self.actuators)

    @property
    def nb(self) -> int:
        """The number of bodies, without the world."""
        return self.topology.nb

    @property
    def body_names(self) -> tuple[str, ...]:
        return self.topology.body_names

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The name of the joint that attaches each body."""
        return self.topology.joint_names

    @property
    def is_planar(self) -> bool:
        """True for a model on planar algebra, the result of `planar`."""
        return isinstance(self.placements, planar.Transform)

    @property
    def vector_size(self) -> int:
        """The number of entries of a motion or force vector: six, or three for a planar model."""
        return 3 if self.is_planar else 6

    def attached_as(self, role: str) -> tuple[Attached, ...]:
        """Returns the attachments of a role, in their order."""
        return tuple(thing for thing in self.attached if thing.role == role)

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints: loops, couplings, prescribed motions; see `add_constraints`."""
        return self.attached_as("constraint")  # pyright: ignore[reportReturnType]

    @property
    def forces(self) -> tuple[Attached, ...]:
        """The force elements that act on the model in every rollout; see `add_forces`."""
        return self.attached_as("force")

    @property
    def sites(self) -> tuple[Attached, ...]:
        """The named frames on its bodies."""
        return self.attached_as("site")

    @property
    def shapes(self) -> tuple[Attached, ...]:
        """The visual and collision shapes of its bodies."""
        return self.attached_as("shape")

    @property
    def tendons(self) -> tuple[Attached, ...]:
        """The tendons, whose lengths depend on several joints."""
        return self.attached_as("tendon")

    @property
    def actuators(self) -> tuple[Attached, ...]:
        """The actuators; controls are in their order."""
        return self.attached_as("actuator")

    @property
    def sensors(self) -> tuple[Attached, ...]:
        """The sensors."""
        return self.attached_as("sensor")

    @property
    def keyframes(self) -> tuple[Attached, ...]:
        """The named states."""
        return self.attached_as("keyframe")

    @property
    def unsupported(self) -> tuple[str, ...]:
        """Descriptions of the parts of the model file that have no effect on the model."""
        return self.settings.unsupported

    def named(self, role: str, name: str) -> Attached:
        """Returns the attachment with a role and a name."""
        known = {thing.name: thing for thing in self.attached_as(role) if thing.name}
        if name not in known:
            raise UnknownNameError(f"model {self.name!r} has no {role} {name!r}{suggest(name, known)}")
        return known[name]

    @property
    def dtype(self):
        """The precision of the model's parameters."""
        return self.gravity.dtype

    def body_index(self, body: str | int) -> int:
        """Returns the index of a body in every array over bodies."""
        return self.topology.body_index(body)

    def q_slice(self, joint: str | int) -> slice:
        """Returns the entries of q that belong to a joint."""
        return self._own_slice(joint, self.topology.q_offsets)

    def v_slice(self, joint: str | int) -> slice:
        """Returns the entries of v, a and tau that belong to a joint."""
        return self._own_slice(joint, self.topology.v_offsets)

    def _own_slice(self, joint, offsets):
        body = self.topology.joint_index(joint)
        if self.topology.is_mimic[body]:
            leader = self.joint_names[self.topology.leaders[body]]
            raise ValueError(
                f"joint {self.joint_names[body]!r} has no coordinates of its own: it mimics {leader!r}"
            )
        return slice(int(offsets[body]), int(offsets[body + 1]))

    def joint(self, joint: str | int) -> Joint:
        """Returns one joint by its name or its body's index, with its own parameters."""
        kind, place = self.topology.kind_of[self.topology.joint_index(joint)]
        return jax.tree.map(lambda leaf: pick(leaf, place), self.joints[kind])

    def joint_configurations(self, q: Float[Array, "nq"]) -> Float[Array, "joint_nq"]:
        """Returns q with the coordinates of the mimic joints appended."""
        if not len(self.topology.mimic_joints):
            return q
        return jnp.concatenate([q, self.mimic_multiplier * q[self.topology.leader_q] + self.mimic_offset])

    def joint_velocities(self, v: Float[Array, "nv"]) -> Float[Array, "joint_nv"]:
        """Returns v (or an acceleration) with the entries of the mimic joints appended."""
        if not len(self.topology.mimic_joints):
            return v
        return jnp.concatenate([v, self.mimic_multiplier * v[self.topology.leader_v]])

    def __repr__(self) -> str:
        from .drawing import draw

        return draw(self)
