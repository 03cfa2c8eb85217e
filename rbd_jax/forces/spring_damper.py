"""A spring with a rest length and a parallel damper (Sueda's notes, eqs. 1.65 to 1.68, signs corrected)."""

from __future__ import annotations

from jaxtyping import Array, Float

from .._core.arguments import number
from ._point import PathForce


class SpringDamper(PathForce):
    """The tension `k (l - L) + d l̇` between two points at the distance l.

    - `rest_length` L.
    - `spring_constant` k, in N/m, and `damping_constant` d, in N s/m: the constants of (1.65) over L, since (1.65) uses the
      strain. The printed (1.66) pushes the points apart instead of pulling, and the damper of (1.65) adds energy.

    The energy is `k (l - L)²/2`. If the two points coincide, the spring has no direction and no force.

    >>> ends = [(1.0, 0.0, -1.0), (0.0, 0.0, -1.0)]
    >>> spring = rbd.forces.SpringDamper(["world", "bob"], ends, rest_length=0.5, spring_constant=10.0)
    >>> print(spring(rbd.load("pendulum"), jnp.zeros(1), jnp.zeros(1)))  # 5 N along x, 1 m below the hinge
    [-5.]
    """

    rest_length: Float[Array, ""]
    spring_constant: Float[Array, ""]
    damping_constant: Float[Array, ""]

    def __init__(self, bodies, points, rest_length, spring_constant, damping_constant=0.0):
        super().__init__(bodies, points, 2)
        remedy = "; use PointToPoint for a spring with zero rest length"
        self.rest_length = number("SpringDamper", "rest_length", rest_length, above=0, remedy=remedy)
        self.spring_constant = number("SpringDamper", "spring_constant", spring_constant, least=0)
        self.damping_constant = number("SpringDamper", "damping_constant", damping_constant, least=0)

    def tension_at(self, length, rate):
        return self.spring_constant * (length - self.rest_length) + self.damping_constant * rate

    def energy_at(self, length):
        return 0.5 * self.spring_constant * (length - self.rest_length) ** 2
