"""Rigid coordinate transforms: rotation and position (book §2.8, app. A).

A `Transform` places frame B in frame A. The Plücker matrices of the book follow from it and are rarely needed: applying the
compact form to a vector takes half the arithmetic.
"""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import choice, rotation_fault
from .._core.array import (
    blocks,
    by_numpy,
    cross,
    floating,
    is_known,
    matmul,
    matrix,
    matvec,
    skew,
    transpose,
    unit_matrix,
    unskew,
    vecmat,
    zeros,
)
from .._core.jit import compiled
from ._rows import Rows


class Transform(Rows):
    """Frame B placed in frame A: `rotation` has B's axes as its columns, `position` is B's origin, both in A.

    As a map of points: `x_A = rotation @ x_B + position`. Leading axes are a batch of transforms.

    >>> elbow = rbd.Transform.from_xyz_rpy((1.0, 0.0, 0.0), (0.0, 0.0, jnp.pi / 2))
    >>> print(elbow.point(jnp.array([0.5, 0.0, 0.0])), (elbow @ elbow).position)
    [1.  0.5 0. ] [1. 1. 0.]
    >>> print(elbow.motion(jnp.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0])))  # a turn about its axis, as seen from the base
    [ 0.  0.  1.  0. -1.  0.]
    """

    rotation: Float[Array, "*batch 3 3"]
    position: Float[Array, "*batch 3"]

    @staticmethod
    def identity(dtype=None) -> Transform:
        """Returns A placed in itself."""
        return Transform(unit_matrix(dtype), zeros((3,), dtype))

    @staticmethod
    def from_matrix(matrix: Float[Array, "*batch 4 4"]) -> Transform:
        """Returns a transform from the 4x4 homogeneous matrix `[[R, p], [0, 1]]`."""
        matrix = jnp.asarray(matrix)
        return Transform(matrix[..., :3, :3], matrix[..., :3, 3])

    @staticmethod
    def from_position(position: Float[Array, "*batch 3"]) -> Transform:
        """Returns a pure displacement."""
        position = floating(position)
        rotation = unit_matrix(position.dtype)
        if position.ndim > 1:
            shape = (*position.shape[:-1], 3, 3)
            rotation = by_numpy(lambda xp, rotation: xp.broadcast_to(rotation, shape), rotation)
        return Transform(rotation, position)

    @staticmethod
    def from_rotation(rotation: Float[Array, "*batch 3 3"]) -> Transform:
        """Returns a pure rotation."""
        rotation = floating(rotation)
        return Transform(rotation, jnp.zeros(rotation.shape[:-1], rotation.dtype))

    @staticmethod
    def from_xyz_rpy(xyz=(0.0, 0.0, 0.0), rpy=(0.0, 0.0, 0.0)) -> Transform:
        """Returns the transform of a URDF `<origin>`: rotation `Rz(yaw) Ry(pitch) Rx(roll)`, `rpy = (roll, pitch, yaw)`."""
        return Transform(_roll_pitch_yaw(floating(rpy)), floating(xyz))

    @staticmethod
    def from_dh(a, alpha, d, theta, convention: Literal["modified", "standard"] = "modified") -> Transform:
        """Returns a transform from Denavit–Hartenberg parameters.

        Args:
          a: Link length.
          alpha: Link twist, in rad.
          d: Joint offset.
          theta: Joint angle, in rad.
          convention: "modified" is `Rx(α) Tx(a) Rz(θ) Tz(d)`, with a link's frame at its near end (Craig; Khalil; the book's
            §4.3). "standard" is `Rz(θ) Tz(d) Tx(a) Rx(α)`, at its far end (Denavit & Hartenberg; Paul; Spong). The X_T that
            the book prints is the modified form, read from right to left.
        """
        choice("from_dh", "convention", convention, ("modified", "standard"))
        return _denavit_hartenberg(floating(a), floating(alpha), floating(d), floating(theta), convention)

    @staticmethod
    def _screw(axis: int, angle, distance) -> Transform:
        """Returns a turn about a coordinate axis and a shift along it."""
        one, o, c, s = jnp.ones_like(angle), jnp.zeros_like(angle), jnp.cos(angle), jnp.sin(angle)
        if axis == 0:
            return Transform(
                matrix([[one, o, o], [o, c, -s], [o, s, c]]), jnp.stack([distance, o, o], axis=-1)
            )
        return Transform(matrix([[c, -s, o], [s, c, o], [o, o, one]]), jnp.stack([o, o, distance], axis=-1))

    @property
    @compiled
    def matrix(self) -> Float[Array, "*batch 4 4"]:
        """The homogeneous matrix `[[R, p], [0, 1]]`."""
        top = jnp.concatenate([self.rotation, self.position[..., None]], axis=-1)
        bottom = jnp.broadcast_to(jnp.array([0, 0, 0, 1], top.dtype), (*top.shape[:-2], 1, 4))
        return jnp.concatenate([top, bottom], axis=-2)

    @property
    @compiled
    def motion_matrix(self) -> Float[Array, "*batch 6 6"]:
        """The Plücker transform of motion vectors, B to A: `[[R, 0], [p× R, R]]` (the inverse of eq. 2.24)."""
        lower = matmul(skew(self.position), self.rotation)
        return blocks(self.rotation, jnp.zeros_like(lower), lower, self.rotation)

    @property
    @compiled
    def force_matrix(self) -> Float[Array, "*batch 6 6"]:
        """The Plücker transform of force vectors, B to A: `[[R, p× R], [0, R]]` (the inverse of eq. 2.25)."""
        upper = matmul(skew(self.position), self.rotation)
        return blocks(self.rotation, upper, jnp.zeros_like(upper), self.rotation)

    @compiled
    def __matmul__(self, other: Transform) -> Transform:
        """Composes transforms: B in A and C in B give C in A."""
        return Transform(
            matmul(self.rotation, other.rotation), self.position + matvec(self.rotation, other.position)
        )

    @compiled
    def inverse(self) -> Transform:
        """Returns A placed in B."""
        return Transform(transpose(self.rotation), -vecmat(self.position, self.rotation))

    @compiled
    def at(self, position: Float[Array, "*b 3"]) -> Transform:
        """Returns the same rotation at another position."""
        return Transform(self.rotation, position)

    def chained(self, tree) -> Transform:
        """Returns frames relative to the frame above the roots, from frames relative to their parents in the tree."""
        return tree.path_composition(Transform.__matmul__, Transform.identity(self.position.dtype), self)

    @compiled
    def turned(self, vectors: Float[Array, "*b 6"]) -> Float[Array, "*c 6"]:
        """Rotates motion or force vectors from B's axes to A's axes, about the same origin."""
        parts = [matvec(self.rotation, x) for x in jnp.split(vectors, 2, axis=-1)]
        return jnp.concatenate(parts, axis=-1)

    @property
    @compiled
    def small_displacement(self) -> Float[Array, "*batch 6"]:
        """A motion vector that leads approximately from A to B in unit time, the same in A and in B (XtoV of book table A.2).

        It is exact for a translation, and otherwise to second order in the angle; it is meaningless near half a turn. Constraint
        stabilization uses it as the position error (§8.3). The exact vector is `rbd.lie.SE3.log`.

        >>> frame = rbd.Transform.from_xyz_rpy((0.1, 0.2, 0.3), (0.0, 0.0, 0.01))
        >>> print(frame.small_displacement)
        [0.    0.    0.01  0.101 0.2   0.3  ]
        """
        back = transpose(
            self.rotation
        )  # the book's E, and its r is the position: the lower left block of X is -E r×
        return jnp.concatenate([-unskew(back), unskew(matmul(back, skew(self.position)))], axis=-1)

    @compiled
    def point(self, point: Float[Array, "*b 3"]) -> Float[Array, "*c 3"]:
        """Returns the coordinates in A of a point given in B."""
        return matvec(self.rotation, point) + self.position

    @compiled
    def motion(self, motion: Float[Array, "*b 6"]) -> Float[Array, "*c 6"]:
        """Returns in A a motion vector given in B: `[R ω; R v + p × R ω]` (eqs. 2.5, 2.24)."""
        angular = matvec(self.rotation, motion[..., :3])
        linear = matvec(self.rotation, motion[..., 3:])
        return jnp.concatenate([angular, linear + cross(self.position, angular)], axis=-1)

    @compiled
    def force(self, force: Float[Array, "*b 6"]) -> Float[Array, "*c 6"]:
        """Returns in A a force vector given in B: `[R n + p × R f; R f]` (eqs. 2.6, 2.25)."""
        moment = matvec(self.rotation, force[..., :3])
        linear = matvec(self.rotation, force[..., 3:])
        return jnp.concatenate([moment + cross(self.position, linear), linear], axis=-1)

    @compiled
    def inverse_motion(self, motion: Float[Array, "*b 6"]) -> Float[Array, "*c 6"]:
        """Returns in B a motion vector given in A."""
        angular, linear = motion[..., :3], motion[..., 3:]
        linear = linear - cross(self.position, angular)
        return jnp.concatenate([vecmat(angular, self.rotation), vecmat(linear, self.rotation)], axis=-1)

    @compiled
    def inverse_force(self, force: Float[Array, "*b 6"]) -> Float[Array, "*c 6"]:
        """Returns in B a force vector given in A."""
        moment, linear = force[..., :3], force[..., 3:]
        moment = moment - cross(self.position, linear)
        return jnp.concatenate([vecmat(moment, self.rotation), vecmat(linear, self.rotation)], axis=-1)


@compiled
def _roll_pitch_yaw(rpy):
    """Returns the rotation `Rz(yaw) Ry(pitch) Rx(roll)`."""
    cr, cp, cy = (jnp.cos(rpy[..., i]) for i in range(3))
    sr, sp, sy = (jnp.sin(rpy[..., i]) for i in range(3))
    rows = [
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ]
    return matrix(rows)


@compiled
def _denavit_hartenberg(a, alpha, d, theta, convention: str) -> Transform:
    a, alpha, d, theta = jnp.broadcast_arrays(a, alpha, d, theta)
    link, joint = Transform._screw(0, alpha, a), Transform._screw(2, theta, d)
    return link @ joint if convention == "modified" else joint @ link


def body_twist(frame: Transform, rate: Transform) -> Float[Array, "6"]:
    """Returns `[ω; v]` in the coordinates of the moving frame, from its placement and the rate of the placement (eq. 2.45)."""
    angular = unskew(jnp.matmul(transpose(frame.rotation), rate.rotation, precision="highest"))
    return jnp.concatenate([angular, vecmat(rate.position, frame.rotation)])


#: Tolerance of the orthonormality of rotations: numbers with four digits pass.
ORTHONORMAL = 1e-3


def rigid_fault(placement: Transform) -> str | None:
    """Describes what is wrong with a placement: its shapes, or a matrix that is not a rotation. Returns None without a fault."""
    rotation, position = placement.rotation, placement.position
    for name, value, shape in (("rotation", rotation, (3, 3)), ("position", position, (3,))):
        if np.shape(value) != shape:
            return f"its {name} has shape {np.shape(value)}; expected {shape}"
    if not is_known(rotation):
        return None
    fault = rotation_fault(rotation, ORTHONORMAL)
    return None if fault is None else f"its rotation {fault}"
