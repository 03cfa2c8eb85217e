"""An MJCF file that is being written."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from ....model import Body, Model
from ....shapes import Cylinder, Sphere
from ....shapes.mesh import MeshSource
from ....shapes.shape import Shape
from ....spatial.attached import Attached
from ....spatial.transform import Transform
from ...mjcf.compiled import unused
from ...placement import quaternion
from ..losses import Losses
from ..numerals import text
from ..series import Part


#: Maximum length of the buffer of a delayed sensor or actuator, in samples.
MOST_SAMPLES = 100_000


@dataclass(frozen=True)
class Written:
    """A joint in the file, and its coordinates within the joint of the model.

    - `kind`: "hinge", "slide", "ball" or "free".
    - `part`: the part of the body's joint that it represents or belongs to; `q` and `v` are its indices in that joint.
    """

    body: Body
    kind: str
    part: Part
    q: tuple[int, ...]
    v: tuple[int, ...]


@dataclass
class Document:
    """The file, and the place of each part of the model in it."""

    model: Model
    root: Element
    world: Element
    losses: Losses
    #: The element of each body.
    bodies: dict[str, Element] = field(default_factory=dict)
    #: The joints of the file, by name.
    joints: dict[str, Written] = field(default_factory=dict)
    #: The meshes of the file, by the source of their triangles and their scale.
    meshes: dict[tuple[MeshSource, str], str] = field(default_factory=dict)

    def __post_init__(self):
        self.bodies["world"] = self.world

    def section(self, tag: str) -> Element:
        """Returns a section of the file, which is created on first use."""
        found = self.root.find(tag)
        return SubElement(self.root, tag) if found is None else found

    def unused(self, tag: str, name: str) -> str:
        """Returns the name, with underscores appended until it is unique among its kind."""
        taken = {element.get("name", "") for element in self.root.iter(tag)}
        taken |= {thing.name for thing in self.model.attached}
        return unused(name, taken)

    def named(self, tag: str, name: str) -> Element:
        """Returns the element with this tag and this name."""
        return next(element for element in self.root.iter(tag) if element.get("name") == name)

    def agrees(self, element: Element, **values: str) -> bool:
        """Sets attributes shared by several users of an element. Returns False if the element has other values already."""
        if any(element.get(key, value) != value for key, value in values.items()):
            return False
        element.attrib.update(values)
        return True

    def joint_names(self) -> list[str]:
        """Returns the joints in the order of MuJoCo's coordinates."""
        return [joint.attrib["name"] for joint in self.world.iter() if joint.tag == "joint"]


def set_frame(element: Element, rotation, position) -> None:
    """Sets `pos` and `quat`, unless they are the identity."""
    if np.any(position):
        element.set("pos", text(position))
    if not np.array_equal(rotation, np.eye(3)):
        element.set("quat", text(quaternion(rotation)))


def place(element: Element, frame: Transform) -> None:
    """Sets `pos` and `quat` to a frame."""
    set_frame(element, np.asarray(frame.rotation, float), np.asarray(frame.position, float))


def wrapped_at(out: Document, name: str, body: str, frame: Transform, kind: str, radius: float) -> str:
    """Returns the name of a wrapping sphere or cylinder: the geom of a shape, or a new geom that does not collide."""
    family = Sphere if kind == "sphere" else Cylinder
    for shape in out.model.shapes:
        same = (
            isinstance(shape, Shape)
            and isinstance(shape.geometry, family)
            and shape.geometry.radius == radius
        )
        if same and is_at(shape, body, frame):
            return shape.name
    name = out.unused("geom", name)
    size = text([radius] if kind == "sphere" else [radius, radius])
    geom = SubElement(out.bodies[body], "geom", name=name, type=kind, size=size, contype="0", conaffinity="0")
    geom.set("mass", "0")
    place(geom, frame)
    return name


def site_at(out: Document, name: str, body: str, frame: Transform) -> str:
    """Returns the name of a site with this frame on a body: a site of the model, or a new one."""
    for site in out.model.sites:
        if is_at(site, body, frame):
            return site.name
    name = out.unused("site", name)
    place(SubElement(out.bodies[body], "site", name=name), frame)
    return name


def is_at(thing: Attached, body: str, frame: Transform) -> bool:
    """Returns whether a site or a shape has this frame."""
    own = thing.frames[0]
    same = np.array_equal(own.position, frame.position) and np.array_equal(own.rotation, frame.rotation)
    return same and thing.bodies[0] == body


def late_by(out: Document, delay) -> dict[str, str]:
    """Returns the attributes of a delayed sensor or actuator: the delay and the number of samples that MuJoCo buffers."""
    if delay is None or delay <= 0:
        return {}
    step = float(out.section("option").get("timestep", "0.002"))
    return {
        "delay": text(delay),
        "nsample": str(min(math.ceil(float(delay) / step) + 1, MOST_SAMPLES)),
    }
