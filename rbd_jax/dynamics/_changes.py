"""First-order changes of motions and forces with q and v, from which all derivatives of inverse dynamics are computed.

After Carpentier & Mansard (2018) and Singh, Russell & Wensing (2022), for joints of any kind, in the common frame. A small
change of q along column j turns everything that the column carries. Relative to that rigid turn, the changes are

    Ψ̇_j = v_λ × S_j + e_j        of the velocities,
    Ψ̈_j = a_λ × S_j + v_λ × Ψ̇_j + v × e_j + d_j    of the accelerations, v × Ψ̇_j included.

Here v_λ and a_λ belong to the predecessor body of the joint, and v to its successor body. `e_j` and `d_j` are the changes of
the joint's own velocity and acceleration in its successor frame. Both are zero for a constant motion subspace.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import (
    cross,
    dot,
    gather,
    gather_or_zero,
    identity_like,
    matvec,
    outer,
    sum_rows,
    transpose,
    vecmat,
    with_zero_row,
)
from ..spatial import AnyInertia, cross_force, cross_motion, parts
from ._frame import base_acceleration, evaluate_joints, has_constant_subspaces
from .columns import at_last_column, from_columns, to_columns
from .external import ExternalForces, external_forces
from .motion import Motion


class Changes(eqx.Module):
    """The sensitivities of the forces of inverse dynamics at an acceleration `a`, with one row per column.

    A change of column j acts on each column k that it carries, including the columns of its own joint, through motion:

        δτ_k = (I_k S_k) · δa_j + (B_kᵀ S_k) · δv_j.

    It acts on each column k that carries it through the force that column k supports, `δτ_k = S_k · δf_j`. I and B (see
    `Turning`) are sums over subtrees. `δv_j` and `δa_j` are Ψ̇ and Ψ̈ for q, S and a `rate` for v, and zero and S for a.
    `δf_j = I_j δa_j + B_j δv_j`; for q, the turned force `S_j ×* F_j` is added. External forces do not turn with the bodies, so
    they are subtracted from F.

    - `momenta`, `turned`: `I S`, and the angular part of `Bᵀ S`. B acts on angular parts only.
    - `spin`, `bend`, `rate`: the angular part of Ψ̇; Ψ̈; and the accelerations for a change of v.
    - `held_by_q`, `held_by_v`: `δf`; for a it is `momenta`.
    - `force`, `external`: the net force on the bodies that a column carries, and the external part of it.
    - `subspace`: ∂S_k/∂q_j for the columns k of the joint of each column j, in their order; None if all are constant.
    """

    momenta: Float[Array, "n d"]
    turned: Float[Array, "n k"]
    spin: Float[Array, "n k"]
    bend: Float[Array, "n d"]
    rate: Float[Array, "n d"]
    held_by_q: Float[Array, "n d"]
    held_by_v: Float[Array, "n d"]
    force: Float[Array, "n d"]
    external: Float[Array, "n d"] | None
    subspace: Float[Array, "n widest d"] | None

    @staticmethod
    def of(motion: Motion, a: Float[Array, "nv"], f_ext: ExternalForces) -> Changes:
        motion = motion.computed("inertias", "velocity_products")
        model, topology, tree = motion.model, motion.model.topology, motion.model.topology.tree
        accelerations = motion.biased_accelerations(a)
        velocity = gather(motion.velocities, topology.column_owner)
        above = topology.column_parent[topology.column_owner]
        velocity_above = gather_or_zero(motion.column_velocities, above)
        base = base_acceleration(model)
        acceleration_above = gather(jnp.concatenate([accelerations, base[None]]), above)

        subspace, own = motion.common.subspace, _JointDerivatives.of(motion, a)
        psi = cross_motion(velocity_above, subspace)
        psi_dot = psi if own is None else psi + own.velocity
        psi_ddot = cross_motion(acceleration_above, subspace) + cross_motion(velocity_above, psi_dot)
        rate = psi + cross_motion(velocity, subspace)
        if own is not None:
            psi_ddot = psi_ddot + cross_motion(velocity, own.velocity) + own.acceleration
            rate = rate + own.product

        # Per body, then per subtree: inertia, velocity sensitivity, net force and external force.
        inertias = motion.inertias
        momentum = inertias.momentum(motion.velocities)
        turning = Turning.of(inertias, motion.velocities, momentum)
        force = inertias.momentum(gather(accelerations, topology.last_column))
        force = force + cross_force(motion.velocities, momentum)
        bodies = (inertias.parameters, turning, force, external_forces(motion, f_ext))
        columns = jax.tree.map(lambda x: at_last_column(model, x), bodies)
        parameters, turning, force, external = tree.subtree_sum(columns)
        inertia = inertias.from_parameters(parameters)
        held_by_q = inertia.momentum(psi_ddot) + turning.force(psi_dot) + cross_force(subspace, force)
        return Changes(
            inertia.momentum(subspace),
            turning.transposed(subspace),
            parts(psi_dot)[0],
            psi_ddot,
            rate,
            held_by_q,
            inertia.momentum(rate) + turning.force(subspace),
            force if external is None else force - external,
            external,
            None if own is None else own.subspace,
        )

    @property
    def turned_subspace(self) -> Float[Array, "n widest"]:
        """`∂S_k/∂q_j · F` for each column j and the columns k of its joint; F is the same on all of them."""
        assert self.subspace is not None
        return dot(self.subspace, self.force[:, None, :])


class Turning(eqx.Module):
    """`v ×* I - I v× + (I v) ×̄*`, or 2 B(I, v): the sensitivity of the force on a body to a change of velocity.

    For a rigid body it is `-2 [[ω× Σ + h× u×, 0], [p×, 0]]`, with v = [ω; u], the linear momentum p and the second moments
    of mass `Σ = ½ tr(Ī) 1 - Ī`. It acts on the angular part only.

    In a plane, ω× Σ vanishes and `h× u×` leaves the single entry `-(h · u)`.
    """

    angular: Float[Array, "*b n n"]
    linear: Float[Array, "*b k"]

    @staticmethod
    def of(inertia: AnyInertia, velocity: Float[Array, "*b d"], momentum: Float[Array, "*b d"]) -> Turning:
        spin, moving = parts(velocity)
        pushed = -2 * parts(momentum)[1]
        along = dot(inertia.first_moment, moving)[..., None, None]
        if velocity.shape[-1] == 3:
            return Turning(2 * along, pushed)
        rotational = inertia.rotational_matrix
        trace = jnp.trace(rotational, axis1=-2, axis2=-1)[..., None, None]
        moments = 0.5 * trace * identity_like(rotational) - rotational
        # `(ω× Σ)ᵀ` has the rows `ω × Σ_i`; and `h× u× = u hᵀ - (h · u) 1`.
        turned = transpose(cross(spin[..., None, :], moments))
        product = outer(moving, inertia.first_moment)
        return Turning(-2 * (turned + product - along * identity_like(rotational)), pushed)

    def force(self, motion: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
        """Returns the matrix times a motion vector."""
        spin = parts(motion)[0]
        return jnp.concatenate([matvec(self.angular, spin), cross(self.linear, spin)], axis=-1)

    def transposed(self, motion: Float[Array, "*b d"]) -> Float[Array, "*b n"]:
        """Returns the angular part of the transposed matrix times a motion vector; the linear part is zero."""
        spin, moving = parts(motion)
        return vecmat(spin, self.angular) - cross(self.linear, moving)


class _JointDerivatives(eqx.Module):
    """The changes of each joint's own motion with its q or v, in the common frame, with one row per column j.

    `velocity` e_j = ∂(S v + σ)/∂q_j; `acceleration` d_j = ∂(S v̇ + c_J)/∂q_j; `product` ∂c_J/∂v_j; `subspace` as in `Changes`.
    """

    velocity: Float[Array, "n d"]
    acceleration: Float[Array, "n d"]
    product: Float[Array, "n d"]
    subspace: Float[Array, "n widest d"]

    @staticmethod
    def of(motion: Motion, a) -> _JointDerivatives | None:
        """Returns the derivatives, or None if all motion subspaces are constant."""
        model = motion.model
        if has_constant_subspaces(model):
            return None
        widest = int(model.topology.column_counts.max())
        q = model.joint_configurations(motion.q)
        v, a = (model.joint_velocities(x) for x in (motion.v, a))

        def of_joint(joint, q, v, a):
            if joint.nv == 0:
                d = model.vector_size
                return (jnp.zeros((1, d), q.dtype),) * 3 + (jnp.zeros((1, widest, d), q.dtype),)

            def motions(dq):
                here = joint.integrate(q, dq)
                subspace = joint.motion_subspace(here)
                velocity = matvec(subspace, v) + joint.drift(here)
                acceleration = matvec(subspace, a) + joint.velocity_product(here, v)
                return velocity, acceleration, subspace

            velocity, acceleration, subspace = jax.jacfwd(motions)(jnp.zeros_like(v))
            product = jax.jacfwd(lambda v: joint.velocity_product(q, v))(v)
            subspace = jnp.pad(subspace.transpose(2, 1, 0), ((0, 0), (0, widest - joint.nv), (0, 0)))
            return velocity.T, acceleration.T, product.T, subspace

        own = evaluate_joints(model, of_joint, q, v, a, per_column=True)
        frames = motion.common.placements.gather(model.topology.column_owner)
        velocity, acceleration, product = (frames.motion(x) for x in own[:3])
        subspace = jax.vmap(lambda frame, x: frame.motion(x))(frames, own[3])
        return _JointDerivatives(velocity, acceleration, product, subspace)


def newton_euler_along(
    motion: Motion, a: Float[Array, "nv"], f_ext: ExternalForces, by_q, by_v, by_a, by_f_ext
) -> Float[Array, "nv"]:
    """Returns the directional derivative of the forces of inverse dynamics, without the armature's; O(n).

    The result is the product of the matrices of `newton_euler_derivatives` with the given changes,
    computed by sums over paths and subtrees.

    Args:
      motion: The model in a state.
      a: Acceleration, shape (nv,).
      f_ext: External forces.
      by_q: Change of the coordinates of q, shape (nq,), or None.
      by_v: Change of v, or None.
      by_a: Change of a, or None.
      by_f_ext: Change of the external forces, or None.
    """
    model, topology, tree = motion.model, motion.model.topology, motion.model.topology.tree
    changes, subspace = Changes.of(motion, a, f_ext), motion.common.subspace
    turned = None if by_q is None else column_changes(motion, by_q)[:, None]

    velocity, acceleration, held = [], [], []
    if turned is not None:
        velocity.append(changes.spin * turned)
        acceleration.append(changes.bend * turned)
        held.append(changes.held_by_q * turned)
    if by_v is not None:
        along = to_columns(model, by_v)[:, None]
        velocity.append(parts(subspace)[0] * along)
        acceleration.append(changes.rate * along)
        held.append(changes.held_by_v * along)
    if by_a is not None:
        along = to_columns(model, by_a)[:, None]
        acceleration.append(subspace * along)
        held.append(changes.momenta * along)

    last = topology.last_column[topology.column_owner]
    result = jnp.zeros_like(subspace[:, 0])
    # External forces stay constant while the bodies that they act on turn.
    moved = [(changes.momenta, acceleration), (changes.turned, velocity)]
    if turned is not None and changes.external is not None:
        moved.append((-cross_force(subspace, changes.external), [subspace * turned]))
    moved = [(answer, sum(part)) for answer, part in moved if part]
    if moved:
        sums = tree.path_sum([part for _, part in moved])
        for (answer, _), total in zip(moved, sums, strict=True):
            result = result + dot(answer, gather(total, last))
    if held:
        own = sum(held)
        result = result + dot(subspace, gather(tree.subtree_sum(own) - own, last))
    if by_f_ext is not None:
        external = external_forces(motion, by_f_ext)
        assert external is not None
        result = result - dot(subspace, tree.subtree_sum(at_last_column(model, external)))
    if turned is not None and changes.subspace is not None:
        # Entry (joint, k): the sum over the columns j of the joint.
        joints = len(topology.last_column)
        rows = sum_rows(changes.turned_subspace * turned, topology.column_owner, joints)
        place = topology.column_owner * rows.shape[1] + topology.place_in_joint
        result = result + gather(rows.reshape(-1), place)
    return from_columns(model, result)


def column_changes(motion: Motion, by_q: Float[Array, "nq"]) -> Float[Array, "n"]:
    """Returns the tangent-space velocity along each column for a change of the coordinates of q."""
    model, topology = motion.model, motion.model.topology
    change = jax.jvp(model.joint_configurations, (motion.q,), (by_q,))[1]
    if all(joints.flat for joints in model.joints):
        return change if topology.columns_are_v else gather(with_zero_row(change), topology.column_v)

    def of_joint(joint, q, rate):
        return joint.configuration_velocity(q, rate) if joint.nv else jnp.zeros(1, q.dtype)

    q = model.joint_configurations(motion.q)
    return evaluate_joints(model, of_joint, q, change, per_column=True)
