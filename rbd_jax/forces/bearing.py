"""Dry friction inside joints that depends on their constraint forces (Sueda's notes, §2.11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import names, number
from .._core.array import cross, dot, gather
from .._core.errors import ModelError
from ..dynamics import Motion
from ..joints import Offset, Prismatic, Reversed, Revolute
from ..model import Model
from ..spatial import no_frames
from ..spatial.attached import Attached


class Bearing(Attached):
    """Friction of hinges and slides that is proportional to their contact forces: Coulomb's law at their inner surfaces.

    A hinge is a pin of radius r in two bushes at the distance L (`length`), with their middle at the body's origin. The joint
    transmits a force F across the axis n, a force A along it, and a bending moment M. Each bush bears half of F and its
    share of M; A acts on a collar of the same radius. The maximum friction torque is

        μ r (|F/2 + M × n / L| + |F/2 - M × n / L| + |A|).

    The pin sticks below this torque, and slides against it. A slide is a bar in two such bushes, and the moment M_n about its
    own axis is borne at the radius r:

        μ (|F/2 + M × n / L| + |F/2 - M × n / L| + |M_n| / r).

    The contacts are those of Sueda's algorithm 8, distributed around each end, where each pair of opposite contacts shares a
    force equally. This friction is additional to the joint's own `friction`, which does not depend on loads.

    It acts in rollouts of models, also with loops and contact models. `SemiImplicitEuler` uses Coulomb's law without
    smoothing. Explicit schemes smooth it like the other joint friction (see `passive_force`). It also acts in
    `rbd.acceleration`, `rbd.sense` and the reactions of a trajectory. Implicit schemes and reduced models do not support
    it. `passive_force` does not include it.

    - `joints`: the names of the joints. Each of the following is one value per joint, or one for all.
    - `coefficient`: μ.
    - `radius`: r.
    - `length`: L; by default moments across the axis are ignored.

    >>> bearing = rbd.forces.Bearing("swing", coefficient=0.1, radius=0.05)
    >>> model = rbd.attach(rbd.load("pendulum"), bearing)
    >>> held = rbd.rollout(model, rbd.State(q=jnp.array([0.004]), v=jnp.zeros(1)), dt=0.01, steps=100)
    >>> print(held.final.q)  # it sticks where the lever of its weight is shorter than μ r
    [0.004]
    """

    joints: tuple[str, ...] = eqx.field(static=True)
    coefficient: Float[Array, "k"]
    radius: Float[Array, "k"]
    length: Float[Array, "k"] | None

    role = "bearing"
    bodies = ()

    def __init__(self, joints: str | Sequence[str], coefficient: Any, radius: Any, length: Any = None):
        self.joints = names("Bearing", "joints", joints)
        self.coefficient = self._for_each("coefficient", coefficient, least=0)
        self.radius = self._for_each("radius", radius, above=0)
        self.length = None if length is None else self._for_each("length", length, above=0)

    def _for_each(self, name, value, **bounds):
        count = len(self.joints)
        shape = () if np.shape(value) == () else (count,)
        return jnp.broadcast_to(number("Bearing", name, value, shape, **bounds), (count,))

    @property
    def frames(self):
        return no_frames()

    def attached(self, bodies, frames, joints):
        return self.changed(joints=tuple(joints))

    def locked(self, joints):
        kept = np.array([joint not in joints for joint in self.joints])
        if not kept.any():
            return None
        fields = ("coefficient", "radius", *(() if self.length is None else ("length",)))
        left = {name: getattr(self, name)[kept] for name in fields}
        return self.changed(joints=tuple(np.array(self.joints)[kept].tolist()), **left)

    def limits(self, motion: Motion, wrenches: Float[Array, "nb 6"]) -> Float[Array, "k"]:
        """Returns the maximum friction force, or torque, of each joint under transmitted wrenches (see `joint_wrenches`)."""
        for joint in self.joints:
            self._check(joint, motion.model)
        bodies = np.array([motion.model.topology.joint_index(joint) for joint in self.joints], int)
        borne, along = gather(wrenches, bodies), motion.columns_in_bodies(self.joints)
        turning, sliding = along[:, :3], along[:, 3:]
        square = dot(turning, turning)
        turns = square > 0
        axis = jnp.where(turns[:, None], turning, sliding)
        rate = jnp.sqrt(dot(axis, axis))
        axis = axis / rate[:, None]
        # The point of a hinge's axis nearest to the body's origin, usually the origin.
        off = cross(turning, sliding) / jnp.where(turns, square, 1)[:, None]
        force = borne[:, 3:]
        moment = borne[:, :3] - cross(off, force)
        thrust, twist = dot(axis, force), dot(axis, moment)
        across, bending = (x - s[:, None] * axis for x, s in ((force, thrust), (moment, twist)))
        if self.length is None:
            pressing = _length(across)
        else:
            couple = cross(bending, axis) / self.length[:, None]
            pressing = _length(across / 2 + couple) + _length(across / 2 - couple)
        # The displacement of the sliding surface per unit of joint motion.
        lever = rate * jnp.where(turns, self.radius, 1)
        pressing = pressing + jnp.where(turns, jnp.abs(thrust), jnp.abs(twist) / self.radius)
        return self.coefficient * lever * pressing

    def _check(self, joint: str, model: Model) -> None:
        kind = model.joint(joint)
        while isinstance(kind, (Offset, Reversed)):
            kind = kind.joint
        if not isinstance(kind, (Revolute, Prismatic)):
            raise ModelError(
                f"{self.label}: joint {joint!r} is a {type(kind).__name__}; bearings support hinges and slides only, Revolute "
                "and Prismatic"
            )


def bearings_of(model: Model) -> tuple[Bearing, ...]:
    """Returns the bearings of a model, whose friction the simulation must solve for."""
    return model.attached_as("bearing")  # pyright: ignore[reportReturnType]


def _length(x: Float[Array, "k 3"]) -> Float[Array, "k"]:
    """Returns the lengths of vectors; the derivative at zero is zero."""
    square = dot(x, x)
    some = square > 0
    return jnp.where(some, jnp.sqrt(jnp.where(some, square, 1)), 0)
