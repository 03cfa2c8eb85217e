"""The equations of motion as linear functions of the inertia parameters: `tau = Y(q, v, a) θ`, for identification.

θ is `model.inertias.parameters.reshape(-1)`: ten parameters per body, `m, m c, Ixx, Ixy, Iyy, Ixz, Iyz, Izz`, about the
body's own origin in its own axes.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import configuration, takes, velocity
from .._core.array import dot, gather, gather_or_zero, matmul, matrix, skew, transpose, vecmat
from ..model import Model
from ..spatial import cross_force_matrix, moment_shift
from ..spatial.transform import Transform
from .columns import from_columns
from .motion import Motion


@takes(q=configuration, v=velocity, a=velocity)
def inverse_dynamics_regressor(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], a: Float[Array, "nv"]
) -> Float[Array, "nv parameters"]:
    """Returns Y with `Y θ = inverse_dynamics(model, q, v, a)`, without the contribution of the armature: (nv, 10 nb).

    The force `f = I a + v ×* I v` on each body is linear in its parameters. The degrees of freedom
    that carry the body transmit `Sᵀ f`.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      a: Acceleration, shape (nv,).

    >>> model, q, v, a = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0]), jnp.ones(2)
    >>> parameters = model.inertias.parameters.reshape(-1)
    >>> print(rbd.inverse_dynamics_regressor(model, q, v, a) @ parameters, rbd.inverse_dynamics(model, q, v, a))
    [18.084 13.169] [18.084 13.169]
    """
    motion = Motion(model, q, v).computed("twists", "velocity_products")
    accelerations = gather(motion.biased_accelerations(a), model.topology.last_column)
    velocity, acceleration = motion.twists, motion.in_bodies(accelerations)
    forces = momentum_matrix(acceleration) + matmul(cross_force_matrix(velocity), momentum_matrix(velocity))
    return _flat(from_columns(model, _felt(motion, _in_common(motion, forces))))


@takes(q=configuration, v=velocity)
def momentum_regressor(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]
) -> Float[Array, "6 parameters"]:
    """Returns Y with `Y θ = momentum(model, q, v)`: (6, 10 nb).

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> print(rbd.momentum_regressor(model, q, v) @ model.inertias.parameters.reshape(-1))
    [ 0.     7.165  0.    -1.967  0.     3.951]
    """
    motion = Motion(model, q, v)
    momenta = _in_common(motion, momentum_matrix(motion.twists))
    return _flat(jnp.moveaxis(moment_shift(momenta, -_origins(motion)[:, None]), -1, 0))


@takes(q=configuration, v=velocity)
def kinetic_energy_regressor(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]
) -> Float[Array, "parameters"]:
    """Returns y with `y · θ = kinetic_energy(model, q, v)`, without the contribution of the armature: (10 nb,).

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> y = rbd.kinetic_energy_regressor(model, q, v)
    >>> print(f"{y @ model.inertias.parameters.reshape(-1):.3f}")
    7.126
    """
    velocity = Motion(model, q, v).twists
    return (0.5 * vecmat(velocity, momentum_matrix(velocity))).reshape(-1)


@takes(q=configuration)
def potential_energy_regressor(model: Model, q: Float[Array, "nq"]) -> Float[Array, "parameters"]:
    """Returns y with `y · θ = potential_energy(model, q)`, which is `-g · (m p + R m c)` for each body: (10 nb,).

    >>> model, q = rbd.load("double_pendulum"), jnp.array([0.5, 1.0])
    >>> y = rbd.potential_energy_regressor(model, q)
    >>> print(f"{y @ model.inertias.parameters.reshape(-1):.3f}")
    -17.912
    """
    motion = Motion(model, q)
    mass = -dot(motion.frames.position + _origins(motion), model.gravity)
    first_moment = -vecmat(model.gravity, motion.frames.rotation)
    return jnp.concatenate(
        [mass[:, None], first_moment, jnp.zeros((model.nb, 6), mass.dtype)], axis=1
    ).reshape(-1)


def momentum_matrix(velocity: Float[Array, "*b 6"]) -> Float[Array, "*b 6 10"]:
    """Returns P with `P θ = I v` for one body: its momentum is linear in its parameters."""
    x, y, z = (velocity[..., i] for i in range(3))
    o = jnp.zeros_like(x)
    turning = matrix([[x, y, o, z, o, o], [o, x, y, o, z, o], [o, o, o, x, y, z]])
    spin, slide = skew(velocity[..., :3]), skew(velocity[..., 3:])
    angular = jnp.concatenate([jnp.zeros_like(slide[..., :1]), -slide, turning], axis=-1)
    linear = jnp.concatenate([velocity[..., 3:, None], spin, jnp.zeros_like(turning)], axis=-1)
    return jnp.concatenate([angular, linear], axis=-2)


def _origins(motion: Motion) -> Float[Array, "nb 3"]:
    """Returns the origin of the common frame of each body's tree, in the world."""
    return gather_or_zero(motion.common.origins, motion.model.topology.carriers)


def _in_common(motion: Motion, forces: Float[Array, "nb 6 10"]) -> Float[Array, "nb 10 6"]:
    """Converts forces from columns in the frame of each body to rows in the common frame."""
    frames = Transform(motion.frames.rotation[:, None], motion.frames.position[:, None])
    return frames.force(transpose(forces))


def _felt(motion: Motion, forces: Float[Array, "nb 10 6"]) -> Float[Array, "n nb 10"]:
    """Returns `Sᵀ f` for the columns that carry each body, zero for the others."""
    topology = motion.model.topology
    carrying = topology.tree.supports[topology.last_column]
    carrying = np.concatenate([carrying, np.zeros((1, topology.tree.size), bool)])[topology.carriers]
    power = jnp.einsum("ni,bpi->nbp", motion.common.subspace, forces, precision="highest")
    return jnp.where(carrying.T[:, :, None], power, 0)


def _flat(x: Float[Array, "rows nb 10"]) -> Float[Array, "rows parameters"]:
    return x.reshape(x.shape[0], -1)
