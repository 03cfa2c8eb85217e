"""Springs and dampers along the edges of a graph: ropes, cloth, lattices (Sueda's notes, eqs. 2.85 and 2.86)."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import number
from .._core.array import dot, gather, sum_rows
from ..model import Model
from ._point import PointForce, lengths_and_directions


class SpringNetwork(PointForce):
    """The tension `k (l - L) + d l̇` along edges between points, each fixed in a body or in the world.

    Each edge equals a `SpringDamper`. All edges are evaluated together, so the size of the compiled
    program does not depend on their number.

    - `bodies`, `points`: the nodes, as for every `PointForce`.
    - `edges`: pairs of node indices.
    - `rest_lengths` L, `spring_constants` k in N/m, `damping_constants` d in N s/m: one value per edge, or one for all. The
      constants of (2.85) are k L².

    >>> bodies, points = ["world", "upper", "lower"], [(1.0, 0.0, 0.0), (0.0, 0.0, -1.0), (0.0, 0.0, -1.0)]
    >>> net = rbd.forces.SpringNetwork(bodies, points, [(0, 1), (0, 2)], rest_lengths=[1.0, 2.0], spring_constants=10.0)
    >>> print(net(rbd.load("double_pendulum"), jnp.zeros(2), jnp.zeros(2)))
    [-5.04  -1.056]
    """

    edges: tuple[tuple[int, int], ...] = eqx.field(static=True)
    rest_lengths: Float[Array, "edges"]
    spring_constants: Float[Array, "edges"]
    damping_constants: Float[Array, "edges"]

    def __init__(self, bodies, points, edges, rest_lengths, spring_constants, damping_constants: Any = 0.0):
        super().__init__(bodies, points)
        self.edges = pairs("SpringNetwork", edges, len(self.bodies))
        self.rest_lengths = self._for_each("rest_lengths", rest_lengths, above=0)
        self.spring_constants = self._for_each("spring_constants", spring_constants, least=0)
        self.damping_constants = self._for_each("damping_constants", damping_constants, least=0)

    def lengths(self, model: Model, q: Float[Array, "nq"]) -> Float[Array, "edges"]:
        """Returns the length of every edge."""
        network, bodies, _ = self._bodies(model, q)
        positions = network._placed(bodies)[1]
        return network._stretched(positions, jnp.zeros_like(positions))[1]

    def tensions(self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "edges"]:
        """Returns the tension of every edge."""
        network, bodies, _ = self._bodies(model, q, v)
        return network._tensions(*network._stretched(*network._placed(bodies)[1:])[1:])

    def pulls(self, positions, velocities):
        directions, *stretch = self._stretched(positions, velocities)
        pull = self._tensions(*stretch)[:, None] * directions
        return sum_rows(jnp.concatenate([pull, -pull]), np.array(self.edges).T.reshape(-1), len(positions))

    def energy_of(self, positions, origin):
        lengths = self._stretched(positions, jnp.zeros_like(positions))[1]
        return 0.5 * jnp.sum(self.spring_constants * (lengths - self.rest_lengths) ** 2)

    def _tensions(self, lengths, rates):
        return self.spring_constants * (lengths - self.rest_lengths) + self.damping_constants * rates

    def _stretched(self, positions, velocities):
        """Returns the direction of each edge, its length, and the rate of its length."""
        first, second = np.array(self.edges).T
        lengths, directions = lengths_and_directions(gather(positions, second) - gather(positions, first))
        return directions, lengths, dot(directions, gather(velocities, second) - gather(velocities, first))

    def _for_each(self, name, value, **bounds):
        return spread("SpringNetwork", name, value, len(self.edges), **bounds)


def pairs(force: str, edges, count: int) -> tuple[tuple[int, int], ...]:
    """Checks pairs of different indices below `count`, at least one pair, and returns them as tuples."""
    given = np.asarray(edges)
    if given.ndim != 2 or given.shape[1] != 2 or not len(given) or given.dtype.kind not in "iu":
        raise ValueError(
            f"{force}: edges is of shape {given.shape} and type {given.dtype}; it takes pairs of integers"
        )
    for edge, (first, second) in enumerate(given.tolist()):
        if first == second or not (0 <= first < count and 0 <= second < count):
            raise ValueError(
                f"{force}: edges[{edge}] is {(first, second)}; it must join two different nodes of the {count}, from 0"
            )
    return tuple((first, second) for first, second in given.tolist())


def spread(force: str, name: str, value, count: int, **bounds) -> Float[Array, "count"]:
    """Checks a value, and returns one value per item, from one per item or from one for all."""
    shape = () if np.shape(value) == () else (count,)
    return jnp.broadcast_to(number(force, name, value, shape, **bounds), (count,))
