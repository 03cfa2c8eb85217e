"""Rigid-body inertia in its ten parameters, articulated-body inertia in its twenty-one (book §2.13 to §2.15, app. A).

Rigid: mass, first moment of mass `h = m c` and the rotational inertia about the frame's origin: `I = [[Ī, h×], [-h×, m 1]]`
(eq. 2.63). The matrix is linear in these ten numbers, so inertias add, and the equations of motion are linear in
them. Articulated: `I^A = [[I, H], [Hᵀ, M]]`, symmetric and with no further structure.
"""

from __future__ import annotations

from collections import Counter

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._array import (
    blocks,
    cross,
    dot,
    floating,
    identity_like,
    is_known,
    matmul,
    matrix,
    matvec,
    outer,
    skew,
    transpose,
    vecmat,
)
from .._errors import ModelError
from ._rows import Rows
from .principal import principal_axes
from .transform import Transform


class Inertia(Rows):
    """The inertia of a rigid body in some frame; leading axes are a batch of bodies.

    `mass`; `first_moment`, the mass times the centre of mass; `rotational`, the lower triangle `xx, xy, yy, xz, yz, zz` of
    the rotational inertia about the frame's *origin* (not the centre of mass).
    """

    mass: Float[Array, "*batch"]
    first_moment: Float[Array, "*batch 3"]
    rotational: Float[Array, "*batch 6"]

    @staticmethod
    def zero(dtype=None) -> Inertia:
        """No mass at all."""
        return Inertia(*(jnp.zeros(shape, dtype) for shape in ((), 3, 6)))

    @staticmethod
    def from_mass_com(mass, com, rotational_com) -> Inertia:
        """From mass, centre of mass `com` and the 3x3 rotational inertia about the centre of mass, in the frame's axes."""
        mass, com, central = floating(mass), floating(com), floating(rotational_com)
        first = mass[..., None] * com
        return Inertia(mass, first, triangle(central + _point_mass(dot(first, com), outer(first, com))))

    @staticmethod
    def from_parameters(parameters: Float[Array, "*batch 10"]) -> Inertia:
        """From the ten numbers `m, m cx, m cy, m cz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz`."""
        parameters = floating(parameters)
        return Inertia(parameters[..., 0], parameters[..., 1:4], parameters[..., 4:])

    @staticmethod
    def box(mass, sides, com=(0.0, 0.0, 0.0)) -> Inertia:
        """A uniform cuboid of the given side lengths about its centre `com`."""
        square = floating(sides) ** 2
        return _principal(
            mass, com, [square[1] + square[2], square[0] + square[2], square[0] + square[1]], 12
        )

    @staticmethod
    def sphere(mass, radius, com=(0.0, 0.0, 0.0)) -> Inertia:
        """A uniform ball about its centre `com`."""
        square = floating(radius) ** 2
        return _principal(mass, com, [2 * square] * 3, 5)

    @staticmethod
    def cylinder(mass, radius, length, com=(0.0, 0.0, 0.0)) -> Inertia:
        """A uniform cylinder along z about its centre `com`."""
        radius, length = floating(radius), floating(length)
        across = 3 * radius**2 + length**2
        return _principal(mass, com, [across, across, 6 * radius**2], 12)

    @staticmethod
    def capsule(mass, radius, length, com=(0.0, 0.0, 0.0)) -> Inertia:
        """A uniform capsule along z about its centre `com`: a cylinder of this length between two half balls."""
        radius, length = floating(radius), floating(length)
        ball = 4 * radius / (4 * radius + 3 * length)  # the share of the half balls in the volume
        square, middle = radius**2, length**2
        across = (1 - ball) * (3 * square + middle) / 12
        across = across + ball * (2 / 5 * square + middle / 4 + 3 / 8 * radius * length)
        along = (1 - ball) * square / 2 + ball * 2 / 5 * square
        return _principal(mass, com, [across, across, along], 1)

    @staticmethod
    def from_mesh(vertices, faces, *, density=None, mass=None) -> Inertia:
        """A uniform body that a closed mesh of triangles bounds; differentiable by the vertices.

        **Arguments**

        - `vertices`: points, (v, 3).
        - `faces`: three vertices each, by number, counterclockwise seen from outside: (f, 3).
        - `density` or `mass`: one of the two.
        """
        vertices, faces = floating(vertices), _closed(np.asarray(faces), jnp.shape(vertices))
        if (density is None) == (mass is None):
            raise ModelError("Inertia.from_mesh: give either density or mass")
        # Of the tetrahedra that the triangles make with one point, each with the sign of its side.
        center = jnp.mean(vertices, axis=0)
        corners = (vertices - center[None])[faces]
        a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
        volumes, sums = dot(a, cross(b, c)) / 6, a + b + c
        volume = jnp.sum(volumes)
        if is_known(volume) and not float(volume) > 0:
            raise ModelError(
                f"Inertia.from_mesh: the mesh encloses the volume {float(volume):.3g}; turn the order of the vertices of its "
                "faces, which must be counterclockwise seen from outside"
            )
        density = floating(mass) / volume if density is None else floating(density)
        first = jnp.sum(volumes[:, None] * sums, axis=0) / 4
        corner_dyads = matmul(jnp.swapaxes(corners, 1, 2), corners)
        dyad = jnp.sum(volumes[:, None, None] * (outer(sums, sums) + corner_dyads), axis=0) / 20
        central = dyad - outer(first, first) / volume
        rotational = density * _point_mass(jnp.trace(central), central)
        return Inertia.from_mass_com(density * volume, center + first / volume, rotational)

    def principal(self) -> tuple[Transform, Float[Array, "3"]]:
        """The principal frame, at the centre of mass with the principal axes, and the principal moments, smallest first.

        In that frame the inertia is `Inertia.from_mass_com(mass, 0, diag(moments))`; of several bodies together, place and add
        them first (Sueda §1.7). One body, not a batch; one without mass has its frame at the origin. Where moments are equal
        any axes across would do, see `principal_axes`.
        """
        heavy = self.mass != 0
        com = jnp.where(heavy, self.first_moment / jnp.where(heavy, self.mass, 1), 0)
        central = self.rotational_matrix - _point_mass(
            dot(self.first_moment, com), outer(self.first_moment, com)
        )
        moments, axes = principal_axes(central)
        return Transform(axes, com), moments

    @property
    def parameters(self) -> Float[Array, "*batch 10"]:
        """The ten numbers `m, m cx, m cy, m cz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz`."""
        return jnp.concatenate([self.mass[..., None], self.first_moment, self.rotational], axis=-1)

    @property
    def com(self) -> Float[Array, "*batch 3"]:
        """The centre of mass; the origin for a body without mass."""
        massive = self.mass != 0
        return jnp.where(
            massive[..., None], self.first_moment / jnp.where(massive, self.mass, 1)[..., None], 0
        )

    @property
    def rotational_matrix(self) -> Float[Array, "*batch 3 3"]:
        """The rotational inertia about the frame's origin."""
        return symmetric(self.rotational)

    @property
    def rotational_com(self) -> Float[Array, "*batch 3 3"]:
        """The rotational inertia about the centre of mass."""
        com = self.com
        return self.rotational_matrix - _point_mass(
            dot(self.first_moment, com), outer(self.first_moment, com)
        )

    @property
    def matrix(self) -> Float[Array, "*batch 6 6"]:
        """The spatial inertia (eq. 2.63)."""
        h = skew(self.first_moment)
        return blocks(self.rotational_matrix, h, -h, self.mass[..., None, None] * identity_like(h))

    @property
    def inverse_matrix(self) -> Float[Array, "*batch 6 6"]:
        """The inverse spatial inertia, forces to accelerations (eq. 2.74).

        `[[J, J c×ᵀ], [c× J, 1/m + c× J c×ᵀ]]` with `J = Ī_C⁻¹`.
        """
        inverse, c = inverse_symmetric(self.rotational_com), skew(self.com)
        lower = matmul(c, inverse)
        mobility = identity_like(c) / self.mass[..., None, None] - matmul(lower, c)
        return blocks(inverse, transpose(lower), lower, mobility)

    def __add__(self, other: Inertia) -> Inertia:
        """The two bodies as one."""
        return Inertia.from_parameters(self.parameters + other.parameters)

    def momentum(self, velocity: Float[Array, "*b 6"]) -> Float[Array, "*c 6"]:
        """`I v = [Ī ω + h × v; m v - h × ω]` (eq. 2.58)."""
        angular, linear = velocity[..., :3], velocity[..., 3:]
        return jnp.concatenate(
            [
                matvec(self.rotational_matrix, angular) + cross(self.first_moment, linear),
                self.mass[..., None] * linear - cross(self.first_moment, angular),
            ],
            axis=-1,
        )

    def kinetic_energy(self, velocity: Float[Array, "*b 6"]) -> Float[Array, "*c"]:
        """`½ v · I v` (eq. 2.67)."""
        return 0.5 * dot(velocity, self.momentum(velocity))

    def placed(self, frame: Transform) -> Inertia:
        """This inertia, given in frame B, expressed in the frame A in which `frame` places B (eq. 2.66, table A.4).

        With `h' = R h` and the new origin at distance `p`: `Ī' = R Ī Rᵀ + (2 p·h' + m p·p) 1 - p h'ᵀ - h' pᵀ - m p pᵀ`.
        """
        rotation, p = frame.rotation, frame.position
        h = matvec(rotation, self.first_moment)
        mass_p = self.mass[..., None] * p
        turned = matmul(matmul(rotation, self.rotational_matrix), transpose(rotation))
        first = h + mass_p
        shift = _point_mass(dot(p, h + first), outer(h, p) + outer(p, first))
        return Inertia(jnp.broadcast_to(self.mass, first.shape[:-1]), first, triangle(turned + shift))


class ArticulatedInertia(eqx.Module):
    """The apparent inertia of a body that carries others: `[[I, H], [Hᵀ, M]]`, in 21 numbers (table A.3).

    `rotational` and `linear` are the lower triangles of I and M, `coupling` is H.
    """

    rotational: Float[Array, "*batch 6"]
    coupling: Float[Array, "*batch 3 3"]
    linear: Float[Array, "*batch 6"]

    @staticmethod
    def from_matrix(m: Float[Array, "*batch 6 6"]) -> ArticulatedInertia:
        """From a symmetric 6x6 matrix; only its lower triangle and its upper right block are read."""
        return ArticulatedInertia(triangle(m[..., :3, :3]), m[..., :3, 3:], triangle(m[..., 3:, 3:]))

    @staticmethod
    def from_rigid(inertia: Inertia) -> ArticulatedInertia:
        """That of a body that carries nothing."""
        h = skew(inertia.first_moment)
        return ArticulatedInertia(
            inertia.rotational, h, triangle(inertia.mass[..., None, None] * identity_like(h))
        )

    @property
    def matrix(self) -> Float[Array, "*batch 6 6"]:
        """The symmetric 6x6 matrix."""
        return blocks(
            symmetric(self.rotational), self.coupling, transpose(self.coupling), symmetric(self.linear)
        )

    def __add__(self, other: ArticulatedInertia) -> ArticulatedInertia:
        return ArticulatedInertia(
            self.rotational + other.rotational, self.coupling + other.coupling, self.linear + other.linear
        )

    def force(self, acceleration: Float[Array, "*b 6"]) -> Float[Array, "*c 6"]:
        """`I^A a`."""
        angular, linear = acceleration[..., :3], acceleration[..., 3:]
        return jnp.concatenate(
            [
                matvec(symmetric(self.rotational), angular) + matvec(self.coupling, linear),
                vecmat(angular, self.coupling) + matvec(symmetric(self.linear), linear),
            ],
            axis=-1,
        )

    def placed(self, frame: Transform) -> ArticulatedInertia:
        """This inertia, given in frame B, expressed in the frame A in which `frame` places B (table A.4).

        Turned: `I, H, M → R I Rᵀ, R H Rᵀ, R M Rᵀ`; then shifted by p: `H' = H + p× M`, `I' = I + p× Hᵀ - H' p×`.
        """
        rotation, p = frame.rotation, skew(frame.position)
        turned = transpose(rotation)
        linear = matmul(matmul(rotation, symmetric(self.linear)), turned)
        coupling = matmul(matmul(rotation, self.coupling), turned)
        shifted = coupling + matmul(p, linear)
        rotational = matmul(matmul(rotation, symmetric(self.rotational)), turned)
        rotational = rotational + matmul(p, transpose(coupling)) - matmul(shifted, p)
        return ArticulatedInertia(triangle(rotational), shifted, triangle(linear))


def triangle(m: Float[Array, "*batch 3 3"]) -> Float[Array, "*batch 6"]:
    """The lower triangle `xx, xy, yy, xz, yz, zz` of a symmetric 3x3 matrix."""
    return jnp.stack([m[..., i, j] for i in range(3) for j in range(i + 1)], axis=-1)


def symmetric(t: Float[Array, "*batch 6"]) -> Float[Array, "*batch 3 3"]:
    """The symmetric 3x3 matrix with the lower triangle `xx, xy, yy, xz, yz, zz`."""
    xx, xy, yy, xz, yz, zz = (t[..., i] for i in range(6))
    return matrix([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def inverse_symmetric(m: Float[Array, "*batch 3 3"]) -> Float[Array, "*batch 3 3"]:
    """The inverse of a 3x3 matrix by cofactors: rows of `m⁻ᵀ` are cross products of the rows of `m`."""
    a, b, c = m[..., 0, :], m[..., 1, :], m[..., 2, :]
    cofactors = jnp.stack([cross(b, c), cross(c, a), cross(a, b)], axis=-1)
    return cofactors / dot(a, cross(b, c))[..., None, None]


def _closed(faces: np.ndarray, vertices: tuple[int, ...]) -> np.ndarray:
    """The faces, if they are those of a closed mesh of vertices in an array of this shape."""
    if len(vertices) != 2 or vertices[1] != 3:
        raise ModelError(f"Inertia.from_mesh: vertices has shape {vertices}; points have shape (v, 3)")
    if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu":
        raise ModelError(
            f"Inertia.from_mesh: faces has shape {faces.shape} and type {faces.dtype}; triangles are integers of shape (f, 3)"
        )
    if faces.size and not (0 <= faces.min() and faces.max() < vertices[0]):
        raise ModelError(
            f"Inertia.from_mesh: faces names a vertex that is not one of the {vertices[0]}, from 0"
        )
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]).tolist()
    count = Counter(map(tuple, edges))
    open_ones = [edge for edge, times in count.items() if times != 1 or count[edge[::-1]] != 1]
    if open_ones or not edges:
        example = f", such as that from vertex {open_ones[0][0]} to {open_ones[0][1]}" if open_ones else ""
        raise ModelError(
            "Inertia.from_mesh: the mesh is not closed. Along every edge two faces meet, which run through it in opposite "
            f"directions; not so at {len(open_ones)} of {len(edges) // 2}{example}"
        )
    return faces


def _point_mass(square, product):
    """`square 1 - product`: the rotational inertia of a point mass, its trace and its dyad given."""
    return square[..., None, None] * identity_like(product) - product


def _principal(mass, com, squares, divisor) -> Inertia:
    mass, diagonal = floating(mass), jnp.stack(squares) / divisor
    return Inertia.from_mass_com(mass, com, jnp.diag(mass * diagonal))
