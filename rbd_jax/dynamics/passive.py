"""Passive joint forces: viscous damping, Coulomb friction, springs."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import configuration, takes, velocity
from ..model import Model, difference


#: The speed at which Coulomb friction reaches 71 % of its full magnitude: rad/s or m/s.
FRICTION_VELOCITY = 1e-2


@takes(planar=True, q=configuration, v=velocity)
def passive_force(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """Returns the passive joint forces `-d v - f v/√(v² + ε²) - k (q ⊖ q_rest)`: damping, Coulomb friction, springs.

    Coulomb friction is smoothed over speeds of the size ε = `FRICTION_VELOCITY`, so that its derivative exists at rest. A
    joint held by friction alone therefore creeps. (The default scheme of `rollout` uses Coulomb's law without smoothing.)

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).

    >>> from dataclasses import replace
    >>> model = replace(rbd.load("double_pendulum"), damping=jnp.array([0.5, 0.1]))
    >>> print(rbd.passive_force(model, jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])))
    [-0.5 -0.2]
    """
    return smooth_passive_force(model, q, v) - model.friction * _direction(v)


def smooth_passive_force(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """Returns `passive_force` without friction: damping and springs."""
    return -model.damping * v - model.stiffness * difference(model, model.spring_reference, q)


@takes(q=configuration, v=velocity, a=velocity)
def joint_regressor(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], a: Float[Array, "nv"]
) -> Float[Array, "nv parameters"]:
    """Returns the regressor Y with `Y θ = armature a - passive_force(model, q, v)`: (nv, 4 nv).

    θ contains armature, damping, friction and stiffness, each for all degrees of freedom. Spring references are not part of θ.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      a: Acceleration, shape (nv,).

    >>> model, q, v, a = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0]), jnp.ones(2)
    >>> print(rbd.dynamics.joint_regressor(model, q, v, a)[1])  # what the elbow feels
    [0. 1. 0. 2. 0. 1. 0. 1.]
    """
    columns = a, v, _direction(v), difference(model, model.spring_reference, q)
    unit = jnp.eye(model.nv, dtype=v.dtype)
    return jnp.concatenate([unit * column[:, None] for column in columns], axis=1)


def _direction(v: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """Returns the smoothed sign of v."""
    return v / jnp.sqrt(v**2 + FRICTION_VELOCITY**2)
