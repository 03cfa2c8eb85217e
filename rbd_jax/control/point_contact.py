"""Contact points of a robot, for force controllers."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import as_array, direction, number
from .._core.array import complement
from .places import Located, Place
from .residuals import Position


class PointContact(eqx.Module):
    """A point of the robot in fixed contact, such as a point of a foot, or of a hand against a wall.

    - `place`: the name of a site or a body, or `rbd.sensors.OnBody(body, placement)`. Its origin is the contact point. Use
      several points for a surface, such as the corners of a sole.
    - `normal`: of the surface, towards the robot, in the world.
    - `friction`: friction coefficient: the maximum ratio of tangential to normal force.
    - `least`, `most`: bounds of the normal force, in N. By default it cannot pull.
    - `active`: whether the point is in contact: a number or array that is true or false, so that contacts can change under
      `jit`.

    >>> foot = rbd.control.PointContact("FL_foot", friction=0.6)
    """

    point: Position
    normal: Float[Array, "3"]
    friction: Float[Array, ""]
    least: Float[Array, ""]
    most: Float[Array, ""]
    active: Float[Array, ""]

    def __init__(
        self,
        place: Place,
        normal: Any = (0.0, 0.0, 1.0),
        friction: Any = 0.7,
        *,
        least: Any = 0.0,
        most: Any = jnp.inf,
        active: Any = True,
    ):
        owner = "control.PointContact"
        located = Located(owner, place)
        self.point = eqx.tree_at(lambda point: point.place, Position(place), located)
        self.normal = direction(owner, normal, "normal")
        self.friction = number(owner, "friction", friction, least=0)
        self.least = number(owner, "least", least)
        self.most = as_array(owner, "most", most, "one number, which may be infinite")
        active = as_array(owner, "active", active, "true or false")
        for name, value in (("most", self.most), ("active", active)):
            if value.shape != ():
                raise ValueError(f"{owner}: {name} has shape {value.shape}; it must be one number")
        self.active = jnp.where(active != 0, 1, 0).astype(active.dtype)

    @property
    def axes(self) -> Float[Array, "3 3"]:
        """Two directions along the surface and the normal, as columns."""
        normal = self.normal[:, None]
        along = complement(normal)
        return jnp.concatenate([along, normal], axis=1)
