"""The model as a whole: centre of mass and momentum (book ex. 9.3)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._array import gather, transpose
from ..model import Model
from ..model._arguments import takes_sample
from ..model.lumping import mover_inertias
from ._frame import CommonFrame, from_columns, moment_shift, to_columns
from .mass_matrix import composite_momenta


@takes_sample
def center_of_mass(model: Model, q: Float[Array, "nq"]) -> Float[Array, "3"]:
    """The centre of mass of all bodies that can move, in the world."""
    return _center(model, CommonFrame.at(model, q))


@takes_sample
def momentum(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "6"]:
    """The momentum `[k; p]` of all bodies: angular about the world's origin, then linear; in the world's axes."""
    common = CommonFrame.at(model, q)
    velocities = gather(common.column_velocities(model, to_columns(model, v)), model.topology.last_column)
    momenta = common.inertias(model).momentum(velocities)
    return jnp.sum(moment_shift(momenta, -common.origins), axis=0)


@takes_sample
def centroidal_momentum_matrix(model: Model, q: Float[Array, "nq"]) -> Float[Array, "6 nv"]:
    """A with `A v` the momentum `[k; p]` about the centre of mass, in the world's axes.

    A column is the momentum of the composite body that the freedom moves: `I^c S`.
    """
    common = CommonFrame.at(model, q)
    momenta = composite_momenta(model, common)
    origins = gather(common.origins, model.topology.column_mover)
    about_center = moment_shift(momenta, _center(model, common)[None] - origins)
    return transpose(from_columns(model, about_center))


@takes_sample
def center_of_mass_jacobian(model: Model, q: Float[Array, "nq"]) -> Float[Array, "3 nv"]:
    """J with `J v` the velocity of the centre of mass: the linear momentum over the mass."""
    return centroidal_momentum_matrix(model, q)[3:] / jnp.sum(_moving_mass(model))


def _center(model: Model, common: CommonFrame):
    inertias = common.inertias(model)
    first_moment = inertias.first_moment + inertias.mass[:, None] * common.origins
    return jnp.sum(first_moment, axis=0) / jnp.sum(inertias.mass)


def _moving_mass(model: Model):
    return mover_inertias(model).mass
