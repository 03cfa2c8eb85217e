"""Rigid-body inertia with its ten parameters, and articulated-body inertia with 21 (book §2.13 to §2.15, app. A).

Rigid: mass, first moment of mass `h = m c` and the rotational inertia about the frame's origin: `I = [[Ī, h×], [-h×, m 1]]`
(eq. 2.63). The matrix is linear in these ten parameters, so inertias add, and the equations of motion are linear in
them. Articulated: `I^A = [[I, H], [Hᵀ, M]]`, symmetric and with no further structure.

The pseudo-inertia is a symmetric 4 x 4 matrix with the same ten parameters: the second moments of the mass. A physical body
has the moments of a density that is nowhere negative. Positive definite pseudo-inertias have a chart of ten unbounded
parameters (Rucker & Wensing, *Smooth parameterization of rigid-body inertia*, 2022).
"""

from __future__ import annotations

from collections import Counter

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._core.array import (
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
    zeros,
)
from .._core.errors import ModelError
from .._core.jit import compiled
from ._rows import Rows
from .principal import principal_axes
from .transform import Transform


class Inertia(Rows):
    """The inertia of a rigid body in some frame; leading axes are a batch of bodies.

    - `mass`: The mass.
    - `first_moment`: The mass times the center of mass.
    - `rotational`: The lower triangle `xx, xy, yy, xz, yz, zz` of the rotational inertia about the frame's *origin* (not the
      center of mass).

    >>> box = rbd.Inertia.box(2.0, (0.4, 0.3, 0.1))
    >>> print(box.mass, jnp.diag(box.rotational_matrix))
    2.0 [0.017 0.028 0.042]
    >>> both = box + rbd.Inertia.from_mass_com(1.0, (0.0, 0.0, 0.3), jnp.zeros((3, 3)))
    >>> print(both.mass, both.com)
    3.0 [0.  0.  0.1]
    """

    mass: Float[Array, "*batch"]
    first_moment: Float[Array, "*batch 3"]
    rotational: Float[Array, "*batch 6"]

    @staticmethod
    def zero(dtype=None) -> Inertia:
        """Returns a massless inertia."""
        return Inertia(*(zeros(shape, dtype) for shape in ((), (3,), (6,))))

    @staticmethod
    def from_mass_com(mass, com, rotational_com) -> Inertia:
        """Returns an inertia from mass, center of mass `com` and the 3x3 inertia about `com`, in the frame's axes."""
        return _about_origin(floating(mass), floating(com), floating(rotational_com))

    @staticmethod
    def from_parameters(parameters: Float[Array, "*batch 10"]) -> Inertia:
        """Returns an inertia from the ten parameters `m, m cx, m cy, m cz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz`."""
        return _of_parameters(floating(parameters))

    @staticmethod
    def from_pseudo_inertia(matrix: Float[Array, "*batch 4 4"]) -> Inertia:
        """Returns an inertia from its pseudo-inertia; only the lower triangle is read.

        With the second moments Σ in its upper left block, the rotational inertia is `tr(Σ) 1 - Σ`.
        """
        return _of_pseudo_inertia(floating(matrix))

    @staticmethod
    def from_log_cholesky(numbers: Float[Array, "*batch 10"]) -> Inertia:
        """Returns a physically consistent inertia from ten unbounded numbers (Rucker & Wensing 2022).

        The numbers are `α, d₁, d₂, d₃, s₁₂, s₂₃, s₁₃, t₁, t₂, t₃`. The pseudo-inertia is `U Uᵀ` with
        `U = e^α [[e^d₁, s₁₂, s₁₃, t₁], [0, e^d₂, s₂₃, t₂], [0, 0, e^d₃, t₃], [0, 0, 0, 1]]`. The mass is `e^2α`, t is the
        center of mass, and the other numbers describe the spread of the mass about it. Every body with a positive definite
        pseudo-inertia corresponds to exactly one such point.
        """
        return _of_log_cholesky(floating(numbers))

    @staticmethod
    def box(mass, sides, com=(0.0, 0.0, 0.0)) -> Inertia:
        """Returns the inertia of a uniform box with these side lengths about its center `com`."""
        return _box(floating(mass), floating(sides), floating(com))

    @staticmethod
    def sphere(mass, radius, com=(0.0, 0.0, 0.0)) -> Inertia:
        """Returns the inertia of a uniform ball about its center `com`."""
        return _sphere(floating(mass), floating(radius), floating(com))

    @staticmethod
    def cylinder(mass, radius, length, com=(0.0, 0.0, 0.0)) -> Inertia:
        """Returns the inertia of a uniform cylinder along z about its center `com`."""
        return _cylinder(floating(mass), floating(radius), floating(length), floating(com))

    @staticmethod
    def capsule(mass, radius, length, com=(0.0, 0.0, 0.0)) -> Inertia:
        """Returns the inertia of a uniform capsule along z about its center `com`: a cylinder of `length` and two half balls."""
        return _capsule(floating(mass), floating(radius), floating(length), floating(com))

    @staticmethod
    def from_mesh(vertices, faces, *, density=None, mass=None) -> Inertia:
        """Returns the inertia of a uniform body bounded by a closed triangle mesh; differentiable by the vertices.

        Args:
          vertices: Points, shape (v, 3).
          faces: Three vertex indices each, counterclockwise as viewed from outside, shape (f, 3).
          density: The density; give either `density` or `mass`.
          mass: The total mass.

        Raises:
          ModelError: The mesh is not closed, its volume is not positive, or not exactly one of `density` and `mass` is given.
        """
        vertices, faces = floating(vertices), _closed(np.asarray(faces), jnp.shape(vertices))
        if (density is None) == (mass is None):
            raise ModelError("Inertia.from_mesh: give either density or mass")
        uniform, volume = _enclosed(vertices, faces)
        if is_known(volume) and not float(volume) > 0:
            raise ModelError(
                f"Inertia.from_mesh: the mesh encloses the volume {float(volume):.3g}; turn the order of the vertices of its "
                "faces, which must be counterclockwise seen from outside"
            )
        given = None if density is None else floating(density), None if mass is None else floating(mass)
        return _of_density(uniform, volume, *given)

    @compiled
    def principal(self) -> tuple[Transform, Float[Array, "3"]]:
        """Returns the principal frame, at the center of mass, and the principal moments in ascending order.

        In that frame the inertia is `Inertia.from_mass_com(mass, 0, diag(moments))`. For several bodies together, place and add
        their inertias first (Sueda §1.7). It takes one body, not a batch. A massless body has its frame at the origin. For equal
        moments the axes are an arbitrary choice, see `principal_axes`.
        """
        heavy = self.mass != 0
        com = jnp.where(heavy, self.first_moment / jnp.where(heavy, self.mass, 1), 0)
        central = self.rotational_matrix - _point_mass(
            dot(self.first_moment, com), outer(self.first_moment, com)
        )
        moments, axes = principal_axes(central)
        return Transform(axes, com), moments

    @property
    @compiled
    def parameters(self) -> Float[Array, "*batch 10"]:
        """The ten parameters `m, m cx, m cy, m cz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz`."""
        return jnp.concatenate([self.mass[..., None], self.first_moment, self.rotational], axis=-1)

    @property
    @compiled
    def com(self) -> Float[Array, "*batch 3"]:
        """The center of mass; the origin for a massless body."""
        massive = self.mass != 0
        return jnp.where(
            massive[..., None], self.first_moment / jnp.where(massive, self.mass, 1)[..., None], 0
        )

    @property
    @compiled
    def rotational_matrix(self) -> Float[Array, "*batch 3 3"]:
        """The rotational inertia about the frame's origin."""
        return symmetric(self.rotational)

    @property
    @compiled
    def rotational_com(self) -> Float[Array, "*batch 3 3"]:
        """The rotational inertia about the center of mass."""
        com = self.com
        return self.rotational_matrix - _point_mass(
            dot(self.first_moment, com), outer(self.first_moment, com)
        )

    @property
    @compiled
    def pseudo_inertia(self) -> Float[Array, "*batch 4 4"]:
        """`[[Σ, h], [hᵀ, m]]` with `Σ = tr(Ī)/2 1 - Ī`: the second moments of the mass in homogeneous coordinates.

        With `x_A = T x_B` in homogeneous coordinates, the pseudo-inertia in A is `T P Tᵀ`. This also holds for a reflection,
        which a `Transform` cannot represent.
        """
        xx, xy, yy, xz, yz, zz = (self.rotational[..., i] for i in range(6))
        half = (xx + yy + zz) / 2
        second = matrix([[half - xx, -xy, -xz], [-xy, half - yy, -yz], [-xz, -yz, half - zz]])
        h = self.first_moment[..., None]
        return blocks(second, h, transpose(h), self.mass[..., None, None])

    @property
    @compiled
    def is_physical(self) -> Bool[Array, "*batch"]:
        """Checks whether a body with this inertia exists: a mass distribution that is nowhere negative; one value per body.

        The criterion is a pseudo-inertia that is positive semidefinite up to rounding. It is stricter than a positive mass and
        positive principal moments, because the moments also satisfy the triangle inequality. Point masses, rods, plates and the
        zero inertia are physical.
        """
        second, first, mass = self.pseudo_inertia[..., :3, :3], self.first_moment, self.mass
        spread = second[..., 0, 0] + second[..., 1, 1] + second[..., 2, 2]
        # Lengths are scaled by the radius of gyration and masses by the body's mass, so that rounding affects all entries alike.
        length = jnp.sqrt(jnp.where((mass > 0) & (spread > 0), spread, 1) / jnp.where(mass > 0, mass, 1))
        unit = jnp.where(mass > 0, mass, jnp.where(spread > 0, spread, 1))
        h = (first / (unit * length)[..., None])[..., None]
        square = second / (unit * length**2)[..., None, None]
        alike = blocks(square, h, transpose(h), (mass / unit)[..., None, None])
        smallest = jnp.min(jnp.linalg.eigvalsh(alike), axis=-1)
        return smallest >= -32 * jnp.finfo(mass.dtype).eps  # false for a nan

    def to_log_cholesky(self) -> Float[Array, "*batch 10"]:
        """Returns the ten numbers from which `from_log_cholesky` makes this inertia.

        They exist if the pseudo-inertia is positive definite. Otherwise (a non-physical inertia, or no extent in some
        direction) a concrete inertia raises a `ModelError`, and inside compiled functions the result is NaN or infinite.
        """
        numbers = _log_cholesky(self)
        if is_known(numbers) and not np.isfinite(np.asarray(numbers)).all():
            which = np.argwhere(~np.isfinite(np.asarray(numbers)).all(axis=-1))
            of = (
                f" of number {', '.join(str(tuple(i.tolist())) if len(i) > 1 else str(int(i[0])) for i in which)}"
                if which.size
                else ""
            )
            raise ModelError(
                f"Inertia.to_log_cholesky: the pseudo-inertia{of} is not positive definite, so there are no "
                "such numbers; a body has "
                "a mass, an extent in every direction, and moments that keep the triangle inequality (see is_physical)"
            )
        return numbers

    @property
    @compiled
    def matrix(self) -> Float[Array, "*batch 6 6"]:
        """The spatial inertia (eq. 2.63)."""
        h = skew(self.first_moment)
        return blocks(self.rotational_matrix, h, -h, self.mass[..., None, None] * identity_like(h))

    @property
    @compiled
    def inverse_matrix(self) -> Float[Array, "*batch 6 6"]:
        """The inverse spatial inertia, forces to accelerations (eq. 2.74).

        `[[J, J c×ᵀ], [c× J, 1/m + c× J c×ᵀ]]` with `J = Ī_C⁻¹`.
        """
        inverse, c = inverse_symmetric(self.rotational_com), skew(self.com)
        lower = matmul(c, inverse)
        mobility = identity_like(c) / self.mass[..., None, None] - matmul(lower, c)
        return blocks(inverse, transpose(lower), lower, mobility)

    @compiled
    def __add__(self, other: Inertia) -> Inertia:
        """Returns the inertia of both bodies together."""
        return Inertia.from_parameters(self.parameters + other.parameters)

    @compiled
    def momentum(self, velocity: Float[Array, "*b 6"]) -> Float[Array, "*c 6"]:
        """Returns `I v = [Ī ω + h × v; m v - h × ω]` (eq. 2.58)."""
        angular, linear = velocity[..., :3], velocity[..., 3:]
        return jnp.concatenate(
            [
                matvec(self.rotational_matrix, angular) + cross(self.first_moment, linear),
                self.mass[..., None] * linear - cross(self.first_moment, angular),
            ],
            axis=-1,
        )

    @compiled
    def kinetic_energy(self, velocity: Float[Array, "*b 6"]) -> Float[Array, "*c"]:
        """Returns `½ v · I v` (eq. 2.67)."""
        return 0.5 * dot(velocity, self.momentum(velocity))

    @compiled
    def placed(self, frame: Transform) -> Inertia:
        """Returns this inertia, given in frame B, in the frame A in which `frame` places B (eq. 2.66, table A.4).

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
    """The apparent inertia of a body that carries others: `[[I, H], [Hᵀ, M]]` with 21 numbers (table A.3).

    `rotational` and `linear` are the lower triangles of I and M, `coupling` is H.

    >>> body = rbd.Inertia.from_mass_com(2.0, (0.0, 0.0, 0.5), jnp.eye(3))
    >>> print(rbd.spatial.ArticulatedInertia.from_rigid(body).force(jnp.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0])))
    [0.  1.5 0.  1.  0.  0. ]
    """

    rotational: Float[Array, "*batch 6"]
    coupling: Float[Array, "*batch 3 3"]
    linear: Float[Array, "*batch 6"]

    @staticmethod
    def from_matrix(m: Float[Array, "*batch 6 6"]) -> ArticulatedInertia:
        """Returns it from a symmetric 6x6 matrix; only the lower triangle and the upper right block are read."""
        return ArticulatedInertia(triangle(m[..., :3, :3]), m[..., :3, 3:], triangle(m[..., 3:, 3:]))

    @staticmethod
    def from_rigid(inertia: Inertia) -> ArticulatedInertia:
        """Returns the articulated inertia of a rigid body that carries no other body."""
        h = skew(inertia.first_moment)
        return ArticulatedInertia(
            inertia.rotational, h, triangle(inertia.mass[..., None, None] * identity_like(h))
        )

    @property
    @compiled
    def matrix(self) -> Float[Array, "*batch 6 6"]:
        """The symmetric 6x6 matrix."""
        return blocks(
            symmetric(self.rotational), self.coupling, transpose(self.coupling), symmetric(self.linear)
        )

    @compiled
    def __add__(self, other: ArticulatedInertia) -> ArticulatedInertia:
        return ArticulatedInertia(
            self.rotational + other.rotational, self.coupling + other.coupling, self.linear + other.linear
        )

    @compiled
    def force(self, acceleration: Float[Array, "*b 6"]) -> Float[Array, "*c 6"]:
        """Returns `I^A a`."""
        angular, linear = acceleration[..., :3], acceleration[..., 3:]
        return jnp.concatenate(
            [
                matvec(symmetric(self.rotational), angular) + matvec(self.coupling, linear),
                vecmat(angular, self.coupling) + matvec(symmetric(self.linear), linear),
            ],
            axis=-1,
        )

    @compiled
    def placed(self, frame: Transform) -> ArticulatedInertia:
        """Returns this inertia, given in frame B, in the frame A in which `frame` places B (table A.4).

        It is turned, `I, H, M → R I Rᵀ, R H Rᵀ, R M Rᵀ`, and then shifted by p: `H' = H + p× M`, `I' = I + p× Hᵀ - H' p×`.
        """
        rotation, p = frame.rotation, skew(frame.position)
        turned = transpose(rotation)
        linear = matmul(matmul(rotation, symmetric(self.linear)), turned)
        coupling = matmul(matmul(rotation, self.coupling), turned)
        shifted = coupling + matmul(p, linear)
        rotational = matmul(matmul(rotation, symmetric(self.rotational)), turned)
        rotational = rotational + matmul(p, transpose(coupling)) - matmul(shifted, p)
        return ArticulatedInertia(triangle(rotational), shifted, triangle(linear))


# The compiled bodies of the constructors above: each runs as one program.


@compiled
def _about_origin(mass, com, central) -> Inertia:
    first = mass[..., None] * com
    return Inertia(mass, first, triangle(central + _point_mass(dot(first, com), outer(first, com))))


@compiled
def _of_parameters(parameters) -> Inertia:
    return Inertia(parameters[..., 0], parameters[..., 1:4], parameters[..., 4:])


@compiled
def _of_pseudo_inertia(matrix) -> Inertia:
    xx, yy, zz = (matrix[..., i, i] for i in range(3))
    xy, xz, yz = matrix[..., 1, 0], matrix[..., 2, 0], matrix[..., 2, 1]
    rotational = jnp.stack([yy + zz, -xy, xx + zz, -xz, -yz, xx + yy], axis=-1)
    return Inertia(matrix[..., 3, 3], matrix[..., 3, :3], rotational)


@compiled
def _of_log_cholesky(numbers) -> Inertia:
    mass, com = jnp.exp(2 * numbers[..., 0]), numbers[..., 7:]
    (d1, d2, d3), (s12, s23, s13) = (
        [jnp.exp(numbers[..., i]) for i in (1, 2, 3)],
        [numbers[..., i] for i in (4, 5, 6)],
    )
    o = jnp.zeros_like(mass)
    root = matrix([[d1, s12, s13], [o, d2, s23], [o, o, d3]])
    first = mass[..., None] * com
    second = mass[..., None, None] * matmul(root, transpose(root)) + outer(first, com)
    trace = second[..., 0, 0] + second[..., 1, 1] + second[..., 2, 2]
    return Inertia(mass, first, triangle(_point_mass(trace, second)))


@compiled
def _log_cholesky(inertia: Inertia):
    mass, com = inertia.mass, inertia.first_moment / inertia.mass[..., None]
    second = inertia.pseudo_inertia[..., :3, :3] - outer(inertia.first_moment, com)
    central = second / mass[..., None, None]
    d3 = jnp.sqrt(central[..., 2, 2])
    s23, s13 = central[..., 1, 2] / d3, central[..., 0, 2] / d3
    d2 = jnp.sqrt(central[..., 1, 1] - s23**2)
    s12 = (central[..., 0, 1] - s13 * s23) / d2
    d1 = jnp.sqrt(central[..., 0, 0] - s12**2 - s13**2)
    logs = [jnp.log(mass) / 2, jnp.log(d1), jnp.log(d2), jnp.log(d3)]
    return jnp.concatenate([jnp.stack([*logs, s12, s23, s13], axis=-1), com], axis=-1)


@compiled
def _box(mass, sides, com) -> Inertia:
    square = sides**2
    return _principal(mass, com, [square[1] + square[2], square[0] + square[2], square[0] + square[1]], 12)


@compiled
def _sphere(mass, radius, com) -> Inertia:
    return _principal(mass, com, [2 * radius**2] * 3, 5)


@compiled
def _cylinder(mass, radius, length, com) -> Inertia:
    across = 3 * radius**2 + length**2
    return _principal(mass, com, [across, across, 6 * radius**2], 12)


@compiled
def _capsule(mass, radius, length, com) -> Inertia:
    ball = 4 * radius / (4 * radius + 3 * length)  # the volume fraction of the half balls
    square, middle = radius**2, length**2
    across = (1 - ball) * (3 * square + middle) / 12
    across = across + ball * (2 / 5 * square + middle / 4 + 3 / 8 * radius * length)
    along = (1 - ball) * square / 2 + ball * 2 / 5 * square
    return _principal(mass, com, [across, across, along], 1)


@compiled
def _enclosed(vertices, faces) -> tuple[Inertia, Float[Array, ""]]:
    """Returns the inertia of the volume inside a mesh at unit density, and the volume."""
    # Sums over the tetrahedra of the triangles with a common point; each has the sign of its orientation.
    center = jnp.mean(vertices, axis=0)
    corners = (vertices - center[None])[faces]
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    volumes, sums = dot(a, cross(b, c)) / 6, a + b + c
    volume = jnp.sum(volumes)
    first = jnp.sum(volumes[:, None] * sums, axis=0) / 4
    corner_dyads = matmul(jnp.swapaxes(corners, 1, 2), corners)
    dyad = jnp.sum(volumes[:, None, None] * (outer(sums, sums) + corner_dyads), axis=0) / 20
    central = dyad - outer(first, first) / volume
    rotational = _point_mass(jnp.trace(central), central)
    return Inertia.from_mass_com(volume, center + first / volume, rotational), volume


@compiled
def _of_density(uniform: Inertia, volume, density, mass) -> Inertia:
    density = mass / volume if density is None else density
    return jax.tree.map(lambda x: density * x, uniform)


def triangle(m: Float[Array, "*batch 3 3"]) -> Float[Array, "*batch 6"]:
    """Returns the lower triangle `xx, xy, yy, xz, yz, zz` of a symmetric 3x3 matrix."""
    return jnp.stack([m[..., i, j] for i in range(3) for j in range(i + 1)], axis=-1)


def symmetric(t: Float[Array, "*batch 6"]) -> Float[Array, "*batch 3 3"]:
    """Returns the symmetric 3x3 matrix with the lower triangle `xx, xy, yy, xz, yz, zz`."""
    xx, xy, yy, xz, yz, zz = (t[..., i] for i in range(6))
    return matrix([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def inverse_symmetric(m: Float[Array, "*batch 3 3"]) -> Float[Array, "*batch 3 3"]:
    """Returns the inverse of a 3x3 matrix by cofactors: rows of `m⁻ᵀ` are cross products of the rows of `m`."""
    a, b, c = m[..., 0, :], m[..., 1, :], m[..., 2, :]
    cofactors = jnp.stack([cross(b, c), cross(c, a), cross(a, b)], axis=-1)
    return cofactors / dot(a, cross(b, c))[..., None, None]


def _closed(faces: np.ndarray, vertices: tuple[int, ...]) -> np.ndarray:
    """Returns the faces after checking that they form a closed mesh; `vertices` is the shape of the vertex array."""
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
    """Returns `square 1 - product`: the rotational inertia of a point mass from its trace and its dyad."""
    return square[..., None, None] * identity_like(product) - product


def _principal(mass, com, squares, divisor) -> Inertia:
    diagonal = jnp.stack(squares) / divisor
    return _about_origin(mass, com, jnp.diag(mass * diagonal))
