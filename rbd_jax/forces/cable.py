"""A cable over any number of points, which only pulls (Sueda's notes, eqs. 1.57 to 1.64)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import number
from ._one_sided import compression, engagement, work
from ._point import PathForce


class Cable(PathForce):
    """An elastic cable that runs without friction from point to point, with a uniform tension.

    At an elongation x beyond its rest length L, the tension is `k c(x) + d c'(x) ẋ`, but at least zero. c is `max(x, 0)` with
    its corner rounded over the length `transition`, so that the cable becomes taut smoothly.

    - `rest_length` L; `transition`, by default a thousandth of L.
    - `spring_constant` k, in N/m, and `damping_constant` d, in N s/m.

    >>> bodies, points = ["world", "upper", "lower"], [(0.5, 0.0, 0.0), (0.1, 0.0, -1.0), (0.1, 0.0, -1.0)]
    >>> cable = rbd.forces.Cable(bodies, points, rest_length=1.9, spring_constant=100.0)
    >>> print(cable(rbd.load("double_pendulum"), jnp.zeros(2), jnp.zeros(2)))
    [-8.174 -1.761]
    """

    rest_length: Float[Array, ""]
    spring_constant: Float[Array, ""]
    damping_constant: Float[Array, ""]
    transition: Float[Array, ""]

    def __init__(self, bodies, points, rest_length, spring_constant, damping_constant=0.0, transition=None):
        super().__init__(bodies, points)
        self.rest_length = number("Cable", "rest_length", rest_length, above=0)
        self.spring_constant = number("Cable", "spring_constant", spring_constant, least=0)
        self.damping_constant = number("Cable", "damping_constant", damping_constant, least=0)
        transition = 1e-3 * self.rest_length if transition is None else transition
        self.transition = number("Cable", "transition", transition, above=0)

    def tension_at(self, length, rate):
        excess = length - self.rest_length
        spring = self.spring_constant * compression(excess, self.transition)
        return jnp.maximum(spring + self.damping_constant * engagement(excess, self.transition) * rate, 0)

    def energy_at(self, length):
        return self.spring_constant * work(length - self.rest_length, self.transition)
