"""Center of mass, momentum, and locked-joint inertia and velocity of a complete model (book ex. 9.3)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import configuration, space_point, takes, velocity
from .._core.array import gather, matvec, transpose
from ..model import Model
from ..model.lumping import moving_inertias
from ..spatial import moment_shift, motion_shift
from ..spatial.inertia import Inertia, inverse_symmetric
from ..spatial.transform import Transform
from .columns import from_columns
from .mass_matrix import composite_momenta
from .motion import Motion


@takes(planar=True, q=configuration)
def center_of_mass(model: Model, q: Float[Array, "nq"]) -> Float[Array, "k"]:
    """Returns the center of mass of all movable bodies, in the world.

    >>> model, q = rbd.load("double_pendulum"), jnp.array([0.5, 1.0])
    >>> print(rbd.center_of_mass(model, q))
    [-0.978  0.    -0.913]
    """
    return center_of(Motion(model, q))


@takes(planar=True, q=configuration, v=velocity)
def momentum(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "d"]:
    """Returns the momentum `[k; p]` of all bodies, in the world's axes.

    The angular part k is about the world's origin.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> print(rbd.momentum(model, q, v))
    [ 0.     7.165  0.    -1.967  0.     3.951]
    """
    motion = Motion(model, q, v)
    momenta = motion.inertias.momentum(motion.velocities)
    return jnp.sum(moment_shift(momenta, -motion.common.origins), axis=0)


@takes(planar=True, q=configuration)
def centroidal_momentum_matrix(model: Model, q: Float[Array, "nq"]) -> Float[Array, "d nv"]:
    """Returns the matrix A whose product `A v` is the momentum `[k; p]` about the center of mass, in the world's axes.

    Each column is the momentum `I^c S` of the composite body that the degree of freedom moves.

    >>> model, q = rbd.load("double_pendulum"), jnp.array([0.5, 1.0])
    >>> print(rbd.centroidal_momentum_matrix(model, q)[3:])  # the linear part
    [[-1.826 -0.071]
     [ 0.     0.   ]
     [ 1.956  0.997]]
    """
    motion = Motion(model, q).computed("inertias")
    origins = gather(motion.common.origins, model.topology.column_owner)
    about_center = moment_shift(composite_momenta(motion), center_of(motion)[None] - origins)
    return transpose(from_columns(model, about_center))


@takes(planar=True, q=configuration)
def center_of_mass_jacobian(model: Model, q: Float[Array, "nq"]) -> Float[Array, "k nv"]:
    """Returns the Jacobian J of the center of mass: `J v` is its velocity, the linear momentum over the mass.

    >>> model, q = rbd.load("double_pendulum"), jnp.array([0.5, 1.0])
    >>> print(rbd.center_of_mass_jacobian(model, q))
    [[-0.913 -0.035]
     [ 0.     0.   ]
     [ 0.978  0.499]]
    """
    linear = slice(-model.gravity.size, None)
    return centroidal_momentum_matrix(model, q)[linear] / jnp.sum(moving_inertias(model).mass)


@takes(q=configuration, point=space_point)
def locked_inertia(model: Model, q: Float[Array, "nq"], point: Float[Array, "3"] | None = None) -> Inertia:
    """Returns the inertia of all movable bodies with locked joints, the book's `I₀ᶜ`, in the world's axes.

    Its momentum at a velocity equals `momentum` if the complete model moves rigidly at that velocity.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      point: Reference point in the world, shape (3,). Default: the world's origin.

    >>> model, q = rbd.load("double_pendulum"), jnp.array([0.5, 1.0])
    >>> inertia = rbd.locked_inertia(model, q)
    >>> print(inertia.mass, inertia.com, rbd.center_of_mass(model, q))
    2.0 [-0.978  0.    -0.913] [-0.978  0.    -0.913]
    """
    whole = _Whole(Motion(model, q))
    return whole.inertia().placed(Transform.from_position(-whole.from_center(point)))


@takes(q=configuration)
def centroidal_inertia(model: Model, q: Float[Array, "nq"]) -> Inertia:
    """Returns `locked_inertia` about the center of mass of the model, in the world's axes.

    >>> model, q = rbd.load("double_pendulum"), jnp.array([0.5, 1.0])
    >>> print(jnp.diagonal(rbd.centroidal_inertia(model, q).rotational_matrix))
    [0.005 0.502 0.499]
    """
    return _Whole(Motion(model, q)).inertia()


@takes(q=configuration, v=velocity, point=space_point)
def average_velocity(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    point: Float[Array, "3"] | None = None,
) -> Float[Array, "6"]:
    """Returns the velocity `[ω; v]` at which the model with locked joints has its current momentum, in the world's axes.

    It is `(I₀ᶜ)⁻¹` times the momentum. ω does not depend on the reference point. The linear part is the velocity of the point
    of the locked model at the reference point; at the center of mass, it is the velocity of the center of mass. The result is
    not finite if all mass is on one line.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      point: Reference point in the world, shape (3,). Default: the world's origin, as for `momentum`.

    >>> model = rbd.load("quadruped")
    >>> v = jnp.zeros(model.nv).at[2].set(1.0)  # the base turns about its z axis, and the legs with it
    >>> print(rbd.average_velocity(model, rbd.neutral(model), v))
    [0. 0. 1. 0. 0. 0.]
    """
    whole = _Whole(Motion(model, q, v))
    inertia, momentum = whole.inertia(), whole.momentum()
    turn = matvec(inverse_symmetric(inertia.rotational_matrix), momentum[:3])
    own = jnp.concatenate([turn, momentum[3:] / inertia.mass])
    return motion_shift(own, whole.from_center(point))


def momentum_about_center(motion: Motion) -> Float[Array, "6"]:
    """Returns the momentum `[k; p]` of a model in motion about its center of mass, in the world's axes."""
    return _Whole(motion).momentum()


class _Whole:
    """All bodies about their center of mass, in the world's axes.

    The center of mass is computed relative to the root of the first tree, and each body is moved there separately. A reference
    point far away would cause cancellation.
    """

    def __init__(self, motion: Motion):
        self.motion = motion = motion.computed("inertias")
        self.root = motion.common.origins[:1]
        inertias = motion.inertias
        first_moment = inertias.first_moment + inertias.mass[:, None] * (motion.common.origins - self.root)
        self.center = jnp.sum(first_moment, axis=0) / jnp.sum(inertias.mass)
        self.arms = (motion.common.origins - self.root) - self.center[None]

    def inertia(self) -> Inertia:
        axes = jnp.broadcast_to(jnp.eye(3, dtype=self.arms.dtype), (*self.arms.shape, 3))
        parameters = jnp.sum(self.motion.inertias.placed(Transform(axes, self.arms)).parameters, axis=0)
        return Inertia(parameters[0], jnp.zeros_like(self.center), parameters[4:])

    def momentum(self) -> Float[Array, "6"]:
        momenta = self.motion.inertias.momentum(self.motion.velocities)
        return jnp.sum(moment_shift(momenta, -self.arms), axis=0)

    def from_center(self, point: Float[Array, "3"] | None) -> Float[Array, "3"]:
        """Returns the vector from the center of mass to a point in the world, or to the world's origin."""
        root = self.root[0]
        return (-root if point is None else point - root) - self.center


def center_of(motion: Motion) -> Float[Array, "k"]:
    """Returns the center of mass of a model in motion, in the world."""
    inertias = motion.inertias
    first_moment = inertias.first_moment + inertias.mass[:, None] * motion.common.origins
    return jnp.sum(first_moment, axis=0) / jnp.sum(inertias.mass)
