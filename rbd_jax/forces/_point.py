"""Forces at points of bodies, including forces along a path from point to point (Sueda's notes, §1.4 and §1.9)."""

from __future__ import annotations

import abc

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import body_name, names, number
from .._core.array import cross, dot, gather, matvec, sum_rows, vecmat
from ..dynamics import Bodies
from ..model import Model
from ..spatial.transform import Transform
from ._body import BodyForce


#: The name of the world; a point of the world does not move.
WORLD = "world"


class PointForce(BodyForce):
    """A force at points, each fixed in a body or in the world.

    - `bodies`: the name of each point's body, or `"world"`.
    - `points`: the points in the frames of these bodies.

    >>> wind = rbd.forces.DirectionalForce("bob", (0.0, 0.0, -1.0), (1.0, 0.0, 0.0))
    >>> print(isinstance(wind, rbd.forces.PointForce), wind.bodies)
    True ('bob',)
    """

    bodies: tuple[str, ...] = eqx.field(static=True)
    points: Float[Array, "k 3"]

    def __init__(self, bodies, points, count: int | None = None):
        force = type(self).__name__
        self.bodies = names(force, "bodies", bodies, count)
        self.points = number(force, "points", points, (len(self.bodies), 3))
        if set(self.bodies) == {WORLD}:
            raise ValueError(
                f"{force}: all its points are in the world, where forces have no effect; name a body"
            )

    @property
    def frames(self):
        return Transform.from_position(self.points)

    def attached(self, bodies, frames, joints):
        return self.changed(bodies=tuple(bodies), points=frames.position)

    @abc.abstractmethod
    def pulls(self, positions: Float[Array, "k 3"], velocities: Float[Array, "k 3"]) -> Float[Array, "k 3"]:
        """Returns the force at each point, in the world's axes; positions are relative to some point of the world."""

    @abc.abstractmethod
    def energy_of(self, positions: Float[Array, "k 3"], origin: Float[Array, "3"]) -> Float[Array, ""]:
        """Returns the stored energy; `origin` is the reference point of the positions."""

    def _names(self) -> list[str]:
        return [name for name in dict.fromkeys(self.bodies) if name != WORLD]

    def _rows(self) -> np.ndarray:
        """Returns the index of each point's body in `_names`, -1 for the world."""
        places = {name: place for place, name in enumerate(self._names())}
        return np.array([places.get(name, -1) for name in self.bodies])

    def acts_on(self, model):
        known = [body_name(type(self).__name__, model, "bodies", name) for name in self._names()]
        return [model.body_index(name) for name in known]

    def body_wrenches(self, model, bodies):
        """Returns `Γᵀ Rᵀ f` with `Γ = [x×ᵀ, 1]` (eq. 1.13), summed over the points of each body."""
        frames, positions, velocities = self._placed(bodies)
        own = vecmat(self.pulls(positions, velocities), frames.rotation)
        wrenches = jnp.concatenate([cross(self.points, own), own], axis=-1)
        return sum_rows(wrenches, self._rows(), len(self._names()))

    def body_energy(self, model, bodies):
        return self.energy_of(self._placed(bodies)[1], bodies.origin)

    def _placed(self, bodies: Bodies) -> tuple[Transform, Array, Array]:
        """Returns for each point the frame of its body, its position, and its velocity `R Γ φ` (eq. 1.12)."""
        everything, rows = bodies.with_world(), self._rows()
        frames, twists = everything.frames.gather(rows), gather(everything.twists, rows)
        velocities = matvec(frames.rotation, twists[:, 3:] + cross(twists[:, :3], self.points))
        return frames, frames.point(self.points), velocities


class PathForce(PointForce):
    """A uniform tension along a path that runs straight from point to point (eqs. 1.57 to 1.60).

    A segment of zero length has no direction and exerts no force.

    >>> cable = rbd.forces.Cable(["world", "bob"], [(1.0, 0.0, 0.0), (0.0, 0.0, -1.0)], rest_length=1.0, spring_constant=100.0)
    >>> print(isinstance(cable, rbd.forces.PathForce), cable.bodies)
    True ('world', 'bob')
    """

    def __init__(self, bodies, points, count: int | None = None):
        super().__init__(bodies, points, count)
        if len(self.bodies) < 2:
            raise ValueError(f"{type(self).__name__}: a path has two points or more, not one")

    @abc.abstractmethod
    def tension_at(self, length: Float[Array, ""], rate: Float[Array, ""]) -> Float[Array, ""]:
        """Returns the tension that shortens the path, from its length and the rate of its length."""

    @abc.abstractmethod
    def energy_at(self, length: Float[Array, ""]) -> Float[Array, ""]:
        """Returns the stored energy at a length."""

    def length(self, model: Model, q: Float[Array, "nq"]) -> Float[Array, ""]:
        """Returns the length of the path."""
        force, bodies, _ = self._bodies(model, q)
        return _stretch(*force._placed(bodies)[1:])[1]

    def tension(self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, ""]:
        """Returns the tension that pulls the ends of the path together."""
        force, bodies, _ = self._bodies(model, q, v)
        return force.tension_at(*_stretch(*force._placed(bodies)[1:])[1:])

    def pulls(self, positions, velocities):
        directions, length, rate = _stretch(positions, velocities)
        pull = self.tension_at(length, rate) * directions
        nothing = jnp.zeros_like(pull[:1])
        return jnp.concatenate([pull, nothing]) - jnp.concatenate([nothing, pull])

    def energy_of(self, positions, origin):
        return self.energy_at(_stretch(positions, jnp.zeros_like(positions))[1])


def _stretch(positions: Float[Array, "k 3"], velocities: Float[Array, "k 3"]):
    """Returns the direction of each segment of a path, the total length, and its rate (eqs. 1.57 and 1.58)."""
    lengths, directions = lengths_and_directions(positions[1:] - positions[:-1])
    return directions, jnp.sum(lengths), jnp.sum(dot(directions, velocities[1:] - velocities[:-1]))


def lengths_and_directions(
    x: Float[Array, "k 3"],
) -> tuple[Float[Array, "k"], Float[Array, "k 3"]]:
    """Returns the length and the direction of each row; both are zero, with all derivatives, for rows too short."""
    square = dot(x, x)
    # The largest factor in the second derivative of a direction, square^(-5/2), must be finite.
    apart = square > float(jnp.finfo(x.dtype).tiny) ** 0.4
    length = jnp.sqrt(jnp.where(apart, square, 1))
    return jnp.where(apart, length, 0), jnp.where(apart[:, None], x / length[:, None], 0)
