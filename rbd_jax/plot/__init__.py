"""Plots of motions with matplotlib. `rbd.plot(model, trajectory)` draws the standard page of them.

Each function has the signature `(model, trajectory, *, joints=None, sample=0, axes=None)`. It accepts all models, including
reduced models, and trajectories with any batch axes. It draws into the given axes, or creates a figure, which
`.savefig("name.png")` writes to a file.

- `page`: the page of `rbd.plot`: poses along the motion, and the applicable plots
- `positions`: positions of joints, with their limits
- `velocities`: velocities of joints, with their limits
- `torques`: generalized forces that drive the joints, with their limits
- `energies`: kinetic and potential energy, and their sum
- `contact_forces`: normal forces between shapes in contact
- `phase`: phase portraits
- `fan`: the spread of a batch
- `sensors`: sensor readings
"""

__all__ = [
    "page",
    "positions",
    "velocities",
    "torques",
    "energies",
    "contact_forces",
    "phase",
    "fan",
    "sensors",
]

from .._core.callable import make_callable as _make_callable
from ..view.curves import (
    contact_forces as contact_forces,
    energies as energies,
    fan as fan,
    phase as phase,
    positions as positions,
    sensors as sensors,
    torques as torques,
    velocities as velocities,
)
from ..view.plot import page as page


_make_callable(__name__, page)
