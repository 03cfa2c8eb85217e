"""What the bundled robots are put together from, worked out in NumPy: JAX takes long for a few numbers."""

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


#: What the robots look like.
COLOR = (0.55, 0.6, 0.68, 1.0)


@dataclass(frozen=True)
class Solid:
    """A uniform body: its mass, its rotational inertia about its centre in the axes of its link, its geometry and its place."""

    mass: float
    central: np.ndarray
    geometry: Geometry
    rotation: np.ndarray
    center: np.ndarray

    @property
    def inertia(self) -> Inertia:
        """As `Inertia.from_mass_com`, without a compilation."""
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
    """A body that is a solid, and looks like it, by a shape of the body's name. With that it touches a floor, not other links."""
    builder.add_body(name, parent, joint, placement, solid.inertia, **along)
    builder.attach(Shape(name, name, solid.geometry, solid.placement, rgba=COLOR, contype=0))


def add_floor(builder: ModelBuilder, height: float) -> None:
    """A level floor that fills the world below a height. It is touched by what has a law of contact."""
    builder.attach(Shape("floor", "world", Plane(), at(0, 0, height), rgba=(0.85, 0.85, 0.85, 1.0)))


def add_joint_sensors(builder: ModelBuilder, *joints: str) -> None:
    """Sensors of the position and the velocity of joints, in this order for each."""
    for joint in joints:
        builder.attach(JointPosition(f"{joint}_position", joint), JointVelocity(f"{joint}_velocity", joint))


def add_inertial_unit(builder: ModelBuilder, body: str, placement: Transform) -> None:
    """A site `imu`, and there a gyro, an accelerometer and the orientation."""
    builder.attach(
        Site("imu", body, placement),
        Gyro("gyro", "imu"),
        Accelerometer("accelerometer", "imu"),
        FrameOrientation("orientation", "imu"),
    )


def at(x, y, z, *, roll=0.0, pitch=0.0) -> Transform:
    """A frame at a point, turned by `pitch` about y and then by `roll` about the turned x."""
    (cr, cp), (sr, sp) = np.cos([roll, pitch]), np.sin([roll, pitch])
    rotation = np.array([[cp, sp * sr, sp * cr], [0.0, cr, -sr], [-sp, cp * sr, cp * cr]])
    return Transform(from_numpy(rotation), from_numpy(np.array([x, y, z], float)))


def rod(mass, start, end, radius) -> Solid:
    """A uniform solid cylinder from one point to another."""
    start, end = np.array(start, float), np.array(end, float)
    length = np.linalg.norm(end - start)
    axis = (end - start) / length
    along = np.outer(axis, axis)
    across = mass * (radius**2 / 4 + length**2 / 12)
    central = across * (np.eye(3) - along) + mass * radius**2 / 2 * along
    side = np.eye(3)[np.argmin(np.abs(axis))]  # any direction across will do
    x = np.cross(side, axis) / np.linalg.norm(np.cross(side, axis))
    rotation = np.column_stack([x, np.cross(axis, x), axis])
    return Solid(mass, central, Cylinder(radius, length / 2), rotation, (start + end) / 2)


def box(mass, sides, com=(0.0, 0.0, 0.0)) -> Solid:
    """A uniform cuboid about its centre, as `Inertia.box`."""
    sides = np.array(sides, float)
    central = mass / 12 * np.diag((sides**2).sum() - sides**2)
    return Solid(mass, central, Box(sides / 2), np.eye(3), np.array(com, float))


def ball(mass, radius, com=(0.0, 0.0, 0.0)) -> Solid:
    """A uniform ball about its centre, as `Inertia.sphere`."""
    central = 0.4 * mass * radius**2 * np.eye(3)
    return Solid(mass, central, Sphere(radius), np.eye(3), np.array(com, float))
