"""Models from a graph of bodies and joints (book §4.1.1, §4.1.2, eqs. 4.1, 4.2): any order, any polarity, any loops.

A joint connects two frames, one on each of two bodies; the description chooses which body is the predecessor. The builder
selects a spanning tree of the graph. Its joints become the joints of the model, reversed if the tree passes them from
successor to predecessor (table 4.2). The other joints close loops. Bodies keep the frames of the description.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._core.arguments import a_model
from .._core.array import is_known
from .._core.errors import ModelError, suggest
from ..joints import Fixed, Free, Joint, Offset, reverse
from ..lie import quaternion
from ..loops import Constraint, LoopJoint
from ..loops.relative import frame_on
from ..spatial.attached import Attached
from ..spatial.inertia import Inertia
from ..spatial.transform import Transform
from .builder import ALONG_JOINT, DEFAULTS, Body, ModelBuilder
from .model import Model
from .settings import Settings
from .tree import Traversal


@dataclass(frozen=True)
class Arc:
    """A joint of a graph, with its frames on the predecessor and on the successor; None is the body's own frame."""

    name: str
    predecessor: str
    successor: str
    joint: Joint
    frame_p: Transform | None
    frame_s: Transform | None
    along: dict[str, Any] = field(default_factory=dict)

    @property
    def stays(self) -> bool:
        """Returns whether the joint has coefficients along it, so that it must be in the tree."""
        return any(not _is_default(name, value) for name, value in self.along.items())

    def attached(self, parent: str) -> tuple[Transform, Joint]:
        """Returns the placement and the joint for the tree, with one of its bodies as the parent."""
        forth = parent == self.predecessor
        first, second = (self.frame_p, self.frame_s) if forth else (self.frame_s, self.frame_p)
        return attached_joint(self.joint if forth else reverse(self.joint), first, second)


def attached_joint(
    joint: Joint, first: Transform | None, second: Transform | None
) -> tuple[Transform, Joint]:
    """Returns placement and joint of a body attached by its frame `second` to the frame `first` of the parent."""
    placement = Transform.identity() if first is None else first
    if second is None:
        return placement, joint
    if isinstance(joint, Fixed):
        return placement @ second.inverse(), joint
    if isinstance(joint, Offset):
        return placement, Offset(joint.joint, joint.frame @ second.inverse())
    return placement, Offset(joint, second.inverse())


def _is_default(name: str, value) -> bool:
    default = DEFAULTS.get(name)
    if value is None or value is default:
        return True
    return default is not None and is_known(value) and bool(np.all(np.asarray(value) == default))


class GraphBuilder:
    """Collects bodies and the joints between them, in any order, and builds a `Model` on a spanning tree.

    >>> graph = rbd.GraphBuilder(gravity=(0, -9.81, 0), name="four-bar")
    >>> rod = rbd.Inertia.box(1.0, (1.0, 0.1, 0.1), (0.5, 0.0, 0.0))
    >>> for name, here, there, at in [
    ...     ("a", "world", "crank", (0, 0, 0)),
    ...     ("b", "crank", "coupler", (1, 0, 0)),
    ...     ("d", "world", "follower", (1, 0, 0)),
    ... ]:
    ...     graph.add_joint(name, here, there, rbd.joints.Revolute(), at)
    >>> graph.add_joint("c", "follower", "coupler", rbd.joints.Revolute(), (1, 0, 0), (1, 0, 0))
    >>> for name in ("coupler", "crank", "follower"):
    ...     _ = graph.add_body(name, rod)
    >>> graph.build(tree=["a", "b"])
    four-bar: 3 bodies, nq = 3, nv = 3
    ├─ crank (a)  Revolute v[0:1], 1 kg
    │  └─ coupler (b)  Revolute v[1:2], 1 kg
    └─ follower (d)  Revolute v[2:3], 1 kg
    ╌╌ LoopJoint('follower', 'coupler', Revolute), 5 rows
    """

    def __init__(
        self,
        gravity=(0.0, 0.0, -9.81),
        name: str = "model",
        traversal: Traversal = "auto",
        settings: Settings | None = None,
    ):
        self.gravity, self.name, self.settings = gravity, name, settings
        self.traversal: Traversal = traversal
        self.inertias: dict[str, Inertia] = {}
        self.joints: dict[str, Arc] = {}
        self.attached: list[Attached] = []

    def add_body(self, name: str, inertia: Inertia | None = None) -> str:
        """Adds a body with an inertia in its own frame (zero by default), and returns its name."""
        if not isinstance(name, str) or not name or name == "world" or name in self.inertias:
            raise ModelError(
                f"body {name!r}: every body needs a name of its own that is not empty and not 'world'"
            )
        self.inertias[name] = Inertia.zero() if inertia is None else inertia
        return name

    def add_joint(
        self,
        name: str,
        predecessor: str,
        successor: str,
        joint: Joint | None = None,
        frame_p=None,
        frame_s=None,
        **along_joint,
    ) -> None:
        """Adds a joint from the predecessor to the successor, which may be added later.

        Args:
          name: Name of the joint.
          predecessor: Name of a body, or "world".
          successor: Name of a body, or "world".
          joint: The joint. Default: a weld.
          frame_p: The joint frame on the predecessor: a `Transform`, a point, or None for the body's own frame.
          frame_s: The joint frame on the successor, in the same forms.
          **along_joint: Coefficients along the joint, as for `ModelBuilder.add_body`. A joint with coefficients is in the tree.
        """
        joint = Fixed() if joint is None else joint
        if not isinstance(joint, Joint):
            raise ModelError(
                f"joint {name!r}: joint is a {type(joint).__name__}, not an instance of rbd.joints.Joint"
            )
        if not isinstance(name, str) or not name or name in self.joints:
            raise ModelError(f"joint {name!r}: every joint needs a name of its own that is not empty")
        if predecessor == successor:
            raise ModelError(f"joint {name!r}: it connects {predecessor!r} with itself; name two bodies")
        unknown = set(along_joint) - {*ALONG_JOINT, "mimic"}
        if unknown:
            word = sorted(unknown)[0]
            raise TypeError(f"add_joint: unknown argument {word!r}{suggest(word, [*ALONG_JOINT, 'mimic'])}")
        first, second = (
            None if given is None else frame_on(f"joint {name!r}", end, given)
            for end, given in (("p", frame_p), ("s", frame_s))
        )
        self.joints[name] = Arc(name, predecessor, successor, joint, first, second, dict(along_joint))

    def attach(self, *things: Attached) -> None:
        """Adds attachments to bodies or joints that exist when the model is built."""
        self.attached += things

    def add_constraint(self, constraint: Constraint) -> None:
        """Adds a constraint between bodies or joints that exist when the model is built."""
        self.attach(constraint)

    def build(self, root: str | None = None, tree: Sequence[str] = (), strict: bool = False) -> Model:
        """Returns the model on a spanning tree of minimal depth (book §10.2).

        Args:
          root: A body that is not connected with the world and gets a `Free` joint (of the same name) to the world. Default:
            the first added body of each such part of the graph.
          tree: Names of joints that must be in the tree; all others may be cut.
          strict: As for `ModelBuilder.build`.
        """
        root_of = self._free_roots(root)
        taken = self._spanning(tree, root_of)
        builder = ModelBuilder(self.gravity, self.name, self.traversal, self.settings)
        placed = {"world"}
        for body in root_of:
            if body in self.joints:
                raise ModelError(
                    f"body {body!r} floats, so its joint to the world gets its name, but another joint has this name"
                )
        pending = list(taken)
        while len(placed) <= len(self.inertias):
            for body in root_of:
                if body not in placed:
                    builder.add_body(body, "world", Free(), inertia=self.inertias[body])
                    placed.add(body)
            left = []
            for arc in pending:
                parent = next((end for end in (arc.predecessor, arc.successor) if end in placed), None)
                if parent is None:
                    left.append(arc)
                    continue
                child = arc.successor if parent == arc.predecessor else arc.predecessor
                placement, joint = arc.attached(parent)
                builder.add(
                    Body(child, parent, joint, placement, self.inertias[child], arc.name, **arc.along)
                )
                placed.add(child)
            pending = left
        for arc in self.joints.values():
            if arc not in taken and arc.joint.nv < 6:
                builder.add_constraint(
                    LoopJoint(arc.predecessor, arc.frame_p, arc.successor, arc.frame_s, arc.joint)
                )
        builder.attach(*self.attached)
        return builder.build(strict)

    def _check_ends(self) -> None:
        for arc in self.joints.values():
            for body in (arc.predecessor, arc.successor):
                if body != "world" and body not in self.inertias:
                    raise ModelError(
                        f"joint {arc.name!r}: there is no body {body!r}{suggest(body, self.inertias)}"
                    )

    def _free_roots(self, root: str | None) -> list[str]:
        """Returns the bodies with a free joint to the world: one of each part that is not connected with it."""
        self._check_ends()
        part = _Parts([*self.inertias, "world"])
        for arc in self.joints.values():
            part.join(arc.predecessor, arc.successor)
        if root is not None and (root not in self.inertias or part.of(root) == part.of("world")):
            found = (
                "is not a body"
                if root not in self.inertias
                else "is connected with the world, which is then the root"
            )
            raise ModelError(f"GraphBuilder.build: root {root!r} {found}")
        roots: dict[str, str] = {} if root is None else {part.of(root): root}
        for body in self.inertias:
            if part.of(body) != part.of("world"):
                roots.setdefault(part.of(body), body)
        return list(roots.values())

    def _spanning(self, wanted: Sequence[str], roots: Sequence[str]) -> list[Arc]:
        """Returns the joints of the tree: first the required ones, then the joints nearest to the root."""
        wanted = [wanted] if isinstance(wanted, str) else list(wanted)
        for name in wanted:
            if name not in self.joints:
                raise ModelError(
                    f"GraphBuilder.build: there is no joint {name!r}{suggest(name, self.joints)}"
                )
        must = [arc for arc in self.joints.values() if arc.name in wanted or arc.stays]
        part = _Parts([*self.inertias, "world"])
        for body in roots:
            part.join(body, "world")
        for arc in must:
            if not part.join(arc.predecessor, arc.successor):
                raise ModelError(
                    f"GraphBuilder.build: the joints {', '.join(repr(one.name) for one in must)} must be in the tree, but "
                    f"{arc.name!r} closes a loop of them. A joint is in the tree if `tree` names it or it has coefficients "
                    "(damping, limits, ...)"
                )
        depth = self._depths(roots)
        order = sorted(
            self.joints.values(), key=lambda arc: min(depth[arc.predecessor], depth[arc.successor])
        )
        return must + [arc for arc in order if arc not in must and part.join(arc.predecessor, arc.successor)]

    def _depths(self, roots: Sequence[str]) -> dict[str, int]:
        """Returns the minimal number of joints from the root to each body."""
        depth, level = {"world": 0, **dict.fromkeys(roots, 1)}, 0
        while len(depth) <= len(self.inertias):
            for arc in self.joints.values():
                for here, there in ((arc.predecessor, arc.successor), (arc.successor, arc.predecessor)):
                    if depth.get(here) == level:
                        depth.setdefault(there, level + 1)
            level += 1
        return depth


def reroot(model: Model, body: str) -> Model:
    """Returns the same mechanism with another body at the root of its tree, on the `Free` joint.

    The root of that body's tree must float. Joints between the two bodies are reversed (`rbd.joints.reverse`), and keep their
    names, coordinates and coefficients. Bodies keep their frames. The order of the coordinates changes, and the coordinates
    of the free joint belong to another body; `rbd.transfer_state` converts states in both directions. Forces transmitted by
    joints count from parent to child, so they change sign at reversed joints.

    Args:
      model: The model.
      body: Name of the new root.

    >>> builder = rbd.ModelBuilder(name="robot")
    >>> for name, parent, joint in [("base", "world", rbd.joints.Free()), ("hand", "base", rbd.joints.Revolute())]:
    ...     _ = builder.add_body(name, parent, joint, (0.3, 0.0, 0.0), rbd.Inertia.sphere(1.0, 0.1))
    >>> rbd.reroot(builder.build(), "hand")
    robot: 2 bodies, nq = 8, nv = 7
    └─ hand (base)  Free v[0:6], 1 kg
       └─ base (hand)  Offset v[6:7], 1 kg
    """
    a_model("reroot", model)
    way = [model.topology.body_index(body)]
    while (parent := model.topology.parents[way[-1]]) >= 0:
        way.append(parent)
    builder = ModelBuilder.from_model(model)
    bodies = [builder.bodies[index] for index in way]
    root = bodies[-1]
    if root.joint.nv != 6:
        raise ModelError(
            f"reroot: body {body!r} is on the world by joint {root.joint_name!r}, a {type(root.joint).__name__}; only "
            "a tree that floats, on a Free joint, can have another root"
        )
    if len(bodies) == 1:
        return model
    for name in ("armature", "damping", "friction", "stiffness"):
        value = getattr(root, name)
        if is_known(value) and np.any(np.asarray(value)):
            raise ModelError(
                f"reroot: joint {root.joint_name!r} has {name}, which acts on the body that it attaches"
            )
    for thing in model.attached:
        if root.joint_name in thing.joints:
            raise ModelError(
                f"reroot: {thing.label} is on joint {root.joint_name!r}, whose coordinates would belong to another body; remove "
                "it first with rbd.detach"
            )
    frame = _configured(root)
    for own in bodies[-2::-1]:
        frame = frame @ own.placement @ _configured(own)
    reference = jnp.concatenate([frame.position, quaternion.from_matrix(frame.rotation)])
    free = Body(
        body, "world", Free(), root.placement, bodies[0].inertia, root.joint_name, reference=reference
    )
    turned = [free]
    for child, above in zip(bodies, bodies[1:]):
        joint, first = child.joint, None
        if isinstance(joint, Offset):
            joint, first = joint.joint, joint.frame.inverse()
        second = None if _is_identity(child.placement) else child.placement
        placement, joint = attached_joint(reverse(joint), first, second)
        turned.append(
            replace(
                child,
                name=above.name,
                parent=child.name,
                joint=joint,
                placement=placement,
                inertia=above.inertia,
            )
        )
    known = {own.name for own in turned}
    builder.bodies = turned + [own for own in builder.bodies if own.name not in known]
    return builder.lay_out()


def _configured(body: Body) -> Transform:
    """Returns the transform of the joint of a body in its reference configuration."""
    q = body.joint.neutral() if body.reference is None else jnp.asarray(body.reference)
    return body.joint.transform(q.astype(body.placement.position.dtype))


def _is_identity(placement: Transform) -> bool:
    if not is_known(placement):
        return False
    return np.array_equal(placement.rotation, np.eye(3)) and not np.any(np.asarray(placement.position))


class _Parts:
    """Connected components of names."""

    def __init__(self, names):
        self.above = {name: name for name in names}

    def of(self, name: str) -> str:
        while self.above[name] != name:
            name = self.above[name]
        return name

    def join(self, one: str, other: str) -> bool:
        """Connects two names, and returns whether they were disconnected before."""
        one, other = self.of(one), self.of(other)
        self.above[one] = other
        return one != other
