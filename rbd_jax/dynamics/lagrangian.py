"""Gradients of the Lagrangian `L = T - V` by recursion, for variational integrators (Marsden & West 2001).

`∂L/∂v` is the generalized momentum. `∂L/∂q` follows from the invariance under rigid rotations. A small change of q along
column j turns everything that the column carries, with the velocities, except for `Ψ̇_j = v_λ × S_j + e_j` (see
`derivatives`). With momentum h and weight w of everything that column j moves, `∂T/∂q_j = h · Ψ̇_j` and `-∂V/∂q_j = S_j · w`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import configuration, takes, velocity
from .._core.array import dot, gather_or_zero, matvec
from ..model import Model
from ..spatial import cross_motion
from ._frame import base_acceleration, evaluate_joints, has_constant_subspaces
from .columns import at_last_column, from_columns
from .motion import Motion


@takes(planar=True, q=configuration, v=velocity)
def lagrangian_gradients(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]
) -> tuple[Float[Array, "nv"], Float[Array, "nv"]]:
    """Returns `(∂L/∂q, ∂L/∂v)`, where V is gravity only; the first gradient is along `integrate(model, q, dq)`.

    The second is `M v`, plus the contribution of rheonomic joints.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> by_q, by_v = rbd.lagrangian_gradients(model, q, v)
    >>> print(by_q, by_v)
    [-19.192 -12.31 ] [7.165 3.543]
    """
    return gradients_of_lagrangian(Motion(model, q, v))


def gradients_of_lagrangian(motion: Motion) -> tuple[Float[Array, "nv"], Float[Array, "nv"]]:
    """Computes `lagrangian_gradients` for a model in motion."""
    motion = motion.computed("inertias", "velocities")
    model, topology, subspace = motion.model, motion.model.topology, motion.common.subspace
    momenta = motion.inertias.momentum(motion.velocities)
    weights = motion.inertias.momentum(-base_acceleration(model)[None])
    sums = topology.tree.subtree_sum(at_last_column(model, jnp.concatenate([momenta, weights], axis=-1)))
    momentum, weight = jnp.split(sums, 2, axis=1)

    above = topology.column_parent[topology.column_owner]
    left_behind = cross_motion(gather_or_zero(motion.column_velocities, above), subspace)
    if not has_constant_subspaces(model):
        left_behind = left_behind + _turns_of_velocity(motion)
    by_q = dot(momentum, left_behind) + dot(subspace, weight)
    by_v = dot(subspace, momentum)
    return from_columns(model, by_q), from_columns(model, by_v) + model.armature * motion.v


def _turns_of_velocity(motion: Motion) -> Float[Array, "n d"]:
    """Returns `e_j = ∂(S v + σ)/∂q_j` of each joint relative to its successor frame, in the common frame."""
    model = motion.model

    def of_joint(joint, q, v):
        if joint.nv == 0:
            return jnp.zeros((1, model.vector_size), q.dtype)

        def velocity(dq):
            here = joint.integrate(q, dq)
            return matvec(joint.motion_subspace(here), v) + joint.drift(here)

        return jax.jacfwd(velocity)(jnp.zeros_like(v)).T

    q, v = model.joint_configurations(motion.q), model.joint_velocities(motion.v)
    own = evaluate_joints(model, of_joint, q, v, per_column=True)
    return motion.common.placements.gather(model.topology.column_owner).motion(own)
