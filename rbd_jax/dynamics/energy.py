"""Energies (book eqs. 2.67 and 3.2)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._arguments import configuration, takes, velocity
from .._array import dot
from ..model import Model, difference
from ..model.lumping import weld_frames
from .motion import Motion


@takes(q=configuration, v=velocity)
def kinetic_energy(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, ""]:
    """`½ Σ v · I v`, the armature's share included: `½ vᵀ M v` where no joint moves by itself.

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> print(f"{rbd.kinetic_energy(model, q, v):.3f}")
    7.126
    """
    motion = Motion(model, q, v)
    return jnp.sum(motion.inertias.kinetic_energy(motion.velocities)) + 0.5 * dot(model.armature * v, v)


@takes(q=configuration)
def potential_energy(model: Model, q: Float[Array, "nq"]) -> Float[Array, ""]:
    """`-Σ m g · c`: of the bodies in gravity, zero at the world's origin. Springs have their own.

    >>> model, q = rbd.load("double_pendulum"), jnp.array([0.5, 1.0])
    >>> print(f"{rbd.potential_energy(model, q):.3f}")
    -17.912
    """
    motion = Motion(model, q)
    first_moment = motion.inertias.first_moment + motion.inertias.mass[:, None] * motion.common.origins
    return -jnp.sum(dot(first_moment, model.gravity)) - dot(_grounded(model), model.gravity)


@takes(q=configuration, v=velocity)
def mechanical_energy(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "2"]:
    """Kinetic and potential energy, the springs at the joints included in the latter.

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> print(rbd.mechanical_energy(model, q, v))
    [  7.126 -17.912]
    """
    stretch = difference(model, model.spring_reference, q)
    springs = 0.5 * jnp.sum(model.stiffness * stretch**2)
    return jnp.stack([kinetic_energy(model, q, v), potential_energy(model, q) + springs])


def _grounded(model: Model) -> Float[Array, "3"]:
    """The first moment of mass of all that is welded to the world: constant, but part of the sum."""
    topology = model.topology
    bodies = topology.carriers < 0
    if not bodies.any():
        return jnp.zeros_like(model.gravity)
    return jnp.sum(model.inertias[bodies].placed(weld_frames(model)[bodies]).first_moment, axis=0)
