"""The slopes of the Lagrangian `L = T - V`, by recursion: what discrete mechanics asks for (Marsden & West 2001).

`∂L/∂v` is the generalized momentum. `∂L/∂q` follows from how a rigid turn changes nothing: turn column j by a little, and all
that it carries turns with it, velocities too, but for `Ψ̇_j = v_λ × S_j + e_j` (see `derivatives`). So with the momentum
h and the weight w of all that column j moves, `∂T/∂q_j = h · Ψ̇_j` and `-∂V/∂q_j = S_j · w`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._array import dot, gather, matvec
from ..model import Model
from ..model._arguments import takes_sample
from ..spatial import cross_motion
from ._frame import (
    CommonFrame,
    at_last_column,
    base_acceleration,
    evaluate_joints,
    from_columns,
    has_constant_subspaces,
    to_columns,
)


@takes_sample
def lagrangian_slopes(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]
) -> tuple[Float[Array, "nv"], Float[Array, "nv"]]:
    """`(∂L/∂q, ∂L/∂v)`, with V of gravity alone; the first is along `integrate(model, q, dq)`.

    The second is `M v`, and what joints that move by themselves add.
    """
    topology = model.topology
    common = CommonFrame.at(model, q)
    velocities = common.column_velocities(model, to_columns(model, v))
    inertias = common.inertias(model)
    momenta = inertias.momentum(gather(velocities, topology.last_column))
    weights = inertias.momentum(-base_acceleration(model)[None])
    sums = topology.tree.subtree_sum(at_last_column(model, jnp.concatenate([momenta, weights], axis=-1)))
    momentum, weight = sums[:, :6], sums[:, 6:]

    above = topology.column_parent[topology.column_mover]
    velocity_above = gather(jnp.concatenate([velocities, jnp.zeros((1, 6), velocities.dtype)]), above)
    left_behind = cross_motion(velocity_above, common.subspace)
    if not has_constant_subspaces(model):
        left_behind = left_behind + _turns_of_velocity(model, common, q, v)
    by_q = dot(momentum, left_behind) + dot(common.subspace, weight)
    by_v = dot(common.subspace, momentum)
    return from_columns(model, by_q), from_columns(model, by_v) + model.armature * v


def _turns_of_velocity(model: Model, common: CommonFrame, q, v) -> Float[Array, "n 6"]:
    """`e_j = ∂(S v + σ)/∂q_j` of each joint, seen from its own successor frame, in the common frame."""

    def of_joint(joint, q, v):
        if joint.nv == 0:
            return jnp.zeros((1, 6), q.dtype)

        def velocity(dq):
            here = joint.integrate(q, dq)
            return matvec(joint.motion_subspace(here), v) + joint.drift(here)

        return jax.jacfwd(velocity)(jnp.zeros_like(v)).T

    own = evaluate_joints(
        model, of_joint, model.joint_configurations(q), model.joint_velocities(v), per_column=True
    )
    return common.placements.gather(model.topology.column_mover).motion(own)
