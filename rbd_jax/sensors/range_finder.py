"""The distance to the nearest shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._core.arguments import names
from ..dynamics.rays import nearest_shapes, shapes_of
from ..spatial import Reference
from .places import Place, PlacedSensor


class RangeFinder(PlacedSensor):
    """The distance from its origin along its z axis to the nearest shape, -1 without a hit, as in MuJoCo.

    - `place`: The name of a site, or another frame.
    - `ignored`: The names of shapes that the ray passes through; by default those of its own body and those with zero opacity.

    See `rbd.ray_distances` for the surfaces that a ray hits. The reading jumps where the ray reaches or leaves a shape; the
    gradient is that of the smooth parts.

    >>> builder = rbd.ModelBuilder()
    >>> lift = builder.add_body("lift", joint=rbd.joints.Prismatic(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    >>> down = rbd.sensors.OnBody("lift", rbd.Transform.from_xyz_rpy((0.0, 0.0, 0.0), (jnp.pi, 0.0, 0.0)))
    >>> floor = rbd.Shape("floor", "world", rbd.shapes.Plane())
    >>> model = rbd.attach(builder.build(), floor, rbd.sensors.RangeFinder("height", down))
    >>> print(rbd.sense(model, rbd.State(jnp.array([0.7]), jnp.zeros(1)))["height"])
    0.7
    """

    ignored: tuple[str, ...] | None = eqx.field(static=True)

    def __init__(self, name: str, place: Place, ignored: Sequence[str] | None = None, **options: Any):
        super().__init__(name, [place], **options)
        given = tuple(ignored or ())
        self.ignored = (
            names(f"RangeFinder {name!r}", "ignored", given) if given else None if ignored is None else ()
        )

    @property
    def refers(self):
        return (*super().refers, *(Reference("shape", name) for name in self.ignored or ()))

    @property
    def cuts(self):
        """By default its body stays separate when welds are fused, because it determines the ignored shapes."""
        return self.places if self.ignored is None else ()

    def called(self, name, refers):
        own = len(super().refers)
        ignored = None if self.ignored is None else tuple(one.name for one in refers[own:])
        return super().called(name, refers[:own]).changed(ignored=ignored)

    @classmethod
    def read(cls, sensors, sensing):
        frames = sensing.world_frames(sensors)
        shapes, bodies = shapes_of(sensing.motion.model), sensing.bodies(sensors)
        seen = np.array(
            [[one.sees(shape, body) for shape in shapes] for one, body in zip(sensors, bodies)], bool
        )
        distance = nearest_shapes(sensing.motion, frames.position, frames.rotation[:, :, 2], seen)
        met = jnp.isfinite(distance)
        return jnp.where(met, distance, -1)[:, None]

    def sees(self, shape, body: str) -> bool:
        """Returns whether the ray of a sensor on `body` can hit a shape."""
        if self.ignored is None:
            return shape.body != body and shape.rgba[3] > 0
        return shape.name not in self.ignored
