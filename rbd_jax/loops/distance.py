"""Two points at a fixed distance: a massless rod with ball joints."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import number
from .._core.array import dot
from .relative import RelativeConstraint


class Distance(RelativeConstraint):
    """`point_b` of `body_b` stays `length` away from `point_a` of `body_a`.

    The residual is `(d² - length²) / (2 length)`: near zero the excess of the distance d, and smooth everywhere.

    >>> rod = rbd.constraints.Distance("world", (0.5, 0.0, 0.0), "lower", (0.0, 0.0, -1.0), length=2.0)
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), rod)
    >>> print(rbd.constraint_residual(model, jnp.zeros(2)), rbd.mobility(model, jnp.zeros(2)))
    [0.062] 1
    """

    length: Float[Array, ""]

    rows = 1

    def __init__(self, body_a: str, point_a, body_b: str, point_b, length):
        self.attach(body_a, point_a, body_b, point_b)
        self.length = number("Distance", "length", length, above=0, remedy="; for no distance use Connect")

    def deviation(self, relative):
        excess = dot(relative.position, relative.position) - self.length**2
        return jnp.stack([excess / (2 * self.length)])
