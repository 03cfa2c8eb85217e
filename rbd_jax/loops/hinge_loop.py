"""The loop of a planar mechanism closed in its plane (Sueda eqs. 2.93 to 2.97; book §8.10).

In a mechanism that moves in a plane, three of the five rows of a hinge hold already. These two rows are the remaining
ones, so the constraints are independent.
"""

import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import direction
from ..joints import Revolute
from .relative import RelativeConstraint, across


#: Axes count as parallel if the cosine of the angle between them is this close to one.
PARALLEL = 1e-4


class HingeLoop(RelativeConstraint):
    """The origins of `frame_a` and `frame_b` coincide in the plane across `axis`, which is given in `frame_a`; z by default.

    It is for mechanisms whose bodies all move in planes across this axis. In a mechanism of another plane its rows leave the
    loop open in that plane: the `mobility` is too large by one. Pass the axis of the mechanism's hinges, or use a
    `LoopJoint` with a `Revolute`, which has all five rows. A `ModelWarning` reports hinges that are parallel to each other but
    not to the axis.

    >>> frame = rbd.Transform.from_position
    >>> hinge = rbd.constraints.HingeLoop(
    ...     "world", frame(jnp.array([1.0, 0.0, -1.0])), "lower", frame(jnp.array([0.0, 0.0, -1.0])), axis=(0, 1, 0)
    ... )
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), hinge)
    >>> print(rbd.assemble(model, jnp.array([0.1, -1.0])).q)  # the lower arm lies level
    [ 0.    -1.571]
    """

    axis: Float[Array, "3"]

    rows = 2

    def __init__(self, body_a: str, frame_a, body_b: str, frame_b, axis=(0.0, 0.0, 1.0)):
        self.attach(body_a, frame_a, body_b, frame_b)
        self.axis = direction("HingeLoop", axis)

    def doubt(self, loop):
        turns = [
            rotation @ np.asarray(joint.axis) for joint, rotation in loop() if isinstance(joint, Revolute)
        ]
        own = np.asarray(self.axis)
        if (
            not turns
            or any(1 - abs(turn @ turns[0]) > PARALLEL for turn in turns)
            or 1 - abs(own @ turns[0]) <= PARALLEL
        ):
            return None
        axis = tuple(float(x) for x in np.round(turns[0], 6) + 0.0)
        return (
            f"it closes the loop in the plane across {own.tolist()}, but its hinges turn about {axis} (both in its first "
            f"frame), and the loop stays open in their plane; give axis={axis}, or take a LoopJoint"
        )

    def deviation(self, relative):
        return across(relative.position, self.axis)
