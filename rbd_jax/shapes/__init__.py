"""Geometries of bodies, for contact and display, and named frames on bodies.

- `Geometry`: the protocol of geometries: inertia, and triangles for drawing
- `Sphere`: a ball
- `Capsule`: a cylinder between two half balls
- `Cylinder`: a cylinder along z
- `Box`: a box
- `Ellipsoid`: an ellipsoid, by its semiaxes
- `Plane`: the plane z = 0, solid below
- `HeightField`: terrain: heights over a rectangle
- `Mesh`: triangles, given or from a file
"""

__all__ = [
    "Geometry",
    "Sphere",
    "Capsule",
    "Cylinder",
    "Box",
    "Ellipsoid",
    "Plane",
    "HeightField",
    "Mesh",
]


from .._core.deprecation import at_the_top
from .geometry import (
    Box as Box,
    Capsule as Capsule,
    Cylinder as Cylinder,
    Ellipsoid as Ellipsoid,
    Geometry as Geometry,
    Plane as Plane,
    Sphere as Sphere,
)
from .height_field import HeightField as HeightField
from .mesh import Mesh as Mesh


#: Names that moved to the top of the library, `rbd_jax`.
__getattr__ = at_the_top(
    __name__,
    {
        "Shape": ".shape",
        "Site": ".site",
    },
)
