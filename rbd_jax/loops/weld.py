"""Two frames that coincide: the universal loop joint without degrees of freedom (book §8.3)."""

from .relative import RelativeConstraint, misplaced


class Weld(RelativeConstraint):
    """`frame_b` of `body_b` coincides with `frame_a` of `body_a`. The residual is a rotation vector and a displacement.

    Table 8.1 uses the sine of the angle instead, which is also zero after half a turn.

    >>> tip = rbd.Transform.from_position(jnp.array([0.0, 0.0, -1.0]))
    >>> anchor = rbd.Transform.from_position(jnp.array([0.0, 0.0, -2.0]))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), rbd.constraints.Weld("world", anchor, "lower", tip))
    >>> print(rbd.constraint_residual(model, jnp.array([0.1, 0.0])))
    [ 0.    0.1   0.   -0.2   0.    0.01]
    """

    rows = 6
    meets = True
    angles = (True,) * 3 + (False,) * 3

    def __init__(self, body_a: str, frame_a, body_b: str, frame_b):
        self.attach(body_a, frame_a, body_b, frame_b)

    def deviation(self, relative):
        return misplaced(relative)
