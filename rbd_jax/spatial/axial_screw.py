"""Axial screws: a turn about a coordinate axis and a shift along it (book §A.4), at a third of the cost of a general transform.

The turn and the shift commute, and the axis does not change. Transforming a vector takes 10 multiplications and 6 additions, a
rigid
inertia 16 and 15, an articulated one 38 and 40 (table A.5). Two such screws lead from one Denavit–Hartenberg frame to the
next, three in general.

The algorithms of this library work in one common frame and place each body once, by a general transform. Axial screws are for
recursions that go from frame to frame.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import choice
from .._core.array import floating
from .._core.jit import compiled
from .inertia import ArticulatedInertia, Inertia
from .transform import Transform


#: The axes of a screw about each axis in cyclic order, with its own axis last.
_ORDER = {"x": (1, 2, 0), "y": (2, 0, 1), "z": (0, 1, 2)}

#: Entry (i, j) of a symmetric matrix in its triangle `xx, xy, yy, xz, yz, zz`.
_TRIANGLE = ((0, 1, 3), (1, 2, 4), (3, 4, 5))

#: The entries of a matrix, row by row; None where an entry is known to be zero or is not needed.
Rows: TypeAlias = list[list[Array | None]]


class AxialScrew(eqx.Module):
    """Frame B placed in frame A by a turn about one of A's axes and a shift by `distance` along it. Created by `about`.

    `products` holds `cs`, `s²`, `2cs` and `1 - 2s²` of the cosine and the sine, computed once for turning matrices. Leading axes
    are a batch; transformed quantities have the same leading axes.

    >>> turn = rbd.spatial.AxialScrew.about("z", jnp.array(jnp.pi / 2), jnp.array(0.5))
    >>> print(turn.motion(jnp.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])))
    [ 0.   1.   0.  -0.5  0.   0. ]
    >>> print(turn.transform.motion(jnp.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])))
    [ 0.   1.   0.  -0.5  0.   0. ]
    """

    axis: Literal["x", "y", "z"] = eqx.field(static=True)
    cosine: Float[Array, "*batch"]
    sine: Float[Array, "*batch"]
    distance: Float[Array, "*batch"]
    products: Float[Array, "*batch 4"]

    @staticmethod
    def about(axis: Literal["x", "y", "z"], angle, distance=0.0) -> AxialScrew:
        """Returns the screw with an angle (rad) about `axis` and a distance along it.

        >>> screw = rbd.spatial.AxialScrew.about("z", jnp.pi / 2, 0.5)
        >>> print(screw.motion(jnp.array([1.0, 0, 0, 0, 0, 0])))  # a turn about B's x axis, which is A's y axis, 0.5 above it
        [ 0.   1.   0.  -0.5  0.   0. ]
        """
        choice("AxialScrew.about", "axis", axis, ("x", "y", "z"))
        return _about(axis, floating(angle), floating(distance))

    @property
    @compiled
    def transform(self) -> Transform:
        """The screw as a general transform."""
        zero, one = jnp.zeros_like(self.cosine), jnp.ones_like(self.cosine)
        columns, (i, j, k) = [], _ORDER[self.axis]
        for first, second, third in (
            (self.cosine, self.sine, zero),
            (-self.sine, self.cosine, zero),
            (zero, zero, one),
        ):
            columns.append(_placed(self.axis, first, second, third))
        rotation = jnp.stack([columns[(i, j, k).index(axis)] for axis in range(3)], axis=-1)
        return Transform(rotation, _placed(self.axis, zero, zero, self.distance))

    @compiled
    def inverse(self) -> AxialScrew:
        """Returns A placed in B."""
        signs = jnp.array([-1, 1, -1, 1], self.products.dtype)
        return AxialScrew(self.axis, self.cosine, -self.sine, -self.distance, signs * self.products)

    @compiled
    def motion(self, motion: Float[Array, "*batch 6"]) -> Float[Array, "*batch 6"]:
        """Returns in A a motion vector given in B."""
        return jnp.concatenate(self._vector(motion[..., :3], motion[..., 3:]), axis=-1)

    @compiled
    def force(self, force: Float[Array, "*batch 6"]) -> Float[Array, "*batch 6"]:
        """Returns in A a force vector given in B."""
        return jnp.concatenate(self._vector(force[..., 3:], force[..., :3])[::-1], axis=-1)

    @compiled
    def inertia(self, inertia: Inertia) -> Inertia:
        """Returns in A a rigid-body inertia given in B."""
        x, y, z = (inertia.first_moment[..., axis] for axis in _ORDER[self.axis])
        (xx, _, _), (xy, yy, _), (xz, yz, zz) = _symmetric(inertia.rotational, self.axis)
        up = z + inertia.mass * self.distance
        rise = (z + up) * self.distance
        last = [_sub(xz, x * self.distance), _sub(yz, y * self.distance), zz]
        shifted = [[_add(xx, rise), None, None], [xy, _add(yy, rise), None], last]
        first = _placed(self.axis, *self._turned(x, y), up)
        return Inertia(inertia.mass, first, _triangle(self._turn_symmetric(shifted), self.axis))

    @compiled
    def articulated_inertia(
        self, inertia: ArticulatedInertia, free: Literal["x", "y", "z"] | None = None
    ) -> ArticulatedInertia:
        """Returns in A an articulated-body inertia given in B.

        Args:
          inertia: The articulated-body inertia in B.
          free: The axis in B about which the inertia is zero, because a hinge about it transmits no moment. Its row and column
            are assumed to be zero and are not read. This takes 28 multiplications and 34 additions for the axis of the screw,
            32 and 28 for another axis.
        """
        order = _ORDER[self.axis]
        linear = _symmetric(inertia.linear, self.axis)
        coupling: Rows = [[inertia.coupling[..., a, b] for b in order] for a in order]
        rotational = _symmetric(inertia.rotational, self.axis)
        if free is not None:
            choice("AxialScrew.articulated_inertia", "free", free, ("x", "y", "z"))
            row = order.index("xyz".index(free))
            coupling[row] = [None] * 3
            for other in range(3):
                rotational[max(row, other)][min(row, other)] = None
        if free == self.axis:  # the shift preserves the zeros
            coupling, rotational = self._shifted(linear, coupling, rotational)
            linear, rotational = self._turn_symmetric(linear), self._turn_symmetric(rotational)
            coupling = self._turn_matrix(coupling)
        else:
            linear, rotational = self._turn_symmetric(linear), self._turn_symmetric(rotational)
            coupling, rotational = self._shifted(linear, self._turn_matrix(coupling), rotational)
        entries = {(order[a], order[b]): coupling[a][b] for a in range(3) for b in range(3)}
        zero = jnp.zeros_like(inertia.rotational[..., 0])
        rows = [jnp.stack([_or(entries[a, b], zero) for b in range(3)], axis=-1) for a in range(3)]
        return ArticulatedInertia(
            _triangle(rotational, self.axis, zero), jnp.stack(rows, axis=-2), _triangle(linear, self.axis)
        )

    def _turned(self, x, y):
        """Returns two entries across the axis, turned."""
        c, s = self.cosine, self.sine
        return _sub(_mul(c, x), _mul(s, y)), _add(_mul(s, x), _mul(c, y))

    def _vector(self, line, moment):
        """Returns `R l` and `R (m + p × l)` for the line part `l` and the moment part `m` of a vector."""
        i, j, k = _ORDER[self.axis]
        first = moment[..., i] - self.distance * line[..., j]
        second = moment[..., j] + self.distance * line[..., i]
        return (
            _placed(self.axis, *self._turned(line[..., i], line[..., j]), line[..., k]),
            _placed(self.axis, *self._turned(first, second), moment[..., k]),
        )

    def _turn_symmetric(self, matrix):
        """`R A Rᵀ` by the lower triangle: `c² x - 2cs y + s² z = x - (2cs y + s² (x - z))` (§A.5)."""
        (xx, _, _), (xy, yy, _), (xz, yz, zz) = matrix
        cs, squared, twice, rest = (self.products[..., entry] for entry in range(4))
        across = _sub(xx, yy)
        change = _add(_mul(twice, xy), _mul(squared, across))
        mixed = _add(_mul(cs, across), _mul(rest, xy))
        return [[_sub(xx, change), None, None], [mixed, _add(yy, change), None], [*self._turned(xz, yz), zz]]

    def _turn_matrix(self, matrix):
        """`R A Rᵀ` of any matrix (§A.5)."""
        (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = matrix
        cs, squared = self.products[..., 0], self.products[..., 1]
        across, both = _sub(xx, yy), _add(xy, yx)
        change = _add(_mul(cs, both), _mul(squared, across))
        mixed = _sub(_mul(cs, across), _mul(squared, both))
        (xz, yz), (zx, zy) = self._turned(xz, yz), self._turned(zx, zy)
        return [
            [_sub(xx, change), _add(xy, mixed), xz],
            [_add(yx, mixed), _add(yy, change), yz],
            [zx, zy, zz],
        ]

    def _shifted(self, linear, coupling, rotational):
        """`H + p× M` and `I + p× Hᵀ - (H + p× M) p×` (table A.4)."""
        d, ((xx, _, _), (xy, yy, _), (xz, yz, _)) = self.distance, linear
        ((axx, axy, axz), (ayx, ayy, ayz), last) = coupling
        product = _mul(d, xy)
        moved = [
            [_sub(axx, product), _sub(axy, _mul(d, yy)), _sub(axz, _mul(d, yz))],
            [_add(ayx, _mul(d, xx)), _add(ayy, product), _add(ayz, _mul(d, xz))],
            last,
        ]
        rotational = [list(row) for row in rotational]
        rotational[0][0] = _sub(rotational[0][0], _mul(d, _add(axy, moved[0][1])))
        rotational[1][0] = _add(rotational[1][0], _mul(d, _sub(axx, moved[1][1])))
        rotational[1][1] = _add(rotational[1][1], _mul(d, _add(ayx, moved[1][0])))
        rotational[2][0] = _sub(rotational[2][0], _mul(d, last[1]))
        rotational[2][1] = _add(rotational[2][1], _mul(d, last[0]))
        return moved, rotational


@compiled
def _about(axis, angle, distance) -> AxialScrew:
    angle, distance = jnp.broadcast_arrays(angle, distance)
    return AxialScrew(axis, jnp.cos(angle), jnp.sin(angle), distance, _products(angle))


def _products(angle):
    c, s = jnp.cos(angle), jnp.sin(angle)
    cs, squared = c * s, s * s
    return jnp.stack([cs, squared, cs + cs, 1 - (squared + squared)], axis=-1)


def _placed(axis, first, second, along):
    """Returns the vector with these entries across the axis and along it."""
    entries = dict(zip(_ORDER[axis], (first, second, along)))
    return jnp.stack([entries[i] for i in range(3)], axis=-1)


def _symmetric(triangle, axis) -> Rows:
    """Returns the lower triangle of a symmetric matrix as rows, axes in the order of a screw."""
    order = _ORDER[axis]
    return [
        [triangle[..., _TRIANGLE[order[a]][order[b]]] if b <= a else None for b in range(3)] for a in range(3)
    ]


def _triangle(matrix, axis, zero=None):
    """Returns the triangle of these rows; the inverse of `_symmetric`."""
    order, entries = _ORDER[axis], {}
    for a in range(3):
        for b in range(a + 1):
            entries[_TRIANGLE[order[a]][order[b]]] = _or(matrix[a][b], zero)
    return jnp.stack([entries[i] for i in range(6)], axis=-1)


# None marks an entry that is known to be zero and needs no arithmetic.


def _add(a, b):
    return b if a is None else a if b is None else a + b


def _sub(a, b):
    return a if b is None else -b if a is None else a - b


def _mul(a, b):
    return None if b is None else a * b


def _or(entry, zero):
    return zero if entry is None else entry
