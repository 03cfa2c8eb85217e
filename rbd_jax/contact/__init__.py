"""Where bodies touch.

- `contact_points`: of two geometries: distances, positions, frames
- `ContactPoints`: these
- `signed_distance`: of two geometries, with the nearest points
- `SignedDistance`: that
- `bounding_sphere`: around a geometry
- `core`: the convex body with which a geometry touches; register geometries of your own here
- `Core`: that, as a sum of a polytope, a flattened ball and a ball
- `from_support`: a core, by the point farthest in a direction
"""

__all__ = [
    "contact_points",
    "ContactPoints",
    "signed_distance",
    "SignedDistance",
    "bounding_sphere",
    "core",
    "Core",
    "from_support",
]

from .geometry.bounds import bounding_sphere as bounding_sphere
from .geometry.cores import Core as Core, core as core, from_support as from_support
from .geometry.pairs import (
    ContactPoints as ContactPoints,
    SignedDistance as SignedDistance,
    contact_points as contact_points,
    signed_distance as signed_distance,
)
