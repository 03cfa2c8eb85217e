"""Inverse dynamics of closed loops: the efforts of some joints that produce a motion (book §8.12)."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import configuration, joint_names, takes, velocity, wrenches
from .._core.array import matmul, matvec, vecmat
from ..dynamics import ExternalForces, Motion
from ..dynamics.inverse import recursive_newton_euler
from ..model import Model
from ._factors import pseudo_inverse
from .evaluate import matrix_of


class ConstrainedEfforts(eqx.Module):
    """The result of constrained inverse dynamics; it unpacks as `tau, multipliers`.

    - `tau`: The efforts; zero at joints without an actuator.
    - `multipliers`: λ with `M a + C v + g = tau + Gᵀ λ`, of least norm.
    - `unmet`: The generalized forces of the motion that the actuators cannot produce; zero if they can.

    >>> coupling = rbd.constraints.CoordinateCoupling({"elbow": (0.0, 1.0), "shoulder": (0.0, -1.0)})
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), coupling)
    >>> q = jnp.array([0.5, 0.5])
    >>> efforts = rbd.constrained_inverse_dynamics(model, q, jnp.zeros(2), jnp.zeros(2), actuators=["shoulder"])
    >>> print(efforts.tau, efforts.multipliers)
    [25.916  0.   ] [8.255]
    """

    tau: Float[Array, "*batch nv"]
    multipliers: Float[Array, "*batch m"]
    unmet: Float[Array, "*batch nv"]

    def __iter__(self):
        return iter((self.tau, self.multipliers))


@takes(q=configuration, v=velocity, a=velocity, f_ext=wrenches, actuators=joint_names)
def constrained_inverse_dynamics(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    a: Float[Array, "nv"],
    f_ext: ExternalForces = None,
    actuators: Sequence[str] | None = None,
) -> ConstrainedEfforts:
    """Returns the efforts that produce the acceleration `a`, which the constraints must allow.

    Only the components along possible motions matter: `Zᵀ tau = Zᵀ inverse_dynamics` (eqs. 8.62, 8.63), with Z a basis of
    these motions. With more actuators than degrees of freedom, `tau` has least norm. With too few actuators, `tau` is
    the best approximation, and `unmet` is the rest.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      a: Acceleration, shape (nv,).
      f_ext: Wrenches `[n; f]` on bodies, in the world's axes about the world's origin.
      actuators: Names of the joints that have a motor; all by default.

    Returns:
      A `ConstrainedEfforts`.

    >>> slider = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), slider)
    >>> q, still = jnp.array([0.5, -1.0]), jnp.zeros(2)
    >>> print(rbd.constrained_inverse_dynamics(model, q, still, still, actuators=["shoulder"]).tau)
    [14.109  0.   ]
    """
    motion = Motion(model, q, v)
    needed = recursive_newton_euler(motion, a, f_ext)
    jacobian = matrix_of(motion).matrix
    backwards = pseudo_inverse(jacobian)
    possible = jnp.eye(model.nv, dtype=q.dtype) - matmul(backwards, jacobian)
    chosen = list(model.joint_names if actuators is None else actuators)
    entries = np.concatenate(
        [np.zeros(0, int), *[np.arange(model.nv)[_own(model, joint)] for joint in chosen]]
    )
    selection = jnp.asarray(np.arange(model.nv)[:, None] == entries[None, :], q.dtype)
    wanted = matvec(possible, needed)
    efforts = matvec(pseudo_inverse(matmul(possible, selection)), wanted)
    tau = matvec(selection, efforts)
    return ConstrainedEfforts(tau, vecmat(needed - tau, backwards), wanted - matvec(possible, tau))


def _own(model: Model, joint: str) -> slice:
    """Returns the entries of v of a joint; none for a mimic joint."""
    return slice(0) if model.topology.is_mimic[model.topology.joint_index(joint)] else model.v_slice(joint)
