"""Energies (book eqs. 2.67 and 3.2)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import configuration, takes, velocity
from .._core.array import dot
from ..model import Model, difference
from ..model.lumping import weld_frames
from .motion import Motion


@takes(planar=True, q=configuration, v=velocity)
def kinetic_energy(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, ""]:
    """Returns the kinetic energy `½ Σ v · I v` with the armature's share; `½ vᵀ M v` without rheonomic joints.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> print(f"{rbd.kinetic_energy(model, q, v):.3f}")
    7.126
    """
    return kinetic_energy_of(Motion(model, q, v))


def kinetic_energy_of(motion: Motion) -> Float[Array, ""]:
    """Computes `kinetic_energy` for a model in motion."""
    of_bodies = jnp.sum(motion.inertias.kinetic_energy(motion.velocities))
    return of_bodies + 0.5 * dot(motion.model.armature * motion.v, motion.v)


@takes(planar=True, q=configuration)
def potential_energy(model: Model, q: Float[Array, "nq"]) -> Float[Array, ""]:
    """Returns the potential energy `-Σ m g · c` of the bodies in gravity, zero at the world's origin, without springs.

    >>> model, q = rbd.load("double_pendulum"), jnp.array([0.5, 1.0])
    >>> print(f"{rbd.potential_energy(model, q):.3f}")
    -17.912
    """
    return potential_energy_of(Motion(model, q))


def potential_energy_of(motion: Motion) -> Float[Array, ""]:
    """Computes `potential_energy` for a model in motion."""
    model, inertias = motion.model, motion.inertias
    first_moment = inertias.first_moment + inertias.mass[:, None] * motion.common.origins
    return -jnp.sum(dot(first_moment, model.gravity)) - dot(_grounded(model), model.gravity)


@takes(planar=True, q=configuration, v=velocity)
def mechanical_energy(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, ""]:
    """Returns the sum of kinetic energy, potential energy in gravity, and energy of the springs at the joints.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> print(f"{rbd.mechanical_energy(model, q, v):.3f}")
    -10.786
    """
    return jnp.sum(energies_of(Motion(model, q, v)))


def energies_of(motion: Motion) -> Float[Array, "2"]:
    """Returns kinetic and potential energy; the springs at the joints are part of the latter."""
    motion = motion.computed("inertias")
    return jnp.stack([kinetic_energy_of(motion), potential_energy_of(motion) + spring_energy_of(motion)])


def spring_energy_of(motion: Motion) -> Float[Array, ""]:
    """Returns the potential energy of the springs at the joints."""
    stretch = difference(motion.model, motion.model.spring_reference, motion.q)
    return 0.5 * jnp.sum(motion.model.stiffness * stretch**2)


def _grounded(model: Model) -> Float[Array, "k"]:
    """Returns the first moment of mass of all bodies welded to the world, a constant part of the sum."""
    topology = model.topology
    bodies = topology.carriers < 0
    if not bodies.any():
        return jnp.zeros_like(model.gravity)
    return jnp.sum(model.inertias[bodies].placed(weld_frames(model)[bodies]).first_moment, axis=0)
