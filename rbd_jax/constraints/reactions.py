"""The wrenches that joints transmit to their bodies."""

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
    """Returns the wrench `[n; f]` that each body receives through its joint (book table 5.1's f_i), in the body's own frame.

    It is in the body's axes about its origin, as a force and torque sensor in the joint measures it, welds included.
    Its component along the joint is the drive, `Sᵀ f = tau - armature a`; the component across it is the bearing load.
    Forces on bodies that do not pass through a joint are included only if they are given as `f_ext` or `multipliers`.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      a: Acceleration, shape (nv,).
      f_ext: Wrenches on bodies, as for `inverse_dynamics`, in the world's axes about the world's origin; springs and similar
        force elements belong here.
      multipliers: The multipliers of the model's constraints, as `constrained_dynamics` returns them. In a model with
        loops the wrenches depend on them, so they are required.

    Returns:
      The wrenches, shape (nb, 6).

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
    """Returns the subspaces of a loop joint in the second frame's coordinates; see `rbd.joints.subspaces`.

    The columns of T are the wrenches on the second body for unit multipliers of its rows; the opposite acts on the first body.
    A wrench `T_a τ` on both, as `f_ext`, is the effect of an actuator in the loop joint.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      constraint: The index in `model.constraints` of a `LoopJoint`, or of another constraint between two frames with
        independent rows.
      active: As for `rbd.joints.subspaces`.

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
    """Returns the wrench of the constraints' multipliers on each body, in the body's own frame."""
    model = motion.model
    parts, bodies = [jnp.zeros((0, 6), multipliers.dtype)], [np.zeros(0, int)]
    for group, pulls in _frame_wrenches(motion, multipliers):
        parts.append(group.constraint.frames.force(pulls).reshape(-1, 6))
        table = np.array(group.bodies, int).reshape(-1)
        bodies.append(np.where(table == model.nb, -1, table))  # omits the world
    return sum_rows(jnp.concatenate(parts), np.concatenate(bodies), model.nb)


def frame_wrenches(motion: Motion, multipliers: Float[Array, "m"]) -> list[Float[Array, "k 6"]]:
    """Returns the wrenches of each constraint's multipliers on its frames, each in the axes of its frame about its origin."""
    found: dict[int, Float[Array, "k 6"]] = {}
    for group, pulls in _frame_wrenches(motion, multipliers):
        found |= dict(zip(group.members, pulls, strict=True))
    return [found[index] for index in range(len(motion.model.constraints))]


def _frame_wrenches(motion: Motion, multipliers: Float[Array, "m"]):
    """Yields the wrenches of each group of constraints that are evaluated together, (g, k, 6)."""
    for own in matrix_of(motion).gradients:
        rows = np.stack(own.group.rows(motion.model))
        yield own.group, jnp.sum(own.by_twists * multipliers[rows][:, :, None, None], axis=1)


def transmitted(
    motion: Motion, a: Float[Array, "nv"], f_ext: ExternalForces, acting: Float[Array, "nb 6"]
) -> Float[Array, "nb 6"]:
    """Returns `joint_wrenches` of a model in motion; `acting` are further wrenches on bodies, in their own frames."""
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

    # Each wrench is about the body's own origin, in the world's axes; it is shifted to the parent's origin.
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
