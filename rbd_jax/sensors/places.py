"""Places of sensors: at sites, on bodies, at shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import names, vector
from ..spatial import Reference, no_frames
from ..spatial.transform import Transform
from .sensor import Sensor


class OnBody(eqx.Module):
    """A frame on a body, as the place of a sensor.

    - `body`: The name of the body, or "world".
    - `placement`: The frame in the frame of the body, or the position of its origin; by default the body's own frame.

    >>> tip = rbd.sensors.OnBody("lower", (0.0, 0.0, -1.0))
    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.sensors.FramePosition("tip", tip))
    >>> print(rbd.sense(model, rbd.State(jnp.zeros(2), jnp.zeros(2)))["tip"])
    [ 0.  0. -2.]
    """

    body: str = eqx.field(static=True)
    placement: Transform

    def __init__(self, body: str, placement: Transform | Float[Array, "3"] | tuple = (0.0, 0.0, 0.0)):
        (self.body,) = names("OnBody", "body", body, 1)
        if not isinstance(placement, Transform):
            expected = "it takes a Transform, or a point, of shape (3,)"
            placement = Transform.from_position(vector("OnBody", "placement", placement, 3, expected))
        self.placement = placement


class OnShape(eqx.Module):
    """The frame of a shape, as the place of a sensor.

    - `shape`: The name of the shape.

    >>> ball = rbd.Shape("ball", "lower", rbd.shapes.Sphere(0.1), (0.0, 0.0, -1.0))
    >>> model = rbd.attach(rbd.load("double_pendulum"), ball, rbd.sensors.FramePosition("tip", rbd.sensors.OnShape("ball")))
    >>> print(rbd.sense(model, rbd.State(jnp.zeros(2), jnp.zeros(2)))["tip"])
    [ 0.  0. -2.]
    """

    shape: str = eqx.field(static=True)

    def __init__(self, shape: str):
        (self.shape,) = names("OnShape", "shape", shape, 1)


#: The place of a sensor: the name of a site, or another frame.
Place: TypeAlias = str | OnBody | OnShape


class PlacedSensor(Sensor):
    """A sensor at a frame, optionally with a reference frame.

    - `places`: The owners of the frames: sites, shapes, or bodies.
    - `placements`: The frames on bodies, in the frame of the body: (k,).

    >>> imu = rbd.sensors.Gyro("gyro", rbd.sensors.OnBody("trunk"))
    >>> print(isinstance(imu, rbd.sensors.PlacedSensor), imu.bodies)
    True ('trunk',)
    """

    places: tuple[Reference, ...] = eqx.field(static=True)
    placements: Transform

    def __init__(self, name: str, places: Sequence[Place], **options: Any):
        super().__init__(name, **options)
        found, placements = [], []
        for place in places:
            if isinstance(place, str):
                found.append(Reference("site", place))
            elif isinstance(place, OnShape):
                found.append(Reference("shape", place.shape))
            elif isinstance(place, OnBody):
                found.append(Reference("body", place.body))
                placements.append(place.placement)
            else:
                raise ValueError(
                    f"{type(self).__name__} {name!r}: a place is {place!r}; it is the name of a site, or "
                    "rbd.sensors.OnBody(body, placement), or rbd.sensors.OnShape(shape)"
                )
        self.places = tuple(found)
        self.placements = jax.tree.map(lambda *x: jnp.stack(x), *placements) if placements else no_frames()

    @property
    def bodies(self):
        return tuple(place.name for place in self.places if place.role == "body")

    @property
    def frames(self):
        return self.placements

    @property
    def refers(self):
        return tuple(place for place in self.places if place.role != "body")

    def attached(self, bodies, frames, joints):
        given = iter(bodies)
        places = [Reference("body", next(given)) if one.role == "body" else one for one in self.places]
        return self.changed(places=tuple(places), placements=frames)

    def called(self, name, refers):
        given = iter(refers)
        places = [one if one.role == "body" else next(given) for one in self.places]
        return self.changed(name=name, places=tuple(places))
