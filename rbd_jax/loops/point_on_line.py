"""A point of one body on a straight line of another."""

from jaxtyping import Array, Float

from .._core import arguments
from .relative import RelativeConstraint, across


class PointOnLine(RelativeConstraint):
    """`point_b` of `body_b` stays on the line through `point_a` of `body_a` along `direction`, given in body a's axes.

    >>> rail = rbd.constraints.PointOnLine("world", (0.0, 0.0, -1.5), (1.0, 0.0, 0.0), "lower", (0.0, 0.0, -1.0))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), rail)
    >>> print(rbd.constraint_residual(model, jnp.zeros(2)))  # half a metre too low
    [0.5 0. ]
    """

    direction: Float[Array, "3"]

    rows = 2

    def __init__(self, body_a: str, point_a, direction, body_b: str, point_b):
        self.attach(body_a, point_a, body_b, point_b)
        self.direction = arguments.direction("PointOnLine", direction, "direction")

    def deviation(self, relative):
        return across(relative.position, self.direction)
