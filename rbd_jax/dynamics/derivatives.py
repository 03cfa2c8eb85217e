"""Analytic derivatives of inverse and forward dynamics, as matrices on the tangent space.

After Carpentier & Mansard (2018) and Singh, Russell & Wensing (2022), for joints of any kind, in the common frame. Turn
column j by a little: all that it carries turns with it, and what does not cancel from that rigid turn is

    Ψ̇_j = v_λ × S_j + e_j        of the velocities,
    Ψ̈_j = a_λ × S_j + v_λ × Ψ̇_j + v_J × e_j + d_j    of the accelerations,

with v_λ, a_λ those of the body that the joint is attached to and v_J that of the one it attaches. `e_j` and `d_j` are what
the joint itself does, seen from its own successor frame, when q changes: zero for a constant motion subspace.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._arguments import configuration, takes, velocity, wrenches
from .._array import (
    cross,
    dot,
    gather,
    gather_or_zero,
    identity_like,
    matvec,
    outer,
    products,
    transpose,
    vecmat,
)
from ..model import Model
from ..spatial import Inertia, cross_force, cross_motion
from ._frame import base_acceleration, evaluate_joints, has_constant_subspaces
from .columns import at_last_column, from_columns
from .external import ExternalForces, external_forces
from .forward import forward_with_inverse
from .motion import Motion


@takes(q=configuration, v=velocity, a=velocity, f_ext=wrenches)
def inverse_dynamics_derivatives(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    a: Float[Array, "nv"],
    f_ext: ExternalForces = None,
) -> tuple[Float[Array, "nv nv"], Float[Array, "nv nv"], Float[Array, "nv nv"]]:
    """`(dtau/dq, dtau/dv, dtau/da)` of `inverse_dynamics`; the derivative by q is along `integrate(model, q, dq)`.

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> by_q, by_v, by_a = rbd.inverse_dynamics_derivatives(model, q, v, jnp.zeros(2))
    >>> print(by_q)
    [[17.912 -3.628]
     [ 0.694  1.234]]
    """
    return newton_euler_derivatives(Motion(model, q, v), a, f_ext)


@takes(q=configuration, v=velocity, tau=velocity, f_ext=wrenches)
def forward_dynamics_derivatives(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: ExternalForces = None,
) -> tuple[Float[Array, "nv nv"], Float[Array, "nv nv"], Float[Array, "nv nv"]]:
    """`(da/dq, da/dv, da/dtau)` of `forward_dynamics`: `-M⁻¹` times those of inverse dynamics at the same motion, and `M⁻¹`.

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> by_q, by_v, by_tau = rbd.forward_dynamics_derivatives(model, q, v, jnp.zeros(2))
    >>> print(by_q)
    [[-9.854 -3.205]
     [14.479  5.621]]
    """
    motion = Motion(model, q, v)
    a, solve = forward_with_inverse(tau, motion, f_ext)
    by_q, by_v, _ = newton_euler_derivatives(motion, a, f_ext)
    inverse = solve(jnp.eye(model.nv, dtype=a.dtype))
    return -products(inverse, transpose(by_q)), -products(inverse, transpose(by_v)), inverse


def newton_euler_derivatives(motion: Motion, a: Float[Array, "nv"], f_ext: ExternalForces = None):
    """`inverse_dynamics_derivatives` of a model in motion."""
    model, topology, tree = motion.model, motion.model.topology, motion.model.topology.tree
    accelerations = motion.biased_accelerations(a)
    own = _JointDerivatives.of(motion, a)
    last, column_owner = topology.last_column, topology.column_owner
    velocity = gather(motion.velocities, column_owner)
    above = topology.column_parent[column_owner]
    velocity_above = gather_or_zero(motion.column_velocities, above)
    base = base_acceleration(model)
    acceleration_above = gather(jnp.concatenate([accelerations, base[None]]), above)

    # Of each body, then of each subtree: inertia, what turns with the velocity, net force and external force.
    inertias = motion.inertias
    momentum = inertias.momentum(motion.velocities)
    turning = _Turning.of(inertias, motion.velocities, momentum)
    force = inertias.momentum(gather(accelerations, last)) + cross_force(motion.velocities, momentum)
    external = external_forces(motion, f_ext)
    bodies = (inertias.parameters, turning, force, external)
    columns = jax.tree.map(lambda x: at_last_column(model, x), bodies)
    parameters, turning, force, external = tree.subtree_sum(columns)
    inertia = Inertia.from_parameters(parameters)

    subspace = motion.common.subspace
    psi = cross_motion(velocity_above, subspace)
    psi_dot = psi + own.velocity
    psi_ddot = cross_motion(acceleration_above, subspace) + cross_motion(velocity_above, psi_dot)
    psi_ddot = psi_ddot + cross_motion(velocity, own.velocity) + own.acceleration
    rate = psi + cross_motion(velocity, subspace) + own.product

    # Entry (k, j): column j's joint carries column k's, and then the other way round.
    carries = topology.moving_tree.supports[column_owner[:, None], column_owner[None, :]]
    carried = carries.T & ~carries
    momenta, turned = inertia.momentum(subspace), turning.transposed(subspace)
    by_q_below = products(momenta, psi_ddot) + products(turned, psi_dot[:, :3])
    lifted = inertia.momentum(psi_ddot) + turning.force(psi_dot) + cross_force(subspace, force)
    by_q_above = products(subspace, lifted)
    by_v_below = products(momenta, rate) + products(turned, subspace[:, :3])
    by_v_above = products(subspace, inertia.momentum(rate) + turning.force(subspace))
    if external is not None:
        by_q_below = by_q_below - products(cross_force(subspace, external), subspace)
        force = force - external

    by_q = jnp.where(carries, by_q_below, jnp.where(carried, by_q_above, 0))
    by_q = by_q + own.generalized(topology, force)
    by_v = jnp.where(carries, by_v_below, jnp.where(carried, by_v_above, 0))
    by_a = jnp.where(carried, products(subspace, momenta), jnp.where(carries, products(momenta, subspace), 0))
    by_q, by_v, by_a = (_reduced(model, x) for x in (by_q, by_v, by_a))
    return by_q, by_v, by_a + jnp.where(np.eye(model.nv, dtype=bool), model.armature, 0)


class _Turning(eqx.Module):
    """`v ×* I - I v× + (I v) ×̄*`, twice what is called B(I, v): how the force on a body answers to a change of velocity.

    Of a rigid body it is `-2 [[ω× Σ + h× u×, 0], [p×, 0]]`, with v = [ω; u], the linear momentum p and the second moments
    of mass `Σ = ½ tr(Ī) 1 - Ī`: it takes the angular part alone.
    """

    angular: Float[Array, "*b 3 3"]
    linear: Float[Array, "*b 3"]

    @staticmethod
    def of(inertia: Inertia, velocity: Float[Array, "*b 6"], momentum: Float[Array, "*b 6"]) -> _Turning:
        rotational = inertia.rotational_matrix
        trace = jnp.trace(rotational, axis1=-2, axis2=-1)[..., None, None]
        moments = 0.5 * trace * identity_like(rotational) - rotational
        spin = velocity[..., None, :3]
        # `(ω× Σ)ᵀ` has the rows `ω × Σ_i`; and `h× u× = u hᵀ - (h · u) 1`.
        turned = transpose(cross(spin, moments))
        product = outer(velocity[..., 3:], inertia.first_moment)
        along = dot(inertia.first_moment, velocity[..., 3:])[..., None, None] * identity_like(rotational)
        return _Turning(-2 * (turned + product - along), -2 * momentum[..., 3:])

    def force(self, motion: Float[Array, "*b 6"]) -> Float[Array, "*b 6"]:
        """The matrix times a motion vector."""
        spin = motion[..., :3]
        return jnp.concatenate([matvec(self.angular, spin), cross(self.linear, spin)], axis=-1)

    def transposed(self, motion: Float[Array, "*b 6"]) -> Float[Array, "*b 3"]:
        """The transposed matrix times a motion vector: its angular part, the other is zero."""
        return vecmat(motion[..., :3], self.angular) - cross(self.linear, motion[..., 3:])


class _JointDerivatives(eqx.Module):
    """What each joint does of itself, in the common frame, when its own q or v changes: a row for each column j.

    `velocity` e_j = ∂(S v + σ)/∂q_j; `acceleration` ∂(S v̇ + c_J)/∂q_j; `product` ∂c_J/∂v_j; `subspace` ∂S_k/∂q_j for
    the columns k of the same joint, in their order.
    """

    velocity: Float[Array, "n 6"]
    acceleration: Float[Array, "n 6"]
    product: Float[Array, "n 6"]
    subspace: Float[Array, "n widest 6"] | None

    @staticmethod
    def of(motion: Motion, a) -> _JointDerivatives:
        model, nothing = motion.model, jnp.zeros_like(motion.common.subspace)
        if has_constant_subspaces(model):
            return _JointDerivatives(nothing, nothing, nothing, None)
        widest = int(model.topology.column_counts.max())
        q = model.joint_configurations(motion.q)
        v, a = (model.joint_velocities(x) for x in (motion.v, a))

        def of_joint(joint, q, v, a):
            if joint.nv == 0:
                return (jnp.zeros((1, 6), q.dtype),) * 3 + (jnp.zeros((1, widest, 6), q.dtype),)

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
        return _JointDerivatives(
            velocity, acceleration, product, jax.vmap(lambda f, x: f.motion(x))(frames, own[3])
        )

    def generalized(self, topology, force: Float[Array, "n 6"]):
        """`∂S_k/∂q_j · f_k` for the columns of one joint: (n, n), zero elsewhere."""
        if self.subspace is None:
            return jnp.zeros((), force.dtype)
        first = topology.last_column - topology.column_counts + 1
        own = dot(
            self.subspace, force[:, None, :]
        )  # entry (j, k - first): the force is the same on all columns of a joint
        place = np.arange(topology.tree.size)[:, None] - first[topology.column_owner][None, :]
        together = topology.column_owner[:, None] == topology.column_owner[None, :]
        entries = own[np.arange(topology.tree.size)[None, :], np.where(together, place, 0)]
        return jnp.where(together, entries, 0)


def _reduced(model: Model, x: Float[Array, "n n"]) -> Float[Array, "nv nv"]:
    return transpose(from_columns(model, transpose(from_columns(model, x))))
