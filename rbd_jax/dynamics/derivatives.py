"""Analytic derivatives of inverse and forward dynamics, as matrices on the tangent space; see `_changes`."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import configuration, takes, velocity, wrenches
from .._core.array import products, transpose
from ..model import Model, Topology
from ..spatial import cross_force, parts
from ._changes import Changes
from .columns import among_dofs
from .external import ExternalForces
from .forward import forward_with_inverse
from .motion import Motion


@takes(planar=True, q=configuration, v=velocity, a=velocity, f_ext=wrenches)
def inverse_dynamics_derivatives(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    a: Float[Array, "nv"],
    f_ext: ExternalForces = None,
) -> tuple[Float[Array, "nv nv"], Float[Array, "nv nv"], Float[Array, "nv nv"]]:
    """Returns the derivatives `(dtau/dq, dtau/dv, dtau/da)` of `inverse_dynamics`.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      a: Acceleration, shape (nv,).
      f_ext: External forces, see `ExternalForces`.

    Returns:
      Three matrices of shape (nv, nv). The derivative with respect to q is along `integrate(model, q, dq)`.

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> by_q, by_v, by_a = rbd.inverse_dynamics_derivatives(model, q, v, jnp.zeros(2))
    >>> print(by_q)
    [[17.912 -3.628]
     [ 0.694  1.234]]
    """
    return newton_euler_derivatives(Motion(model, q, v), a, f_ext)


@takes(planar=True, q=configuration, v=velocity, tau=velocity, f_ext=wrenches)
def forward_dynamics_derivatives(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: ExternalForces = None,
) -> tuple[Float[Array, "nv nv"], Float[Array, "nv nv"], Float[Array, "nv nv"]]:
    """Returns the derivatives `(da/dq, da/dv, da/dtau)` of `forward_dynamics`.

    The first two are `-M⁻¹` times the derivatives of inverse dynamics at the same motion, the third is `M⁻¹`.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      tau: Generalized forces, shape (nv,).
      f_ext: External forces, see `ExternalForces`.

    Returns:
      Three matrices of shape (nv, nv). The derivative with respect to q is along `integrate(model, q, dq)`.

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> by_q, by_v, by_tau = rbd.forward_dynamics_derivatives(model, q, v, jnp.zeros(2))
    >>> print(by_q)
    [[-9.854 -3.205]
     [14.479  5.621]]
    """
    return forward_derivatives(Motion(model, q, v), tau, f_ext)


def forward_derivatives(motion: Motion, tau: Float[Array, "nv"], f_ext: ExternalForces = None):
    """Computes `forward_dynamics_derivatives` for a model in motion."""
    motion = motion.computed("velocity_products")
    a, solve = forward_with_inverse(tau, motion, f_ext)
    by_q, by_v, _ = newton_euler_derivatives(motion, a, f_ext)
    inverse = solve.matrix
    return -products(inverse, transpose(by_q)), -products(inverse, transpose(by_v)), inverse


def newton_euler_derivatives(motion: Motion, a: Float[Array, "nv"], f_ext: ExternalForces = None):
    """Computes `inverse_dynamics_derivatives` for a model in motion."""
    model, topology, subspace = motion.model, motion.model.topology, motion.common.subspace
    changes = Changes.of(motion, a, f_ext)

    # Entry (k, j): column j's joint carries column k's joint (`carries`), or the reverse (`carried`).
    owner = topology.column_owner
    carries = topology.moving_tree.supports[owner[:, None], owner[None, :]]
    carried = carries.T & ~carries
    momenta, turned = changes.momenta, changes.turned
    by_q_below = products(momenta, changes.bend) + products(turned, changes.spin)
    by_v_below = products(momenta, changes.rate) + products(turned, parts(subspace)[0])
    if changes.external is not None:
        by_q_below = by_q_below - products(cross_force(subspace, changes.external), subspace)

    by_q = jnp.where(carries, by_q_below, jnp.where(carried, products(subspace, changes.held_by_q), 0))
    if changes.subspace is not None:
        by_q = by_q + _of_own_subspace(changes, topology)
    by_v = jnp.where(carries, by_v_below, jnp.where(carried, products(subspace, changes.held_by_v), 0))
    by_a = jnp.where(carried, products(subspace, momenta), jnp.where(carries, products(momenta, subspace), 0))
    by_q, by_v, by_a = (among_dofs(model, x) for x in (by_q, by_v, by_a))
    return by_q, by_v, by_a + jnp.where(np.eye(model.nv, dtype=bool), model.armature, 0)


def _of_own_subspace(changes: Changes, topology: Topology) -> Float[Array, "n n"]:
    """Returns `∂S_k/∂q_j · F_k` for the columns of one joint, zero elsewhere."""
    columns, together = np.arange(topology.tree.size), topology.column_owner[:, None] == topology.column_owner
    entries = changes.turned_subspace[
        columns[None, :], np.where(together, topology.place_in_joint[:, None], 0)
    ]
    return jnp.where(together, entries, 0)
