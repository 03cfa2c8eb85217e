"""A point of one body on a plane of another."""

from jaxtyping import Array, Float

from .._core.arguments import direction
from .._core.array import dot
from .relative import RelativeConstraint


class PointOnPlane(RelativeConstraint):
    """`point_b` of `body_b` stays on the plane through `point_a` of `body_a` with the `normal`, given in body a's axes.

    >>> table = rbd.constraints.PointOnPlane("world", (0.0, 0.0, -1.5), (0.0, 0.0, 1.0), "lower", (0.0, 0.0, -1.0))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), table)
    >>> print(rbd.constraint_residual(model, jnp.zeros(2)))
    [-0.5]
    """

    normal: Float[Array, "3"]

    rows = 1

    def __init__(self, body_a: str, point_a, normal, body_b: str, point_b):
        self.attach(body_a, point_a, body_b, point_b)
        self.normal = direction("PointOnPlane", normal, "normal")

    def deviation(self, relative):
        return dot(relative.position, self.normal)[None]
