"""Writes URDF."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from ..._core.errors import ModelError
from ..._core.files import whole_file
from ...forces.actuators import Actuator
from ...joints import Fixed
from ...model import Body, Model
from ...model.mimic import Mimic
from ...shapes.shape import Shape
from ..urdf import NO_LIMIT, unused
from .description import Mass, bodies_of
from .losses import Losses
from .numerals import angles, text, xml_text
from .series import BALL, FREE, PLANE, SLIDE, TURN, Part, directions, part_names, parts_of
from .urdf_shapes import write_shapes
from .urdf_transmissions import write_transmission


#: The URDF joint type of each kind of part. A rotation without limits that no other joint mimics is "continuous".
TYPES = {TURN: "revolute", SLIDE: "prismatic", FREE: "floating", PLANE: "planar"}

#: Attributes that URDF has only for revolute and prismatic joints.
FLAT = ("lower", "upper", "damping", "friction", "velocity_limit", "effort_limit")

#: Attributes that URDF cannot express, with their descriptions.
UNSAID = {"armature": "armature", "stiffness": "springs", "reference": "the neutral configuration"}


def save_urdf(model: Model, path: str | Path, strict: bool = False) -> None:
    """Writes a model as a URDF file, atomically: if writing fails, an earlier file stays unchanged. See `to_urdf`.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rbd.save_urdf(rbd.load("double_pendulum"), pathlib.Path(folder, "two.urdf"))
    ...     rbd.load(pathlib.Path(folder, "two.urdf"))
    double_pendulum: 2 bodies, nq = 2, nv = 2
    └─ upper (shoulder)  Revolute v[0:1], 1 kg
       └─ lower (elbow)  Revolute v[1:2], 1 kg
    """
    content = _written("save_urdf", model, strict)
    with whole_file(Path(path)) as part:
        part.write_text(content, encoding="utf-8")


def to_urdf(model: Model, strict: bool = False) -> str:
    """Returns the text of a URDF file that describes a model.

    `load_urdf` and Pinocchio read the same mechanism from it: links and joints with the same names, the same coordinates and
    frames, and the same mass matrix and bias force up to rounding. `load_urdf` lists links depth first.

    - If the model has a single root that a `root_joint` welds to the world at the identity, that root is the robot's root
      link. Otherwise the root is a link called `world`, which stands for the world itself, as in `load_urdf`.
    - A joint that consists of rotations and translations in series (`Cylindrical`, `Universal`, `Translational`,
      `SphericalEuler`, `Composite`) becomes joints `joint:1`, `joint:2`, ... with massless links `body:joint:1` between
      them. `Helical` and `RackAndPinion` also become two joints, where `joint:slide` mimics the rotation. (The slide of a
      rack precedes its rotation. Pinocchio requires leaders first and does not read such a file.)
    - Planar joints are written with the normal z, because Pinocchio ignores their axis. For another normal, a rotated link
      carries the joint, and the body is welded to that link.
    - A joint that other joints mimic has the type `revolute` even without limits, because Pinocchio requires both joints to
      have the same type. A joint without limits has the largest floating-point number as limit, which `load_urdf` reads as
      no limit.
    - Motors on joints with one degree of freedom become simple transmissions. `load_urdf` limits these motors to the effort
      limit of the joint.
    - Spheres, cylinders, capsules, boxes and meshes from files are written as `<visual>`, `<collision>` or both, without
      their group numbers.

    URDF has no ball joints, so a `Spherical` joint is refused. URDF cannot express gravity, armature, springs, damping and
    limits of floating and planar joints, a neutral configuration other than zero, timesteps, and most attachments of a
    model.

    Args:
      model: The model.
      strict: If True, properties that URDF cannot express raise a `ModelError`. Otherwise they cause one `ModelWarning`.
        Both list the names of the elements concerned.

    Returns:
      The XML text.

    Raises:
      ModelError: If the model has ball joints or other joints without a URDF equivalent, traced or non-finite values, or a
        batch axis.

    >>> "<joint name='elbow'" in rbd.to_urdf(rbd.load("double_pendulum")).replace('"', "'")
    True
    """
    return _written("to_urdf", model, strict)


def _written(function: str, model: Model, strict: bool) -> str:
    bodies = bodies_of(function, model)
    losses = Losses(model.name, "URDF")
    robot = Element("robot", name=model.name.strip() or "model")
    rooted = _is_root(bodies)
    if not rooted:
        SubElement(robot, "link", name="world")
    writer = _Writer(robot, bodies, losses, float(np.finfo(model.dtype).eps))
    for body in bodies:
        writer.link(body)
        if not (rooted and body is bodies[0]):
            writer.hang(body)
    write_shapes(robot, model.shapes, losses)  # pyright: ignore[reportArgumentType]
    _others(robot, model, losses)
    losses.report(strict)
    return xml_text(robot)


def _is_root(bodies: list[Body]) -> bool:
    """Returns whether the first body is the only root and is identical to the root body that `load_urdf` creates."""
    if not bodies:
        return False
    first, *others = bodies
    if any(body.parent == "world" for body in others) or not isinstance(first.joint, Fixed):
        return False
    unturned = np.array_equal(first.placement.rotation, np.eye(3)) and not np.any(first.placement.position)
    return unturned and first.joint_name == unused("root_joint", {body.joint_name for body in others})


class _Writer:
    """State shared while writing the links and joints of one robot."""

    def __init__(self, robot: Element, bodies: list[Body], losses: Losses, eps: float):
        self.robot, self.losses, self.eps = robot, losses, eps
        self.taken = {body.name for body in bodies}
        self.taken_joints = {body.joint_name for body in bodies}
        self.leaders = {body.mimic.leader for body in bodies if body.mimic}

    def link(self, body: Body) -> None:
        link = SubElement(self.robot, "link", name=body.name)
        mass = Mass.of(body, self.eps)
        if mass.empty:
            return
        inertial = SubElement(link, "inertial")
        _origin(inertial, np.eye(3), mass.com)
        SubElement(inertial, "mass", value=text(mass.mass))
        moments = {
            f"i{a}{b}": text(mass.central["xyz".index(a), "xyz".index(b)])
            for a, b in ("xx", "xy", "xz", "yy", "yz", "zz")
        }
        SubElement(inertial, "inertia", moments)

    def hang(self, body: Body) -> None:
        """Writes the joints between a link and its parent, and the links between these joints."""
        parts = parts_of(body)
        if any(part.kind == BALL for part in parts):
            raise ModelError(
                f"joint {body.joint_name!r} is a ball joint, which URDF does not have. Use rbd.joints.SphericalEuler, with other "
                "coordinates, or write MJCF: rbd.save_mjcf"
            )
        names = part_names(body.joint_name, parts)
        rotation, position = body.placement.rotation, body.placement.position
        parent = body.parent
        for part, name in zip(parts, names, strict=True):
            axis, turned = part.axis, np.eye(3)
            if part.axis is not None and part.kind == PLANE and not np.array_equal(part.axis, (0, 0, 1)):
                turned, axis = directions(part), np.array([0.0, 0, 1])
            last = part is parts[-1] and np.array_equal(turned, np.eye(3))
            child = body.name if last else self._between(body.name, name)
            joint = self._joint(name, parent, child, rotation @ turned, position)
            self._part(joint, body, part, axis, names[_leader(parts, part)])
            parent, rotation, position = child, turned.T, np.zeros(3)
        if not parts:
            self._joint(body.joint_name, parent, body.name, rotation, position).set("type", "fixed")
        elif parent != body.name:
            name = unused(body.name, self.taken_joints)
            self.taken_joints.add(name)
            self._joint(name, parent, body.name, rotation, position).set("type", "fixed")
        self._along_joint(body, parts, names)

    def _between(self, body: str, joint: str) -> str:
        """Writes a massless link that a part of a joint moves, and returns its name."""
        name = unused(f"{body}:{joint}", self.taken)
        self.taken.add(name)
        SubElement(self.robot, "link", name=name)
        return name

    def _joint(self, name: str, parent: str, child: str, rotation, position) -> Element:
        joint = SubElement(self.robot, "joint", name=name, type="")
        _origin(joint, rotation, position)
        SubElement(joint, "parent", link=parent)
        SubElement(joint, "child", link=child)
        return joint

    def _part(self, joint: Element, body: Body, part: Part, axis, leader: str) -> None:
        """Writes the type of the joint of a part, its axis, limits, damping, friction and mimic."""
        if axis is not None:
            SubElement(joint, "axis", xyz=text(axis))
        joint.set("type", TYPES[part.kind])
        if part.kind in (FREE, PLANE):
            return
        mimic = _mimic(body, part, leader)
        values = {
            name: float(getattr(body, name)[part.v[0] if name not in ("lower", "upper") else part.q[0]])
            for name in FLAT
        }
        if mimic is not None or part.ratio is not None:
            values = {"lower": -np.inf, "upper": np.inf, "velocity_limit": np.inf, "effort_limit": np.inf}
        endless = np.isinf([values["lower"], values["upper"]]).all()
        leads = body.joint_name in self.leaders or any(
            p.ratio is not None and p.q == part.q for p in parts_of(body)
        )
        if part.kind == TURN and endless and mimic is None and not leads:
            joint.set("type", "continuous")
        limit = {key: values[f"{key}_limit"] for key in ("effort", "velocity")}
        if joint.get("type") != "continuous":
            limit |= {"lower": values["lower"], "upper": values["upper"]}
        if joint.get("type") != "continuous" or np.isfinite(list(limit.values())).any():
            SubElement(
                joint, "limit", {key: text(np.clip(x, -NO_LIMIT, NO_LIMIT)) for key, x in limit.items()}
            )
        if values.get("damping") or values.get("friction"):
            SubElement(joint, "dynamics", damping=text(values["damping"]), friction=text(values["friction"]))
        if mimic is not None:
            SubElement(
                joint,
                "mimic",
                joint=mimic.leader,
                multiplier=text(mimic.multiplier),
                offset=text(mimic.offset),
            )

    def _along_joint(self, body: Body, parts: list[Part], names: list[str]) -> None:
        """Records the properties of a joint that URDF cannot express."""
        if body.mimic is not None:
            return
        said = {name: DEFAULTS[name] for name in FLAT}
        for name, what in UNSAID.items():
            value = getattr(body, name)
            neutral = np.zeros_like(value) if name != "reference" else np.asarray(body.joint.neutral(), float)
            if not np.array_equal(value, neutral):
                self.losses.add(f"{what} of joints", body.joint_name)
        for part in parts:
            if part.kind in (FREE, PLANE):
                for name, default in said.items():
                    entries = part.q if name in ("lower", "upper") else part.v
                    if np.any(getattr(body, name)[list(entries)] != default):
                        self.losses.add(
                            f"{name.replace('_', ' ')} of floating and planar joints", body.joint_name
                        )


#: Default properties of a joint.
DEFAULTS = {
    "lower": -np.inf, "upper": np.inf, "damping": 0.0, "friction": 0.0, "velocity_limit": np.inf, "effort_limit": np.inf,
}  # fmt: skip


def _leader(parts: list[Part], part: Part) -> int:
    """Returns the index of the part whose coordinate moves the given part."""
    return next(i for i, one in enumerate(parts) if one.ratio is None and one.q == part.q)


def _mimic(body: Body, part: Part, own: str) -> Mimic | None:
    """Returns the mimic of a part's joint: the leader of the body's joint, or else the part that moves this part."""
    ratio = 1.0 if part.ratio is None else part.ratio
    if body.mimic is not None:
        return Mimic(
            body.mimic.leader, ratio * float(body.mimic.multiplier), ratio * float(body.mimic.offset)
        )
    return None if part.ratio is None else Mimic(own, ratio, 0.0)


def _origin(parent: Element, rotation, position) -> None:
    """Writes an `<origin>`, unless it is the identity."""
    given = {}
    if np.any(position):
        given["xyz"] = text(position)
    if not np.array_equal(rotation, np.eye(3)):
        given["rpy"] = text(angles(rotation))
    if given:
        SubElement(parent, "origin", given)


def _others(robot: Element, model: Model, losses: Losses) -> None:
    gravity = np.asarray(model.gravity, float)
    if not np.array_equal(gravity, np.asarray((0.0, 0.0, -9.81), model.dtype)):
        losses.add(f"gravity ({text(gravity)})")
    settings = model.settings
    for what in ("timestep", "integrator"):
        if (value := getattr(settings, what)) is not None:
            losses.add(f"the {what} ({value})")
    if settings.custom:
        losses.add("custom numbers and texts", *settings.custom)
    for thing in model.attached:
        if isinstance(thing, Shape):
            continue
        if isinstance(thing, Actuator) and write_transmission(robot, model, thing, losses):
            continue
        losses.add(f"{thing.role}s", thing.name or thing.label)
