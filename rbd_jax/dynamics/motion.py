"""Kinematics of a model in a state, shared by all algorithms that need it.

The algorithms of this package, constraints, forces and schemes take a `Motion` and never build frames themselves. The caller
computes the quantities that several of them need once, so the kinematics is traced once per evaluation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.array import dot, gather, gather_or_zero, sum_rows
from .._core.module import Module, changed
from ..model import Model, at_time
from ..model.lumping import moving_inertias
from ..spatial import AnyInertia, AnyTransform, cross_motion
from ..spatial.transform import Transform
from ._frame import (
    CommonFrame,
    base_acceleration,
    body_frames,
    evaluate_joints,
    has_constant_subspaces,
    subspace_rows,
)
from .bodies import Bodies
from .columns import at_last_column, from_columns, to_columns


#: Up to this number of entries, a mask maps wrenches to degrees of freedom; larger models use a traversal of the tree.
MASKED = 2048


class _Derived(NamedTuple):
    """A property of a `Motion`: the field that stores it, the properties it depends on, and the function that computes it."""

    store: str
    needs: tuple[str, ...]
    compute: Callable[[Motion], Any]


_DERIVED: dict[str, _Derived] = {}


def _derived_in(store: str, *needs: str):
    """Returns a decorator for properties of a `Motion` that read a stored value or compute it from the properties in `needs`."""

    def decorate(compute: Callable) -> property:
        name = compute.__name__
        _DERIVED[name] = _Derived(store, needs, compute)

        @functools.wraps(compute)
        def get(motion):
            known = getattr(motion, store)
            return known[name] if name in known else compute(motion.computed(*needs))

        return property(get)

    return decorate


#: Properties of the configuration alone stay valid at another velocity.
_of_configuration = functools.partial(_derived_in, "of_configuration")
_of_velocity = functools.partial(_derived_in, "of_velocity")


class Motion(Module):
    """A model in a state at a time, with the kinematic quantities computed so far. An immutable PyTree.

    Every property is available. An algorithm that reads a property more than once first calls `computed`, which returns a motion
    that stores it.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,). Default: zero.
      time: Time for rheonomic joints, constraints and forces. By default, rheonomic joints and constraints keep the time
        stored in the model, and forces that depend on time use time zero.

    Quantities in the *common frame* are in the world's axes about the root body of each tree. A *column* is a single
    degree of freedom in the book's expanded tree. Vectors have d entries: six, or three for a planar model.

    >>> model = rbd.load("double_pendulum")
    >>> motion = rbd.Motion(model, jnp.array([0.3, 0.1]), jnp.array([1.0, 0.0]))
    >>> print(motion.world_frames.position[1])
    [-0.296  0.    -0.955]
    """

    model: Model
    q: Float[Array, "nq"]
    v: Float[Array, "nv"]
    time: Float[Array, ""]
    of_configuration: dict[str, Any]
    of_velocity: dict[str, Any]

    def __init__(
        self,
        model: Model,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"] | None = None,
        time: Float[Array, ""] | float | None = None,
    ):
        self.model = model if time is None else at_time(model, time)
        self.q = q
        self.v = jnp.zeros(model.nv, q.dtype) if v is None else v
        self.time = jnp.asarray(0 if time is None else time, q.dtype)
        self.of_configuration, self.of_velocity = {"common": CommonFrame.at(self.model, q)}, {}

    def with_velocity(self, v: Float[Array, "nv"], time: Float[Array, ""] | None = None) -> Motion:
        """Returns the motion at another velocity. Stored quantities of the configuration are shared.

        Pass another `time` only if no joint or constraint of the model is prescribed.
        """
        return changed(self, v=v, time=self.time if time is None else time, of_velocity={})

    def with_armature(self, armature: Float[Array, "nv"]) -> Motion:
        """Returns the motion of a model with another armature. No stored quantity depends on the armature."""
        return changed(self, model=replace(self.model, armature=armature))

    def with_friction(self, friction: Float[Array, "nv"]) -> Motion:
        """Returns the motion of a model with other dry friction. No stored quantity depends on the friction."""
        return changed(self, model=replace(self.model, friction=friction))

    def computed(self, *names: str) -> Motion:
        """Returns the motion with these properties, and the properties they depend on, computed and stored."""
        motion = self
        for name in names:
            store, needs, compute = _DERIVED[name]
            if name not in getattr(motion, store):
                motion = motion.computed(*needs)
                motion = motion._holding(store, name, compute(motion))
        return motion

    def known(self, name: str) -> Any:
        """Returns the quantity that another package stored under a name, or None."""
        return self.of_configuration.get(name, self.of_velocity.get(name))

    def knowing(self, name: str, compute: Callable[[Motion], Any], *, velocity: bool = False) -> Motion:
        """Returns the motion with a quantity of another package stored under a name, unless it is stored already.

        Args:
          name: The name.
          compute: Computes the quantity from this motion.
          velocity: True if the quantity depends on the velocity.
        """
        if self.known(name) is not None:
            return self
        return self._holding("of_velocity" if velocity else "of_configuration", name, compute(self))

    def _holding(self, store: str, name: str, value: Any) -> Motion:
        return changed(self, **{store: {**getattr(self, store), name: value}})

    def __repr__(self) -> str:
        return f"Motion of {self.model.name!r}: nq = {self.model.nq}, nv = {self.model.nv}"

    # Properties of the configuration.

    @_of_configuration()
    def common(self) -> CommonFrame:
        """The tree in one common frame."""
        return CommonFrame.at(self.model, self.q)

    @_of_configuration("common")
    def inertias(self) -> AnyInertia:
        """The inertia of every moving body in the common frame: (m,)."""
        return moving_inertias(self.model).placed(self.common.placements)

    @_of_configuration("common")
    def frames(self) -> AnyTransform:
        """The frame of every body in the common frame of its tree: (nb,)."""
        return body_frames(self.model, self.common.placements)

    @_of_configuration("common")
    def world_frames(self) -> AnyTransform:
        """The frame of every body in the world: (nb,)."""
        placements = self.common.placements
        return body_frames(self.model, placements.at(placements.position + self.common.origins))

    # Properties of the velocity.

    @_of_velocity("common")
    def column_velocities(self) -> Float[Array, "n d"]:
        """The velocity of the body that each column moves, in the common frame: `v_λ + S q̇ + σ` (eq. 5.14)."""
        own = self.common.subspace * to_columns(self.model, self.v)[:, None]
        own = own if self.common.drift is None else own + self.common.drift
        return self.model.topology.tree.path_sum(own)

    @_of_velocity("column_velocities")
    def velocities(self) -> Float[Array, "m d"]:
        """The velocity of every moving body, in the common frame."""
        return gather(self.column_velocities, self.model.topology.last_column)

    @_of_velocity("frames", "velocities")
    def twists(self) -> Float[Array, "nb d"]:
        """The velocity `[ω; v]` of every body, in its own frame."""
        return self.in_bodies(self.velocities)

    @_of_velocity("velocities")
    def velocity_products(self) -> Float[Array, "n d"]:
        """The acceleration of each joint without `q̈`, `c_J + v × v_J`, at its last column (eq. 3.40)."""
        model, topology = self.model, self.model.topology
        above = gather_or_zero(self.column_velocities, topology.column_parent)
        product = cross_motion(above, self.velocities - above)
        if not has_constant_subspaces(model):
            q, v = model.joint_configurations(self.q), model.joint_velocities(self.v)
            own = evaluate_joints(model, lambda joint, q, v: joint.velocity_product(q, v), q, v)
            product = product + self.common.placements.motion(own)
        return at_last_column(model, product)

    @_of_velocity("velocities")
    def subspace_rates(self) -> Float[Array, "n d"]:
        """`Ṡ`, the time derivative of each column in the common frame: `v × S + S̊`, with v of the column's own body."""
        model, topology = self.model, self.model.topology
        rates = cross_motion(gather(self.velocities, topology.column_owner), self.common.subspace)
        if not has_constant_subspaces(model):
            q, v = model.joint_configurations(self.q), model.joint_velocities(self.v)
            own = evaluate_joints(
                model,
                lambda joint, q, v: subspace_rows(joint, joint.subspace_rate(q, v)),
                q,
                v,
                per_column=True,
            )
            rates = rates + self.common.placements.gather(topology.column_owner).motion(own)
        return rates

    @_of_velocity("frames", "velocity_products")
    def bias_accelerations(self) -> Float[Array, "nb d"]:
        """The acceleration `J̇ v` of every body without `q̈`, in its own frame; gravity is not included."""
        columns = self.model.topology.tree.path_sum(self.velocity_products)
        return self.in_bodies(gather(columns, self.model.topology.last_column))

    # Queries with arguments.

    def accelerations(self, a: Float[Array, "nv"], base: Float[Array, "d"]) -> Float[Array, "n d"]:
        """Returns the accelerations `a_λ + S q̈ + c_J + v × v_J` of all columns (eq. 5.15), from the world's acceleration."""
        own = self.common.subspace * to_columns(self.model, a)[:, None]
        return base[None] + self.model.topology.tree.path_sum(own + self.velocity_products)

    def biased_accelerations(self, a: Float[Array, "nv"]) -> Float[Array, "n d"]:
        """Returns `accelerations` with gravity included as an acceleration of the world (book §5.3)."""
        return self.accelerations(a, base_acceleration(self.model))

    def in_bodies(self, motions: Float[Array, "m d"]) -> Float[Array, "nb d"]:
        """Converts motions of the moving bodies in the common frame to motions of all bodies, each in its own frame.

        Bodies welded to the world have zero motion.
        """
        return self.frames.inverse_motion(gather_or_zero(motions, self.model.topology.carriers))

    def coordinates(self, joints: Sequence[str]) -> Float[Array, "k"]:
        """Returns the coordinates of joints with one degree of freedom, mimic joints included."""
        entries = [self._joint(joint)[0] for joint in joints]
        return gather(self.model.joint_configurations(self.q), np.array(entries, int))

    def speeds(self, joints: Sequence[str]) -> Float[Array, "k"]:
        """Returns the velocities of joints with one degree of freedom, mimic joints included."""
        entries = [self._joint(joint)[1] for joint in joints]
        return gather(self.model.joint_velocities(self.v), np.array(entries, int))

    def along(self, joints: Sequence[str], efforts: Float[Array, "k"]) -> Float[Array, "nv"]:
        """Returns the generalized force of efforts along the coordinates of joints with one degree of freedom."""
        topology = self.model.topology
        columns = topology.v_column[np.array([self._joint(joint)[1] for joint in joints], int)]
        return from_columns(self.model, sum_rows(efforts, columns, topology.tree.size))

    def columns_in_bodies(self, joints: Sequence[str]) -> Float[Array, "k d"]:
        """Returns the motion of the body behind each joint per unit rate of its coordinate, in the frame of that body."""
        topology = self.model.topology
        columns = topology.v_column[np.array([self._joint(joint)[1] for joint in joints], int)]
        frames = self.frames.gather(np.array([topology.joint_index(joint) for joint in joints], int))
        return frames.inverse_motion(gather(self.common.subspace, columns))

    def resistance_along(
        self, joints: Sequence[str], coefficients: Float[Array, "k"], power: int = 2
    ) -> Float[Array, "nv"]:
        """Returns the damping (or stiffness) of each degree of freedom for coefficients along joint coordinates.

        Pass `power=1` for dry friction: a mimic joint then contributes by the absolute value
        of its ratio instead of its square.
        """
        places, ratios = self.leading(joints)
        if len(self.model.topology.mimic_joints):
            coefficients = coefficients * jnp.abs(ratios) ** power
        return sum_rows(coefficients, places, self.model.nv)

    def leading(self, joints: Sequence[str]) -> tuple[np.ndarray, Float[Array, "k"]]:
        """Returns the degree of freedom of each coordinate, and the ratio of their rates, 1 except for mimic joints."""
        topology, model = self.model.topology, self.model
        places = np.array([self._joint(joint)[1] for joint in joints], int)
        if not len(topology.mimic_joints):
            return places, jnp.ones(len(places), self.q.dtype)
        leaders = np.concatenate([np.arange(model.nv), topology.leader_v])
        ratios = jnp.concatenate(
            [jnp.ones(model.nv, self.q.dtype), model.mimic_multiplier.astype(self.q.dtype)]
        )
        return leaders[places], gather(ratios, places)

    def _joint(self, joint: str) -> tuple[int, int]:
        """Returns the indices of a joint's coordinate and velocity among those of all joints."""
        topology = self.model.topology
        body = topology.joint_index(joint)
        if (topology.joint_nq[body], topology.joint_nv[body]) != (1, 1):
            raise ValueError(
                f"joint {joint!r} must have one degree of freedom to have a single coordinate, but it has "
                f"{topology.joint_nv[body]}"
            )
        return int(topology.joint_q(body)[0]), int(topology.joint_v(body)[0])

    def bodies(self, indices: Sequence[int]) -> Bodies:
        """Returns some of the bodies in maximal coordinates, about the origin of the first one's tree."""
        order = np.asarray(indices, int)
        frames, carriers = self.frames.gather(order), self.model.topology.carriers[order]
        origins = gather_or_zero(self.common.origins, carriers)
        position = frames.position + (origins - origins[:1])
        return Bodies(Transform(frames.rotation, position), gather(self.twists, order), origins[0])

    def generalized_force(self, indices: Sequence[int], wrenches: Float[Array, "n d"]) -> Float[Array, "nv"]:
        """Returns the generalized force `Σ Jᵀ f` of wrenches on some of the bodies, each in its body's own frame."""
        topology, order = self.model.topology, np.asarray(indices, int)
        forces = self.frames.gather(order).force(wrenches)
        carriers = topology.carriers[order]
        tree, columns = topology.tree, np.where(carriers >= 0, topology.last_column[carriers], -1)
        if tree.size * len(columns) > MASKED:
            transmitted = tree.subtree_sum(sum_rows(forces, columns, tree.size))
        else:
            moves = (tree.supports[columns] & (columns >= 0)[:, None]).T
            transmitted = jnp.sum(jnp.where(moves[:, :, None], forces[None], 0), axis=1)
        return from_columns(self.model, dot(self.common.subspace, transmitted))
