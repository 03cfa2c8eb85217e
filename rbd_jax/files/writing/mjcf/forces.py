"""Writes the force elements that MJCF can express: fluids and gravity compensation.

In MuJoCo a fluid surrounds all bodies. MuJoCo computes the cuboid or the ellipsoid of each body, so those of the model must
be the same.
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


#: Relative tolerance between the model and the values that MuJoCo computes, and its minimum in units of the model's machine
#: precision.
SAME, ROUNDED = 1e-9, 1e4

#: Relative tolerance of the added mass of ellipsoids: MuJoCo's integral is less accurate.
SIMILAR = 1e-2

#: Mass below which MuJoCo applies no fluid forces: its mjMINVAL.
WEIGHTLESS = 1e-15


def write_compensation(out: Document, force: GravityCompensation) -> bool:
    """Writes fractions of the bodies' weight, which act at their centers of mass."""
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
    """Returns whether the file has the fluid, which is written with the first of its forces."""
    if "density" not in out.section("option").attrib and force is next(_in_fluid(out)):
        _write_fluid(out)
    return "density" in out.section("option").attrib


def _in_fluid(out: Document) -> Iterator[FluidForce]:
    return (one for one in out.model.forces if isinstance(one, FluidForce))


def _write_fluid(out: Document) -> None:
    """Writes the fluid if the model has MuJoCo's drag: on the same bodies, with cuboids and ellipsoids of the same sizes."""
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
    """Returns the geom of an ellipsoid: the geom of a shape that it represents, or a new geom that does not collide."""
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
    """Yields the body of each cuboid, its frame on the body, and its sides."""
    frames = np.asarray(force.frames.rotation, float), np.asarray(force.frames.position, float)
    return zip(force.bodies, *frames, np.asarray(force.sides, float), strict=True)


def _moving(element: Element, moves: bool = False):
    """Yields the moving bodies with mass below an element, and their `<inertial>`."""
    for body in element.findall("body"):
        moving = moves or body.find("joint") is not None
        inertial = body.find("inertial")
        if moving and inertial is not None and _mass_of(inertial)[0] > WEIGHTLESS:
            yield body.attrib["name"], inertial
        yield from _moving(body, moving)


def _is_box(tolerance: float, inertial: Element, rotation, position, sides) -> bool:
    """Returns whether a cuboid is the equivalent inertia box of a body."""
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
    """Returns whether the added mass of ellipsoids is that of potential flow, as in MuJoCo (Lamb, Hydrodynamics, 1932)."""
    squares = np.asarray(force.semiaxes, float) ** 2
    volume = 4 / 3 * np.pi * np.sqrt(squares.prod(axis=1, keepdims=True))
    x, y, z = squares, np.roll(squares, -1, axis=1), np.roll(squares, -2, axis=1)
    from scipy.special import elliprd  # imported here because it takes 0.1 s

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
