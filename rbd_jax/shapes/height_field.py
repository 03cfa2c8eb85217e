"""Terrain: heights over a rectangle."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import as_array, number
from ..spatial.inertia import Inertia
from . import rays, surfaces
from .geometry import Geometry


class HeightField(Geometry):
    """Heights over a grid of points, solid below, down to `z = -base`.

    - `heights`: Rows along y, columns along x, from the corner where both are least: (r, c), at least 2 each.
    - `half_sizes`: Half the lengths of the rectangle along x and y.
    - `base`: The depth below zero.

    Each cell has two triangles, split along the diagonal from its corner of least x and y.

    >>> ramp = rbd.shapes.HeightField([[0.0, 0.5, 1.0], [0.0, 0.5, 1.0]], half_sizes=(1.0, 1.0))
    >>> print(ramp.ray(jnp.array([0.0, 0.0, 2.0]), jnp.array([0.0, 0.0, -1.0])))
    1.5
    """

    heights: Float[Array, "r c"]
    half_sizes: Float[Array, "2"]
    base: Float[Array, ""]

    def __init__(self, heights: Any, half_sizes: Any, base: Any = 1.0):
        given = as_array("HeightField", "heights", heights, "an array of heights, of shape (rows, columns)")
        if given.ndim != 2 or min(given.shape) < 2:
            raise ValueError(
                f"HeightField: heights has shape {given.shape}; it is (rows, columns), at least 2 each"
            )
        self.heights = number("HeightField", "heights", heights, given.shape)
        self.half_sizes = number("HeightField", "half_sizes", half_sizes, (2,), above=0)
        self.base = number("HeightField", "base", base, least=0)

    def inertia(self, density):
        return Inertia.from_mesh(self._vertices(jnp), self._faces(), density=density)

    def triangles(self):
        return self._vertices(np), self._faces()

    def ray(self, origin, direction):
        return rays.triangles(origin, direction, self._vertices(jnp)[self._faces()])

    def _vertices(self, xp):
        """Returns the points of the surface, followed by the points below them on the base."""
        rows, columns = self.heights.shape
        x, y = (xp.asarray(self.half_sizes[i]) * np.linspace(-1, 1, n) for i, n in enumerate((columns, rows)))
        x, y = (xp.ravel(one) for one in xp.meshgrid(x, y))
        top = xp.ravel(xp.asarray(self.heights))
        bottom = xp.broadcast_to(-xp.asarray(self.base), top.shape)
        return xp.concatenate([xp.stack([x, y, z], axis=1) for z in (top, bottom)])

    def _faces(self) -> np.ndarray:
        rows, columns = self.heights.shape
        top = surfaces.grid(rows, columns)
        number = np.arange(rows * columns).reshape(rows, columns)
        rim = np.concatenate([number[0, :-1], number[:-1, -1], number[-1, :0:-1], number[:0:-1, 0]])
        here, after = rim, np.roll(rim, -1)
        below = rows * columns
        walls = [
            np.column_stack([here, here + below, after + below]),
            np.column_stack([here, after + below, after]),
        ]
        return np.vstack([top, top[:, ::-1] + below, *walls])
