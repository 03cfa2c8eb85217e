"""The force elements that an MJCF file can say: fluids and gravity compensation.

A fluid is around all bodies: MuJoCo works out the cuboid or the ellipsoid of each, so those of the model must be the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from ....forces import BoxDrag, EllipsoidDrag, FluidForce, GravityCompensation
from ....shapes.shape import Shape
from ....spatial.transform import Transform
from ...placement import rotation_matrix
from ..numerals import text
from .document import Document, is_at, place
from .shapes import semiaxes


#: How exact what MuJoCo works out from other numbers must be what the model has; as exact as its numbers, where they are short.
SAME, ROUNDED = 1e-9, 1e4

#: Of the fluid that moves along with an ellipsoid: MuJoCo's integral is less exact.
SIMILAR = 1e-2

#: What is lighter feels no fluid: MuJoCo's mjMINVAL.
WEIGHTLESS = 1e-15


def write_compensation(out: Document, force: GravityCompensation) -> bool:
    """As shares of the bodies' weight, which act at their centres of mass."""
    held: dict[str, np.ndarray] = {}
    tolerance = _tolerance(out)
    for body, point, mass in zip(
        force.bodies, np.asarray(force.frames.position, float), np.asarray(force.masses, float), strict=True
    ):
        held[body] = held.get(body, np.zeros(4)) + mass * np.array([1, *point])
    shares = {}
    for body, (mass, *moment) in held.items():
        inertial = out.bodies[body].find("inertial")
        own, center = (0.0, np.zeros(3)) if inertial is None else _mass_of(inertial)
        scale = abs(mass) * (1 + np.abs(center).max())
        if not mass and not np.any(moment):
            continue
        if not own or np.abs(moment - mass * center).max() > tolerance * scale:
            return False
        shares[body] = mass / own
    for body, share in shares.items():
        element = out.bodies[body]
        element.set("gravcomp", text(share + float(element.get("gravcomp", "0"))))
    return True


def _tolerance(out: Document) -> float:
    return max(SAME, ROUNDED * float(np.finfo(out.model.dtype).eps))


def _mass_of(inertial: Element) -> tuple[float, np.ndarray]:
    return float(inertial.attrib["mass"]), _numbers(inertial, "pos", "0 0 0")


def _numbers(element: Element, key: str, default: str) -> np.ndarray:
    return np.array([float(x) for x in element.get(key, default).split()])


def write_fluid(out: Document, force: FluidForce) -> bool:
    """Whether the file has the fluid, which it gets with the first of its forces."""
    if "density" not in out.section("option").attrib and force is next(_in_fluid(out)):
        _write_fluid(out)
    return "density" in out.section("option").attrib


def _in_fluid(out: Document) -> Iterator[FluidForce]:
    return (one for one in out.model.forces if isinstance(one, FluidForce))


def _write_fluid(out: Document) -> None:
    """The fluid, if what the model has in it is what MuJoCo has: on the same bodies, cuboids and ellipsoids of the same sizes."""
    drags = list(_in_fluid(out))
    fluids = [{word: text(getattr(one, word)) for word in ("density", "viscosity", "wind")} for one in drags]
    if any(one != fluids[0] for one in fluids):
        return
    boxes = [row for one in drags if type(one) is BoxDrag for row in _boxes(one)]
    ellipsoids = [one for one in drags if type(one) is EllipsoidDrag]
    with_ellipsoids = {body for one in ellipsoids for body in one.bodies}
    heavy = {name: element for name, element in _moving(out.world) if name not in with_ellipsoids}
    if sorted(body for body, *_ in boxes) != sorted(heavy) or not all(map(_is_moved_by, ellipsoids)):
        return
    if not all(_is_box(_tolerance(out), heavy[body], *box) for body, *box in boxes):
        return
    out.section("option").attrib.update(fluids[0])
    for one in ellipsoids:
        for row, body in enumerate(one.bodies):
            geom = _ellipsoid(out, body, one.frames[row], np.asarray(one.semiaxes[row], float))
            geom.attrib.update(fluidshape="ellipsoid", fluidcoef=text(one.coefficients[row]))


def _ellipsoid(out: Document, body: str, frame: Transform, size: np.ndarray) -> Element:
    """The geom that an ellipsoid is or stands for: that of a shape, or a new one that touches nothing."""
    for shape in out.model.shapes:
        own = semiaxes(shape.geometry) if isinstance(shape, Shape) else None
        if own is not None and np.allclose(own, size, SAME, 0) and is_at(shape, body, frame):
            return out.named("geom", shape.name)
    geom = SubElement(
        out.bodies[body], "geom", name=out.unused("geom", f"{body}:fluid"), type="ellipsoid", mass="0"
    )
    geom.attrib.update(size=text(size), contype="0", conaffinity="0")
    place(geom, frame)
    return geom


def _boxes(force: BoxDrag):
    """The body of each cuboid, its frame there, and its sides."""
    frames = np.asarray(force.frames.rotation, float), np.asarray(force.frames.position, float)
    return zip(force.bodies, *frames, np.asarray(force.sides, float), strict=True)


def _moving(element: Element, moves: bool = False):
    """The bodies below one that move and weigh something, and their `<inertial>`."""
    for body in element.findall("body"):
        moving = moves or body.find("joint") is not None
        inertial = body.find("inertial")
        if moving and inertial is not None and _mass_of(inertial)[0] > WEIGHTLESS:
            yield body.attrib["name"], inertial
        yield from _moving(body, moving)


def _is_box(tolerance: float, inertial: Element, rotation, position, sides) -> bool:
    """Whether a cuboid is the one with the inertia of a body."""
    mass, center = _mass_of(inertial)
    moments = _numbers(inertial, "diaginertia", "")
    squares = (moments.sum() - 2 * moments).clip(WEIGHTLESS) / mass * 6
    turned = rotation_matrix(_numbers(inertial, "quat", "1 0 0 0"))
    return bool(
        np.abs(squares - sides**2).max() <= tolerance * squares.max()
        and np.abs(position - center).max() <= tolerance * (1 + np.abs(center).max())
        and np.abs(rotation - turned).max() <= tolerance
    )


def _is_moved_by(force: EllipsoidDrag) -> bool:
    """Whether the fluid that ellipsoids move along is that of potential flow, as MuJoCo has it (Lamb, Hydrodynamics, 1932)."""
    squares = np.asarray(force.semiaxes, float) ** 2
    volume = 4 / 3 * np.pi * np.sqrt(squares.prod(axis=1, keepdims=True))
    x, y, z = squares, np.roll(squares, -1, axis=1), np.roll(squares, -2, axis=1)
    from scipy.special import elliprd  # a tenth of a second, which most never need

    own = 2 / 3 * np.sqrt(x * y * z) * elliprd(y, z, x)
    second, third = np.roll(own, -1, axis=1), np.roll(own, -2, axis=1)
    masses = volume * own / (2 - own)
    below = np.abs(2 * (y - z) + (y + z) * (second - third))
    inertias = volume / 5 * (y - z) ** 2 * np.abs(third - second) / np.maximum(below, WEIGHTLESS)
    given = np.asarray(force.added_masses, float), np.asarray(force.added_inertias, float)
    return all(
        (np.abs(theirs - ours).max(axis=1) <= SIMILAR * ours.max(axis=1)).all()
        for ours, theirs in zip((masses, inertias), given)
    )
