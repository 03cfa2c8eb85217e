"""What the joints do of themselves: viscous damping, Coulomb friction, springs."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._arguments import configuration, takes, velocity
from ..model import Model, difference


#: The speed at which Coulomb friction reaches 71 % of its full size: rad/s or m/s.
FRICTION_VELOCITY = 1e-2


@takes(planar=True, q=configuration, v=velocity)
def passive_force(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """`-d v - f v/√(v² + ε²) - k (q ⊖ q_rest)`: damping, Coulomb friction, springs.

    Coulomb friction is smoothed over speeds of the size ε = `FRICTION_VELOCITY`, so that its derivative exists at rest; a
    joint held by friction alone creeps. (The default scheme of `rollout` takes Coulomb's law itself.)

    >>> from dataclasses import replace
    >>> model = replace(rbd.load("double_pendulum"), damping=jnp.array([0.5, 0.1]))
    >>> print(rbd.passive_force(model, jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])))
    [-0.5 -0.2]
    """
    return smooth_passive_force(model, q, v) - model.friction * v / jnp.sqrt(v**2 + FRICTION_VELOCITY**2)


def smooth_passive_force(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """`passive_force` without the friction: damping and springs."""
    return -model.damping * v - model.stiffness * difference(model, model.spring_reference, q)
