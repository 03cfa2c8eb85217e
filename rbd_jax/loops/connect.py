"""A point of one body on a point of another: a ball joint that closes a loop."""

from .relative import RelativeConstraint


class Connect(RelativeConstraint):
    """`point_b` of `body_b` coincides with `point_a` of `body_a`. The residual is their difference, in the world's axes.

    >>> pin = rbd.constraints.Connect("world", (0.0, 0.0, -2.0), "lower", (0.0, 0.0, -1.0))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), pin)
    >>> print(rbd.constraint_residual(model, jnp.array([0.1, 0.0])))
    [-0.2   0.    0.01]
    """

    rows = 3
    meets = True

    def __init__(self, body_a: str, point_a, body_b: str, point_b):
        self.attach(body_a, point_a, body_b, point_b)

    def deviation(self, relative):
        return relative.position
