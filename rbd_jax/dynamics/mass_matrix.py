"""The joint-space inertia matrix: the composite-rigid-body algorithm (book §6.2)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import configuration, takes
from .._core.array import gather, products, transpose
from ..model import Model
from ..spatial import AnyInertia
from .columns import among_dofs, at_last_column
from .motion import Motion


@takes(planar=True, q=configuration)
def mass_matrix(model: Model, q: Float[Array, "nq"]) -> Float[Array, "nv nv"]:
    """Returns the mass matrix M with the armature on its diagonal (book table 6.2; eq. 3.63 for one body).

    `M_ij = S_iᵀ I^c_j S_j` if column i supports column j. `I^c_j` is the composite inertia of everything that column j moves;
    in the common frame it is a sum of parameters.

    Args:
      model: The model.
      q: Configuration, shape (nq,).

    Returns:
      The matrix, shape (nv, nv).

    >>> model, q = rbd.load("double_pendulum"), jnp.array([0.5, 1.0])
    >>> print(rbd.mass_matrix(model, q))
    [[4.083 1.541]
     [1.541 1.001]]
    """
    return composite_rigid_body(Motion(model, q))


def composite_rigid_body(motion: Motion, armature: Float[Array, "nv"] | None = None) -> Float[Array, "nv nv"]:
    """Computes `mass_matrix` for a model in motion, with the model's armature by default."""
    model, tree, subspace = motion.model, motion.model.topology.tree, motion.common.subspace
    forces = composite_momenta(motion)
    lower = products(forces, subspace)
    full = jnp.where(tree.supports.T, transpose(lower), jnp.where(tree.supports, lower, 0))
    armature = model.armature if armature is None else armature
    return among_dofs(model, full) + jnp.where(np.eye(model.nv, dtype=bool), armature, 0)


def mass_matrix_among(motion: Motion, dofs: np.ndarray) -> Float[Array, "k k"]:
    """Returns a block of M, for a model without mimic joints: H₁₁ of hybrid dynamics (book table 9.1).

    In the common frame, composite inertias are sums and momenta need no transformation. The algorithm therefore
    only selects the required columns.
    """
    motion = motion.computed("inertias")
    model, tree = motion.model, motion.model.topology.tree
    columns = model.topology.v_column[dofs]
    subspace = gather(motion.common.subspace, columns)
    inertias = motion.inertias.from_parameters(gather(composite_inertias(motion).parameters, columns))
    momenta, supports = inertias.momentum(subspace), tree.supports[np.ix_(columns, columns)]
    upper, lower = products(subspace, momenta), products(momenta, subspace)
    full = jnp.where(supports.T, upper, jnp.where(supports, lower, 0))
    armature = gather(model.armature, dofs)
    return full + jnp.where(np.eye(len(dofs), dtype=bool), armature, 0)


def composite_inertias(motion: Motion) -> AnyInertia:
    """Returns the inertia `I^c` of everything that each column moves (eq. 6.13): (n,)."""
    inertias = motion.inertias
    own = at_last_column(motion.model, inertias.parameters)
    return inertias.from_parameters(motion.model.topology.tree.subtree_sum(own))


def composite_momenta(motion: Motion) -> Float[Array, "n d"]:
    """Returns `I^c S`: the momentum of the tree for unit velocity along one column."""
    return composite_inertias(motion).momentum(motion.common.subspace)
