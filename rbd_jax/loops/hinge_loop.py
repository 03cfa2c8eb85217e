"""The loop of a planar mechanism closed in its plane (Sueda eqs. 2.93 to 2.97; book §8.10).

In a mechanism that moves in a plane anyway, three of the five rows of a hinge say what is so already. These two rows are
those that are left, so that the constraints are independent.
"""

from jaxtyping import Array, Float

from .._arguments import direction
from .relative import RelativeConstraint, across


class HingeLoop(RelativeConstraint):
    """The origins of `frame_a` and `frame_b` meet in the plane across `axis`, which is given in `frame_a`; z by default.

    It is for mechanisms whose bodies all move in planes across this axis. In one that lies in another plane its rows leave the
    loop open in that plane: the `mobility` is too large by one. Give the axis about which the mechanism's hinges turn, or take a
    `LoopJoint` with a `Revolute`, which has all five rows.
    """

    axis: Float[Array, "3"]

    rows = 2

    def __init__(self, body_a: str, frame_a, body_b: str, frame_b, axis=(0.0, 0.0, 1.0)):
        self.attach(body_a, frame_a, body_b, frame_b)
        self.axis = direction("HingeLoop", axis)

    def deviation(self, relative):
        return across(relative.position, self.axis)
