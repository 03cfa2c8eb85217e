"""The subspaces of a joint: of motion, of active force and of constraint force (book §3.3, §3.5).

What a joint transmits to its successor is `f_J = T_a τ + T λ` (eq. 3.34), with generalized forces τ and constraint forces λ.
T spans what does no work on any motion of the joint, `Tᵀ S = 0` (3.36); T_a is any complement with `T_aᵀ S = 1` (3.35). It
says where the actuator pushes: the motion does not depend on it, and what the bearings bear does (example 3.2). Everything is in
successor coordinates.
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

    - `motion`: S, the joint's own.
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
        """`f_J = T_a τ + T λ` (eq. 3.34)."""
        return matvec(self.active, tau) + matvec(self.constraint, multipliers)

    def split(self, wrench: Float[Array, "6"]) -> tuple[Float[Array, "nv"], Float[Array, "nc"]]:
        """`τ = Sᵀ f_J` (eq. 3.37) and λ, of which `wrench` makes f_J again (eqs. 3.26, 3.27).

        Where columns of T depend on each other, it is the λ of least norm.
        """
        tau = vecmat(wrench, self.motion)
        left = wrench - matvec(self.active, tau)
        return tau, matvec(jnp.linalg.pinv(self.constraint), left)


def subspaces(joint: Joint, q: Float[Array, "nq"], active: Float[Array, "6 nv"] | None = None) -> Subspaces:
    """The subspaces of a joint in a configuration.

    **Arguments**

    - `active`: wrenches `[n; f]` on the successor, in its coordinates, that the actuators exert, one for each degree of freedom
      and of any size; they are made dual to S. By default they are what lies along S itself, as a torque about a hinge does.
      With `I S` the active part is what of a force moves a body of inertia I (eq. 3.28, example 3.1).

    The columns of T are orthonormal. The motion subspace must have full rank, so three angles in their gimbal lock have none.

    A motor turns a hinge by a gear of radius 0.5, whose teeth push at (-0.5, 0, 0) along y (example 3.2):

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
    """The subspaces that go with a motion subspace; those of forces with given bases."""
    size = motion.shape[1]
    pushed = (
        motion if active is None else number("subspaces", "active", active, (6, size), dtype=motion.dtype)
    )
    # T_aᵀ S = 1 of T_a = F (Sᵀ F)⁻¹.
    power = matmul(transpose(motion), pushed)
    made = transpose(jnp.linalg.solve(transpose(power), transpose(pushed))) if size else pushed
    return Subspaces(motion, made, complement(motion) if constraint is None else constraint)
