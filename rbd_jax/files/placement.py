"""Poses and rotations in NumPy, which is a hundred times faster than JAX for a few numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._core.array import with_numpy_leaves
from .._core.errors import ModelError
from ..spatial.transform import Transform
from .xml import Element


#: Angle in rad above which rounding rotates a frame by more than 1e-8 rad.
LARGEST_ANGLE = 1e8


@dataclass(frozen=True)
class Placement:
    """The pose of a frame in another frame."""

    rotation: np.ndarray
    position: np.ndarray

    @staticmethod
    def identity() -> Placement:
        return Placement(np.eye(3), np.zeros(3))

    def __matmul__(self, other: Placement) -> Placement:
        return Placement(self.rotation @ other.rotation, self.point(other.position))

    def inverse(self) -> Placement:
        return Placement(self.rotation.T, -self.rotation.T @ self.position)

    def point(self, point) -> np.ndarray:
        return self.rotation @ point + self.position

    def transform(self) -> Transform:
        return with_numpy_leaves(Transform.identity, self.rotation, self.position)


def origin(owner: Element | None) -> Placement:
    """Returns the pose in the `<origin>` of a URDF element."""
    element = None if owner is None else owner.child("origin")
    if element is None:
        return Placement.identity()
    zero = (0.0, 0.0, 0.0)
    xyz, rpy = element.numbers("xyz", 3, zero), element.numbers("rpy", 3, zero)
    return Placement(rotation_of_angles(element, rpy), xyz)


def rotation_of_angles(element: Element, rpy) -> np.ndarray:
    """Returns `Rz(yaw) Ry(pitch) Rx(roll)`; the element is for messages."""
    if np.max(np.abs(rpy)) > LARGEST_ANGLE:
        raise ModelError(
            f"{element}: an angle of {np.max(np.abs(rpy)):g} rad is too large for its floating-point precision; "
            "a full turn is 6.283 rad"
        )
    (cr, cp, cy), (sr, sp, sy) = np.cos(rpy).tolist(), np.sin(rpy).tolist()
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def rotation_matrix(quaternion) -> np.ndarray:
    """Returns the rotation matrix of a quaternion `(w, x, y, z)` of any norm."""
    w, x, y, z = np.asarray(quaternion) / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def quaternion(rotation) -> np.ndarray:
    """Returns the unit quaternion `(w, x, y, z)` of a matrix, with w >= 0.

    Divides by the largest of the four components, so it is accurate for all rotations.
    """
    r = np.asarray(rotation, float)
    trace = np.trace(r)
    squares = np.array([trace, *(2 * np.diag(r) - trace)])
    k = int(np.argmax(squares))
    w = np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]])
    if k == 0:
        q = np.array([1 + trace, *w])
    else:
        q = np.array([w[k - 1], *(r[k - 1] + r[:, k - 1])])
        q[k] = 1 + squares[k]
    return q / math.copysign(np.linalg.norm(q), q[0])
