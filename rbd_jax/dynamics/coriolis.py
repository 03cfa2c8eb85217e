"""The Coriolis matrix: a factorization of the velocity-product forces with antisymmetric `Ṁ - 2 C`."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import configuration, takes, velocity
from .._core.array import matmul, matvec, transpose
from ..model import Model
from ..spatial import cross_force_matrix, cross_force_operand_matrix, cross_motion_matrix
from .columns import among_dofs, at_last_column
from .mass_matrix import composite_inertias
from .motion import Motion


@takes(q=configuration, v=velocity)
def coriolis_matrix(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "nv nv"]:
    """Returns C with `C v = bias_force - gravity_force` and `Ṁ = C + Cᵀ` (Echeandia & Wensing 2021).

    If every joint has one degree of freedom, C is the matrix of the Christoffel symbols (book eq. 5.6).

    `C = Σ Jᵀ (I J̇ + B J)` over the bodies, with `B = ½ (v×* I - I v× + (I v)×̄*)`. The first two terms of B are the rate
    of the inertia (book eq. 2.65). With `I^c` and `B^c` summed over subtrees, `C_ij = S_iᵀ (I^c Ṡ_j + B^c S_j)`, where
    I^c and B^c belong to the deeper of the two columns. Rheonomic joints add velocity-product forces that are not linear
    in v; these are in `bias_force` only.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> c = rbd.coriolis_matrix(model, q, v)
    >>> print(c @ v, rbd.bias_force(model, q, v) - rbd.gravity_force(model, q))
    [-6.732  0.841] [-6.732  0.841]
    """
    motion, tree = Motion(model, q, v).computed("velocities", "inertias"), model.topology.tree
    rates, moving_body, inertias = motion.subspace_rates, motion.velocities, motion.inertias
    inertia = inertias.matrix
    turning = matmul(cross_force_matrix(moving_body), inertia) - matmul(
        inertia, cross_motion_matrix(moving_body)
    )
    factor = 0.5 * (turning + cross_force_operand_matrix(inertias.momentum(moving_body)))
    factor = tree.subtree_sum(at_last_column(model, factor))
    composite = composite_inertias(motion)

    subspace = motion.common.subspace
    # Column j is the deeper one: C_ij = S_i · (I^c_j Ṡ_j + B^c_j S_j).
    deeper = composite.momentum(rates) + matvec(factor, subspace)
    above = matmul(subspace, transpose(deeper))
    # Column i is the deeper one: C_ij = (I^c_i S_i) · Ṡ_j + (B^c_iᵀ S_i) · S_j.
    below = matmul(composite.momentum(subspace), transpose(rates))
    below = below + matmul(matvec(transpose(factor), subspace), transpose(subspace))
    full = jnp.where(tree.supports.T, above, jnp.where(tree.supports, below, 0))
    return among_dofs(model, full)
