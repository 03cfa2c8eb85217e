"""The ground of the bundled tasks: a surface that gives way a little, and rubs."""

from __future__ import annotations

from collections.abc import Sequence

from ..contact import Compliant
from ..model import Model, attach


def on_ground(
    model: Model, shapes: Sequence[str], stiffness: float, damping: float, friction: float = 0.8
) -> Model:
    """The model with contact between the shape `floor` and others.

    The force is a spring and a damper, and its friction grows with the speed of sliding up to Coulomb's: all of it explicit, so
    that a step is cheap and smooth in what it is differentiated by. Of the laws of contact it has the cheapest gradient.
    """
    return attach(
        model,
        *(
            Compliant(one, "floor", stiffness, damping, friction, law="linear", slip_speed=SLIP_SPEED)
            for one in shapes
        ),
    )


#: Below this, in m/s, feet creep rather than slide. The slower, the shorter the steps that are stable.
SLIP_SPEED = 0.3
