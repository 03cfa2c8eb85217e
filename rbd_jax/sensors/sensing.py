"""Reading the sensors of a model: all sensors from one motion, each type in one expression."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.array import clamped, cross, gather, gather_or_zero, matvec, vecmat, with_precision
from ..contact.contacts import Contacts
from ..dynamics import Bodies, Motion
from ..dynamics.sites import frames_on
from ..model import Model
from ..spatial import Reference, no_frames
from ..spatial.transform import Transform
from .places import PlacedSensor
from .sensor import Sensor


class Loads(abc.ABC):
    """The forces on a model in a state, and quantities that follow from them."""

    @property
    @abc.abstractmethod
    def acceleration(self) -> Float[Array, "nv"]:
        """The acceleration of the model."""

    @property
    @abc.abstractmethod
    def joint_wrenches(self) -> Float[Array, "nb 6"]:
        """The wrenches that its joints transmit (see `rbd.joint_wrenches`)."""

    @property
    @abc.abstractmethod
    def actuator_forces(self) -> Float[Array, "nu"]:
        """The force of each actuator along its length."""

    @property
    @abc.abstractmethod
    def contacts(self) -> Contacts:
        """The contact points, with the force at each."""

    @property
    @abc.abstractmethod
    def driving(self) -> Float[Array, "nv"]:
        """The generalized force that drives its joints."""


class Masses(NamedTuple):
    """The masses and momenta of the bodies, in the world's axes about `origin`.

    - `position`: The position of the body's origin.
    - `spin`: The angular momentum about the body's origin.
    """

    origin: Float[Array, "3"]
    position: Float[Array, "nb 3"]
    mass: Float[Array, "nb"]
    first_moment: Float[Array, "nb 3"]
    momentum: Float[Array, "nb 3"]
    spin: Float[Array, "nb 3"]


class Sensing:
    """The quantities that sensors read. Each is computed on first use, for all sensors together.

    - `motion`: The model in motion.
    - `loads`: The forces on it.

    >>> class Doubled(rbd.sensors.JointPosition):
    ...     @classmethod
    ...     def read(cls, sensors, sensing: rbd.sensors.Sensing):
    ...         return 2 * super().read(sensors, sensing)
    >>> model = rbd.attach(rbd.load("pendulum"), Doubled("angle", "swing"))
    >>> print(rbd.sense(model, rbd.State(jnp.array([0.3]), jnp.zeros(1)))["angle"])
    0.6
    """

    def __init__(self, motion: Motion, sensors: Sequence[Sensor], loads: Callable[[], Loads]):
        self.motion, self._loads = motion, loads
        self._bodies, self._placements, self._rows = _table(motion.model.attached, sensors)

    @functools.cached_property
    def loads(self) -> Loads:
        return self._loads()

    # One row per sensor, for its frame or its reference frame; the world if the sensor has no such frame.

    def frames(self, sensors: Sequence[PlacedSensor], which: int = 0) -> Transform:
        """Returns their frames, in the world's axes about a nearby point that is the same for all."""
        return self._placed.frames.gather(self._places(sensors, which))

    def world_frames(self, sensors: Sequence[PlacedSensor], which: int = 0) -> Transform:
        """Returns their frames, in the world."""
        frames = self.frames(sensors, which)
        return Transform(frames.rotation, frames.position + self._placed.origin[None])

    def twists(self, sensors: Sequence[PlacedSensor], which: int = 0) -> Float[Array, "k 6"]:
        """Returns `[ω; v]` of their frames, each in its own axes."""
        return gather(self._placed.twists, self._places(sensors, which))

    def proper_accelerations(self, sensors: Sequence[PlacedSensor]) -> Float[Array, "k 6"]:
        """Returns `[ω̇; r̈ - g]` of their frames, each in its own axes."""
        return gather(self._proper, self._places(sensors, 0))

    def wrenches(self, sensors: Sequence[PlacedSensor]) -> Float[Array, "k 6"]:
        """Returns `[n; f]` that the bodies of their frames receive from their parents, each in its own axes about its origin."""
        return gather(self._transmitted, self._places(sensors, 0))

    @functools.cached_property
    def masses(self) -> Masses:
        """The masses and momenta of the bodies."""
        model = self.motion.model
        bodies = self.motion.bodies(range(model.nb))
        rotation, position, inertias = bodies.frames.rotation, bodies.frames.position, model.inertias
        momenta = inertias.momentum(bodies.twists)
        return Masses(
            bodies.origin,
            position,
            inertias.mass,
            matvec(rotation, inertias.first_moment) + inertias.mass[:, None] * position,
            matvec(rotation, momenta[:, 3:]),
            matvec(rotation, momenta[:, :3]),
        )

    def bodies(self, sensors: Sequence[PlacedSensor]) -> list[str]:
        """Returns the names of the bodies of their frames."""
        return [self._bodies[row] for row in self._places(sensors, 0)]

    def _places(self, sensors, which):
        return np.array([self._rows.get((sensor.name, which), -1) for sensor in sensors])

    @functools.cached_property
    def _placed(self) -> Bodies:
        """All frames, with the world's frame last."""
        return frames_on(self.motion, self._bodies, self._placements).with_world()

    @functools.cached_property
    def _own_placements(self) -> Transform:
        return with_precision(self._placements, self.motion.q.dtype)

    @property
    def _carriers(self) -> np.ndarray:
        """The body of each frame, -1 for the world."""
        model = self.motion.model
        return np.array(
            [-1 if body == "world" else model.topology.body_index(body) for body in self._bodies], int
        )

    @functools.cached_property
    def _proper(self):
        motion, model, placed = self.motion, self.motion.model, self._placed
        columns = motion.accelerations(self.loads.acceleration, jnp.zeros(6, motion.q.dtype))
        of_bodies = motion.in_bodies(gather(columns, model.topology.last_column))
        spatial = self._own_placements.inverse_motion(gather_or_zero(of_bodies, self._carriers))
        twists, rotation = placed.twists[:-1], placed.frames.rotation[:-1]
        linear = spatial[:, 3:] + cross(twists[:, :3], twists[:, 3:]) - vecmat(model.gravity, rotation)
        return jnp.concatenate([spatial[:, :3], linear], axis=1)

    @functools.cached_property
    def _transmitted(self):
        model, wrenches = self.motion.model, self.loads.joint_wrenches
        if "world" in self._bodies:  # the world carries all bodies
            roots = np.flatnonzero(np.array(model.topology.parents, int) < 0)
            carried = self.motion.world_frames.gather(roots).force(gather(wrenches, roots))
            wrenches = jnp.concatenate([wrenches, jnp.sum(carried, axis=0)[None]])
        return self._own_placements.inverse_force(gather(wrenches, self._carriers))


def _table(attached, sensors):
    """Returns the bodies and placements of all sensor frames (each site once), and the row of each sensor's frames."""
    known = {Reference(thing.role, thing.name): thing for thing in attached if thing.name}
    bodies, placements, rows, others = [], [], {}, {}
    for sensor in sensors:
        if not isinstance(sensor, PlacedSensor):
            continue
        own = 0
        for which, place in enumerate(sensor.places):
            if place in others:
                rows[sensor.name, which] = others[place]
                continue
            rows[sensor.name, which] = len(bodies)
            if place.role == "body":
                bodies.append(place.name)
                placements.append(jax.tree.map(lambda leaf, own=own: leaf[own : own + 1], sensor.placements))
                own += 1
            else:
                others[place] = len(bodies)
                bodies.append(known[place].bodies[0])
                placements.append(known[place].frames)
    placed = jax.tree.map(lambda *x: jnp.concatenate(x), *placements) if placements else no_frames()
    return bodies, placed, rows


def sensors_of(model: Model) -> tuple[Sensor, ...]:
    """Returns the sensors of a model, in their order."""
    return model.sensors  # pyright: ignore[reportReturnType]


def values(sensing: Sensing, sensors: Sequence[Sensor]) -> Float[Array, "n"]:
    """Returns the concatenated readings of sensors without errors."""
    families: dict[type, list[int]] = {}
    for index, sensor in enumerate(sensors):
        families.setdefault(type(sensor), []).append(index)
    if not families:
        return jnp.zeros(0, sensing.motion.q.dtype)
    parts = []
    for family, members in families.items():
        read = family.read([sensors[index] for index in members], sensing)
        parts.append(read.astype(sensing.motion.q.dtype).reshape(-1))
    starts = _starts(sensors)
    order = [
        starts[index] + k
        for members in families.values()
        for index in members
        for k in range(sensors[index].size)
    ]
    return gather(jnp.concatenate(parts), np.argsort(order))


def measured(
    sensors: Sequence[Sensor], read: Float[Array, "*batch n"], errors: Float[Array, "*batch n"] | None
) -> Float[Array, "*batch n"]:
    """Returns readings with errors, normalized if they are unit vectors, and clipped to the cutoff."""
    if errors is not None:
        read = read + errors
        starts = _starts(sensors)
        order = np.arange(read.shape[-1])
        parts, at = [read], read.shape[-1]
        for size in sorted({one.size for one in sensors if one.unit}):
            own = [
                start + np.arange(size)
                for start, one in zip(starts, sensors)
                if one.unit and one.size == size
            ]
            rows = read[..., np.stack(own)]
            square = jnp.sum(rows**2, axis=-1, keepdims=True)
            rows = rows / jnp.sqrt(jnp.where(square > 0, square, 1))
            parts.append(rows.reshape(*read.shape[:-1], -1))
            order[np.concatenate(own)] = at + np.arange(size * len(own))
            at += size * len(own)
        read = jnp.concatenate(parts, axis=-1)[..., order]
    if all(sensor.cutoff is None for sensor in sensors):
        return read
    most = per_number(sensors, [one.cutoff for one in sensors], jnp.inf, read.dtype)
    most = jnp.broadcast_to(most, read.shape)
    return clamped(read, -most, most)


def per_number(sensors: Sequence[Sensor], given: Sequence, otherwise: float, dtype) -> Float[Array, "n"]:
    """Repeats one number per sensor for each of its readings; `otherwise` replaces None."""
    known = [jnp.asarray(x, dtype) for x in given if x is not None]
    place = np.cumsum([x is not None for x in given]) * [x is not None for x in given]
    own = jnp.stack([jnp.asarray(otherwise, dtype), *known])
    return gather(own, np.repeat(place, [sensor.size for sensor in sensors]))


def _starts(sensors: Sequence[Sensor]) -> np.ndarray:
    return np.cumsum([0, *(sensor.size for sensor in sensors)])
