"""The ground of the bundled tasks: a compliant surface with friction."""

from __future__ import annotations

from collections.abc import Sequence

from ..contact import Compliant
from ..model import Model, attach


def on_ground(
    model: Model, shapes: Sequence[str], stiffness: float, damping: float, friction: float = 0.8
) -> Model:
    """Returns the model with contact between the shape `floor` and other shapes.

    The force is a spring and a damper. Friction grows with the sliding speed up to the Coulomb limit. The force is explicit,
    so a step is cheap and smoothly differentiable. This contact model has the cheapest gradient.
    """
    return attach(
        model,
        *(
            Compliant(one, "floor", stiffness, damping, friction, law="linear", slip_speed=SLIP_SPEED)
            for one in shapes
        ),
    )


#: Below this speed, in m/s, feet creep rather than slide. A smaller value requires smaller steps for stability.
SLIP_SPEED = 0.3
