"""The kinematic tree in one common frame, the starting point of every algorithm of this package.

All joints are evaluated first, each group of equal joints together. The algorithms after that step do not depend on joint
types. All quantities are then expressed in world-aligned axes with the origin at the current root body of each tree, so that
single precision stays accurate far from the world's origin. In a common frame quantities pass from body to body unchanged,
and the recursions of the book become sums over paths and subtrees (eqs. 5.7 to 5.11).
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.array import gather
from ..joints import Fixed
from ..model import Model
from ..model.lumping import moving_placements, unmoved, weld_frames
from ..spatial import AnyTransform, motion_shift
from .columns import at_last_column


class CommonFrame(eqx.Module):
    """A model in a configuration. Vectors have six entries and points three; in a planar model, three and two.

    - `placements`: the frame of each moving body, relative to the root of its tree: (m,).
    - `origins`: the world position of each moving body's root: (m, k).
    - `directions`: the motion of each column, about the origin of its own body: (n, d).
    - `subspace`: the same about the common origin: the book's S with its columns as rows.
    - `drift`: the drift velocity of each joint, at its last column: (n, d), or None if no joint has drift.
    """

    placements: AnyTransform
    origins: Float[Array, "m k"]
    directions: Float[Array, "n d"]
    subspace: Float[Array, "n d"]
    drift: Float[Array, "n d"] | None

    @staticmethod
    def at(model: Model, q: Float[Array, "nq"]) -> CommonFrame:
        """Computes forward kinematics (book example 4.3)."""
        topology = model.topology
        q = model.joint_configurations(q)
        transforms = evaluate_joints(model, lambda joint, q: joint.transform(q), q)
        local = moving_placements(model) @ transforms
        tree = topology.moving_tree
        roots = np.asarray(tree.parents, int) < 0
        origins = gather(local.position, tree.roots)
        placements = local.at(jnp.where(roots[:, None], 0, local.position)).chained(tree)
        columns = evaluate_joints(
            model, lambda joint, q: subspace_rows(joint, joint.motion_subspace(q)), q, per_column=True
        )
        owners = placements.gather(topology.column_owner)
        directions = owners.turned(columns)
        subspace = motion_shift(directions, -owners.position)
        drift = None
        if topology.rheonomic:
            own = evaluate_joints(model, lambda joint, q: joint.drift(q), q)
            drift = at_last_column(model, placements.motion(own))
        return CommonFrame(placements, origins, directions, subspace, drift)


def base_acceleration(model: Model) -> Float[Array, "d"]:
    """Returns the fictitious acceleration of the world that represents gravity: `-a_g` (book §5.3)."""
    turning = jnp.zeros(model.vector_size - model.gravity.size, model.gravity.dtype)
    return jnp.concatenate([turning, -model.gravity])


def body_frames(model: Model, placements: AnyTransform) -> AnyTransform:
    """Returns the frame of every body from the frames of the moving bodies; bodies welded to the world are constant."""
    topology = model.topology
    if not topology.fixed.any():
        return placements
    # Index -1 (the world) selects the last row.
    return placements.followed_by(unmoved(model)).gather(topology.carriers) @ weld_frames(model)


def subspace_rows(joint, subspace):
    """Returns a joint's d x nv matrix as rows, with one idle row for a joint without degrees of freedom."""
    return subspace.T if joint.nv else jnp.zeros((1, subspace.shape[0]), subspace.dtype)


def evaluate_joints(model: Model, method, q, *others, per_column: bool = False):
    """Applies a method of joints to all moving bodies, equal joints together; results are in the order of the moving bodies.

    Args:
      model: The model.
      method: A function of a joint, its coordinates in `q`, and its entries in each of the `others`.
      q: Joint configurations.
      *others: Arrays of velocities or of changes of q.
      per_column: If True, `method` returns one row per column of the joint, and results are in the order of the columns.
    """
    topology = model.topology
    parts, order = [], []
    for kind, joints in zip(topology.kinds, model.joints, strict=True):
        if kind.fixed:
            continue
        # If q and v have equal lengths, they have equal lengths for each joint.
        entries = [topology.joint_q if x.shape == q.shape else topology.joint_v for x in (q, *others)]
        rows = [
            _coordinates(x, [of_joint(body) for body in kind.bodies])
            for x, of_joint in zip((q, *others), entries, strict=True)
        ]
        result = jax.vmap(method, axis_size=len(kind.bodies))(joints, *rows)
        moving_bodies = np.searchsorted(topology.moving_bodies, kind.bodies)
        if per_column:
            result = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), result)
            last, width = topology.last_column[moving_bodies], topology.column_counts[moving_bodies]
            moving_bodies = np.concatenate(
                [np.arange(e - w + 1, e + 1) for e, w in zip(last, width, strict=True)]
            )
        parts.append(result)
        order.append(moving_bodies)
    if not parts:  # nothing moves
        one = jax.eval_shape(method, Fixed(), q[:0], *(x[:0] for x in others))
        return jax.tree.map(lambda s: jnp.zeros((0, *s.shape[1 if per_column else 0 :]), s.dtype), one)
    position = np.argsort(np.concatenate(order), kind="stable")
    return jax.tree.map(lambda *leaves: gather(jnp.concatenate(leaves), position), *parts)


def has_constant_subspaces(model: Model) -> bool:
    """Returns whether all joints have constant motion subspaces, and therefore no velocity-product term."""
    return all(joints.constant_subspace for joints in model.joints)


def _coordinates(x, entries):
    """Returns the entries of `x` for each joint of a group, one row per joint."""
    table = np.array([np.asarray(row, int) for row in entries], int).reshape(len(entries), -1)
    return gather(x, table.reshape(-1)).reshape(table.shape)
