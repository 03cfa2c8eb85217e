"""Points that replace the centers of mass of bodies without mass."""

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
    """Points that replace the centers of mass of bodies without mass under `rbd.contact.Soft`.

    As in MuJoCo, the stiffness of a contact depends on the mobility of the centers of mass of its two bodies. A body without
    mass, such as the foot of many robots, has no center of mass. MuJoCo uses a point from the file (`body_ipos`); the default is
    the origin of the body frame. The points have no effect on bodies with mass.

    - `bodies`: the names of the bodies.
    - `points`: a point in the frame of each body, shape (k, 3).

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
    """Returns the center of mass of each body in its own frame, or the replacement point if the body has no mass."""
    centers = model.inertias.com
    for thing in model.attached_as("massless centers"):
        own = np.array([model.body_index(name) for name in thing.bodies], int)
        massless = (model.inertias.mass[own] == 0)[:, None]
        points = jnp.where(massless, thing.frames.position, centers[own])
        centers = centers.at[own].set(points)
    return centers
