"""Writes the sensors of an MJCF file, the inverse of `files/mjcf/sensors.py`."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement

import numpy as np

from .... import sensors
from ....sensors.driven import NamedSensor
from ....sensors.joint import LimitSensor
from ....sensors.places import PlacedSensor
from ....sensors.sensor import BodySensor, JointSensor, Sensor
from ....shapes import Geometry, HeightField, Mesh
from ....shapes.shape import Shape
from ....spatial import Reference
from ....spatial.transform import Transform
from ...mjcf.sensors import (
    ACCELERATIONS,
    ACTUATORS,
    FRAMES,
    JOINTS,
    LIMITS,
    SITES,
    SUBTREES,
    TENDONS,
    WHOLE,
)
from ..numerals import text
from .document import Document, late_by, site_at
from .shapes import type_and_size


#: The element of each family of sensors. For an axis of a frame it includes the letter of the axis.
TAGS: dict[type, str] = {
    family: kind.lower()
    for table in (JOINTS, ACTUATORS, TENDONS, LIMITS, SITES, FRAMES, ACCELERATIONS, SUBTREES, WHOLE)
    for kind, family in table.items()
} | {
    sensors.JointForce: "jointactuatorfrc",
    sensors.TendonForce: "tendonactuatorfrc",
    sensors.Magnetometer: "magnetometer",
    sensors.RangeFinder: "rangefinder",
    sensors.Touch: "touch",
}

#: The families that require a site. Other sensors of frames also accept bodies.
AT_SITES = (*SITES.values(), sensors.Magnetometer, sensors.RangeFinder, sensors.Touch)


def write_sensor(out: Document, sensor: Sensor) -> bool:
    family = type(sensor)
    tag = f"frame{sensor.axis}axis" if isinstance(sensor, sensors.FrameAxis) else TAGS.get(family)
    if tag is None:
        return False
    attributes: dict[str, str] = {}
    if isinstance(sensor, JointSensor):
        if sensor.joint not in out.joints:
            return False
        attributes["joint"] = sensor.joint
        if isinstance(sensor, LimitSensor):
            if not out.agrees(out.named("joint", sensor.joint), margin=text(sensor.margin)):
                return False
    elif isinstance(sensor, PlacedSensor):
        if isinstance(sensor, sensors.Magnetometer):
            if not out.agrees(out.section("option"), magnetic=text(sensor.field)):
                return False
        if isinstance(sensor, sensors.RangeFinder) and not _sees_as_there(out, sensor):
            return False
        attributes |= _places(out, sensor, at_site=family in AT_SITES)
        if isinstance(sensor, sensors.Touch) and not _shaped(out, attributes["site"], sensor.zone):
            return False
    elif isinstance(sensor, BodySensor):
        attributes["body"] = sensor.body
    elif isinstance(sensor, NamedSensor):
        attributes[sensor.of] = sensor.measured
    element = SubElement(out.section("sensor"), tag, {"name": sensor.name} | attributes)
    _write_options(out, element, sensor)
    return True


def _places(out: Document, sensor: PlacedSensor, at_site: bool) -> dict[str, str]:
    """Returns the attributes for the frames of a sensor."""
    frames = iter(range(len(sensor.bodies)))
    found: dict[str, str] = {}
    for place, words in zip(sensor.places, (("objtype", "objname"), ("reftype", "refname"))):
        if place.role == "body":
            kind, name = _on_body(out, sensor, place, sensor.frames[next(frames)], at_site)
        elif place.role == "shape":
            kind, name = _at_shape(out, sensor, place, at_site)
        else:
            kind, name = "site", place.name
        found |= {"site": name} if at_site else dict(zip(words, (kind, name)))
    return found


def _shaped(out: Document, site: str, zone: Geometry) -> bool:
    """Gives a site the geometry of a zone, and returns whether that is possible."""
    words = type_and_size(zone)
    return words is not None and out.agrees(out.named("site", site), **words)


def _sees_as_there(out: Document, sensor: sensors.RangeFinder) -> bool:
    """Returns whether a range finder ignores the same shapes as MuJoCo's.

    MuJoCo ignores the shapes of the body, and fully transparent shapes. A material's opacity takes precedence over the
    shape's.
    """
    (place,) = sensor.places
    body = place.name if place.role == "body" else out.model.named(place.role, place.name).bodies[0]
    shapes = [shape for shape in out.model.shapes if isinstance(shape, Shape)]
    through = {one.name for one in shapes if one.body == body or (not one.rgba[3] and not one.material)}
    return through == {shape.name for shape in shapes if not sensor.sees(shape, body)}


def _at_shape(out: Document, sensor: Sensor, place: Reference, at_site: bool) -> tuple[str, str]:
    """Returns a geom if MuJoCo leaves its frame unchanged, or else a site."""
    shape = out.model.named("shape", place.name)
    if not at_site and isinstance(shape, Shape) and not isinstance(shape.geometry, Mesh | HeightField):
        return "geom", place.name
    return "site", site_at(out, f"{sensor.name}:{place.name}", shape.bodies[0], shape.frames[0])


def _on_body(
    out: Document, sensor: Sensor, place: Reference, frame: Transform, at_site: bool
) -> tuple[str, str]:
    """Returns a body if the frame is the body's frame, or else a site."""
    own = np.array_equal(frame.rotation, np.eye(3)) and not np.any(frame.position)
    if own and not at_site:
        return "xbody", place.name
    return "site", site_at(out, f"{sensor.name}:{place.name}", place.name, frame)


def _write_options(out: Document, element: Element, sensor: Sensor) -> None:
    if sensor.cutoff is not None:
        element.set("cutoff", text(sensor.cutoff))
    if sensor.noise is not None:
        element.set("noise", text(sensor.noise.deviation))
        if sensor.noise.bias or sensor.noise.drift:
            out.losses.add("bias and drift of sensors", sensor.name)
    element.attrib.update(late_by(out, sensor.delay))
