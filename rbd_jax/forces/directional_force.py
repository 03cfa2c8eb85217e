"""A constant force at a point of a body (Sueda's notes, eqs. 1.31 to 1.33)."""

from __future__ import annotations

from jaxtyping import Array, Float

from .._core.arguments import number
from .._core.array import dot
from ._point import PointForce


class DirectionalForce(PointForce):
    """A `force` at a `point` of a body, constant in the world's axes, with the energy `-force · x`.

    >>> wind = rbd.forces.DirectionalForce("bob", (0.0, 0.0, -1.0), (1.0, 0.0, 0.0))
    >>> print(wind(rbd.load("pendulum"), jnp.zeros(1), jnp.zeros(1)))
    [-1.]
    """

    force: Float[Array, "3"]

    def __init__(self, body, point, force):
        super().__init__(body, number("DirectionalForce", "point", point, (3,))[None], 1)
        self.force = number("DirectionalForce", "force", force, (3,))

    def pulls(self, positions, velocities):
        return self.force[None]

    def energy_of(self, positions, origin):
        return -dot(self.force, positions[0] + origin)
