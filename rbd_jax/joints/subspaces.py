"""The subspaces of a joint: of motion, of active force and of constraint force (book §3.3, §3.5).

A joint transmits `f_J = T_a τ + T λ` to its successor (eq. 3.34), with generalized forces τ and constraint forces λ.
T spans the forces without work on any motion of the joint, `Tᵀ S = 0` (3.36). T_a is any complement with `T_aᵀ S = 1` (3.35).
It describes where the actuator acts: the motion does not depend on it, but the bearing forces do (example 3.2). Everything is
in successor coordinates.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import number
from .._core.array import complement, matmul, matvec, transpose, vecmat
from ._joint import Joint


class Subspaces(eqx.Module):
    """Bases of the subspaces of a joint, as columns in successor coordinates.

    - `motion`: S, the motion subspace.
    - `active`: T_a, with `T_aᵀ S = 1`.
    - `constraint`: T, with `Tᵀ S = 0`.

    >>> spaces = rbd.joints.subspaces(rbd.joints.Revolute(axis=(0, 0, 1)), jnp.zeros(1))
    >>> print(spaces.motion[:, 0], spaces.constraint.shape)
    [0. 0. 1. 0. 0. 0.] (6, 5)
    >>> tau, reactions = spaces.split(jnp.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    >>> print(tau, reactions)
    [3.] [ 2. -1.  4.  5.  6.]
    """

    motion: Float[Array, "6 nv"]
    active: Float[Array, "6 nv"]
    constraint: Float[Array, "6 nc"]

    def wrench(self, tau: Float[Array, "nv"], multipliers: Float[Array, "nc"]) -> Float[Array, "6"]:
        """Returns `f_J = T_a τ + T λ` (eq. 3.34)."""
        return matvec(self.active, tau) + matvec(self.constraint, multipliers)

    def split(self, wrench: Float[Array, "6"]) -> tuple[Float[Array, "nv"], Float[Array, "nc"]]:
        """Returns `τ = Sᵀ f_J` (eq. 3.37) and λ, from which `wrench` reconstructs f_J (eqs. 3.26, 3.27).

        If columns of T are linearly dependent, it is the λ of least norm.
        """
        tau = vecmat(wrench, self.motion)
        left = wrench - matvec(self.active, tau)
        return tau, matvec(jnp.linalg.pinv(self.constraint), left)


def subspaces(joint: Joint, q: Float[Array, "nq"], active: Float[Array, "6 nv"] | None = None) -> Subspaces:
    """Returns the subspaces of a joint in a configuration.

    The columns of T are orthonormal. The motion subspace must have full rank, so it fails for three angles in gimbal lock.

    Args:
      joint: The joint.
      q: The configuration of the joint, shape (nq,).
      active: Wrenches `[n; f]` of the actuators on the successor, in its coordinates, one per degree of freedom, of any
        magnitude; they are scaled to be dual to S. The default is S itself, as for a torque about a hinge. With `I S`, the
        active part of a force is the part that moves a body of inertia I (eq. 3.28, example 3.1).

    Returns:
      The `Subspaces`.

    Example: a motor turns a hinge by a gear of radius 0.5, whose teeth push at (-0.5, 0, 0) along y (example 3.2):

    >>> teeth = jnp.array([[0, 0, -0.5, 0, 1.0, 0]]).T
    >>> own = rbd.joints.subspaces(rbd.joints.Revolute(), jnp.zeros(1), teeth)
    >>> print(own.active[:, 0])
    [ 0.  0.  1. -0. -2. -0.]
    >>> tau, bearing = own.split(jnp.array([0, 0, 3.0, 0, 0, 0]))  # a pure torque: the bearing takes what the teeth push
    >>> print(tau, own.constraint @ bearing)
    [3.] [0. 0. 0. 0. 6. 0.]
    """
    return dual(joint.motion_subspace(jnp.asarray(q, float)), active)


def dual(motion: Float[Array, "6 nv"], active=None, constraint=None) -> Subspaces:
    """Returns the subspaces for a motion subspace; `active` and `constraint` give the bases of the force subspaces."""
    size = motion.shape[1]
    pushed = (
        motion if active is None else number("subspaces", "active", active, (6, size), dtype=motion.dtype)
    )
    # T_aᵀ S = 1 holds for T_a = F (Sᵀ F)⁻¹.
    power = matmul(transpose(motion), pushed)
    made = transpose(jnp.linalg.solve(transpose(power), transpose(pushed))) if size else pushed
    return Subspaces(motion, made, complement(motion) if constraint is None else constraint)
