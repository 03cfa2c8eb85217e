"""Forces that cancel the gravity of bodies: buoyancy, counterweights, MuJoCo's `gravcomp`."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import names, number
from .._core.array import dot, vecmat
from ..dynamics.sites import fixed_frames, generalized_force_at
from ..spatial.transform import Transform
from .force import Force


class GravityCompensation(Force):
    """A force `-m g` at a point of each of some bodies, for the gravity g of the model.

    - `bodies`, `points`: the body of each point, and the point: (k, 3).
    - `masses`: the compensated mass at each point, (k,); negative values add weight.

    >>> balloon = rbd.forces.GravityCompensation(["bob"], [(0.0, 0.0, -1.0)], [1.0])
    >>> model, q = rbd.load("pendulum"), jnp.array([1.0])
    >>> print(balloon(model, q, jnp.zeros(1)) - rbd.gravity_force(model, q))
    [0.]
    """

    bodies: tuple[str, ...] = eqx.field(static=True)
    placements: Transform
    masses: Float[Array, "k"]

    def __init__(self, bodies: str | Sequence[str], points, masses):
        self.bodies = names("GravityCompensation", "bodies", bodies)
        size = len(self.bodies)
        points = number("GravityCompensation", "points", points, (size, 3))
        self.placements = Transform.from_position(points)
        self.masses = number("GravityCompensation", "masses", masses, (size,))

    @property
    def frames(self):
        return self.placements

    def attached(self, bodies, frames, joints):
        return self.changed(bodies=tuple(bodies), placements=frames)

    def generalized_force(self, motion):
        at = fixed_frames(motion, (self,))
        force = -self.masses[:, None] * vecmat(motion.model.gravity, at.frames.rotation)
        return generalized_force_at(motion, (self,), jnp.concatenate([jnp.zeros_like(force), force], axis=-1))

    def stored_energy(self, motion):
        height = dot(motion.model.gravity, fixed_frames(motion, (self,)).world_frames.position)
        return jnp.sum(self.masses * height)
