"""Splits joints into rotations and translations in series with the same coordinates, for formats without other joint types.

A `Part` corresponds to one joint element of a format. The parts of a joint follow each other without bodies between them.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np

from ... import joints
from ..._core.errors import ModelError
from ...joints.planar import plane
from ...model import Body


#: Kinds of parts.
TURN, SLIDE, BALL, FREE, PLANE = "turn", "slide", "ball", "free", "plane"


@dataclass(frozen=True)
class Part:
    """One joint element in series.

    - `kind`: a rotation about or translation along `axis` (in the frame moved by the preceding parts), a ball, a free joint,
      or a plane orthogonal to `axis`.
    - `q`, `v`: indices of its coordinates and degrees of freedom in the joint.
    - `ratio`: for a part without its own coordinate, its motion per unit of the joint's only coordinate.
    """

    kind: str
    axis: np.ndarray | None
    q: tuple[int, ...]
    v: tuple[int, ...]
    ratio: float | None = None


def parts_of(body: Body) -> list[Part]:
    """Returns the parts of a body's joint in series; an empty list for a weld."""
    found = in_series(body.joint)
    if found is None:
        family = type(body.joint).__name__
        remedy = REMEDIES.get(type(body.joint), "Use another joint")
        raise ModelError(f"joint {body.joint_name!r} is a {family}, which no file format supports. {remedy}")
    return found


REMEDIES: dict[type, str] = {
    joints.SphericalExponential: "rbd.joints.Spherical is the same joint in other coordinates",
    joints.Driven: "Use the joint whose motion it prescribes, and prescribe that motion in the simulation",
    joints.ConstantVelocity: "Use the joint whose motion it prescribes, and prescribe that motion in the simulation",
}


@functools.singledispatch
def in_series(joint: joints.Joint) -> list[Part] | None:
    """Returns the parts of a joint, or None if the joint has no representation in series."""
    return None


@in_series.register
def _(joint: joints.Fixed):
    return []


@in_series.register
def _(joint: joints.Revolute):
    return [_part(TURN, joint.axis, 0)]


@in_series.register
def _(joint: joints.Prismatic):
    return [_part(SLIDE, joint.axis, 0)]


@in_series.register
def _(joint: joints.Cylindrical):
    return [_part(TURN, joint.axis, 0), _part(SLIDE, joint.axis, 1)]


@in_series.register
def _(joint: joints.Universal):
    return [_part(TURN, joint.axis1, 0), _part(TURN, joint.axis2, 1)]


@in_series.register
def _(joint: joints.SphericalEuler):
    return [_part(TURN, np.eye(3)["xyz".index(letter)], i) for i, letter in enumerate(joint.order)]


@in_series.register
def _(joint: joints.Translational):
    return [_part(SLIDE, axis, i) for i, axis in enumerate(np.eye(3))]


@in_series.register
def _(joint: joints.Helical):
    return [_part(TURN, joint.axis, 0), _part(SLIDE, joint.axis, 0, float(joint.pitch))]


@in_series.register
def _(joint: joints.RackAndPinion):
    x, _, z = np.eye(3)
    return [_part(SLIDE, x, 0, float(joint.radius)), _part(TURN, z, 0)]


@in_series.register
def _(joint: joints.Spherical):
    return [Part(BALL, None, (0, 1, 2, 3), (0, 1, 2))]


@in_series.register
def _(joint: joints.Free):
    return [Part(FREE, None, tuple(range(7)), tuple(range(6)))]


@in_series.register
def _(joint: joints.Planar):
    return [Part(PLANE, np.asarray(joint.normal, float), (0, 1, 2), (0, 1, 2))]


@in_series.register
def _(joint: joints.Composite):
    found, nq, nv = [], 0, 0
    for one in joint.joints:
        parts = in_series(one)
        if parts is None:
            return None
        for part in parts:
            q, v = tuple(nq + i for i in part.q), tuple(nv + i for i in part.v)
            found.append(replace(part, q=q, v=v))
        nq, nv = nq + one.nq, nv + one.nv
    return found


def _part(kind: str, axis, index: int, ratio: float | None = None) -> Part:
    return Part(kind, np.asarray(axis, float), (index,), (index,), ratio)


def directions(part: Part) -> np.ndarray:
    """Returns a rotation whose columns are the two directions of a plane's coordinates and its normal."""
    own = np.asarray(plane(jnp.asarray(part.axis)), float)
    return np.column_stack([own, np.asarray(part.axis)])


def part_names(joint: str, parts: list[Part]) -> list[str]:
    """Returns the names of the parts: the joint's name if one part has all coordinates, else `joint:1`, `joint:2`, and so on.

    A translation that is coupled to a rotation of the same joint is called `joint:slide`.
    """
    own = [part for part in parts if part.ratio is None]
    names, count = [], 0
    for part in parts:
        count += part.ratio is None
        if part.ratio is not None:
            names.append(f"{joint}:slide" + (str(count + 1) if len(own) > 1 else ""))
        else:
            names.append(joint if len(own) == 1 else f"{joint}:{count}")
    return names
