"""The Coriolis matrix: a factorization of the velocity-product forces that keeps `Ṁ - 2 C` antisymmetric."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._array import gather, matmul, matvec, transpose
from ..model import Model
from ..model._arguments import takes_sample
from ..spatial import cross_force_matrix, cross_force_operand_matrix, cross_motion_matrix
from ._frame import CommonFrame, at_last_column, from_columns, to_columns
from .mass_matrix import composite_inertias


@takes_sample
def coriolis_matrix(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "nv nv"]:
    """C with `C v = bias_force - gravity_force` and `Ṁ = C + Cᵀ` (Echeandia & Wensing 2021).

    Where every joint has one freedom it is the matrix of the Christoffel symbols.

    `C = Σ Jᵀ (I J̇ + B J)` over the bodies, `B = ½ (v×* I - I v× + (I v)×̄*)`. With `I^c` and `B^c` summed over subtrees,
    `C_ij = S_iᵀ (I^c Ṡ_j + B^c S_j)` where both are those of the deeper of the two columns. Joints that move by themselves
    add velocity-product forces that are no multiple of v; they are in `bias_force` alone.
    """
    topology, tree = model.topology, model.topology.tree
    common = CommonFrame.at(model, q)
    velocities = common.column_velocities(model, to_columns(model, v))
    rates = common.subspace_rates(model, q, v, velocities)
    mover = gather(velocities, topology.last_column)
    inertias = common.inertias(model)
    inertia = inertias.matrix
    turning = matmul(cross_force_matrix(mover), inertia) - matmul(inertia, cross_motion_matrix(mover))
    factor = 0.5 * (turning + cross_force_operand_matrix(inertias.momentum(mover)))
    factor = tree.subtree_sum(at_last_column(model, factor))
    composite = composite_inertias(model, common)

    subspace = common.subspace
    # Column j the deeper one: C_ij = S_i · (I^c_j Ṡ_j + B^c_j S_j).
    deeper = composite.momentum(rates) + matvec(factor, subspace)
    above = matmul(subspace, transpose(deeper))
    # Column i the deeper one: C_ij = (I^c_i S_i) · Ṡ_j + (B^c_iᵀ S_i) · S_j.
    below = matmul(composite.momentum(subspace), transpose(rates))
    below = below + matmul(matvec(transpose(factor), subspace), transpose(subspace))
    full = jnp.where(tree.supports.T, above, jnp.where(tree.supports, below, 0))
    return from_columns(model, transpose(from_columns(model, transpose(full))))
