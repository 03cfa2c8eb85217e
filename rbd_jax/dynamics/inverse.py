"""Inverse dynamics: the recursive Newton–Euler algorithm and its special cases (book ch. 5)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._array import dot, gather
from ..model import Model
from ..model._arguments import takes_sample
from ..spatial import cross_force
from ._external import ExternalForces, external_forces
from ._frame import CommonFrame, at_last_column, base_acceleration, from_columns, to_columns
from .kinematics import biased_accelerations


@takes_sample
def inverse_dynamics(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    a: Float[Array, "nv"],
    f_ext: ExternalForces = None,
) -> Float[Array, "nv"]:
    """The generalized forces `tau` that produce the acceleration `a`: `M a + C v + g - Jᵀ f_ext` (book table 5.1).

    In the common frame, down the tree `v_i = v_λ + S q̇` and `a_i = a_λ + S q̈ + c_J + v × v_J`, then for each body
    `f = I a + v ×* I v - f_ext`, and up the tree `tau_i = Sᵀ Σ f` over the subtree.

    Damping, friction and springs of the joints are not part of it: see `passive_force`.
    """
    common = CommonFrame.at(model, q)
    velocities = common.column_velocities(model, to_columns(model, v))
    accelerations = biased_accelerations(model, common, q, v, a, velocities)
    last = model.topology.last_column
    forces = body_forces(model, common, gather(velocities, last), gather(accelerations, last), f_ext)
    transmitted = model.topology.tree.subtree_sum(at_last_column(model, forces))
    return from_columns(model, dot(common.subspace, transmitted)) + model.armature * a


def body_forces(model: Model, common: CommonFrame, velocities, accelerations, f_ext: ExternalForces):
    """The net force that each mover needs, `I a + v ×* I v - f_ext` (eq. 5.16): (m, 6)."""
    inertias = common.inertias(model)
    forces = inertias.momentum(accelerations) + cross_force(velocities, inertias.momentum(velocities))
    external = external_forces(model, common, f_ext)
    return forces if external is None else forces - external


@takes_sample
def bias_force(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], f_ext: ExternalForces = None
) -> Float[Array, "nv"]:
    """`C v + g - Jᵀ f_ext`: the forces that produce no acceleration (book eq. 6.2)."""
    return inverse_dynamics(model, q, v, jnp.zeros_like(v), f_ext)


@takes_sample
def gravity_force(model: Model, q: Float[Array, "nq"]) -> Float[Array, "nv"]:
    """`g`: the forces that hold the model at rest against gravity; the gradient of `potential_energy` (eq. 5.12)."""
    common = CommonFrame.at(model, q)
    weights = common.inertias(model).momentum(base_acceleration(model)[None])
    transmitted = model.topology.tree.subtree_sum(at_last_column(model, weights))
    return from_columns(model, dot(common.subspace, transmitted))


def inertia_force(model: Model, q: Float[Array, "nq"], a: Float[Array, "nv *k"]) -> Float[Array, "nv *k"]:
    """`M a` without the matrix M: inverse dynamics at rest and without gravity (book table 6.1, ID_δ)."""
    if a.ndim == 2:
        return jax.vmap(lambda column: inertia_force(model, q, column), in_axes=1, out_axes=1)(a)
    tree, common = model.topology.tree, CommonFrame.at(model, q)
    accelerations = tree.path_sum(common.subspace * to_columns(model, a)[:, None])
    forces = common.inertias(model).momentum(gather(accelerations, model.topology.last_column))
    transmitted = tree.subtree_sum(at_last_column(model, forces))
    return from_columns(model, dot(common.subspace, transmitted)) + model.armature * a
