"""What joints transmit: the wrench that each body is held and driven by."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import anything, as_array, configuration, takes, velocity, wrenches
from .._core.array import complement, gather_or_zero, sum_rows, transpose, vecmat
from ..dynamics import ExternalForces, Motion
from ..dynamics.external import given_wrenches
from ..joints import ConstantSubspaceJoint, Subspaces
from ..joints.subspaces import dual
from ..loops import LoopJoint, RelativeConstraint
from ..loops.closest import closest
from ..loops.loop_joint import off_joint
from ..model import Model, Tree
from ..spatial import cross_force, moment_shift
from ..spatial.transform import Transform
from .evaluate import matrix_of


@takes(q=configuration, v=velocity, a=velocity, f_ext=wrenches, multipliers=anything)
def joint_wrenches(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    a: Float[Array, "nv"],
    f_ext: ExternalForces = None,
    multipliers: Float[Array, "m"] | None = None,
) -> Float[Array, "nb 6"]:
    """The wrench `[n; f]` that each body gets through its joint (book table 5.1's f_i), in the body's own frame.

    That is in the body's axes about its origin. It is what a force and torque sensor in the joint measures, welds included.
    Along the joint it is what drives it, `Sᵀ f = tau - armature a`; across it, what the bearings bear. Forces that act on bodies
    without a joint in between are not in it unless they are given:

    - `f_ext`: on bodies, as for `inverse_dynamics`, in the world's axes about the world's origin.
      It holds for springs and the like, too.
    - `multipliers`: of the model's constraints, as `constrained_dynamics` gives them. The wrenches depend on them where a model
      has loops, so they are required there.

    >>> model = rbd.load("double_pendulum")
    >>> q, still = rbd.neutral(model), jnp.zeros(2)
    >>> print(rbd.joint_wrenches(model, q, still, still)[:, 5])  # what they bear along z, hanging at rest
    [19.62  9.81]
    """
    motion, rows = Motion(model, q, v), sum(constraint.rows for constraint in model.constraints)
    if multipliers is None and rows:
        raise ValueError(
            f"joint_wrenches: multipliers is missing; model {model.name!r} has constraints, and what its joints bear depends on "
            "theirs: give constrained_dynamics(model, ...).multipliers"
        )
    acting = jnp.zeros((model.nb, 6), q.dtype)
    if multipliers is not None:
        expected = f"an array ({rows},), a number for each equation of the constraints"
        multipliers = as_array("joint_wrenches", "multipliers", multipliers, expected)
        if multipliers.shape != (rows,):
            raise ValueError(
                f"joint_wrenches: multipliers has shape {multipliers.shape}; it takes {expected}"
            )
        acting = constraint_wrenches(motion, multipliers)
    return transmitted(motion, a, f_ext, acting)


@takes(q=configuration, constraint=anything, active=anything)
def loop_subspaces(
    model: Model,
    q: Float[Array, "nq"],
    constraint: int,
    active: Float[Array, "6 dof"] | None = None,
) -> Subspaces:
    """The subspaces of a loop joint, as `rbd.joints.subspaces` of a joint of the tree, in the second frame's coordinates.

    The columns of T are the wrenches on the second body that the multipliers of its rows are; on the first acts the opposite.
    A wrench `T_a τ` on both, as `f_ext`, is what an actuator in the loop joint does.

    **Arguments**

    - `constraint`: which of `model.constraints`, by its place; a `LoopJoint`, or another between two frames whose rows are
      independent.
    - `active`: as for `rbd.joints.subspaces`.

    >>> ends = ("lower", (0, 0, -1)), ("world", (0, 0, -2))
    >>> loop = rbd.constraints.LoopJoint(*ends[0], *ends[1], rbd.joints.Revolute((0, 1, 0)))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), loop)
    >>> own = rbd.constraints.loop_subspaces(model, rbd.neutral(model), 0)
    >>> print(own.active[:, 0])
    [0. 1. 0. 0. 0. 0.]
    """
    count = len(model.constraints)
    if isinstance(constraint, bool) or not isinstance(constraint, int) or not 0 <= constraint < count:
        raise ValueError(
            f"loop_subspaces: constraint is {constraint!r}; model {model.name!r} has {count} constraints, counted from 0"
        )
    found = model.constraints[constraint]
    if not isinstance(found, RelativeConstraint):
        raise ValueError(f"loop_subspaces: {found.label} is not between two frames; it takes a LoopJoint")
    own = next(own for own in matrix_of(Motion(model, q)).gradients if constraint in own.group.members)
    place = own.group.members.index(constraint)
    forces = transpose(own.by_twists[place, :, 1])
    if not isinstance(found, LoopJoint):
        return dual(complement(forces), active, forces)
    joint = found.joint
    if isinstance(joint, ConstantSubspaceJoint):
        at = joint.neutral().astype(q.dtype)
    else:
        ends = own.group.placements[place]
        at = closest(off_joint, joint, ends[0].inverse() @ ends[1])
    return dual(joint.motion_subspace(at), active, forces)


def constraint_wrenches(motion: Motion, multipliers: Float[Array, "m"]) -> Float[Array, "nb 6"]:
    """The wrench of the constraints' multipliers on each body, in its own frame."""
    model = motion.model
    parts, bodies = [jnp.zeros((0, 6), multipliers.dtype)], [np.zeros(0, int)]
    for group, pulls in _frame_wrenches(motion, multipliers):
        parts.append(group.constraint.frames.force(pulls).reshape(-1, 6))
        table = np.array(group.bodies, int).reshape(-1)
        bodies.append(np.where(table == model.nb, -1, table))  # the world, which is left out
    return sum_rows(jnp.concatenate(parts), np.concatenate(bodies), model.nb)


def frame_wrenches(motion: Motion, multipliers: Float[Array, "m"]) -> list[Float[Array, "k 6"]]:
    """The wrenches of the multipliers of each constraint in its frames, each in the axes of its frame about its origin."""
    found: dict[int, Float[Array, "k 6"]] = {}
    for group, pulls in _frame_wrenches(motion, multipliers):
        found |= dict(zip(group.members, pulls, strict=True))
    return [found[index] for index in range(len(motion.model.constraints))]


def _frame_wrenches(motion: Motion, multipliers: Float[Array, "m"]):
    """The same of constraints that are evaluated together, (g, k, 6)."""
    for own in matrix_of(motion).gradients:
        rows = np.stack(own.group.rows(motion.model))
        yield own.group, jnp.sum(own.by_twists * multipliers[rows][:, :, None, None], axis=1)


def transmitted(
    motion: Motion, a: Float[Array, "nv"], f_ext: ExternalForces, acting: Float[Array, "nb 6"]
) -> Float[Array, "nb 6"]:
    """`joint_wrenches` of a model in motion, with wrenches that act on bodies in their own frames beside `f_ext`."""
    motion = motion.computed("world_frames", "twists", "velocity_products")
    model, frames = motion.model, motion.world_frames
    turned = Transform(frames.rotation, jnp.zeros_like(frames.position))
    accelerations = motion.in_bodies(
        motion.accelerations(a, jnp.zeros(6, a.dtype))[model.topology.last_column]
    )
    fall = vecmat(model.gravity, frames.rotation)
    accelerations = accelerations - jnp.concatenate([jnp.zeros_like(fall), fall], axis=1)
    momenta = model.inertias.momentum(motion.twists)
    needed = model.inertias.momentum(accelerations) + cross_force(motion.twists, momenta) - acting

    # Of each body about its own origin, in the world's axes; handed on to the parent by the way between the two.
    wrenches, external = turned.force(needed), given_wrenches(model, f_ext)
    if external is not None:
        wrenches = wrenches - moment_shift(external, frames.position)
    parents = np.array(model.topology.parents, int)
    reach = frames.position - gather_or_zero(frames.position, parents)

    def assemble(children, own):
        wrench, reach = own
        total = children + wrench
        return moment_shift(total, -reach), total

    tree = Tree(model.topology.parents, model.topology.traversal)
    total = tree.up(assemble, jnp.zeros(6, a.dtype), (wrenches, reach))[1]
    return turned.inverse_force(total)
