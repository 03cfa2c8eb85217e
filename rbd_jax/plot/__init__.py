"""Plots of motions, with matplotlib; `rbd.plot(model, trajectory)` draws the usual page of them.

Each is `(model, trajectory, *, joints=None, sample=0, axes=None)`, of models, reduced ones included, and of trajectories with any
batch axes. They draw into the axes that they are given, or make a figure, `.savefig("name.png")` of which writes it.

- `page`: what `rbd.plot` is: poses along the motion, and the plots that tell something of it
- `positions`: positions of joints, with their limits
- `velocities`: velocities of joints, with their limits
- `torques`: generalized forces that drive the joints, with their limits
- `energies`: kinetic and potential energy, and their sum
- `contact_forces`: normal forces between shapes that touch
- `phase`: phase portraits
- `fan`: how a batch spreads
- `sensors`: what sensors read
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
