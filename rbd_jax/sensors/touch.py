"""The contact force on a zone of a body."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .._core.arguments import instance
from .._core.array import vecmat, with_precision
from ..contact.contacts import of_pairs
from ..shapes.geometry import Geometry
from .places import Place, PlacedSensor


class Touch(PlacedSensor):
    """The sum of the normal forces of the body's contacts that act into a zone.

    - `place`: The name of the site of the zone, or another frame.
    - `zone`: The geometry of the zone, an `rbd.shapes.Sphere`, `Box` and so on.

    A contact counts if the line of its force, from its position on, meets the zone, as in MuJoCo. Without a contact model the
    reading is zero.

    >>> builder = rbd.ModelBuilder()
    >>> ball = builder.add_body("ball", joint=rbd.joints.Prismatic(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    >>> shapes = rbd.Shape("ball", "ball", rbd.shapes.Sphere(0.1)), rbd.Shape("floor", "world", rbd.shapes.Plane())
    >>> skin = rbd.sensors.Touch("skin", rbd.sensors.OnBody("ball"), rbd.shapes.Sphere(0.11))
    >>> model = rbd.attach(builder.build(), *shapes, rbd.contact.Soft(), skin)
    >>> rest = rbd.rollout(model, rbd.State(jnp.array([0.1]), jnp.zeros(1)), dt=0.01, steps=50).final
    >>> print(rbd.sense(model, rest)["skin"].round(2))  # the weight of 1 kg
    9.81
    """

    zone: Geometry

    def __init__(self, name: str, place: Place, zone: Geometry, **options: Any):
        super().__init__(name, [place], **options)
        instance(f"Touch {name!r}", "zone", zone, Geometry, "a geometry, as rbd.shapes.Sphere(0.1)")
        self.zone = zone

    @property
    def cuts(self):
        """Its body stays separate when welds are fused, because the body has its own contacts."""
        return self.places

    @classmethod
    def read(cls, sensors, sensing):
        found, model = sensing.loads.contacts, sensing.motion.model
        force = found.force
        if force is None or not found.shapes:
            return jnp.zeros((len(sensors), 1), sensing.motion.q.dtype)
        frames = sensing.world_frames(sensors)
        ends, pressed = found.bodies(model), []
        for row, (sensor, body) in enumerate(zip(sensors, sensing.bodies(sensors))):
            index = -1 if body == "world" else model.topology.body_index(body)
            first, second = (of_pairs(found, jnp.asarray(ends[:, k] == index)) for k in (0, 1))
            # The direction is from the first shape into the second, and so out of the zone if the zone is on the second.
            towards = jnp.where(second, -1, 1).astype(found.distance.dtype)[:, None] * found.normal
            start = vecmat(found.position - frames.position[row][None], frames.rotation[row][None])
            along = vecmat(towards, frames.rotation[row][None])
            zone = with_precision(sensor.zone, found.distance.dtype)
            met = jnp.isfinite(jax.vmap(zone.ray)(start, along)) & found.active & (first | second)
            pressed.append(jnp.sum(jnp.where(met, force[:, 0], 0)))
        return jnp.stack(pressed)[:, None]
