"""Forces at points of bodies, and among them those along a path from point to point (Sueda's notes, §1.4 and §1.9)."""

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


#: The name of what is no body: a point of it stays where it is.
WORLD = "world"


class PointForce(BodyForce):
    """Pulls at points, each fixed in a body or in the world.

    - `bodies`: the name of the body of each point, or `"world"`.
    - `points`: in the frame of that body.

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
                f"{force}: all its points are in the world, where they pull at nothing; name a body"
            )

    @property
    def frames(self):
        return Transform.from_position(self.points)

    def attached(self, bodies, frames, joints):
        return self.changed(bodies=tuple(bodies), points=frames.position)

    @abc.abstractmethod
    def pulls(self, positions: Float[Array, "k 3"], velocities: Float[Array, "k 3"]) -> Float[Array, "k 3"]:
        """The force at each point, in the world's axes; positions are about some point of the world."""

    @abc.abstractmethod
    def energy_of(self, positions: Float[Array, "k 3"], origin: Float[Array, "3"]) -> Float[Array, ""]:
        """The energy kept; `origin` is the point that positions are about."""

    def _names(self) -> list[str]:
        return [name for name in dict.fromkeys(self.bodies) if name != WORLD]

    def _rows(self) -> np.ndarray:
        """The body of each point, as a place among `_names`; -1 for the world."""
        places = {name: place for place, name in enumerate(self._names())}
        return np.array([places.get(name, -1) for name in self.bodies])

    def acts_on(self, model):
        known = [body_name(type(self).__name__, model, "bodies", name) for name in self._names()]
        return [model.body_index(name) for name in known]

    def body_wrenches(self, model, bodies):
        """`Γᵀ Rᵀ f` with `Γ = [x×ᵀ, 1]` (eq. 1.13), summed over the points of each body."""
        frames, positions, velocities = self._placed(bodies)
        own = vecmat(self.pulls(positions, velocities), frames.rotation)
        wrenches = jnp.concatenate([cross(self.points, own), own], axis=-1)
        return sum_rows(wrenches, self._rows(), len(self._names()))

    def body_energy(self, model, bodies):
        return self.energy_of(self._placed(bodies)[1], bodies.origin)

    def _placed(self, bodies: Bodies) -> tuple[Transform, Array, Array]:
        """Of each point: the frame of its body, its position, and its velocity `R Γ φ` (eq. 1.12)."""
        everything, rows = bodies.with_world(), self._rows()
        frames, twists = everything.frames.gather(rows), gather(everything.twists, rows)
        velocities = matvec(frames.rotation, twists[:, 3:] + cross(twists[:, :3], self.points))
        return frames, frames.point(self.points), velocities


class PathForce(PointForce):
    """One tension along a path that runs straight from point to point (eqs. 1.57 to 1.60).

    A segment without length has no direction, and pulls at nothing.

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
        """The force that shortens the path, from its length and the rate of that."""

    @abc.abstractmethod
    def energy_at(self, length: Float[Array, ""]) -> Float[Array, ""]:
        """The energy kept at that length."""

    def length(self, model: Model, q: Float[Array, "nq"]) -> Float[Array, ""]:
        """The length of the path."""
        force, bodies, _ = self._bodies(model, q)
        return _stretch(*force._placed(bodies)[1:])[1]

    def tension(self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, ""]:
        """The force with which the path pulls its ends together."""
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
    """Of a path: the direction of each segment, the length of all, and its rate (eqs. 1.57 and 1.58)."""
    lengths, directions = lengths_and_directions(positions[1:] - positions[:-1])
    return directions, jnp.sum(lengths), jnp.sum(dot(directions, velocities[1:] - velocities[:-1]))


def lengths_and_directions(
    x: Float[Array, "k 3"],
) -> tuple[Float[Array, "k"], Float[Array, "k 3"]]:
    """The length and the direction of each row. What is too short to have a direction gets zero, with all derivatives."""
    square = dot(x, x)
    # Of the second derivative of a direction, square^(-5/2) is the largest factor: it must be a number.
    apart = square > float(jnp.finfo(x.dtype).tiny) ** 0.4
    length = jnp.sqrt(jnp.where(apart, square, 1))
    return jnp.where(apart, length, 0), jnp.where(apart[:, None], x / length[:, None], 0)
