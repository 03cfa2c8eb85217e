"""Conversions between vectors over degrees of freedom and rows over the columns of the expanded tree used by the recursions."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.array import gather, gather_or_zero, transpose, with_zero_row
from ..model import Model


def to_columns(model: Model, v: Float[Array, "nv"]) -> Float[Array, "n"]:
    """Expands a vector over degrees of freedom to columns; mimic joints get their leader's scaled value, idle columns zero."""
    topology = model.topology
    if topology.columns_are_v:
        return v
    return gather(with_zero_row(model.joint_velocities(v)), topology.column_v)


def from_columns(model: Model, x: Float[Array, "n *k"]) -> Float[Array, "nv *k"]:
    """Applies the transpose of `to_columns` along the first axis; forces on mimic joints act on their leaders, scaled."""
    topology = model.topology
    if topology.columns_are_v:
        return x
    joints = gather(x, topology.v_column)
    if not len(topology.mimic_joints):
        return joints
    own, mimic_joints = joints[: topology.nv], joints[topology.nv :]
    leads = jnp.asarray(topology.leader_v[None, :] == np.arange(topology.nv)[:, None], x.dtype)
    return own + jnp.tensordot(leads * model.mimic_multiplier[None, :], mimic_joints, 1, precision="highest")


def among_dofs(model: Model, x: Float[Array, "n n"]) -> Float[Array, "nv nv"]:
    """Applies `from_columns` along both axes."""
    return transpose(from_columns(model, transpose(from_columns(model, x))))


def at_last_column(model: Model, x: Float[Array, "m ..."]) -> Float[Array, "n ..."]:
    """Places rows over moving bodies at each moving body's last column, with zeros at the other columns."""
    topology = model.topology
    rows = np.full(len(topology.column_owner), -1)
    rows[topology.last_column] = np.arange(len(topology.moving_bodies))
    return gather_or_zero(x, rows)


def column_armature(model: Model, armature: Float[Array, "nv"] | None = None) -> Float[Array, "n"]:
    """Returns the armature of each column, by default the model's; it is 1 for idle columns, to avoid division by zero."""
    topology = model.topology
    armature = model.armature if armature is None else armature
    if topology.columns_are_v:
        return armature
    mimic_joints, one = jnp.zeros(len(topology.mimic_joints), armature.dtype), jnp.ones(1, armature.dtype)
    return gather(jnp.concatenate([armature, mimic_joints, one]), topology.column_v)
