"""The equations of motion as linear functions of the inertia parameters: `tau = Y(q, v, a) θ`, for identification.

θ is `model.inertias.parameters.reshape(-1)`: ten numbers for each body, `m, m c, Ixx, Ixy, Iyy, Ixz, Iyz, Izz`, about its
own origin in its own axes.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._array import dot, gather, matmul, matrix, skew, transpose, vecmat
from ..model import Model
from ..model._arguments import takes_sample
from ..spatial import Transform, cross_force_matrix
from ._frame import CommonFrame, body_frames, from_columns, moment_shift, to_columns
from .kinematics import biased_accelerations


@takes_sample
def inverse_dynamics_regressor(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], a: Float[Array, "nv"]
) -> Float[Array, "nv parameters"]:
    """Y with `Y θ = inverse_dynamics(model, q, v, a)`, up to what the armature adds: (nv, 10 nb).

    Of each body, `f = I a + v ×* I v` is linear in its parameters; what the freedoms that carry it feel is `Sᵀ f`.
    """
    common = CommonFrame.at(model, q)
    velocities = common.column_velocities(model, to_columns(model, v))
    accelerations = biased_accelerations(model, common, q, v, a, velocities)
    bodies = _Bodies(model, common)
    velocity, acceleration = bodies.own(velocities), bodies.own(accelerations)
    forces = momentum_matrix(acceleration) + matmul(cross_force_matrix(velocity), momentum_matrix(velocity))
    return _flat(from_columns(model, _felt(model, common, bodies.common(forces))))


@takes_sample
def momentum_regressor(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]
) -> Float[Array, "6 parameters"]:
    """Y with `Y θ = momentum(model, q, v)`: (6, 10 nb)."""
    common = CommonFrame.at(model, q)
    bodies = _Bodies(model, common)
    velocity = bodies.own(common.column_velocities(model, to_columns(model, v)))
    momenta = bodies.common(momentum_matrix(velocity))
    return _flat(jnp.moveaxis(moment_shift(momenta, -bodies.origins[:, None]), -1, 0))


@takes_sample
def kinetic_energy_regressor(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]
) -> Float[Array, "parameters"]:
    """y with `y · θ = kinetic_energy(model, q, v)`, up to what the armature adds: (10 nb,)."""
    common = CommonFrame.at(model, q)
    velocity = _Bodies(model, common).own(common.column_velocities(model, to_columns(model, v)))
    return (0.5 * vecmat(velocity, momentum_matrix(velocity))).reshape(-1)


@takes_sample
def potential_energy_regressor(model: Model, q: Float[Array, "nq"]) -> Float[Array, "parameters"]:
    """y with `y · θ = potential_energy(model, q)`: `-g · (m p + R m c)` of each body: (10 nb,)."""
    bodies = _Bodies(model, CommonFrame.at(model, q))
    mass = -dot(bodies.frames.position + bodies.origins, model.gravity)
    first_moment = -vecmat(model.gravity, bodies.frames.rotation)
    return jnp.concatenate(
        [mass[:, None], first_moment, jnp.zeros((model.nb, 6), mass.dtype)], axis=1
    ).reshape(-1)


def momentum_matrix(velocity: Float[Array, "*b 6"]) -> Float[Array, "*b 6 10"]:
    """P with `P θ = I v`, of one body: its momentum is linear in its parameters."""
    x, y, z = (velocity[..., i] for i in range(3))
    o = jnp.zeros_like(x)
    turning = matrix([[x, y, o, z, o, o], [o, x, y, o, z, o], [o, o, o, x, y, z]])
    spin, slide = skew(velocity[..., :3]), skew(velocity[..., 3:])
    angular = jnp.concatenate([jnp.zeros_like(slide[..., :1]), -slide, turning], axis=-1)
    linear = jnp.concatenate([velocity[..., 3:, None], spin, jnp.zeros_like(turning)], axis=-1)
    return jnp.concatenate([angular, linear], axis=-2)


class _Bodies:
    """Motions and forces between the common frame and the bodies' own; the world's are zero."""

    def __init__(self, model: Model, common: CommonFrame):
        self.topology = model.topology
        frames = body_frames(model, common.placements, Transform.identity(common.subspace.dtype))
        world = jnp.zeros((1, 3), frames.position.dtype)
        self.frames = frames
        self.origins = gather(jnp.concatenate([common.origins, world]), self.topology.carriers)

    def own(self, columns: Float[Array, "n 6"]) -> Float[Array, "nb 6"]:
        """The motion of each body, in its own frame, from those of the columns."""
        movers = gather(columns, self.topology.last_column)
        world = jnp.zeros((1, 6), columns.dtype)
        return self.frames.inverse_motion(gather(jnp.concatenate([movers, world]), self.topology.carriers))

    def common(self, forces: Float[Array, "nb 6 10"]) -> Float[Array, "nb 10 6"]:
        """Force vectors given in the frame of each body, one in each column, in the common frame, one in each row."""
        frames = Transform(self.frames.rotation[:, None], self.frames.position[:, None])
        return frames.force(transpose(forces))


def _felt(model: Model, common: CommonFrame, forces: Float[Array, "nb 10 6"]) -> Float[Array, "n nb 10"]:
    """`Sᵀ f` for the columns that carry each body, zero for the others."""
    topology = model.topology
    carrying = topology.tree.supports[topology.last_column]
    carrying = np.concatenate([carrying, np.zeros((1, topology.tree.size), bool)])[topology.carriers]
    power = jnp.einsum("ni,bpi->nbp", common.subspace, forces, precision="highest")
    return jnp.where(carrying.T[:, :, None], power, 0)


def _flat(x: Float[Array, "rows nb 10"]) -> Float[Array, "rows parameters"]:
    return x.reshape(x.shape[0], -1)
