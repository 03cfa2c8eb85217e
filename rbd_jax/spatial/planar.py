"""Planar algebra (book §2.16): motion in a plane with three-vectors, under the names of the spatial algebra.

A planar motion vector is `[ω, v_x, v_y]`, a planar force vector `[n, f_x, f_y]`: the spatial vectors without the entries
that vanish in the plane. Transforms, inertias and vector functions have the same interface as the spatial ones, so an algorithm
written with them runs in both algebras.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import cross, dot, floating, matrix, matvec
from .._core.jit import compiled
from ._rows import Rows
from .vectors import (
    cross_force as cross_force,
    cross_motion as cross_motion,
    parts,
    power as power,
)


class Transform(Rows):
    """Frame B placed in frame A of the same plane.

    `direction` is B's x axis in A, a unit vector: the cosine and the sine of the angle from A to B. `position` is B's origin
    in A.

    >>> frame = rbd.spatial.planar.Transform.from_angle(jnp.array(jnp.pi / 2), jnp.array([1.0, 0.0]))
    >>> print(frame.point(jnp.array([1.0, 0.0])), frame.motion(jnp.array([1.0, 0.0, 0.0])))
    [1. 1.] [ 1.  0. -1.]
    """

    direction: Float[Array, "*batch 2"]
    position: Float[Array, "*batch 2"]

    @staticmethod
    def identity(dtype=None) -> Transform:
        """Returns A placed in itself."""
        return Transform(
            jnp.array([1, 0], jnp.result_type(float) if dtype is None else dtype), jnp.zeros(2, dtype)
        )

    @staticmethod
    def from_angle(angle, position=(0.0, 0.0)) -> Transform:
        """Returns a frame turned by `angle` (rad) at `position`."""
        angle = floating(angle)
        return Transform(jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=-1), floating(position))

    @property
    @compiled
    def angle(self) -> Float[Array, "*batch"]:
        """The angle from A to B, in (-π, π]."""
        return jnp.arctan2(self.direction[..., 1], self.direction[..., 0])

    @property
    @compiled
    def rotation(self) -> Float[Array, "*batch 2 2"]:
        """B's axes as columns, in A."""
        c, s = _entries(self.direction)
        return matrix([[c, -s], [s, c]])

    @property
    @compiled
    def motion_matrix(self) -> Float[Array, "*batch 3 3"]:
        """The matrix that transforms motion vectors from B to A (the inverse of eq. 2.77)."""
        (c, s), (x, y) = _entries(self.direction), _entries(self.position)
        o = jnp.zeros_like(c)
        return matrix([[o + 1, o, o], [y, c, -s], [-x, s, c]])

    @property
    @compiled
    def force_matrix(self) -> Float[Array, "*batch 3 3"]:
        """The matrix that transforms force vectors from B to A."""
        (c, s), (x, y) = _entries(self.direction), _entries(self.position)
        o = jnp.zeros_like(c)
        return matrix([[o + 1, x * s - y * c, x * c + y * s], [o, c, -s], [o, s, c]])

    @compiled
    def __matmul__(self, other: Transform) -> Transform:
        """Composes transforms: B in A and C in B give C in A."""
        return Transform(self._turn(other.direction), self.point(other.position))

    @compiled
    def inverse(self) -> Transform:
        """Returns A placed in B."""
        c, s = _entries(self.direction)
        return Transform(jnp.stack([c, -s], axis=-1), -self._turn_back(self.position))

    @compiled
    def at(self, position: Float[Array, "*b 2"]) -> Transform:
        """Returns the same rotation at another position."""
        return Transform(self.direction, position)

    def chained(self, tree) -> Transform:
        """Returns frames relative to the frame above the roots, from frames relative to their parents in the tree."""
        return tree.path_composition(Transform.__matmul__, Transform.identity(self.position.dtype), self)

    @compiled
    def turned(self, vectors: Float[Array, "*b 3"]) -> Float[Array, "*c 3"]:
        """Rotates motion or force vectors from B's axes to A's axes, about the same origin."""
        angular, linear = parts(vectors)
        return jnp.concatenate([angular, self._turn(linear)], axis=-1)

    @property
    @compiled
    def small_displacement(self) -> Float[Array, "*batch 3"]:
        """A motion vector that leads approximately from A to B in unit time, the same in A and in B (XtoV of book table A.1).

        This is the more accurate of the two formulas of the table. The exact vector is `arcsin(w) / w` times it, up to a quarter
        turn; w is its angular entry, the sine of the angle. The vector vanishes at half a turn.
        """
        (c, s), (x, y) = _entries(self.direction), _entries(self.position)
        # X21 and X31 of the book's matrix: the position in B's axes, turned.
        up, across = s * x - c * y, c * x + s * y
        return jnp.stack([s, (across + c * across + s * up) / 2, (-up - c * up + s * across) / 2], axis=-1)

    @compiled
    def point(self, point: Float[Array, "*b 2"]) -> Float[Array, "*c 2"]:
        """Returns the coordinates in A of a point given in B."""
        return self._turn(point) + self.position

    @compiled
    def motion(self, motion: Float[Array, "*b 3"]) -> Float[Array, "*c 3"]:
        """Returns in A a motion vector given in B: `[ω; R v + p × ω]`."""
        angular, linear = parts(motion)
        return jnp.concatenate([angular, self._turn(linear) + cross(self.position, angular)], axis=-1)

    @compiled
    def force(self, force: Float[Array, "*b 3"]) -> Float[Array, "*c 3"]:
        """Returns in A a force vector given in B: `[n + p × R f; R f]`."""
        moment, linear = parts(force)
        linear = self._turn(linear)
        return jnp.concatenate([moment + cross(self.position, linear), linear], axis=-1)

    @compiled
    def inverse_motion(self, motion: Float[Array, "*b 3"]) -> Float[Array, "*c 3"]:
        """Returns in B a motion vector given in A: the dual of `force`."""
        angular, linear = parts(motion)
        return jnp.concatenate([angular, self._turn_back(linear - cross(self.position, angular))], axis=-1)

    @compiled
    def inverse_force(self, force: Float[Array, "*b 3"]) -> Float[Array, "*c 3"]:
        """Returns in B a force vector given in A: the dual of `motion`."""
        moment, linear = parts(force)
        moment = moment - cross(self.position, linear)
        return jnp.concatenate([moment, self._turn_back(linear)], axis=-1)

    def _turn(self, vector):
        """Returns `R x`."""
        (c, s), (x, y) = _entries(self.direction), _entries(vector)
        return jnp.stack([c * x - s * y, s * x + c * y], axis=-1)

    def _turn_back(self, vector):
        """Returns `Rᵀ x`."""
        (c, s), (x, y) = _entries(self.direction), _entries(vector)
        return jnp.stack([c * x + s * y, c * y - s * x], axis=-1)


class Inertia(Rows):
    """Mass, first moment of mass and rotational inertia about the frame's origin: four parameters (eq. 2.78).

    >>> rod = rbd.spatial.planar.Inertia.from_mass_com(jnp.array(3.0), jnp.array([0.5, 0.0]), jnp.array(0.25))
    >>> print(rod.rotational, rod.momentum(jnp.array([1.0, 0.0, 0.0])))
    1.0 [1.  0.  1.5]
    """

    mass: Float[Array, "*batch"]
    first_moment: Float[Array, "*batch 2"]
    rotational: Float[Array, "*batch"]

    @staticmethod
    def from_mass_com(mass, com, rotational_com) -> Inertia:
        """Returns an inertia from mass, center of mass and the rotational inertia about the center of mass."""
        mass, com = floating(mass), floating(com)
        return Inertia(mass, mass[..., None] * com, floating(rotational_com) + mass * dot(com, com))

    @staticmethod
    def from_parameters(parameters: Float[Array, "*batch 4"]) -> Inertia:
        """Returns an inertia from the four parameters `m, m cx, m cy, I`."""
        parameters = floating(parameters)
        return Inertia(parameters[..., 0], parameters[..., 1:3], parameters[..., 3])

    @property
    @compiled
    def parameters(self) -> Float[Array, "*batch 4"]:
        """The four parameters `m, m cx, m cy, I`."""
        return jnp.concatenate([self.mass[..., None], self.first_moment, self.rotational[..., None]], axis=-1)

    @property
    @compiled
    def com(self) -> Float[Array, "*batch 2"]:
        """The center of mass; the origin for a massless body."""
        massive = self.mass != 0
        return jnp.where(
            massive[..., None], self.first_moment / jnp.where(massive, self.mass, 1)[..., None], 0
        )

    @property
    @compiled
    def rotational_com(self) -> Float[Array, "*batch"]:
        """The rotational inertia about the center of mass."""
        return self.rotational - dot(self.first_moment, self.com)

    @property
    @compiled
    def matrix(self) -> Float[Array, "*batch 3 3"]:
        """The planar inertia (eq. 2.78)."""
        m, (hx, hy) = self.mass, _entries(self.first_moment)
        o = jnp.zeros_like(m)
        return matrix([[self.rotational, -hy, hx], [-hy, m, o], [hx, o, m]])

    @compiled
    def __add__(self, other: Inertia) -> Inertia:
        """Returns the inertia of both bodies together."""
        return Inertia.from_parameters(self.parameters + other.parameters)

    @compiled
    def momentum(self, velocity: Float[Array, "*b 3"]) -> Float[Array, "*c 3"]:
        """Returns `I v = [I ω + h × v; m v - h × ω]`."""
        angular, linear = parts(velocity)
        return jnp.concatenate(
            [
                self.rotational[..., None] * angular + cross(self.first_moment, linear),
                self.mass[..., None] * linear - cross(self.first_moment, angular),
            ],
            axis=-1,
        )

    @compiled
    def kinetic_energy(self, velocity: Float[Array, "*b 3"]) -> Float[Array, "*c"]:
        """Returns `½ v · I v`."""
        return 0.5 * dot(velocity, self.momentum(velocity))

    @compiled
    def placed(self, frame: Transform) -> Inertia:
        """Returns this inertia, given in frame B, in the frame A in which `frame` places B.

        With `h' = R h` and the new origin at distance `p`: `I' = I + p · (2 h' + m p)`.
        """
        h = frame._turn(self.first_moment)
        first = h + self.mass[..., None] * frame.position
        rotational = self.rotational + dot(frame.position, h + first)
        return Inertia(jnp.broadcast_to(self.mass, rotational.shape), first, rotational)


class ArticulatedInertia(eqx.Module):
    """The apparent inertia of a body that carries others: `[[I, H], [Hᵀ, M]]` with six numbers (§2.16).

    `rotational` is I, `coupling` is H, `linear` the lower triangle `xx, xy, yy` of M.

    >>> rod = rbd.spatial.planar.Inertia.from_mass_com(jnp.array(3.0), jnp.array([0.5, 0.0]), jnp.array(0.25))
    >>> print(rbd.spatial.planar.ArticulatedInertia.from_rigid(rod).matrix)
    [[ 1.   0.   1.5]
     [0.   3.   0. ]
     [ 1.5  0.   3. ]]
    """

    rotational: Float[Array, "*batch"]
    coupling: Float[Array, "*batch 2"]
    linear: Float[Array, "*batch 3"]

    @staticmethod
    def from_matrix(m: Float[Array, "*batch 3 3"]) -> ArticulatedInertia:
        """Returns it from a symmetric 3x3 matrix; only the first row and the lower triangle are read."""
        linear = jnp.stack([m[..., 1, 1], m[..., 2, 1], m[..., 2, 2]], axis=-1)
        return ArticulatedInertia(m[..., 0, 0], m[..., 0, 1:], linear)

    @staticmethod
    def from_rigid(inertia: Inertia) -> ArticulatedInertia:
        """Returns the articulated inertia of a rigid body that carries no other body."""
        return ArticulatedInertia.from_matrix(inertia.matrix)

    @property
    @compiled
    def matrix(self) -> Float[Array, "*batch 3 3"]:
        """The symmetric 3x3 matrix."""
        (hx, hy), (xx, xy, yy) = _entries(self.coupling), _entries(self.linear)
        return matrix([[self.rotational, hx, hy], [hx, xx, xy], [hy, xy, yy]])

    @compiled
    def __add__(self, other: ArticulatedInertia) -> ArticulatedInertia:
        return ArticulatedInertia(
            self.rotational + other.rotational, self.coupling + other.coupling, self.linear + other.linear
        )

    @compiled
    def force(self, acceleration: Float[Array, "*b 3"]) -> Float[Array, "*c 3"]:
        """Returns `I^A a`."""
        return matvec(self.matrix, acceleration)

    @compiled
    def placed(self, frame: Transform) -> ArticulatedInertia:
        """Returns this inertia, given in frame B, in the frame A in which `frame` places B: `X* I^A Xᵀ*`."""
        force = frame.force_matrix
        return ArticulatedInertia.from_matrix(
            jnp.einsum("...ij,...jk,...lk->...il", force, self.matrix, force, precision="highest")
        )


def plane_axes(normal: Float[Array, "3"]) -> Float[Array, "2 3"]:
    """Returns the x and y axes of a plane in space, as rows, with `x × y = normal`, a unit vector.

    x is the projection of the space x axis onto the plane, or of its y axis if the plane is nearly normal to x.

    >>> print(rbd.spatial.planar.plane_axes(jnp.array([0.0, -1.0, 0.0])))
    [[ 1.  0.  0.]
     [0.  0.  1.]]
    """
    flat = jnp.where(jnp.abs(normal[0]) < 0.9, jnp.arange(3) == 0, jnp.arange(3) == 1).astype(normal.dtype)
    x = flat - dot(flat, normal) * normal
    x = x / jnp.sqrt(dot(x, x))
    return jnp.stack([x, cross(normal, x)])


def cross_motion_matrix(v: Float[Array, "*a 3"]) -> Float[Array, "*a 3 3"]:
    """Returns `v×` (eq. 2.75).

    >>> print(rbd.spatial.planar.cross_motion_matrix(jnp.array([1.0, 2.0, 3.0])))
    [[ 0.  0.  0.]
     [ 3.  0. -1.]
     [-2.  1.  0.]]
    """
    w, x, y = _entries(v)
    o = jnp.zeros_like(w)
    return matrix([[o, o, o], [y, o, -w], [-x, w, o]])


def cross_force_matrix(v: Float[Array, "*a 3"]) -> Float[Array, "*a 3 3"]:
    """Returns `v×* = -(v×)ᵀ`.

    >>> print(rbd.spatial.planar.cross_force_matrix(jnp.array([1.0, 2.0, 3.0])))
    [[ 0. -3.  2.]
     [ 0.  0. -1.]
     [ 0.  1.  0.]]
    """
    return -jnp.swapaxes(cross_motion_matrix(v), -1, -2)


def _entries(x):
    return tuple(x[..., i] for i in range(x.shape[-1]))
