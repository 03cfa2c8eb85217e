"""Round bodies that roll on a plane without slipping (book §3.4).

The plane passes through a point of body a, with a normal n; c is the center of the round body b relative to it. The point of b
at `c + offset` touches the plane, and its velocity relative to body a vanishes. The first of the three
equations is along n, the rate of the body's height above the plane, and constrains a position. The other two are the slip
along two fixed directions of the plane (x and y for z), and constrain velocities only.
The multipliers are the force of the plane on b, in the same directions.
"""

from __future__ import annotations

import abc

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core import arguments
from .._core.array import cross, dot, matvec, vecmat
from ..joints.planar import plane
from ..spatial.transform import Transform
from .nonholonomic import NonholonomicConstraint


class _Rolling(NonholonomicConstraint):
    normal: Float[Array, "3"]

    rows = 3
    holonomic = (True, False, False)

    def _set_plane(self, body_a, point_a, normal, body_b, center):
        self.attach(body_a, point_a, body_b, center)
        self.normal = arguments.direction(type(self).__name__, normal, "normal")

    @abc.abstractmethod
    def offset(self, relative: Transform) -> Float[Array, "3"]:
        """Returns the vector from the center to the lowest point, in the first frame's axes."""

    def deviation(self, relative):
        height = dot(relative.position + self.offset(relative), self.normal)
        return jnp.concatenate([height[None], jnp.zeros(2, height.dtype)])

    def slip(self, relative, twist):
        velocity = twist[3:] + cross(twist[:3], self.offset(relative))
        return jnp.concatenate([dot(velocity, self.normal)[None], vecmat(velocity, plane(self.normal))])


class RollingSphere(_Rolling):
    """A sphere about the point `center` of `body_b` rolls on the plane through `point_a` of `body_a` with the `normal`.

    The normal is in body a's axes. Three rows: the sphere stays on the plane, and it does not slip.

    >>> builder = rbd.ModelBuilder()
    >>> ball = builder.add_body("ball", joint=rbd.joints.Free(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    >>> rolling = rbd.constraints.RollingSphere("world", (0, 0, 0), (0, 0, 1), "ball", (0, 0, 0), radius=0.1)
    >>> model = rbd.add_constraints(builder.build(), rolling)
    >>> on_floor = rbd.neutral(model).at[2].set(0.1)
    >>> print(rbd.mobility(model, on_floor))
    3
    """

    radius: Float[Array, ""]

    def __init__(self, body_a: str, point_a, normal, body_b: str, center, radius):
        self._set_plane(body_a, point_a, normal, body_b, center)
        self.radius = arguments.number("RollingSphere", "radius", radius)

    def offset(self, relative):
        return -self.radius * self.normal


class RollingDisk(_Rolling):
    """A disk or wheel about the point `center` of `body_b` rolls on the plane through `point_a` of `body_a` with the `normal`.

    - `normal`: The normal of the plane, in body a's axes.
    - `axis`: The axis of the disk, in body b's axes.
    - `radius`: The radius of the disk, from the axis to the middle of its edge.
    - `edge`: The radius of a rounded edge, as of a tire; by default zero, a sharp rim.

    Three rows: the disk stays on the plane, and it does not slip. The first row may be redundant, as for the wheels of a
    cart that moves in the plane; this is not an error. A disk that lies flat has no definite contact point, so its motion
    through that position is not meaningful.

    >>> builder = rbd.ModelBuilder()
    >>> disk = builder.add_body("disk", joint=rbd.joints.Free(), inertia=rbd.Inertia.cylinder(1.0, 0.1, 0.01))
    >>> rolling = rbd.constraints.RollingDisk("world", (0, 0, 0), (0, 0, 1), "disk", (0, 0, 0), (0, 1, 0), radius=0.1)
    >>> model = rbd.add_constraints(builder.build(), rolling)
    >>> upright = rbd.neutral(model).at[2].set(0.1)
    >>> print(rbd.constraint_residual(model, upright), rbd.mobility(model, upright))
    [0. 0. 0.] 3
    """

    axis: Float[Array, "3"]
    radius: Float[Array, ""]
    edge: Float[Array, ""]

    def __init__(self, body_a: str, point_a, normal, body_b: str, center, axis, radius, edge=0.0):
        self._set_plane(body_a, point_a, normal, body_b, center)
        self.axis = arguments.direction("RollingDisk", axis, "axis")
        self.radius = arguments.number("RollingDisk", "radius", radius)
        self.edge = arguments.number("RollingDisk", "edge", edge)

    def offset(self, relative):
        axis = matvec(relative.rotation, self.axis)
        up = self.normal - dot(self.normal, axis) * axis  # the steepest direction of the disk's plane
        square = dot(up, up)
        steep = square > jnp.finfo(square.dtype).tiny
        length = jnp.sqrt(jnp.where(steep, square, 1))
        return -self.radius * jnp.where(steep, up / length, 0) - self.edge * self.normal
