"""What a constraint is, as far as a model knows: equations between frames on bodies and coordinates of joints.

The families are in the room `constraints`, with all that is computed of them. A model only carries them along, and
whatever edits a model renames or moves what they are attached to.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._array import matmul, matvec, skew
from .._errors import ModelError, UnknownNameError, suggest
from ..spatial import Transform
from .topology import Topology


class Constraint(eqx.Module):
    """`rows` equations `residual = 0` between frames on some bodies and the coordinates of some joints.

    A new family sets `bodies`, `frames` and `joints`, and implements `rows` and `residual`. The rates of the residual come by
    automatic differentiation along the motion of the frames.

    - `bodies`: the names of the bodies, or "world".
    - `frames`: a frame on each of them, (k,).
    - `joints`: the names of joints with one freedom.
    """

    bodies: tuple[str, ...] = eqx.field(static=True)
    frames: Transform
    joints: tuple[str, ...] = eqx.field(static=True)

    #: Whether the constraint changes by itself as time passes. Such a constraint has a `time`.
    rheonomic: ClassVar[bool] = False

    if TYPE_CHECKING:  # a family may give a plain number, which is no error
        rows: ClassVar[int]
    else:

        @property
        @abc.abstractmethod
        def rows(self) -> int:
            """The number of equations."""

    @abc.abstractmethod
    def residual(self, placements: Transform, coordinates: Float[Array, "j"]) -> Float[Array, "rows"]:
        """How much the equations are broken.

        **Arguments**

        - `placements`: of the frames, in the world's axes, from an origin that must not matter.
        - `coordinates`: of the joints.
        """

    def at_time(self, time: Float[Array, ""]) -> Constraint:
        """The constraint as it is at that time; itself unless it is `rheonomic`."""
        return self

    def rate(
        self, placements: Transform, coordinates, twists: Float[Array, "k 6"], speeds: Float[Array, "j"]
    ) -> Float[Array, "rows"]:
        """The rate of the residual, while the frames move at `twists`, each in its own axes, and the coordinates at `speeds`."""
        moving = moving_frames(placements, twists)
        if not self.rheonomic:
            return jax.jvp(self.residual, (placements, coordinates), (moving, speeds))[1]

        def at(time, placements, coordinates):
            return self.at_time(time).residual(placements, coordinates)

        time = self.time  # pyright: ignore[reportAttributeAccessIssue]
        return jax.jvp(at, (time, placements, coordinates), (jnp.ones_like(time), moving, speeds))[1]

    def jacobian(self, placements: Transform, coordinates) -> tuple[Array, Array]:
        """The derivatives of `rate` by `twists`, (rows, k, 6), and by `speeds`, (rows, j)."""
        still = jnp.zeros((placements.position.shape[0], 6), placements.position.dtype)
        rates = jax.jacfwd(lambda *motion: self.rate(placements, coordinates, *motion), (0, 1))
        return rates(still, jnp.zeros_like(coordinates))

    def bias(self, placements: Transform, coordinates, twists, speeds, accelerations) -> Float[Array, "rows"]:
        """The second rate of the residual with the twists changing at `accelerations`, and the speeds not at all."""
        moving, still = moving_frames(placements, twists), jnp.zeros_like(speeds)
        motion, change = (placements, coordinates, twists, speeds), (moving, speeds, accelerations, still)
        if not self.rheonomic:
            return jax.jvp(self.rate, motion, change)[1]

        def at(time, *motion):
            return self.at_time(time).rate(*motion)

        time = self.time  # pyright: ignore[reportAttributeAccessIssue]
        return jax.jvp(at, (time, *motion), (jnp.ones_like(time), *change))[1]

    @property
    def label(self) -> str:
        """The family and what it is attached to."""
        return f"{type(self).__name__}({', '.join(map(repr, (*self.bodies, *self.joints)))})"

    def attached(self, bodies: Iterable[str], frames: Transform, joints: Iterable[str]) -> Constraint:
        """The same constraint on other bodies and joints, or other frames of them."""
        return self.changed(bodies=tuple(bodies), frames=frames, joints=tuple(joints))

    def changed(self, **fields) -> Constraint:
        """The same constraint with other values in some fields."""
        other = copy.copy(self)
        for name, value in fields.items():
            object.__setattr__(other, name, value)  # a family's own __init__ asks for other things
        return other


def moving_frames(placements: Transform, twists) -> Transform:
    """The rates of rotations and positions of frames that move at `twists`, in their own axes."""
    turning = matmul(placements.rotation, skew(twists[..., :3]))
    return Transform(turning, matvec(placements.rotation, twists[..., 3:]))


def check_constraints(topology: Topology, constraints: Iterable) -> None:
    """Refuse constraints that have no meaning in a model of this topology."""
    for constraint in constraints:
        if not isinstance(constraint, Constraint):
            raise ModelError(
                f"{constraint!r} is a {type(constraint).__name__}, not a constraint; see rbd_jax.constraints"
            )
        label, bodies = constraint.label, constraint.bodies
        for body in bodies:
            if body != "world" and body not in topology.body_names:
                raise UnknownNameError(
                    f"{label}: there is no body {body!r}{suggest(body, [*topology.body_names, 'world'])}"
                )
        for joint in constraint.joints:
            if joint not in topology.joint_names:
                raise UnknownNameError(
                    f"{label}: there is no joint {joint!r}{suggest(joint, topology.joint_names)}"
                )
            body = topology.joint_index(joint)
            if (topology.joint_nq[body], topology.joint_nv[body]) != (1, 1):
                raise ModelError(
                    f"{label}: joint {joint!r} has {topology.joint_nv[body]} freedoms; its coordinate can be "
                    "constrained only where there is one. Constrain the bodies with a LoopJoint instead"
                )
        if len(set(bodies)) < len(bodies):
            raise ModelError(f"{label}: a body cannot be constrained against itself; name two bodies")
        carriers = {_carrier(topology, body) for body in bodies}
        if len(bodies) > 1 and len(carriers) == 1:
            raise ModelError(
                f"{label}: the bodies cannot move against each other, since they are welded together; "
                "there is nothing to constrain"
            )


def _carrier(topology: Topology, body: str) -> int:
    return -1 if body == "world" else int(topology.carriers[topology.body_index(body)])


def prefixed(constraint: Constraint, prefix: str, placement: Transform | None) -> Constraint:
    """A constraint of a model whose names get a prefix and whose world is put elsewhere."""
    bodies = [body if body == "world" else prefix + body for body in constraint.bodies]
    frames = constraint.frames
    if placement is not None:
        own = [frames[i] for i in range(len(bodies))]
        moved = [placement @ own[i] if body == "world" else own[i] for i, body in enumerate(bodies)]
        frames = _stacked(moved, frames)
    return constraint.attached(bodies, frames, [prefix + joint for joint in constraint.joints])


def fused(constraint: Constraint, topology: Topology, welds: Transform) -> Constraint:
    """A constraint of a model whose welded bodies become parts of their carriers; `welds` are their frames there."""
    bodies, frames = [], []
    for i, body in enumerate(constraint.bodies):
        own = constraint.frames[i]
        if body == "world":
            bodies.append(body)
            frames.append(own)
            continue
        index = topology.body_index(body)
        carrier = topology.carriers[index]
        bodies.append("world" if carrier < 0 else topology.body_names[topology.movers[carrier]])
        frames.append(welds[index] @ own)
    return constraint.attached(bodies, _stacked(frames, constraint.frames), constraint.joints)


def _stacked(frames: list[Transform], empty: Transform) -> Transform:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *frames) if frames else empty


def grouped(constraints: tuple[Constraint, ...]) -> list[tuple[list[int], Constraint]]:
    """Constraints that differ in numbers and names alone, as one with stacked leaves, and which ones they are."""
    groups: dict[object, list[int]] = {}
    nameless = [
        one.attached(("",) * len(one.bodies), one.frames, ("",) * len(one.joints)) for one in constraints
    ]
    for index, one in enumerate(nameless):
        leaves, structure = jax.tree.flatten(one)
        key = structure, tuple((np.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
        groups.setdefault(key, []).append(index)
    stack = lambda *leaves: jnp.stack(leaves)
    return [
        (members, jax.tree.map(stack, *(nameless[index] for index in members))) for members in groups.values()
    ]
