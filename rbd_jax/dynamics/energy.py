"""Energies (book eqs. 2.67 and 3.2)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._array import dot, gather
from ..model import Model
from ..model._arguments import takes_sample
from ..model.lumping import weld_frames
from ._frame import CommonFrame, to_columns


@takes_sample
def kinetic_energy(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, ""]:
    """`½ Σ v · I v`, the armature's share included: `½ vᵀ M v` where no joint moves by itself."""
    common = CommonFrame.at(model, q)
    velocities = gather(common.column_velocities(model, to_columns(model, v)), model.topology.last_column)
    return jnp.sum(common.inertias(model).kinetic_energy(velocities)) + 0.5 * dot(model.armature * v, v)


@takes_sample
def potential_energy(model: Model, q: Float[Array, "nq"]) -> Float[Array, ""]:
    """`-Σ m g · c`: of the bodies in gravity, zero at the world's origin. Springs have their own."""
    common = CommonFrame.at(model, q)
    inertias = common.inertias(model)
    first_moment = inertias.first_moment + inertias.mass[:, None] * common.origins
    return -jnp.sum(dot(first_moment, model.gravity)) - dot(_grounded(model), model.gravity)


def _grounded(model: Model) -> Float[Array, "3"]:
    """The first moment of mass of all that is welded to the world: constant, but part of the sum."""
    topology = model.topology
    bodies = topology.carriers < 0
    if not bodies.any():
        return jnp.zeros_like(model.gravity)
    return jnp.sum(model.inertias[bodies].placed(weld_frames(model)[bodies]).first_moment, axis=0)
