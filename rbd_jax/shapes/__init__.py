"""What bodies look like and touch with, and named frames on them.

- `Geometry`: the protocol of geometries: inertia, and triangles to draw
- `Sphere`: a ball
- `Capsule`: a cylinder between two half balls
- `Cylinder`: along z
- `Box`: a cuboid
- `Ellipsoid`: by its semiaxes
- `Plane`: z = 0, solid below
- `HeightField`: terrain, heights over a rectangle
- `Mesh`: triangles, given or in a file
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


#: What is at the top of the library, `rbd_jax`, and was here as well.
__getattr__ = at_the_top(
    __name__,
    {
        "Shape": ".shape",
        "Site": ".site",
    },
)
