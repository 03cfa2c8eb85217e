"""Two points at a fixed distance: a massless rod with ball joints."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._arguments import number
from .._array import dot
from .relative import RelativeConstraint


class Distance(RelativeConstraint):
    """`point_b` of `body_b` stays `length` away from `point_a` of `body_a`.

    The residual is `(d² - length²) / (2 length)`: near zero the excess of the distance d, and smooth everywhere.
    """

    length: Float[Array, ""]

    rows = 1

    def __init__(self, body_a: str, point_a, body_b: str, point_b, length):
        self.attach(body_a, point_a, body_b, point_b)
        self.length = number("Distance", "length", length, above=0, remedy="; for no distance use Connect")

    def deviation(self, relative):
        excess = dot(relative.position, relative.position) - self.length**2
        return jnp.stack([excess / (2 * self.length)])
