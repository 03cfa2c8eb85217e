"""Reads SDF (SDFormat 1.4 to 1.12), the XML format of Gazebo, for models that are trees.

Each link, joint, model and `<frame>` of an SDF file is a frame, and each pose is relative to one of them. All frames are
collected first, and their poses in the world are computed on demand. Then the links are assembled into a tree.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import joints
from .._core.array import with_numpy_leaves
from .._core.errors import ModelError, ModelWarning, suggest
from ..model import Body, Mimic, Model, ModelBuilder
from ..model.builder import report_inertias
from ..model.edit import Locks, locked
from ..model.settings import Settings
from ..spatial.inertia import Inertia
from ..spatial.transform import Transform
from .limits import USUAL, Limits
from .placement import Placement, quaternion, rotation_matrix, rotation_of_angles
from .resources import Resources
from .sdf_shapes import SdfShapes
from .shapes import report_shapes
from .urdf import unused
from .words import SDF, report_words
from .xml import Element, parse, read, telling


#: The supported types of SDF joints, with their numbers of axes.
AXES = {
    "revolute": 1, "continuous": 1, "prismatic": 1, "screw": 1, "fixed": 0, "ball": 0, "universal": 2, "revolute2": 2,
}  # fmt: skip

#: Number of contact bits for models without self-collision. MuJoCo's shapes have 31 bits; one is for all other models.
BITS = 30

#: Size from which a limit means no limit, as in older files.
NO_LIMIT = 1e16

#: Anchors within this distance (in m) of a link's origin count as at the origin, to absorb rounding errors of poses.
AT_ORIGIN = 1e-12

#: Elements without effect, by their parent.
WITHOUT_EFFECT = {
    "world": ("actor", "state", "plugin", "wind", "road"),
    "model": ("plugin", "gripper"),
    "link": (
        "sensor",
        "light",
        "projector",
        "battery",
        "particle_emitter",
        "audio_source",
        "plugin",
    ),
    "joint": ("sensor", "plugin"),
}


def load_sdf(
    path_or_xml: str | Path,
    lock: Locks | None = None,
    strict: bool = False,
    *,
    gravity: Any = None,
    package_dirs: str | Path | Iterable[str | Path] = (),
    limits: Limits = USUAL,
) -> Model:
    """Returns the model that an SDF file describes, which must be a tree.

    The model has one body for each link and one joint for each joint, with the same names and the link's frame. Names in
    nested models are prefixed with the model's name (`arm::hand`), and so are those of the models in a world with several
    models. Bodies are in depth-first order.

    - Links without a parent joint float, as SDF defines, by a `Free` joint `root_joint` (`link:root_joint` if there are
      several). In `neutral` they have the pose of the file. Links of a `<static>` model are welded to the world.
    - A joint that rotates about a point away from its link's origin has a massless body `link:joint` at that point. The link
      is welded to that body by a joint with the name of the link.
    - `revolute`, `continuous`, `prismatic`, `screw`, `fixed`, `ball` and `universal` joints become the corresponding joints
      of this library. The two rotations of a `revolute2` are a `Composite`.

    As SDF prescribes, axes are in the joint's frame or in the frame that `expressed_in` names. Before version 1.7 they are
    in the model's frame with `<use_parent_model_frame>`, and before 1.5 always. A link without `<inertial>` has 1 kg and
    moments of 1 kg m².
    Damping, friction, springs, limits and `<mimic>` of axes are read, and the `<max_step_size>` of a world's physics becomes
    the timestep.
    `<visual>` and `<collision>` become shapes in the groups 2 and 3, called `link:name`. The shapes of a model collide with
    those of other models, and with each other if the model has `<self_collide>`.
    Other elements that could move the links are reported in one `ModelWarning`. A `gearbox` and an `<include>` are refused.

    Args:
      path_or_xml: Path of a file, or the XML text.
      lock: Joints to weld: names of joints, which are locked at zero, or `{name: q}`.
      strict: If True, elements without effect, physically inconsistent inertias and invalid shapes raise a `ModelError`.
        Otherwise each kind of fault causes one `ModelWarning`.
      gravity: Gravity in the world frame. By default the gravity of the file, (0, 0, -9.8) for a `<world>` without gravity,
        and (0, 0, -9.81) for a model alone.
      package_dirs: Folders to search for the models of `model://` and the packages of `package://`. They precede
        GZ_SIM_RESOURCE_PATH, ROS_PACKAGE_PATH and the folders above the file.
      limits: Limits on the size of the file.

    Returns:
      The `Model`.

    Raises:
      ModelError: If the file is missing, malformed, too large or not a tree, or if `strict` and something is unsupported.

    >>> links = '<link name="base"/><link name="tip"><pose>0 0 1 0 0 0</pose></link>'
    >>> ends = '<parent>base</parent><child>tip</child><axis><xyz>0 1 0</xyz></axis>'
    >>> hinge = f'<joint name="hinge" type="revolute">{ends}</joint>'
    >>> rbd.load_sdf(f'<sdf version="1.9"><model name="arm">{links}{hinge}</model></sdf>')
    arm: 2 bodies, nq = 8, nv = 7
    └─ base (root_joint)  Free v[0:6], 1 kg
       └─ tip (hinge)  Revolute v[6:7], 1 kg
    """
    source, content = read("load_sdf", "SDF", path_or_xml, limits)
    with telling(source):
        top = parse(content, limits)
        file = _File(top)
        report_words(SDF, file.name, top, strict)
        resources = Resources("load_sdf", source if isinstance(content, bytes) else None, package_dirs)
        reader = SdfShapes(resources, file.within, file.touching_bits, file.leave_out)
        shapes = [one for link, body in file.named_links() for one in reader.shapes_of(link, body)]
        bodies = locked(file.bodies(reader), lock)
        gravity = file.gravity() if gravity is None else gravity
        settings = Settings(file.timestep(), unsupported=file.unsupported)
        builder = ModelBuilder(gravity, file.name, settings=settings)
        for body in bodies:
            builder.add(body)
        builder.attached += shapes
        _report(file.name, file.unsupported, strict)
        report_shapes(file.name, reader.faults, strict)
        report_inertias(file.name, builder.bodies, strict)
        return builder.lay_out()


def _report(name: str, unsupported: list[str], strict: bool) -> None:
    if not unsupported:
        return
    message = f"model {name!r} leaves out unsupported elements: {'; '.join(unsupported)}"
    if strict:
        raise ModelError(f"{message}. Remove them, or load with strict=False to ignore them")
    warnings.warn(f"{message}. They are ignored", ModelWarning, stacklevel=3)


@dataclass
class _Frame:
    """A frame that poses refer to.

    - `link`: the link that it moves with; otherwise `with_frame` names the frame that it is attached to.
    - `pose`: its pose in the frame called `base`.
    """

    element: Element
    base: str
    pose: Placement
    link: str | None = None
    with_frame: str | None = None
    placed: Placement | None = None


@dataclass
class _Joint:
    """A joint: the scope of the names in it, its name, the name of its frame, and the links that it connects."""

    element: Element
    scope: str
    name: str
    frame: str
    parent: str = ""
    child: str = ""


class _File:
    """The frames, links and joints of a file."""

    def __init__(self, top: Element):
        self.version = _version(top)
        self.world, models = _world_and_models(top)
        self.frames: dict[str, _Frame] = {"world": _Frame(top, "", Placement.identity(), "world")}
        self.links: dict[str, Element] = {}
        self.joints: dict[str, _Joint] = {}
        self.static: set[str] = set()
        self._left_out: dict[str, dict[str, None]] = {}
        alone = self.world is None or len(models) == 1
        self.name = models[0].text("name") if alone else (self.world or top).text("name")
        #: A prefix of all names that is removed from the names in the model.
        self._hidden = f"{models[0].text('name')}::" if alone else ""
        for model in models:
            self._gather(model, "", "world", False)
        if self.world is not None:
            self._gather_frames(self.world, "", "world")
            self._note("world", self.world, self.world.text("name"))
        self._resolve_ends()
        self._bits = self._bits_of(models)

    @property
    def unsupported(self) -> list[str]:
        return [f"{what} {', '.join(map(repr, names))}" for what, names in self._left_out.items()]

    def _shown(self, name: str) -> str:
        """Returns the name in the model: the full name without the prefix of the only model."""
        return name.removeprefix(self._hidden)

    # Content of the file.

    def _gather(self, model: Element, outer: str, outside: str, static: bool) -> None:
        """Collects a model, its nested models, and all their frames.

        Args:
          outer: Prefix of its name.
          outside: The frame that the model's pose is relative to.
          static: If True, an outer model is static.
        """
        _refuse_includes(model)
        static = static or model.is_true("static")
        scope = f"{outer}{model.text('name')}::"
        own = f"{scope}__model__"
        if own in self.frames:
            raise ModelError(f"{model} has the name of {self.frames[own].element}; choose another")
        links, inner = model.all("link"), model.all("model")
        for link in links:
            name = self._new(scope, link)
            self.links[name] = link
            self.frames[name] = self._posed(link, scope, own, link=name)
            if static:
                self.static.add(name)
            self._look_at_link(link, name)
        for one in inner:
            self._gather(one, scope, own, static)
        first = model.attributes.get("canonical_link", "").strip()
        if first and scope + first not in self.links:
            known = [name.removeprefix(scope) for name in self.links]
            raise ModelError(f"{model}: its canonical link {first!r} is not a link{suggest(first, known)}")
        if not first and not links and not inner:
            raise ModelError(f"{model} has no links; a model needs at least one (is this the whole file?)")
        first = first or (links[0].text("name") if links else f"{inner[0].text('name')}::__model__")
        whole = self._posed(model, outer, outside, with_frame=scope + first)
        self.frames[own] = whole
        self._gather_frames(model, scope, own)
        anchor = model.attributes.get("placement_frame", "").strip()
        if anchor:  # the pose is that of this frame, not of the model
            at = self._lookup(scope, anchor, model)
            whole.pose = whole.pose @ self._relative(at, own).inverse()
        self._note("model", model, scope)

    def _gather_frames(self, owner: Element, scope: str, own: str) -> None:
        """Collects the joints and frames of a model or a world."""
        for joint in owner.all("joint"):
            name = scope + joint.text("name")
            if name in self.joints:
                raise ModelError(
                    f"{joint} has the name of {self.joints[name].element}; every joint needs its own"
                )
            # Before version 1.7, joint frames could not be referenced, so a link and a joint could have the same name.
            frame = (
                self._new(scope, joint)
                if self.version >= (1, 7) or name not in self.frames
                else f"{name}:frame"
            )
            self.joints[name] = _Joint(joint, scope, name, frame)
            on = f"{scope}{_end(joint, 'child')}"
            self.frames[frame] = self._posed(joint, scope, on, with_frame=on)
            self._note("joint", joint, scope)
        for frame in owner.all("frame"):
            name = self._new(scope, frame)
            to = frame.attributes.get("attached_to", "").strip()
            on = f"{scope}{to}" if to and to != "world" else to or own
            self.frames[name] = self._posed(frame, scope, on, with_frame=on)

    def _new(self, scope: str, element: Element) -> str:
        name = element.text("name")
        if name == "world" or (name.startswith("__") and name.endswith("__")):
            raise ModelError(f"{element}: the name is reserved in SDF; choose another")
        if (known := self.frames.get(scope + name)) is not None:
            raise ModelError(f"{element} has the name of {known.element}; names must be unique in a model")
        return scope + name

    def _posed(self, element: Element, scope: str, base: str, **attached) -> _Frame:
        """Returns the frame of an element with a `<pose>`, which is relative to `base` by default."""
        pose = element.child("pose")
        word = "relative_to" if self.version >= (1, 7) else "frame"
        to = pose.attributes.get(word, "").strip() if pose is not None else ""
        if to:
            base = to if to == "world" else f"{scope}{to}"
        return _Frame(element, base, _pose(element), **attached)

    def _look_at_link(self, link: Element, name: str) -> None:
        if not link.is_true("gravity", True):
            self.leave_out("links without gravity", self._shown(name))
        for tag, what in (("kinematic", "kinematic links"), ("enable_wind", "wind on links")):
            if link.is_true(tag):
                self.leave_out(what, self._shown(name))
        decay = link.child("velocity_decay")
        if decay is not None and any(decay.inside_one(key, 0.0) for key in ("linear", "angular")):
            self.leave_out("velocity decay of links", self._shown(name))
        inertial = link.child("inertial")
        if inertial is not None and inertial.child("fluid_added_mass") is not None:
            self.leave_out("added mass of links", self._shown(name))
        self._note("link", link, name)

    def _note(self, kind: str, element: Element, scope: str) -> None:
        """Records the parts of an element that have no effect."""
        for tag in WITHOUT_EFFECT[kind]:
            for child in element.all(tag):
                self.leave_out(
                    f"{tag.replace('_', ' ')}s", child.attributes.get("name") or scope.removesuffix("::")
                )

    def leave_out(self, what: str, name: str) -> None:
        """Records that `what` has no effect at `name`."""
        self._left_out.setdefault(what, {})[name] = None

    # Poses and attachment of frames.

    def _lookup(self, scope: str, name: str, element: Element) -> str:
        """Returns the full name of the frame that an element refers to."""
        return self._known(name if name == "world" else scope + name, element)

    def _known(self, name: str, element: Element) -> str:
        if name in self.frames:
            return name
        if f"{name}::__model__" in self.frames:
            return f"{name}::__model__"
        known = [self._shown(one) for one in self.frames if "__model__" not in one]
        raise ModelError(
            f"{element}: there is no frame {self._shown(name)!r}{suggest(self._shown(name), known)}"
        )

    def place(self, name: str) -> Placement:
        """Returns the pose of a frame in the world."""
        way: list[str] = []
        while self.frames[name].placed is None and name != "world":
            if name in way:
                loop = " -> ".join(map(repr, [*way[way.index(name) :], name]))
                raise ModelError(f"{self.frames[name].element}: its pose is relative to itself: {loop}")
            way.append(name)
            frame = self.frames[name]
            name = self._known(frame.base, frame.element)
        at = self.frames[name].placed or Placement.identity()
        for below in reversed(way):
            at = at @ self.frames[below].pose
            self.frames[below].placed = at
        return at

    def _relative(self, name: str, to: str) -> Placement:
        """Returns the pose of a frame in another frame whose own pose is still unknown."""
        at, start = Placement.identity(), name
        while name != to:
            frame = self.frames[name]
            at = frame.pose @ at
            name = self._known(frame.base, frame.element)
            if name in (start, "world"):
                raise ModelError(
                    f"{self.frames[start].element} is not part of its model, so it cannot be the placement frame"
                )
        return at

    def link_of(self, name: str, element: Element) -> str:
        """Returns the link that a frame moves with, or the world."""
        way = []
        while (frame := self.frames[name]).link is None:
            if name in way:
                raise ModelError(f"{element}: it is attached to itself: {' -> '.join(map(repr, way))}")
            way.append(name)
            name = self._known(frame.with_frame or "world", frame.element)
        return frame.link or "world"

    # Shapes.

    def named_links(self) -> Iterable[tuple[Element, str]]:
        """Returns the links and the names of their bodies."""
        return [(link, self._shown(name)) for name, link in self.links.items()]

    def within(self, element: Element, body: str) -> Placement:
        """Returns the pose, in its link, of an element with a `<pose>`."""
        name = self._hidden + body
        frame = self._posed(element, f"{name.rpartition('::')[0]}::", name)
        base = self._known(frame.base, element)
        return frame.pose if base == name else self.place(name).inverse() @ self.place(base) @ frame.pose

    def touching_bits(self, body: str) -> tuple[int, int]:
        """Returns `contype` and `conaffinity` of the shapes of a body."""
        name = self._hidden + body
        return next(bits for model, bits in self._bits.items() if name.startswith(f"{model}::"))

    def _bits_of(self, models: list[Element]) -> dict[str, tuple[int, int]]:
        """Returns the contact bits of each model.

        A model without self-collision has its own bit, which collides with all other models.
        """
        alone = [one for one in models if not (one.is_true("static") or one.is_true("self_collide"))]
        for one in alone[BITS:]:
            self.leave_out("disabled self-collision of models", one.text("name"))
        every = 2 ** (len(alone[:BITS]) + 1) - 1
        bits = dict.fromkeys((one.text("name") for one in models), (1, every))
        return bits | {one.text("name"): (2 << k, every & ~(2 << k)) for k, one in enumerate(alone[:BITS])}

    # The tree.

    def _resolve_ends(self) -> None:
        for joint in self.joints.values():
            element = joint.element
            joint.parent, joint.child = (
                self.link_of(self._lookup(joint.scope, _end(element, tag), element), element)
                for tag in ("parent", "child")
            )
            if joint.child == "world":
                raise ModelError(f"{element}: its child is the world; exchange parent and child")
            if joint.child == joint.parent:
                raise ModelError(f"{element}: it joins link {self._shown(joint.child)!r} to itself")

    def bodies(self, shapes: SdfShapes) -> list[Body]:
        """Returns the bodies, depth first. Static links are welded to the world, whatever joints they have.

        Args:
          shapes: Reads the shapes from which inertias are computed.
        """
        inertias = {name: _inertia(link, self._shown(name), shapes) for name, link in self.links.items()}
        hung_by: dict[str, _Joint] = {}
        below: dict[str, list[_Joint]] = {}
        for joint in self.joints.values():
            if joint.child in self.static:
                continue
            if joint.child in hung_by:
                both = f"{hung_by[joint.child].element} and {joint.element}"
                raise ModelError(
                    f"link {self._shown(joint.child)!r} has two parents, by {both}; a model is a tree, so remove one and close "
                    "the loop with a constraint"
                )
            hung_by[joint.child] = joint
            below.setdefault(joint.parent, []).append(joint)
        names = set(map(self._shown, self.links)), set(map(self._shown, self.joints))
        roots = [name for name in self.links if name not in hung_by]
        found: list[Body] = []
        for name in ("world", *roots):
            if name != "world":
                own = unused("root_joint" if len(roots) == 1 else f"{self._shown(name)}:root_joint", names[1])
                names[1].add(own)
                found.append(self._root(name, own, inertias[name]))
            stack = below.get(name, [])[::-1]
            while stack:
                joint = stack.pop()
                found += self._hung(joint, inertias[joint.child], *names)
                stack += below.get(joint.child, [])[::-1]
        there = {body.name for body in found}
        for name, link in self.links.items():
            if self._shown(name) not in there:
                raise ModelError(
                    f"{link}: its ancestor joints form a loop without a root; remove one of them"
                )
        return found

    def _root(self, name: str, joint: str, inertia: Inertia) -> Body:
        at = self.place(name)
        if name in self.static:
            return Body(self._shown(name), "world", joints.Fixed(), at.transform(), inertia, joint)
        reference = np.concatenate([at.position, quaternion(at.rotation)])
        return Body(
            self._shown(name),
            "world",
            joints.Free(),
            Transform.identity(),
            inertia,
            joint,
            reference=reference,
        )

    def _hung(self, joint: _Joint, inertia: Inertia, taken: set[str], taken_joints: set[str]) -> list[Body]:
        """Returns the body of a joint's child link, preceded by a massless body if the joint acts away from the link's origin."""
        element = joint.element
        kind = element.text("type")
        if kind not in AXES:
            raise ModelError(f"{element}: its type is {kind!r}{_remedy(kind)}")
        over, link, own = (self.place(name) for name in (joint.parent, joint.child, joint.frame))
        anchor = link.inverse().point(own.position)
        axes = [self._axis(joint, tag, link, own) for tag in ("axis", "axis2")[: AXES[kind]]]
        hinge = _family(kind, element, axes)
        along = self._along(joint, kind)
        parent, child, name = map(self._shown, (joint.parent, joint.child, joint.name))
        if kind in ("prismatic", "fixed") or np.abs(anchor).max() <= AT_ORIGIN:
            at = over.inverse() @ link
            return [Body(child, parent, hinge, at.transform(), inertia, name, **along)]
        between, weld = unused(f"{child}:{name}", taken), unused(child, taken_joints)
        taken.add(between)
        taken_joints.add(weld)
        at = over.inverse() @ Placement(link.rotation, own.position)
        return [
            Body(between, parent, hinge, at.transform(), Inertia.zero(), name, **along),
            Body(child, between, joints.Fixed(), Placement(np.eye(3), -anchor).transform(), inertia, weld),
        ]

    def _axis(self, joint: _Joint, tag: str, link: Placement, own: Placement) -> np.ndarray:
        """Returns the direction of an axis, in the axes of the child link."""
        element = joint.element.needed(tag, f"<{tag}><xyz>0 0 1</xyz></{tag}>")
        given = element.inside("xyz", 3, (0.0, 0.0, 1.0))
        length = math.hypot(*given)
        if not 0 < length < math.inf:
            raise ModelError(
                f"{element}: its direction {given.tolist()} is not a direction; it must be finite and nonzero"
            )
        xyz = element.child("xyz")
        to = xyz.attributes.get("expressed_in", "").strip() if xyz is not None else ""
        models = self.version < (1, 5) or element.is_true("use_parent_model_frame")
        frame = own
        if to:
            frame = self.place(self._lookup(joint.scope, to, element))
        elif models and self.version < (1, 7):
            frame = self.place(f"{joint.scope}__model__")
        return link.rotation.T @ (frame.rotation @ (given / length))

    def _along(self, joint: _Joint, kind: str) -> dict[str, Any]:
        """Returns limits, damping, friction, springs and mimic along the axes of a joint."""
        rows = []
        for tag in ("axis", "axis2")[: AXES[kind]]:
            axis = joint.element.needed(tag, "")
            limit, dynamics = axis.child("limit"), axis.child("dynamics")
            row: dict[str, Any] = {}
            if limit is not None:
                for key in ("effort", "velocity"):
                    value = limit.inside_one(key, math.inf, finite=False)
                    row[f"{key}_limit"] = math.inf if value < 0 or value >= NO_LIMIT else value
                if kind != "continuous":
                    lower = limit.inside_one("lower", -math.inf, finite=False)
                    upper = limit.inside_one("upper", math.inf, finite=False)
                    if lower > upper:
                        raise ModelError(f"{limit}: lower {lower:g} is above upper {upper:g}; exchange them")
                    row["lower"] = lower if lower > -NO_LIMIT else -math.inf
                    row["upper"] = upper if upper < NO_LIMIT else math.inf
            if dynamics is not None:
                words = {
                    "damping": "damping",
                    "friction": "friction",
                    "spring_stiffness": "stiffness",
                    "spring_reference": None,
                }
                row |= {ours or theirs: dynamics.inside_one(theirs, 0.0) for theirs, ours in words.items()}
            mimic = axis.child("mimic")
            if mimic is not None:
                row["mimic"] = self._mimic(joint, mimic)
            rows.append(row)
        names = dict.fromkeys(name for row in rows for name in row)
        missing = {
            "lower": -math.inf,
            "upper": math.inf,
            "effort_limit": math.inf,
            "velocity_limit": math.inf,
        }
        if len(rows) == 1:
            return rows[0]
        if "mimic" in names:
            raise ModelError(
                f"{joint.element}: one of its two axes mimics another joint; only joints with one axis can"
            )
        return {name: np.array([row.get(name, missing.get(name, 0.0)) for row in rows]) for name in names}

    def _mimic(self, joint: _Joint, mimic: Element) -> Mimic:
        """Returns `q = multiplier (q_leader - reference) + offset`."""
        name = mimic.text("joint")
        if joint.scope + name not in self.joints:
            known = [one.removeprefix(joint.scope) for one in self.joints]
            raise ModelError(f"{joint.element} mimics {name!r}, which is not a joint{suggest(name, known)}")
        multiplier, offset = mimic.inside_one("multiplier", 1.0), mimic.inside_one("offset", 0.0)
        return Mimic(
            self._shown(joint.scope + name),
            multiplier,
            offset - multiplier * mimic.inside_one("reference", 0.0),
        )

    # The world.

    def gravity(self):
        if self.world is None:
            return 0.0, 0.0, -9.81
        return self.world.inside("gravity", 3, (0.0, 0.0, -9.8))

    def timestep(self) -> float | None:
        physics = self.world.all("physics") if self.world is not None else []
        chosen = [one for one in physics if one.attributes.get("default", "") in ("1", "true")] or physics
        return chosen[0].inside_one("max_step_size", 0.001) if chosen else None


def _version(top: Element) -> tuple[int, int]:
    if top.tag != "sdf":
        remedies = {
            "robot": "it is URDF; read it with load_urdf",
            "mujoco": "it is MJCF; read it with load_mjcf",
            "gazebo": "it is SDF before 1.0; convert it with gz sdf -p",
        }
        raise ModelError(
            f"the outermost element is <{top.tag}>: {remedies.get(top.tag, 'an SDF file has <sdf>')}"
        )
    text = top.text("version")
    major, _, minor = text.partition(".")
    if major != "1" or not minor.isdecimal():
        raise ModelError(f"{top}: its version is {text!r}; supported are versions from 1.4 on")
    return 1, int(minor)


def _world_and_models(top: Element) -> tuple[Element | None, list[Element]]:
    _refuse_includes(top)
    worlds, models = top.all("world"), top.all("model")
    if len(worlds) > 1:
        names = ", ".join(repr(world.attributes.get("name", "")) for world in worlds)
        raise ModelError(f"the file has the worlds {names}; keep one")
    world = worlds[0] if worlds else None
    if world is not None:
        _refuse_includes(world)
        models = world.all("model")
    elif len(models) > 1:
        raise ModelError(
            f"the file has {len(models)} models and no world; keep one, or put them into a <world>"
        )
    if not models:
        raise ModelError("the file has no model; it needs one (is this the whole file?)")
    return world, models


def _refuse_includes(owner: Element) -> None:
    for include in owner.all("include"):
        uri = include.child("uri")
        what = f" ({uri.content.strip()})" if uri is not None else ""
        raise ModelError(
            f"{include}{what}: includes are not supported; expand the file first: gz sdf -p robot.sdf > whole.sdf"
        )


def _remedy(kind: str) -> str:
    if kind == "gearbox":
        return ", which couples two joints; remove it and add a rbd.constraints.CoordinateCoupling"
    return suggest(kind, AXES, f"The types are {', '.join(AXES)}", listed=False)


def _family(kind: str, element: Element, axes: list[np.ndarray]) -> joints.Joint:
    given = [jnp.asarray(axis) for axis in axes]
    if kind in ("revolute", "continuous"):
        return joints.Revolute(*given)
    if kind == "prismatic":
        return joints.Prismatic(*given)
    if kind == "screw":
        # The pitch is per revolution. The older element is in radians per meter, with the opposite sign.
        older = element.inside_one("thread_pitch", 1.0)
        if older == 0:
            raise ModelError(
                f"{element}: its thread_pitch is zero; write <screw_thread_pitch>, in metres for each turn"
            )
        turn = element.inside_one("screw_thread_pitch", -2 * math.pi / older)
        return joints.Helical(*given, pitch=turn / (2 * math.pi))
    if kind == "universal":
        try:
            return joints.Universal(*given)
        except ValueError as error:
            raise ModelError(f"{element}: {error}") from None
    if kind == "revolute2":
        return joints.Composite([joints.Revolute(axis) for axis in given])
    return joints.Spherical() if kind == "ball" else joints.Fixed()


def _end(joint: Element, tag: str) -> str:
    """Returns the name of the parent or the child of a joint."""
    example = f"<{tag}>the name of a link</{tag}>"
    return joint.needed(tag, example).said(example)


def _pose(owner: Element) -> Placement:
    """Returns the pose of an element's `<pose>`: `x y z roll pitch yaw`, or `x y z` and a quaternion `x y z w`, by its format."""
    pose = owner.child("pose")
    if pose is None or not pose.content.strip():
        return Placement.identity()
    kind = pose.attributes.get("rotation_format", "euler_rpy").strip()
    if kind not in ("euler_rpy", "quat_xyzw"):
        raise ModelError(f"{pose}: rotation_format must be euler_rpy or quat_xyzw, got {kind!r}")
    values = owner.inside("pose", 7 if kind == "quat_xyzw" else 6, ())
    if kind == "euler_rpy":
        degrees = pose.attributes.get("degrees", "").strip() in ("true", "1")
        return Placement(
            rotation_of_angles(pose, np.deg2rad(values[3:]) if degrees else values[3:]), values[:3]
        )
    turn = values[[6, 3, 4, 5]]
    if not np.linalg.norm(turn) > 0:
        raise ModelError(f"{pose}: its quaternion is zero; the identity is 0 0 0 1")
    return Placement(rotation_matrix(turn), values[:3])


def _inertia(link: Element, body: str, shapes: SdfShapes) -> Inertia:
    inertial = link.child("inertial")
    mass, com, moments, rotation = 1.0, np.zeros(3), np.eye(3), np.eye(3)
    if inertial is not None:
        if inertial.attributes.get("auto", "").strip() in ("true", "1"):
            return _inertia_of_shapes(link, inertial, body, shapes)
        pose = inertial.child("pose")
        if pose is not None and pose.attributes.get("relative_to", "").strip():
            raise ModelError(f"{pose}: the inertia of a link is in its own frame; remove relative_to")
        mass = inertial.inside_one("mass", 1.0)
        at = _pose(inertial)
        com, rotation = at.position, at.rotation
        inertia = inertial.child("inertia")
        if inertia is not None:
            of = lambda key: inertia.inside_one(key, float(key[1] == key[2]))
            moments = np.array([[of(f"i{''.join(sorted(a + b))}") for b in "xyz"] for a in "xyz"])
    if mass < 0:
        raise ModelError(f"{link}: its mass must not be negative, got {mass:g}")
    central = rotation @ moments @ rotation.T
    about = central + mass * (com @ com * np.eye(3) - np.outer(com, com))
    triangle = np.array([about[i, j] for i in range(3) for j in range(i + 1)])
    return with_numpy_leaves(Inertia.zero, mass, mass * com, triangle)


def _inertia_of_shapes(link: Element, inertial: Element, body: str, shapes: SdfShapes) -> Inertia:
    """Returns the inertia of the collision shapes, by the density of the shape, of the link, or of water.

    If a mass is given, the inertia is scaled to it.
    """
    try:
        parts = shapes.inertias(link, body)
    except ValueError as error:
        raise ModelError(f"{inertial}: its inertia cannot be computed from shapes: {error}") from None
    if not parts:
        raise ModelError(
            f"{inertial}: its inertia cannot be computed from shapes, because {link} has no suitable collision"
        )
    values = [
        np.sum([np.asarray(leaf) for leaf in leaves], axis=0) for leaves in zip(*map(jax.tree.leaves, parts))
    ]
    if inertial.child("mass") is not None:
        values = [value * (inertial.inside_one("mass", 1.0) / values[0]) for value in values]
    return with_numpy_leaves(Inertia.zero, *values)
