"""Links of the bundled robots, computed in NumPy, which is faster than JAX for a few numbers."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.array import from_numpy
from ..joints import Joint
from ..model import ModelBuilder
from ..sensors import Accelerometer, FrameOrientation, Gyro, JointPosition, JointVelocity
from ..shapes import Box, Cylinder, Geometry, Plane, Sphere
from ..shapes.shape import Shape
from ..shapes.site import Site
from ..spatial.inertia import Inertia
from ..spatial.transform import Transform


#: Color of the robots.
COLOR = (0.55, 0.6, 0.68, 1.0)


@dataclass(frozen=True)
class Solid:
    """A uniform body: mass, rotational inertia about its center in the axes of its link, geometry, and pose in the link."""

    mass: float
    central: np.ndarray
    geometry: Geometry
    rotation: np.ndarray
    center: np.ndarray

    @property
    def inertia(self) -> Inertia:
        """The same inertia as `Inertia.from_mass_com`, without a compilation."""
        mass, com = self.mass, self.center
        about_origin = self.central + mass * (com @ com * np.eye(3) - np.outer(com, com))
        triangle = about_origin[np.tril_indices(3)]
        return Inertia(*(from_numpy(np.asarray(x, float)) for x in (mass, mass * com, triangle)))

    @property
    def placement(self) -> Transform:
        return Transform(from_numpy(self.rotation), from_numpy(self.center))


def add(
    builder: ModelBuilder,
    name: str,
    parent: str,
    joint: Joint | None,
    placement: Transform | None,
    solid: Solid,
    **along: Any,
) -> None:
    """Adds a body with the inertia of a solid, and a shape of the same name that collides with the floor but not with links."""
    builder.add_body(name, parent, joint, placement, solid.inertia, **along)
    builder.attach(Shape(name, name, solid.geometry, solid.placement, rgba=COLOR, contype=0))


def add_floor(builder: ModelBuilder, height: float) -> None:
    """Adds a horizontal floor that fills the world below a height. Models with a contact model can touch it."""
    builder.attach(Shape("floor", "world", Plane(), at(0, 0, height), rgba=(0.85, 0.85, 0.85, 1.0)))


def add_joint_sensors(builder: ModelBuilder, *joints: str) -> None:
    """Adds a position sensor and a velocity sensor for each joint."""
    for joint in joints:
        builder.attach(JointPosition(f"{joint}_position", joint), JointVelocity(f"{joint}_velocity", joint))


def add_inertial_unit(builder: ModelBuilder, body: str, placement: Transform) -> None:
    """Adds a site `imu` with a gyro, an accelerometer and an orientation sensor."""
    builder.attach(
        Site("imu", body, placement),
        Gyro("gyro", "imu"),
        Accelerometer("accelerometer", "imu"),
        FrameOrientation("orientation", "imu"),
    )


def at(x, y, z, *, roll=0.0, pitch=0.0) -> Transform:
    """Returns a frame at a point, rotated by `pitch` about y and then by `roll` about the rotated x."""
    (cr, cp), (sr, sp) = np.cos([roll, pitch]), np.sin([roll, pitch])
    rotation = np.array([[cp, sp * sr, sp * cr], [0.0, cr, -sr], [-sp, cp * sr, cp * cr]])
    return Transform(from_numpy(rotation), from_numpy(np.array([x, y, z], float)))


def rod(mass, start, end, radius) -> Solid:
    """Returns a uniform solid cylinder between two points."""
    start, end = np.array(start, float), np.array(end, float)
    length = np.linalg.norm(end - start)
    axis = (end - start) / length
    along = np.outer(axis, axis)
    across = mass * (radius**2 / 4 + length**2 / 12)
    central = across * (np.eye(3) - along) + mass * radius**2 / 2 * along
    side = np.eye(3)[np.argmin(np.abs(axis))]  # any perpendicular direction
    x = np.cross(side, axis) / np.linalg.norm(np.cross(side, axis))
    rotation = np.column_stack([x, np.cross(axis, x), axis])
    return Solid(mass, central, Cylinder(radius, length / 2), rotation, (start + end) / 2)


def box(mass, sides, com=(0.0, 0.0, 0.0)) -> Solid:
    """Returns a uniform cuboid with the inertia of `Inertia.box`."""
    sides = np.array(sides, float)
    central = mass / 12 * np.diag((sides**2).sum() - sides**2)
    return Solid(mass, central, Box(sides / 2), np.eye(3), np.array(com, float))


def ball(mass, radius, com=(0.0, 0.0, 0.0)) -> Solid:
    """Returns a uniform ball with the inertia of `Inertia.sphere`."""
    central = 0.4 * mass * radius**2 * np.eye(3)
    return Solid(mass, central, Sphere(radius), np.eye(3), np.array(com, float))
