"""The joint-space inertia matrix: the composite-rigid-body algorithm (book §6.2)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._array import products, transpose
from ..model import Model
from ..model._arguments import takes_sample
from ..spatial import Inertia
from ._frame import CommonFrame, at_last_column, from_columns


@takes_sample
def mass_matrix(model: Model, q: Float[Array, "nq"]) -> Float[Array, "nv nv"]:
    """M: `M_ij = S_iᵀ I^c_j S_j` where column i supports column j, armature added on the diagonal (book table 6.2).

    `I^c_j` is the composite inertia of all that column j moves: in the common frame, a sum of parameters.
    """
    common, tree = CommonFrame.at(model, q), model.topology.tree
    forces = composite_momenta(model, common)
    upper, lower = products(common.subspace, forces), products(forces, common.subspace)
    full = jnp.where(tree.supports.T, upper, jnp.where(tree.supports, lower, 0))
    reduced = from_columns(model, transpose(from_columns(model, full)))
    return reduced + jnp.where(np.eye(model.nv, dtype=bool), model.armature, 0)


def composite_inertias(model: Model, common: CommonFrame) -> Inertia:
    """The inertia of all that each column moves, `I^c` (eq. 6.13): (n,)."""
    own = at_last_column(model, common.inertias(model).parameters)
    return Inertia.from_parameters(model.topology.tree.subtree_sum(own))


def composite_momenta(model: Model, common: CommonFrame) -> Float[Array, "n 6"]:
    """`I^c S`: the momentum of the whole tree when one column alone moves at unit rate."""
    return composite_inertias(model, common).momentum(common.subspace)
