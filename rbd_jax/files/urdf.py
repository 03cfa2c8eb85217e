"""Reads URDF, the XML robot description of ROS.

The content of the file is read literally or refused, with the element, its line and a remedy in the message. A robot may
have a hundred links, so the arithmetic uses NumPy: JAX takes a hundred times as long for a few numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .. import joints
from .._core.arguments import UNIT, plain_direction
from .._core.array import with_numpy_leaves
from .._core.errors import ModelError, suggest
from ..contact.massless import MasslessCenters
from ..model import Body, Mimic, Model, ModelBuilder, Settings
from ..model.builder import report_inertias
from ..model.edit import Locks, locked
from ..spatial.inertia import Inertia
from .limits import USUAL, Limits
from .placement import Placement, origin
from .resources import Resources
from .shapes import report_shapes
from .urdf_shapes import UrdfShapes
from .urdf_transmissions import transmissions_of
from .words import URDF, report_words
from .xml import Element, parse, read, telling


#: The types of URDF joints.
TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")

#: A limit of this size means no limit. Other readers require limits everywhere, and do not read "inf".
NO_LIMIT = np.finfo(float).max
#: The entries of a symmetric matrix in the order of `Inertia.rotational`.
TRIANGLE = np.tril_indices(3)


def load_urdf(
    path_or_xml: str | Path,
    floating_base: bool = False,
    lock: Locks | None = None,
    mimic: str = "couple",
    strict: bool = False,
    *,
    gravity: Any = (0.0, 0.0, -9.81),
    package_dirs: str | Path | Iterable[str | Path] = (),
    limits: Limits = USUAL,
) -> Model:
    """Returns the model that a URDF describes.

    The model has one body for each link and one joint for each joint, with the same names. Bodies are in depth-first order,
    children in the order of their joints in the file. A joint called `root_joint` attaches the root link to the world
    (underscores are appended where the name is taken). Links without `<inertial>` are massless.

    A root link called `world` is the world itself if it is massless and the base does not float. Its children then attach to
    the world, without a body and a `root_joint` for the link. Otherwise it is a body called `world_link`.

    As URDF prescribes, inertias are about the center of mass, in the axes of the inertial origin. The axis of a joint is x
    by default, and only its direction matters. A `<limit>` without `lower` or `upper` means zero. A joint without `<limit>`,
    or without its `effort` or `velocity`, has no such limit. Continuous joints have no position limits. Floating and planar
    joints have no limits, damping or friction, and a fixed joint has only its origin. Elements beyond mechanics (gazebo and
    other extensions) are not read.

    `<transmission>` elements become motors, `model.actuators`: one at the joint for a simple transmission, two for a
    differential one. `model.unsupported` lists other transmissions.

    `<visual>` and `<collision>` become shapes in the groups 2 and 3, with the name in the file or else `link:visual_0`. Mesh
    files are read on first use of their triangles or inertias.

    Args:
      path_or_xml: Path of a file, or the XML text.
      floating_base: If True, the root link floats (`joints.Free`); otherwise it is welded to the world.
      lock: Joints to weld: names of joints, which are locked at zero, or `{name: q}`.
      mimic: `"couple"` makes mimic joints follow their leaders, without their own degrees of freedom. `"free"` makes them
        ordinary joints, which a `rbd_jax.constraints.CoordinateCoupling` may tie afterwards.
      strict: If True, physically inconsistent inertias, invalid shapes, and misspelled or misplaced elements and attributes
        raise a `ModelError`. Otherwise each kind of fault causes one `ModelWarning`.
      gravity: Gravity in the world frame.
      package_dirs: Folders to search for the packages of `package://`. They precede ROS_PACKAGE_PATH and the folders above
        the file.
      limits: Limits on the size of the file.

    Returns:
      The `Model`.

    Raises:
      ModelError: If the file is missing, malformed, too large or not a tree, or if `strict` and it has one of the faults
        above.

    >>> links = '<link name="base"/><link name="tip"/>'
    >>> hinge = '<joint name="hinge" type="continuous"><parent link="base"/><child link="tip"/></joint>'
    >>> rbd.load_urdf(f'<robot name="arm">{links}{hinge}</robot>')
    arm: 2 bodies, nq = 1, nv = 1
    └─ base (root_joint)  Fixed, massless
       └─ tip (hinge)  Revolute v[0:1], massless
    """
    if mimic not in ("couple", "free"):
        raise ModelError(
            f"load_urdf: mimic must be 'couple' or 'free', got {mimic!r}{suggest(mimic, ('couple', 'free'))}"
        )
    source, content = read("load_urdf", "URDF", path_or_xml, limits)
    with telling(source):
        robot = parse(content, limits)
        _check_root(robot)
        name = robot.text("name")
        report_words(URDF, name, robot, strict)
        builder = ModelBuilder(gravity, name)
        bodies, names = _bodies(robot, floating_base, mimic == "couple")
        for body in bodies:
            builder.add(body)
        builder.bodies = locked(builder.bodies, lock)
        motors, missing = transmissions_of(robot, builder.bodies)
        builder.attached += motors
        builder.settings = Settings(unsupported=missing)
        file = source if isinstance(content, bytes) else None
        reader = UrdfShapes(robot, Resources("load_urdf", file, package_dirs))
        for link in robot.all("link"):
            body = names.get(link.text("name"), link.text("name"))
            builder.attached += reader.shapes_of(link, body)
        builder.attached += _massless(robot, names)
        report_shapes(name, reader.faults, strict)
        report_inertias(name, builder.bodies, strict)
        return builder.lay_out()


def _check_root(robot: Element) -> None:
    if robot.tag == "robot":
        return
    remedies = {
        "mujoco": "it is MJCF; read it with load_mjcf",
        "sdf": "it is SDF; read it with load_sdf",
    }
    remedy = remedies.get(robot.tag, "a URDF's is <robot>")
    raise ModelError(f"the outermost element is <{robot.tag}>: {remedy}")


# The tree.


def _bodies(robot: Element, floating_base: bool, couple: bool) -> tuple[list[Body], dict[str, str]]:
    """Returns the bodies of a robot, depth first, and a map to the body name of the root link."""
    links, hinges = _by_name(robot, "link"), _by_name(robot, "joint")
    if not links:
        raise ModelError("the robot has no links; a model needs at least one (is this the whole file?)")
    hung_by: dict[str, Element] = {}
    below: dict[str, list[Element]] = {}
    for joint in hinges.values():
        parent, child = _ends(joint, links)
        if child in hung_by:
            raise ModelError(
                f"link {child!r} has two parents, by {hung_by[child]} and {joint}; a robot is a tree, so remove one "
                "and close the loop with a constraint"
            )
        hung_by[child] = joint
        below.setdefault(parent, []).append(joint)
    root = _root(links, hung_by)

    names = {root: root}
    bodies = []
    inertia = _inertia(links[root])
    if root == "world" and not floating_base and not any(np.any(x) for x in inertia):
        pass
    else:
        if root == "world":
            names[root] = unused("world_link", links)
        hinge = joints.Free() if floating_base else joints.Fixed()
        bodies.append(
            Body(
                names[root],
                "world",
                hinge,
                Placement.identity().transform(),
                with_numpy_leaves(Inertia.zero, *inertia),
                unused("root_joint", hinges),
            )
        )
    stack = below.get(root, [])[::-1]
    while stack:
        joint = stack.pop()
        parent, child = _ends(joint, links)
        if child == "world":
            raise ModelError(
                f"{links[child]} is attached to {joint}, but the name stands for the fixed world; rename the link"
            )
        bodies.append(
            Body(
                child,
                names.get(parent, parent),
                _joint(joint),
                origin(joint).transform(),
                with_numpy_leaves(Inertia.zero, *_inertia(links[child])),
                joint.text("name"),
                **_along(joint, hinges, couple),
            )
        )
        stack += below.get(child, [])[::-1]
    return bodies, names


def _by_name(robot: Element, tag: str) -> dict[str, Element]:
    found: dict[str, Element] = {}
    for element in robot.all(tag):
        name = element.text("name")
        if name in found:
            lines = f"{found[name].line} and {element.line}"
            raise ModelError(f"two {tag}s are called {name!r}, in lines {lines}; rename one")
        found[name] = element
    return found


def _ends(joint: Element, links: dict[str, Element]) -> tuple[str, str]:
    ends = []
    for tag in ("parent", "child"):
        name = joint.needed(tag, f'<{tag} link="..."/>').text("link")
        if name not in links:
            raise ModelError(f"{joint}: its {tag} {name!r} is not a link{suggest(name, links)}")
        ends.append(name)
    return ends[0], ends[1]


def _root(links: dict[str, Element], hung_by: dict[str, Element]) -> str:
    """Returns the only link without a parent, after checking that all links descend from it."""
    roots = [name for name in links if name not in hung_by]
    if len(roots) > 1:
        listed = ", ".join(map(repr, roots))
        raise ModelError(
            f"the links {listed} have no parent; a robot has one root, so join the others to it with fixed joints"
        )
    # The path to the parents of a link that does not descend from the root ends in a loop.
    sound = set(roots)
    for name in links:
        way = []
        while name not in sound:
            if name in way:
                loop = " -> ".join(map(repr, [*way[way.index(name) :], name][::-1]))
                what = "no root" if not roots else "a part that is not attached to its root"
                raise ModelError(
                    f"the robot has {what}, because its joints form a loop: {loop}; remove one of the joints"
                )
            way.append(name)
            name = hung_by[name].needed("parent", "").text("link")
        sound.update(way)
    return roots[0]


def unused(name: str, taken) -> str:
    while name in taken:
        name += "_"
    return name


# Inertias, joints and limits.


def _inertia(link: Element) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns mass, first moment and triangle of the rotational inertia about the link's origin: the fields of `Inertia`."""
    inertial = link.child("inertial")
    if inertial is None:
        return np.zeros(()), np.zeros(3), np.zeros(6)
    mass = inertial.needed("mass", '<mass value="..."/>').number("value")
    moments = inertial.needed("inertia", '<inertia ixx="..." .../>')
    ixx, ixy, ixz, iyy, iyz, izz = map(moments.number, ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"))
    at = origin(inertial)
    rotation, com = at.rotation, at.position
    if mass < 0:
        raise ModelError(f"{link}: its mass must not be negative, got {mass:g}")
    central = rotation @ np.array([[ixx, ixy, ixz], [ixy, iyy, iyz], [ixz, iyz, izz]]) @ rotation.T
    about_origin = central + mass * (com @ com * UNIT - com[:, None] * com[None])
    return np.array(mass), mass * com, about_origin[TRIANGLE]


def _massless(robot: Element, names: dict[str, str]) -> list[MasslessCenters]:
    """Returns the inertial origins of massless links, where they differ from the link's origin."""
    points = {}
    for link in robot.all("link"):
        inertial = link.child("inertial")
        if inertial is not None and inertial.needed("mass", '<mass value="..."/>').number("value") == 0:
            points[names.get(link.text("name"), link.text("name"))] = origin(inertial).position
    points = {name: point for name, point in points.items() if point.any() and name != "world"}
    return [MasslessCenters(list(points), np.array([*points.values()]))] if points else []


def _joint(joint: Element) -> joints.Joint:
    kind = joint.text("type")
    if kind not in TYPES:
        listed = ", ".join(TYPES)
        raise ModelError(f"{joint}: its type {kind!r} must be one of {listed}")
    if kind == "fixed":
        return joints.Fixed()
    if kind == "floating":
        return joints.Free()
    element = joint.child("axis")
    axis = np.array([1.0, 0.0, 0.0]) if element is None else element.numbers("xyz", 3)
    length = math.hypot(*axis)
    if not 0 < length < math.inf:
        raise ModelError(f"{joint}: its axis {axis.tolist()} has no direction; it must be finite and nonzero")
    family = {"prismatic": joints.Prismatic, "planar": joints.Planar}.get(kind, joints.Revolute)
    unit = np.asarray(axis / length, jax.dtypes.canonicalize_dtype(float))
    return with_numpy_leaves(family, plain_direction(family.__name__, unit))


def _along(joint: Element, hinges: dict[str, Element], couple: bool) -> dict[str, Any]:
    """Returns limits, friction and mimic of a joint."""
    kind, along = joint.text("type"), {}
    if kind not in ("revolute", "continuous", "prismatic"):
        return along
    limit, dynamics = joint.child("limit"), joint.child("dynamics")
    if limit is not None:
        for key in ("effort", "velocity"):
            along[f"{key}_limit"] = _limit(limit, key, math.inf)
            if along[f"{key}_limit"] < 0:
                raise ModelError(f"{limit}: {key}={limit.text(key)!r} must not be negative")
        if kind != "continuous":
            lower, upper = (_limit(limit, key, 0.0) for key in ("lower", "upper"))
            if lower > upper:
                raise ModelError(f"{limit}: lower={lower:g} is above upper={upper:g}; exchange them")
            along |= {"lower": lower, "upper": upper}
    if dynamics is not None:
        along |= {key: dynamics.number(key, 0.0) for key in ("damping", "friction")}
    mimic = joint.child("mimic")
    if mimic is not None and couple:
        along["mimic"] = _mimic(joint, mimic, hinges)
    return along


def _limit(limit: Element, key: str, default: float) -> float:
    value = limit.number(key, default, finite=False)
    return math.copysign(math.inf, value) if abs(value) >= NO_LIMIT else value


def _mimic(joint: Element, mimic: Element, hinges: dict[str, Element]) -> Mimic:
    leader = mimic.text("joint")
    if leader not in hinges:
        free = "Or load it with mimic='free', as an independent joint"
        raise ModelError(f"{joint} mimics {leader!r}, which is not a joint{suggest(leader, hinges, free)}")
    return Mimic(leader, mimic.number("multiplier", 1.0), mimic.number("offset", 0.0))
