"""The planar algebra (book §2.16): motion in a plane with three-vectors, under the names of the spatial algebra.

A planar motion vector is `[ω, v_x, v_y]`, a planar force vector `[n, f_x, f_y]`: the spatial ones without the entries
that vanish in the plane.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._array import dot, floating, matrix, matvec, vecmat


class Transform(eqx.Module):
    """Frame B placed in frame A of the same plane: turned by `angle` and put at `position`."""

    angle: Float[Array, "*batch"]
    position: Float[Array, "*batch 2"]

    @staticmethod
    def identity(dtype=None) -> Transform:
        return Transform(jnp.zeros((), dtype), jnp.zeros(2, dtype))

    @property
    def rotation(self) -> Float[Array, "*batch 2 2"]:
        """B's axes as columns, in A."""
        c, s = jnp.cos(self.angle), jnp.sin(self.angle)
        return matrix([[c, -s], [s, c]])

    @property
    def motion_matrix(self) -> Float[Array, "*batch 3 3"]:
        """The transform of motion vectors, B to A (the inverse of eq. 2.77)."""
        c, s, (x, y) = jnp.cos(self.angle), jnp.sin(self.angle), _entries(self.position)
        o = jnp.zeros_like(c)
        return matrix([[o + 1, o, o], [y, c, -s], [-x, s, c]])

    @property
    def force_matrix(self) -> Float[Array, "*batch 3 3"]:
        """The transform of force vectors, B to A."""
        c, s, (x, y) = jnp.cos(self.angle), jnp.sin(self.angle), _entries(self.position)
        o = jnp.zeros_like(c)
        return matrix([[o + 1, x * s - y * c, x * c + y * s], [o, c, -s], [o, s, c]])

    def __matmul__(self, other: Transform) -> Transform:
        """Chain: B in A, then C in B, gives C in A."""
        return Transform(self.angle + other.angle, self.point(other.position))

    def inverse(self) -> Transform:
        """A placed in B."""
        return Transform(-self.angle, -vecmat(self.position, self.rotation))

    def point(self, point: Float[Array, "*b 2"]) -> Float[Array, "*c 2"]:
        """The coordinates in A of a point given in B."""
        return matvec(self.rotation, point) + self.position

    def motion(self, motion: Float[Array, "*b 3"]) -> Float[Array, "*c 3"]:
        """A motion vector given in B, in A."""
        return matvec(self.motion_matrix, motion)

    def force(self, force: Float[Array, "*b 3"]) -> Float[Array, "*c 3"]:
        """A force vector given in B, in A."""
        return matvec(self.force_matrix, force)

    def inverse_motion(self, motion: Float[Array, "*b 3"]) -> Float[Array, "*c 3"]:
        """A motion vector given in A, in B: the dual of `force`."""
        return vecmat(motion, self.force_matrix)

    def inverse_force(self, force: Float[Array, "*b 3"]) -> Float[Array, "*c 3"]:
        """A force vector given in A, in B: the dual of `motion`."""
        return vecmat(force, self.motion_matrix)


class Inertia(eqx.Module):
    """Mass, first moment of mass and rotational inertia about the frame's origin: four numbers (eq. 2.78)."""

    mass: Float[Array, "*batch"]
    first_moment: Float[Array, "*batch 2"]
    rotational: Float[Array, "*batch"]

    @staticmethod
    def from_mass_com(mass, com, rotational_com) -> Inertia:
        """From mass, centre of mass and the rotational inertia about the centre of mass."""
        mass, com = floating(mass), floating(com)
        return Inertia(mass, mass[..., None] * com, floating(rotational_com) + mass * dot(com, com))

    @property
    def parameters(self) -> Float[Array, "*batch 4"]:
        """The four numbers `m, m cx, m cy, I`."""
        return jnp.concatenate([self.mass[..., None], self.first_moment, self.rotational[..., None]], axis=-1)

    @property
    def com(self) -> Float[Array, "*batch 2"]:
        """The centre of mass."""
        return self.first_moment / self.mass[..., None]

    @property
    def matrix(self) -> Float[Array, "*batch 3 3"]:
        """The planar inertia (eq. 2.78)."""
        m, (hx, hy) = self.mass, _entries(self.first_moment)
        o = jnp.zeros_like(m)
        return matrix([[self.rotational, -hy, hx], [-hy, m, o], [hx, o, m]])

    def __add__(self, other: Inertia) -> Inertia:
        """The two bodies as one."""
        return Inertia(
            self.mass + other.mass,
            self.first_moment + other.first_moment,
            self.rotational + other.rotational,
        )

    def momentum(self, velocity: Float[Array, "*b 3"]) -> Float[Array, "*c 3"]:
        """`I v`."""
        return matvec(self.matrix, velocity)

    def kinetic_energy(self, velocity: Float[Array, "*b 3"]) -> Float[Array, "*c"]:
        """`½ v · I v`."""
        return 0.5 * dot(velocity, self.momentum(velocity))

    def placed(self, frame: Transform) -> Inertia:
        """This inertia, given in frame B, expressed in the frame A in which `frame` places B."""
        h = matvec(frame.rotation, self.first_moment)
        first = h + self.mass[..., None] * frame.position
        return Inertia(self.mass, first, self.rotational + dot(frame.position, h + first))


def cross_motion_matrix(v: Float[Array, "*a 3"]) -> Float[Array, "*a 3 3"]:
    """`v×` (eq. 2.75)."""
    w, x, y = _entries(v)
    o = jnp.zeros_like(w)
    return matrix([[o, o, o], [y, o, -w], [-x, w, o]])


def cross_force_matrix(v: Float[Array, "*a 3"]) -> Float[Array, "*a 3 3"]:
    """`v×* = -(v×)ᵀ`."""
    return -jnp.swapaxes(cross_motion_matrix(v), -1, -2)


def cross_motion(v: Float[Array, "*a 3"], m: Float[Array, "*b 3"]) -> Float[Array, "*c 3"]:
    """`v × m`."""
    return matvec(cross_motion_matrix(v), m)


def cross_force(v: Float[Array, "*a 3"], f: Float[Array, "*b 3"]) -> Float[Array, "*c 3"]:
    """`v ×* f`."""
    return matvec(cross_force_matrix(v), f)


def power(motion: Float[Array, "*a 3"], force: Float[Array, "*b 3"]) -> Float[Array, "*c"]:
    """The scalar product of a motion with a force."""
    return dot(motion, force)


def _entries(x):
    return tuple(x[..., i] for i in range(x.shape[-1]))
