"""The tree in one common frame: what every algorithm of this room starts from.

Joints first, all at once: each group of equal joints is evaluated together, and from then on no algorithm knows what a
joint is. Then everything is expressed in world-aligned axes with the origin at the root body of each tree, wherever that
root is at the moment, so that single precision stays accurate far from the world's origin. In a common frame a quantity
passes from body to body unchanged, and the recursions of the book become sums over paths and subtrees (eqs. 5.7 to 5.11).
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._array import blocks, cross, gather, matmul, matvec, skew, transpose
from ..joints import ConstantSubspaceJoint, Fixed
from ..model import Model
from ..model.lumping import mover_inertias, mover_placements, weld_frames
from ..spatial import Inertia, Transform, cross_motion


class CommonFrame(eqx.Module):
    """A model in a configuration.

    - `placements`: of each mover, relative to its tree's root: (m,).
    - `origins`: the position of each mover's root in the world: (m, 3).
    - `directions`: the motion that each column stands for, about the origin of its own body: (n, 6).
    - `subspace`: the same about the common origin: the book's S with its columns as rows.
    - `drift`: the velocity that each joint has of itself, at its last column: (n, 6), or None where no joint has any.
    """

    placements: Transform
    origins: Float[Array, "m 3"]
    directions: Float[Array, "n 6"]
    subspace: Float[Array, "n 6"]
    drift: Float[Array, "n 6"] | None

    @staticmethod
    def at(model: Model, q: Float[Array, "nq"]) -> CommonFrame:
        """Forward kinematics: book eqs. 4.2 and 5.14, without velocities."""
        topology = model.topology
        q = model.joint_configurations(q)
        transforms = evaluate_joints(model, lambda joint, q: joint.transform(q), q)
        local = mover_placements(model) @ transforms
        tree = topology.mover_tree
        roots = np.asarray(tree.parents, int) < 0
        origins = gather(local.position, tree.roots)
        local = Transform(local.rotation, jnp.where(roots[:, None], 0, local.position))
        world = (jnp.eye(3, dtype=local.rotation.dtype), jnp.zeros(3, local.position.dtype))
        (rotation, position), _ = tree.down(_chain, world, (local.rotation, local.position))
        placements = Transform(rotation, position)
        columns = evaluate_joints(model, lambda joint, q: _columns(joint, q), q, per_column=True)
        rotations = gather(rotation, topology.column_mover)
        directions = jnp.concatenate([matvec(rotations, x) for x in jnp.split(columns, 2, axis=-1)], axis=-1)
        subspace = motion_shift(directions, -gather(position, topology.column_mover))
        drift = None
        if topology.rheonomic:
            own = evaluate_joints(model, lambda joint, q: joint.drift(q), q)
            drift = at_last_column(model, placements.motion(own))
        return CommonFrame(placements, origins, directions, subspace, drift)

    def inertias(self, model: Model) -> Inertia:
        """The inertia of each mover in the common frame."""
        return mover_inertias(model).placed(self.placements)

    def relative_velocity(self, velocity: Float[Array, "n"]) -> Float[Array, "n 6"]:
        """What each column adds to the velocity of its parent: `S q̇ + σ`."""
        own = self.subspace * velocity[:, None]
        return own if self.drift is None else own + self.drift

    def column_velocities(self, model: Model, velocity: Float[Array, "n"]) -> Float[Array, "n 6"]:
        """The velocity of what each column moves (eq. 5.14)."""
        return model.topology.tree.path_sum(self.relative_velocity(velocity))

    def velocity_products(self, model: Model, q, v, velocities: Float[Array, "n 6"]) -> Float[Array, "n 6"]:
        """The acceleration of each joint that is there without `q̈`: `c_J + v × v_J`, at its last column (eq. 3.40)."""
        topology = model.topology
        q, v = model.joint_configurations(q), model.joint_velocities(v)
        mover = gather(velocities, topology.last_column)
        parents = topology.column_parent
        above = gather(jnp.concatenate([velocities, jnp.zeros((1, 6), velocities.dtype)]), parents)
        product = cross_motion(above, mover - above)
        if not has_constant_subspaces(model):
            own = evaluate_joints(model, lambda joint, q, v: joint.velocity_product(q, v), q, v)
            product = product + self.placements.motion(own)
        return at_last_column(model, product)

    def subspace_rates(self, model: Model, q, v, velocities: Float[Array, "n 6"]) -> Float[Array, "n 6"]:
        """`Ṡ`, the rate of each column in the common frame: `v × S + S̊`, with v of the column's own body."""
        topology = model.topology
        q, v = model.joint_configurations(q), model.joint_velocities(v)
        mover = gather(velocities, topology.last_column)
        rates = cross_motion(gather(mover, topology.column_mover), self.subspace)
        if not has_constant_subspaces(model):
            own = evaluate_joints(
                model, lambda joint, q, v: _rows(joint, joint.subspace_rate(q, v)), q, v, per_column=True
            )
            rates = rates + self.placements.gather(topology.column_mover).motion(own)
        return rates


def base_acceleration(model: Model) -> Float[Array, "6"]:
    """The fictitious acceleration of the world that stands for gravity: `-a_g` (book §5.3)."""
    return jnp.concatenate([jnp.zeros_like(model.gravity), -model.gravity])


def to_columns(model: Model, v: Float[Array, "nv"]) -> Float[Array, "n"]:
    """A vector over freedoms as one over columns: followers get their leader's, scaled; idle columns zero."""
    topology = model.topology
    if topology.columns_are_v:
        return v
    joints = jnp.concatenate([model.joint_velocities(v), jnp.zeros(1, v.dtype)])
    return gather(joints, topology.column_v)


def from_columns(model: Model, x: Float[Array, "n *k"]) -> Float[Array, "nv *k"]:
    """The transpose of `to_columns`, along the first axis: what acts along a follower acts on its leader, scaled."""
    topology = model.topology
    if topology.columns_are_v:
        return x
    joints = gather(x, topology.v_column)
    if not len(topology.followers):
        return joints
    own, followers = joints[: topology.nv], joints[topology.nv :]
    leads = jnp.asarray(topology.leader_v[None, :] == np.arange(topology.nv)[:, None], x.dtype)
    return own + jnp.tensordot(leads * model.mimic_multiplier[None, :], followers, 1, precision="highest")


def at_last_column(model: Model, x: Float[Array, "m ..."]) -> Float[Array, "n ..."]:
    """Rows over movers as rows over columns: at each mover's last column, zero at the others."""
    topology = model.topology
    if len(topology.column_mover) == len(topology.movers):
        return x
    rows = np.full(len(topology.column_mover), len(topology.movers))
    rows[topology.last_column] = np.arange(len(topology.movers))
    return gather(jnp.concatenate([x, jnp.zeros((1, *x.shape[1:]), x.dtype)]), rows)


def column_armature(model: Model) -> Float[Array, "n"]:
    """The armature of each column. An idle one has some too, so that dividing by its inertia means nothing."""
    topology = model.topology
    if topology.columns_are_v:
        return model.armature
    followers = jnp.zeros(len(topology.followers), model.armature.dtype)
    one = jnp.ones(1, model.armature.dtype)
    return gather(jnp.concatenate([model.armature, followers, one]), topology.column_v)


def body_frames(model: Model, placements: Transform, world: Transform) -> Transform:
    """The frame of every body, from those of the movers and that of the world they are expressed in."""
    topology = model.topology
    if not topology.fixed.any():
        return placements
    frames = Transform(
        jnp.concatenate([placements.rotation, world.rotation[None]]),
        jnp.concatenate([placements.position, world.position[None]]),
    )
    return frames.gather(topology.carriers) @ weld_frames(model)


def _chain(parent, local):
    rotation, position = parent
    return (matmul(rotation, local[0]), position + matvec(rotation, local[1])), ()


def _columns(joint, q):
    return _rows(joint, joint.motion_subspace(q))


def _rows(joint, subspace):
    """A joint's 6 x nv matrix as rows; one idle row for a joint without freedoms."""
    return subspace.T if joint.nv else jnp.zeros((1, 6), subspace.dtype)


def evaluate_joints(model: Model, method, q, *velocities, per_column: bool = False):
    """Apply a method of joints to all movers, equal joints together; results in the order of the movers.

    **Arguments**

    - `method`: takes a joint, its coordinates in `q`, and those in each of `velocities`.
    - `per_column`: it returns a row for each column of the joint; results are in the order of the columns.
    """
    topology = model.topology
    parts, order = [], []
    for kind, joints in zip(topology.kinds, model.joints, strict=True):
        if kind.fixed:
            continue
        rows = [_coordinates(q, [topology.joint_q(body) for body in kind.bodies])]
        rows += [_coordinates(x, [topology.joint_v(body) for body in kind.bodies]) for x in velocities]
        result = jax.vmap(method, axis_size=len(kind.bodies))(joints, *rows)
        movers = np.searchsorted(topology.movers, kind.bodies)
        if per_column:
            result = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), result)
            last, width = topology.last_column[movers], topology.mover_columns[movers]
            movers = np.concatenate([np.arange(e - w + 1, e + 1) for e, w in zip(last, width, strict=True)])
        parts.append(result)
        order.append(movers)
    if not parts:  # nothing moves
        one = jax.eval_shape(method, Fixed(), q[:0], *(x[:0] for x in velocities))
        return jax.tree.map(lambda s: jnp.zeros((0, *s.shape[1 if per_column else 0 :]), s.dtype), one)
    position = np.argsort(np.concatenate(order), kind="stable")
    return jax.tree.map(lambda *leaves: gather(jnp.concatenate(leaves), position), *parts)


def has_constant_subspaces(model: Model) -> bool:
    """Whether every joint has the same motion subspace in all configurations, and so no velocity-product term."""
    return all(isinstance(joints, ConstantSubspaceJoint) for joints in model.joints)


def _coordinates(x, entries):
    """The entries of `x` for each joint of a group, a row each."""
    table = np.array([np.asarray(row, int) for row in entries], int).reshape(len(entries), -1)
    return gather(x, table.reshape(-1)).reshape(table.shape)


def moment_shift(force: Float[Array, "*a 6"], by: Float[Array, "*b 3"]) -> Float[Array, "*c 6"]:
    """A force vector given for the origin, for the point at `by` instead: `n - by × f`."""
    moment, linear = force[..., :3], force[..., 3:]
    return jnp.concatenate([moment - cross(by, linear), linear], axis=-1)


def motion_shift(motion: Float[Array, "*a 6"], by: Float[Array, "*b 3"]) -> Float[Array, "*c 6"]:
    """A motion vector given for the origin, for the point at `by` instead: `v - by × ω`."""
    angular, linear = motion[..., :3], motion[..., 3:]
    return jnp.concatenate([angular, linear - cross(by, angular)], axis=-1)


def inertia_shift(inertia: Float[Array, "6 6"], by: Float[Array, "3"]) -> Float[Array, "6 6"]:
    """An articulated-body inertia about the point at `by`, about the origin instead: table A.4, without a turn."""
    arm = skew(by)
    coupling, linear = inertia[:3, 3:], inertia[3:, 3:]
    shifted = coupling + matmul(arm, linear)
    moved = inertia[:3, :3] + matmul(arm, transpose(coupling)) - matmul(shifted, arm)
    return blocks(moved, shifted, transpose(shifted), linear)
