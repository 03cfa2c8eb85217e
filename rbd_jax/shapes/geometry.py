"""Simple geometries: their inertia, and the triangles that draw them.

Sizes are leaves. The frame is at the center, with the z axis along the axis of the geometry.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import number
from .._core.errors import ModelError
from ..spatial.inertia import Inertia
from . import rays, surfaces
from .surfaces import Triangles


class Geometry(eqx.Module):
    """The geometry of a shape, in its frame.

    >>> corners, triangles = rbd.shapes.Box((0.1, 0.2, 0.3)).triangles()
    >>> print(corners.shape, triangles.shape, isinstance(rbd.shapes.Box((0.1, 0.2, 0.3)), rbd.shapes.Geometry))
    (8, 3) (12, 3) True
    """

    @abc.abstractmethod
    def inertia(self, density: Any) -> Inertia:
        """Returns the inertia of a uniform body of this geometry, about the origin of its frame."""

    @abc.abstractmethod
    def triangles(self) -> Triangles:
        """Returns its surface as NumPy arrays for drawing: vertices (v, 3), and three vertex indices per triangle (f, 3)."""

    @abc.abstractmethod
    def ray(self, origin: Float[Array, "3"], direction: Float[Array, "3"]) -> Float[Array, ""]:
        """Returns the least t >= 0 with `origin + t direction` on the surface; infinite if the ray misses.

        A plane is hit only from above. From inside a body, the ray hits where it leaves the body.
        """


class Sphere(Geometry):
    """A ball.

    >>> ball = rbd.shapes.Sphere(0.1)
    >>> print(ball.inertia(1000.0).mass.round(3))  # of a density of 1000 kg/m³
    4.189
    """

    radius: Float[Array, ""]

    def __init__(self, radius: Any):
        self.radius = number("Sphere", "radius", radius, above=0)

    def inertia(self, density):
        return Inertia.sphere(density * 4 / 3 * jnp.pi * self.radius**3, self.radius)

    def triangles(self):
        vertices, faces = surfaces.ball()
        return vertices * np.asarray(self.radius), faces

    def ray(self, origin, direction):
        return rays.ball(origin, direction, self.radius)


class Capsule(Geometry):
    """A cylinder along z between two half balls; `half_length` excludes the half balls.

    >>> pill = rbd.shapes.Capsule(0.1, 0.4)
    >>> print(pill.ray(jnp.array([1.0, 0.0, 0.2]), jnp.array([-1.0, 0.0, 0.0])))
    0.9
    """

    radius: Float[Array, ""]
    half_length: Float[Array, ""]

    def __init__(self, radius: Any, half_length: Any):
        self.radius = number("Capsule", "radius", radius, above=0)
        self.half_length = number("Capsule", "half_length", half_length, least=0)

    def inertia(self, density):
        r, length = self.radius, 2 * self.half_length
        return Inertia.capsule(density * jnp.pi * r**2 * (length + 4 / 3 * r), r, length)

    def triangles(self):
        return surfaces.capsule(float(self.radius), float(self.half_length))

    def ray(self, origin, direction):
        return rays.capsule(origin, direction, self.radius, self.half_length)


class Cylinder(Geometry):
    """A cylinder along z.

    >>> can = rbd.shapes.Cylinder(0.1, 0.4)
    >>> print(can.inertia(1000.0).mass.round(3))
    25.133
    """

    radius: Float[Array, ""]
    half_length: Float[Array, ""]

    def __init__(self, radius: Any, half_length: Any):
        self.radius = number("Cylinder", "radius", radius, above=0)
        self.half_length = number("Cylinder", "half_length", half_length, above=0)

    def inertia(self, density):
        r, length = self.radius, 2 * self.half_length
        return Inertia.cylinder(density * jnp.pi * r**2 * length, r, length)

    def triangles(self):
        return surfaces.cylinder(float(self.radius), float(self.half_length))

    def ray(self, origin, direction):
        return rays.cylinder(origin, direction, self.radius, self.half_length)


class Box(Geometry):
    """A box, by half the lengths of its sides.

    >>> box = rbd.shapes.Box((0.1, 0.2, 0.3))
    >>> print(box.ray(jnp.array([1.0, 0.0, 0.0]), jnp.array([-1.0, 0.0, 0.0])))
    0.9
    """

    half_sizes: Float[Array, "3"]

    def __init__(self, half_sizes: Any):
        self.half_sizes = number("Box", "half_sizes", half_sizes, (3,), above=0)

    def inertia(self, density):
        return Inertia.box(density * 8 * jnp.prod(self.half_sizes), 2 * self.half_sizes)

    def triangles(self):
        return surfaces.box(np.asarray(self.half_sizes))

    def ray(self, origin, direction):
        return rays.box(origin, direction, self.half_sizes)


class Ellipsoid(Geometry):
    """An ellipsoid, by its semiaxes along x, y and z.

    >>> egg = rbd.shapes.Ellipsoid((0.1, 0.2, 0.3))
    >>> print(jnp.diag(egg.inertia(1000.0).rotational_matrix))
    [0.653 0.503 0.251]
    """

    semiaxes: Float[Array, "3"]

    def __init__(self, semiaxes: Any):
        self.semiaxes = number("Ellipsoid", "semiaxes", semiaxes, (3,), above=0)

    def inertia(self, density):
        mass, square = density * 4 / 3 * jnp.pi * jnp.prod(self.semiaxes), self.semiaxes**2
        return Inertia.from_mass_com(
            mass, jnp.zeros(3, square.dtype), jnp.diag(mass / 5 * (square.sum() - square))
        )

    def triangles(self):
        vertices, faces = surfaces.ball()
        return vertices * np.asarray(self.semiaxes), faces

    def ray(self, origin, direction):
        return rays.ellipsoid(origin, direction, self.semiaxes)


class Plane(Geometry):
    """The plane z = 0, solid below. `half_sizes` along x and y limit the drawing; zero means infinite.

    >>> floor = rbd.shapes.Plane()
    >>> print(floor.ray(jnp.array([0.0, 0.0, 2.0]), jnp.array([0.0, 0.6, -0.8])))
    2.5
    """

    half_sizes: Float[Array, "2"]

    #: Half size of the drawing of an infinite plane.
    drawn: ClassVar[float] = 10.0

    def __init__(self, half_sizes: Any = (0.0, 0.0)):
        self.half_sizes = number("Plane", "half_sizes", half_sizes, (2,), least=0)

    def inertia(self, density):
        raise ModelError("a plane has no volume, and so no inertia; give its body one")

    def triangles(self):
        x, y = np.where(np.asarray(self.half_sizes) > 0, np.asarray(self.half_sizes), self.drawn)
        return np.array([[-x, -y, 0], [x, -y, 0], [-x, y, 0], [x, y, 0]]), surfaces.grid(2, 2)

    def ray(self, origin, direction):
        return rays.plane(origin, direction, self.half_sizes)
