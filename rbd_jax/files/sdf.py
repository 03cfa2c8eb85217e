"""Reading SDF (SDFormat 1.4 to 1.12), the XML of Gazebo, as far as it describes trees.

Every link, joint and model of an SDF file is a frame, and so is every `<frame>`; a pose is relative to one of them. They are
gathered first, and each is placed in the world when it is asked for. Then links are hung on each other as in any tree.
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


#: The types of SDF joints that are read, with how many axes each has.
AXES = {
    "revolute": 1, "continuous": 1, "prismatic": 1, "screw": 1, "fixed": 0, "ball": 0, "universal": 2, "revolute2": 2,
}  # fmt: skip

#: MuJoCo's shapes have 31 bits to say what they touch; one is for all that touch themselves.
BITS = 30

#: From this size on a limit is none; older files say it so.
NO_LIMIT = 1e16

#: Anchors that are no farther than this from a link's origin (in metres) are there: what rounding leaves of poses.
AT_ORIGIN = 1e-12

#: What has no effect, where it is found: in models, links and joints.
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
    """The model that an SDF file describes, which must be a tree.

    **Arguments**

    - `path_or_xml`: a file, or the text of one.
    - `lock`: joints to weld: names of joints, which are locked at their zero, or `{name: q}`.
    - `strict`: whether what has no effect here, inertias that no real body can have, and shapes that are none, are errors or one
      warning each.
    - `gravity`: in the world; by default what the file says, (0, 0, -9.8) for a `<world>` that says nothing, and
      (0, 0, -9.81) for a model alone.
    - `package_dirs`: folders in which the models of `model://` and the packages of `package://` are looked for, before
      GZ_SIM_RESOURCE_PATH, ROS_PACKAGE_PATH and the folders above the file.
    - `limits`: how large the file may be.

    **Returns**

    A model with a body for each link and a joint for each joint, of the same names and with the link's frame. Names of nested
    models have theirs in front (`arm::hand`); so do those of the models of a world with several. Bodies are depth first.

    - Links that no joint hangs float, as SDF has it: by a `Free` joint `root_joint` (`link:root_joint` where there are several).
      In `neutral` they are where the file puts them. Links of a `<static>` model are welded to the world.
    - A joint that turns about a point beside its link's origin has a body without mass `link:joint` at that point, and the link
      is welded to it, by a joint called like the link.
    - `revolute`, `continuous`, `prismatic`, `screw`, `fixed`, `ball` and `universal` joints are what they are called here;
      the two turns of a `revolute2` are a `Composite`.

    As SDF prescribes: axes are given in the joint's frame, or in that which `expressed_in` names (before 1.7 in the model's with
    `<use_parent_model_frame>`, and before 1.5 always); a link without `<inertial>` has 1 kg and moments of 1 kg m².
    Damping, friction, springs, limits and `<mimic>` of axes are read, and the `<max_step_size>` of a world's physics as its
    timestep. `<visual>` and `<collision>` are shapes, in the groups 2 and 3, called `link:name`; a model's touch those of other
    models, and each other if it says `<self_collide>`. What else could move the links is told in one `ModelWarning`; a `gearbox`
    and an `<include>` are refused.

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
    message = f"model {name!r} leaves out what has no effect here: {'; '.join(unsupported)}"
    if strict:
        raise ModelError(f"{message}. Remove it, or load with strict=False and the model moves without")
    warnings.warn(f"{message}. The model moves without", ModelWarning, stacklevel=3)


@dataclass
class _Frame:
    """Something that poses are relative to; `link` is what it moves with, or else the name of another frame that says it.

    - `pose`: in the frame called `base`.
    """

    element: Element
    base: str
    pose: Placement
    link: str | None = None
    with_frame: str | None = None
    placed: Placement | None = None


@dataclass
class _Joint:
    """A joint: the scope of the names in it, its own name and that of its frame, and the links that it joins."""

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
        #: What is in front of every name and is not shown.
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
        """A full name as the model has it: without that of the only model in front."""
        return name.removeprefix(self._hidden)

    # What the file has.

    def _gather(self, model: Element, outer: str, outside: str, static: bool) -> None:
        """A model, those within it, and all their frames; `outer` is in front of its name, `outside` the frame that it is in."""
        _refuse_includes(model)
        static = static or model.is_true("static")
        scope = f"{outer}{model.text('name')}::"
        own = f"{scope}__model__"
        if own in self.frames:
            raise ModelError(f"{model} has the name of {self.frames[own].element}; take another")
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
            raise ModelError(f"{model}: its canonical link {first!r} is no link{suggest(first, known)}")
        if not first and not links and not inner:
            raise ModelError(f"{model} has no links; a model needs at least one (is this the whole file?)")
        first = first or (links[0].text("name") if links else f"{inner[0].text('name')}::__model__")
        whole = self._posed(model, outer, outside, with_frame=scope + first)
        self.frames[own] = whole
        self._gather_frames(model, scope, own)
        anchor = model.attributes.get("placement_frame", "").strip()
        if anchor:  # the pose says where this frame is, not the model's
            at = self._lookup(scope, anchor, model)
            whole.pose = whole.pose @ self._relative(at, own).inverse()
        self._note("model", model, scope)

    def _gather_frames(self, owner: Element, scope: str, own: str) -> None:
        """The joints and frames of a model or a world."""
        for joint in owner.all("joint"):
            name = scope + joint.text("name")
            if name in self.joints:
                raise ModelError(
                    f"{joint} has the name of {self.joints[name].element}; every joint needs its own"
                )
            # Before 1.7 joints had no frames that others could name, so a link could have the name of one.
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
            raise ModelError(f"{element}: the name has a meaning of its own in SDF; take another")
        if (known := self.frames.get(scope + name)) is not None:
            raise ModelError(
                f"{element} has the name of {known.element}; in a model every name is there once"
            )
        return scope + name

    def _posed(self, element: Element, scope: str, base: str, **attached) -> _Frame:
        """An element with a `<pose>`, which is relative to `base` unless it says to what."""
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
        """What of an element has no effect here."""
        for tag in WITHOUT_EFFECT[kind]:
            for child in element.all(tag):
                self.leave_out(
                    f"{tag.replace('_', ' ')}s", child.attributes.get("name") or scope.removesuffix("::")
                )

    def leave_out(self, what: str, name: str) -> None:
        """To be told: what has no effect here, and the name of where it is."""
        self._left_out.setdefault(what, {})[name] = None

    # Where frames are, and what they move with.

    def _lookup(self, scope: str, name: str, element: Element) -> str:
        """The full name of the frame that an element means."""
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
        """Where a frame is in the world."""
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
        """Where a frame is in another, before that is placed itself."""
        at, start = Placement.identity(), name
        while name != to:
            frame = self.frames[name]
            at = frame.pose @ at
            name = self._known(frame.base, frame.element)
            if name in (start, "world"):
                raise ModelError(
                    f"{self.frames[start].element} does not stand in its model, so it cannot place that"
                )
        return at

    def link_of(self, name: str, element: Element) -> str:
        """The link that a frame moves with, or the world."""
        way = []
        while (frame := self.frames[name]).link is None:
            if name in way:
                raise ModelError(
                    f"{element}: what it is attached to is attached to itself: {' -> '.join(map(repr, way))}"
                )
            way.append(name)
            name = self._known(frame.with_frame or "world", frame.element)
        return frame.link or "world"

    # Shapes.

    def named_links(self) -> Iterable[tuple[Element, str]]:
        """The links, and the names of their bodies."""
        return [(link, self._shown(name)) for name, link in self.links.items()]

    def within(self, element: Element, body: str) -> Placement:
        """Where an element of a link with a `<pose>` is in it."""
        name = self._hidden + body
        frame = self._posed(element, f"{name.rpartition('::')[0]}::", name)
        base = self._known(frame.base, element)
        return frame.pose if base == name else self.place(name).inverse() @ self.place(base) @ frame.pose

    def touching_bits(self, body: str) -> tuple[int, int]:
        """`contype` and `conaffinity` of the shapes of a body."""
        name = self._hidden + body
        return next(bits for model, bits in self._bits.items() if name.startswith(f"{model}::"))

    def _bits_of(self, models: list[Element]) -> dict[str, tuple[int, int]]:
        """Of each model: those that do not touch themselves have a bit of their own, which touches all others."""
        alone = [one for one in models if not (one.is_true("static") or one.is_true("self_collide"))]
        for one in alone[BITS:]:
            self.leave_out("that they do not touch themselves, of the models", one.text("name"))
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
        """The bodies, depth first. What is static is welded to the world, whatever joints it has.

        - `shapes`: reads those by which inertias are computed.
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
                    f"{link}: the joints above it run in a circle, which leads to no root; remove one of them"
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
        """The link that a joint hangs, and the body between, where the joint acts beside its origin."""
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
        """The direction of an axis, in the axes of the child link."""
        element = joint.element.needed(tag, f"<{tag}><xyz>0 0 1</xyz></{tag}>")
        given = element.inside("xyz", 3, (0.0, 0.0, 1.0))
        length = math.hypot(*given)
        if not 0 < length < math.inf:
            raise ModelError(f"{element}: its direction {given.tolist()} is none; give one that is not zero")
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
        """What acts along the axes of a joint."""
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
        """`q = multiplier (q_leader - reference) + offset`."""
        name = mimic.text("joint")
        if joint.scope + name not in self.joints:
            known = [one.removeprefix(joint.scope) for one in self.joints]
            raise ModelError(f"{joint.element} mimics {name!r}, which is no joint{suggest(name, known)}")
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
            f"the outermost element is <{top.tag}>: {remedies.get(top.tag, 'that of SDF is <sdf>')}"
        )
    text = top.text("version")
    major, _, minor = text.partition(".")
    if major != "1" or not minor.isdecimal():
        raise ModelError(
            f"{top}: its version is {text!r}; versions from 1.4 on are read: write it as 1.9 says"
        )
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
            f"{include}{what}: other files are not read; put it in first: gz sdf -p robot.sdf > whole.sdf"
        )


def _remedy(kind: str) -> str:
    if kind == "gearbox":
        return (
            ", which ties two joints; take it out, and add a constraint: rbd.constraints.CoordinateCoupling"
        )
    return suggest(kind, AXES, f"The types are {', '.join(AXES)}", listed=False)


def _family(kind: str, element: Element, axes: list[np.ndarray]) -> joints.Joint:
    given = [jnp.asarray(axis) for axis in axes]
    if kind in ("revolute", "continuous"):
        return joints.Revolute(*given)
    if kind == "prismatic":
        return joints.Prismatic(*given)
    if kind == "screw":
        # The pitch is that of a whole turn; the older word is in radians for each metre, and of the other sign.
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
    """The name of the parent or the child of a joint."""
    example = f"<{tag}>the name of a link</{tag}>"
    return joint.needed(tag, example).said(example)


def _pose(owner: Element) -> Placement:
    """Where its `<pose>` puts an element: `x y z roll pitch yaw`, or `x y z` and a quaternion `x y z w` where it says so."""
    pose = owner.child("pose")
    if pose is None or not pose.content.strip():
        return Placement.identity()
    kind = pose.attributes.get("rotation_format", "euler_rpy").strip()
    if kind not in ("euler_rpy", "quat_xyzw"):
        raise ModelError(f"{pose}: its rotation_format is {kind!r}; it is euler_rpy or quat_xyzw")
    values = owner.inside("pose", 7 if kind == "quat_xyzw" else 6, ())
    if kind == "euler_rpy":
        degrees = pose.attributes.get("degrees", "").strip() in ("true", "1")
        return Placement(
            rotation_of_angles(pose, np.deg2rad(values[3:]) if degrees else values[3:]), values[:3]
        )
    turn = values[[6, 3, 4, 5]]
    if not np.linalg.norm(turn) > 0:
        raise ModelError(f"{pose}: its quaternion is zero; that of no turn is 0 0 0 1")
    return Placement(rotation_matrix(turn), values[:3])


def _inertia(link: Element, body: str, shapes: SdfShapes) -> Inertia:
    inertial = link.child("inertial")
    mass, com, moments, rotation = 1.0, np.zeros(3), np.eye(3), np.eye(3)
    if inertial is not None:
        if inertial.attributes.get("auto", "").strip() in ("true", "1"):
            return _inertia_of_shapes(link, inertial, body, shapes)
        pose = inertial.child("pose")
        if pose is not None and pose.attributes.get("relative_to", "").strip():
            raise ModelError(f"{pose}: the inertia of a link is in its own frame; take out relative_to")
        mass = inertial.inside_one("mass", 1.0)
        at = _pose(inertial)
        com, rotation = at.position, at.rotation
        inertia = inertial.child("inertia")
        if inertia is not None:
            of = lambda key: inertia.inside_one(key, float(key[1] == key[2]))
            moments = np.array([[of(f"i{''.join(sorted(a + b))}") for b in "xyz"] for a in "xyz"])
    if mass < 0:
        raise ModelError(f"{link}: its mass is {mass:g}; a mass is positive or zero")
    central = rotation @ moments @ rotation.T
    about = central + mass * (com @ com * np.eye(3) - np.outer(com, com))
    triangle = np.array([about[i, j] for i in range(3) for j in range(i + 1)])
    return with_numpy_leaves(Inertia.zero, mass, mass * com, triangle)


def _inertia_of_shapes(link: Element, inertial: Element, body: str, shapes: SdfShapes) -> Inertia:
    """That of the collisions, as dense as they, the link or else water; with the mass that is said."""
    try:
        parts = shapes.inertias(link, body)
    except ValueError as error:
        raise ModelError(f"{inertial}: it is to be computed from shapes: {error}") from None
    if not parts:
        raise ModelError(f"{inertial}: it is to be computed from shapes, and {link} has none that has one")
    values = [
        np.sum([np.asarray(leaf) for leaf in leaves], axis=0) for leaves in zip(*map(jax.tree.leaves, parts))
    ]
    if inertial.child("mass") is not None:
        values = [value * (inertial.inside_one("mass", 1.0) / values[0]) for value in values]
    return with_numpy_leaves(Inertia.zero, *values)
