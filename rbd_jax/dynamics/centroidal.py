"""The model as a whole: centre of mass and momentum (book ex. 9.3)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._arguments import configuration, takes, velocity
from .._array import gather, transpose
from ..model import Model
from ..model.lumping import moving_inertias
from ..spatial import moment_shift
from .columns import from_columns
from .mass_matrix import composite_momenta
from .motion import Motion


@takes(planar=True, q=configuration)
def center_of_mass(model: Model, q: Float[Array, "nq"]) -> Float[Array, "k"]:
    """The centre of mass of all bodies that can move, in the world.

    >>> model, q = rbd.load("double_pendulum"), jnp.array([0.5, 1.0])
    >>> print(rbd.center_of_mass(model, q))
    [-0.978  0.    -0.913]
    """
    return _center(Motion(model, q))


@takes(planar=True, q=configuration, v=velocity)
def momentum(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "d"]:
    """The momentum `[k; p]` of all bodies: angular about the world's origin, then linear; in the world's axes.

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> print(rbd.momentum(model, q, v))
    [ 0.     7.165  0.    -1.967  0.     3.951]
    """
    motion = Motion(model, q, v)
    momenta = motion.inertias.momentum(motion.velocities)
    return jnp.sum(moment_shift(momenta, -motion.common.origins), axis=0)


@takes(planar=True, q=configuration)
def centroidal_momentum_matrix(model: Model, q: Float[Array, "nq"]) -> Float[Array, "d nv"]:
    """A with `A v` the momentum `[k; p]` about the centre of mass, in the world's axes.

    A column is the momentum of the composite body that the degree of freedom moves: `I^c S`.

    >>> model, q = rbd.load("double_pendulum"), jnp.array([0.5, 1.0])
    >>> print(rbd.centroidal_momentum_matrix(model, q)[3:])  # the linear part
    [[-1.826 -0.071]
     [ 0.     0.   ]
     [ 1.956  0.997]]
    """
    motion = Motion(model, q)
    origins = gather(motion.common.origins, model.topology.column_owner)
    about_center = moment_shift(composite_momenta(motion), _center(motion)[None] - origins)
    return transpose(from_columns(model, about_center))


@takes(planar=True, q=configuration)
def center_of_mass_jacobian(model: Model, q: Float[Array, "nq"]) -> Float[Array, "k nv"]:
    """J with `J v` the velocity of the centre of mass: the linear momentum over the mass.

    >>> model, q = rbd.load("double_pendulum"), jnp.array([0.5, 1.0])
    >>> print(rbd.center_of_mass_jacobian(model, q))
    [[-0.913 -0.035]
     [ 0.     0.   ]
     [ 0.978  0.499]]
    """
    linear = slice(-model.gravity.size, None)
    return centroidal_momentum_matrix(model, q)[linear] / jnp.sum(moving_inertias(model).mass)


def _center(motion: Motion):
    inertias = motion.inertias
    first_moment = inertias.first_moment + inertias.mass[:, None] * motion.common.origins
    return jnp.sum(first_moment, axis=0) / jnp.sum(inertias.mass)
