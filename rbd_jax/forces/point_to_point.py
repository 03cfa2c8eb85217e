"""A spring with zero rest length (Sueda's notes, eqs. 1.35 to 1.37)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import number
from .._core.array import dot
from ._point import PointForce


class PointToPoint(PointForce):
    """The force `k Δx` between two points, linear in the positions and smooth if the points coincide.

    `spring_constant` k is in N/m; the energy is `k Δx²/2`.

    >>> pull = rbd.forces.PointToPoint(["world", "bob"], [(1.0, 0.0, -1.0), (0.0, 0.0, -1.0)], spring_constant=10.0)
    >>> print(pull(rbd.load("pendulum"), jnp.zeros(1), jnp.zeros(1)))
    [-10.]
    """

    spring_constant: Float[Array, ""]

    def __init__(self, bodies, points, spring_constant):
        super().__init__(bodies, points, 2)
        self.spring_constant = number("PointToPoint", "spring_constant", spring_constant, least=0)

    def pulls(self, positions, velocities):
        pull = self.spring_constant * (positions[1] - positions[0])
        return jnp.stack([pull, -pull])

    def energy_of(self, positions, origin):
        apart = positions[1] - positions[0]
        return 0.5 * self.spring_constant * dot(apart, apart)
