"""Points that stand for the centers of mass of bodies without mass."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import names, number
from ..model import Model
from ..spatial.attached import Attached
from ..spatial.transform import Transform


class MasslessCenters(Attached):
    """Points that stand for the centers of mass of bodies without mass under `rbd.contact.Soft`.

    As in MuJoCo, the stiffness of a contact depends on how easily the centers of mass of its two bodies move. For a body without
    mass, such as the foot of many robots, it is a point that the file gives (MuJoCo's `body_ipos`); the default is the origin of
    the body's frame. It has no effect on bodies with mass.

    - `bodies`, `points`: the names, and a point in the frame of each: (k, 3).

    >>> centers = rbd.contact.MasslessCenters(["foot"], [(0.0, 0.0, -0.4)])
    >>> print(centers.bodies, centers.frames.position)
    ('foot',) [[ 0.   0.  -0.4]]
    """

    bodies: tuple[str, ...] = eqx.field(static=True)
    placements: Transform

    role = "massless centers"
    joints = ()

    def __init__(self, bodies: str | Sequence[str], points):
        self.bodies = names("MasslessCenters", "bodies", bodies)
        size = len(self.bodies)
        points = number("MasslessCenters", "points", points, (size, 3))
        self.placements = Transform.from_position(points)

    @property
    def frames(self):
        return self.placements

    def attached(self, bodies, frames, joints):
        return self.changed(bodies=tuple(bodies), placements=frames)


def centers_of_mass(model: Model) -> Float[Array, "nb 3"]:
    """The center of mass of each body in its own frame, and the point that stands for it where the body has no mass."""
    centers = model.inertias.com
    for thing in model.attached_as("massless centers"):
        own = np.array([model.body_index(name) for name in thing.bodies], int)
        massless = (model.inertias.mass[own] == 0)[:, None]
        points = jnp.where(massless, thing.frames.position, centers[own])
        centers = centers.at[own].set(points)
    return centers
