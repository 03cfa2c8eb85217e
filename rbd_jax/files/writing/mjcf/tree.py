"""The bodies and joints of an MJCF file.

A body of the file has the frame that it has in the model, and its joints act one after the other in that frame as it is at the
joints' reference (`ref`). So joints of bodies without mass, one after the other, can be joints of one body, wherever they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from xml.etree.ElementTree import Element, SubElement

import jax
import numpy as np

from ...._core.errors import ModelError
from ....forces import BoxDrag
from ....model import Body
from ...mjcf.compiled import unused
from ...placement import Placement, quaternion, rotation_matrix
from ..description import Mass
from ..numerals import principal, text
from ..series import BALL, FREE, PLANE, SLIDE, TURN, Part, directions, part_names, parts_of
from .document import Document, Written, set_frame


#: The least mass and moment that MuJoCo lets a moving body have (its mjMINVAL), and some more, so that rounding stays above it.
LEAST = 2e-15

#: What acts along joints, and what that is called in the file.
WORDS = {"damping": "damping", "friction": "frictionloss", "armature": "armature", "stiffness": "stiffness"}

#: Frames that differ by no more are the same: what rounding leaves of turns there and back.
SAME = 1e-14


@dataclass(frozen=True)
class Step:
    """A joint to write: where it acts, seen from the one before it, and what it is.

    - `kind`: "hinge", "slide", "ball" or "free".
    - `rotation`, `position`: where it acts, in the frame that the one before it has moved.
    - `part`: what it is of the joint of a body; `q` and `v` are its own entries of that joint's.
    """

    name: str
    kind: str
    part: Part
    axis: np.ndarray | None
    rotation: np.ndarray
    position: np.ndarray
    body: Body
    q: tuple[int, ...]
    v: tuple[int, ...]

    @property
    def reference(self) -> float:
        """The coordinate in which the body is written, of a hinge or a slide."""
        return float(self.body.reference[self.q[0]])

    def moved(self) -> tuple[np.ndarray, np.ndarray]:
        """The frame that the joint moves, in the one before it, at its reference."""
        if self.kind == "hinge":
            return self.rotation @ _turn(self.axis, self.reference), self.position
        if self.kind == "slide":
            return self.rotation, self.position + self.rotation @ self.axis * self.reference
        return self.rotation, self.position


def write_tree(out: Document, bodies: list[Body], eps: float) -> None:
    """All bodies, and ties between those joints that mimic others and their leaders."""
    bodies = [_with_reference(body, bodies) for body in bodies]
    used = {name for thing in out.model.attached for name in thing.bodies}
    chains = _chains(bodies, used)
    taken = {chain[-1].name for chain in chains}
    masses, axes = _masses(chains, eps), _axes(out)
    for chain in chains:
        _write_chain(out, chain, taken)
        _write_mass(out, chain[-1], masses[chain[-1].name], axes.get(chain[-1].name))
    for body in bodies:
        _tell_losses(out, body)
    for element in out.world.findall("body"):
        _least_masses(element)
    for body in bodies:
        if body.mimic is not None:  # about the references of both, of which one follows from the other
            SubElement(
                out.section("equality"), "joint", joint1=body.joint_name, joint2=body.mimic.leader,
                polycoef=text([0, float(body.mimic.multiplier), 0, 0, 0]),
            )  # fmt: skip


def _with_reference(body: Body, bodies: list[Body]) -> Body:
    """A body, its joint's reference that of a joint that mimics, where it does."""
    if body.mimic is None:
        return body
    leader = next(one for one in bodies if one.joint_name == body.mimic.leader)
    return replace(body, reference=float(body.mimic.multiplier) * leader.reference + float(body.mimic.offset))


def _chains(bodies: list[Body], used: set[str]) -> list[list[Body]]:
    """Bodies that are one body of the file: each with those above it that `load_mjcf` makes for its joints."""
    children: dict[str, list[Body]] = {}
    by_name = {body.name: body for body in bodies}
    for body in bodies:
        children.setdefault(body.parent, []).append(body)
    found, gone = [], set()
    for last in reversed(bodies):
        if last.name in gone:
            continue
        chain = [last]
        while (above := by_name.get(chain[0].parent)) is not None:
            made = above.name.startswith(f"{last.name}:") and len(children[above.name]) == 1
            if not made or above.name in used or not above.joint.nv or not _massless(above):
                break
            chain.insert(0, above)
            gone.add(above.name)
        found.append(chain)
    return found[::-1]


def _massless(body: Body) -> bool:
    return not any(np.any(leaf) for leaf in jax.tree.leaves(body.inertia))


# Joints.


def _steps(chain: list[Body]) -> tuple[list[Step], tuple[np.ndarray, np.ndarray]]:
    """The joints of a chain, and where the body is, seen from the last of them."""
    steps: list[Step] = []
    rotation, position = np.eye(3), np.zeros(3)
    for index, body in enumerate(chain):
        placed = body.placement.rotation, body.placement.position
        rotation, position = rotation @ placed[0], position + rotation @ placed[1]
        parts = parts_of(body)
        floats = index == 0 and body.parent == "world" and len(parts) == 1 and _same((rotation, position))
        for part, name in zip(parts, part_names(body.joint_name, parts), strict=True):
            if part.ratio is not None:
                raise ModelError(
                    f"joint {body.joint_name!r} is a {type(body.joint).__name__}, which MJCF has not. "
                    "Write URDF (rbd.save_urdf), or take a slide and a hinge with a rbd.constraints.CoordinateCoupling"
                )
            for kind, axis, q, v, ending in _elements(part, floats):
                steps.append(Step(name + ending, kind, part, axis, rotation, position, body, q, v))
                rotation, position = np.eye(3), np.zeros(3)
    return steps, (rotation, position)


def _elements(part: Part, floats: bool):
    """MuJoCo's joints for a part: kind, axis, coordinates, degrees of freedom, and what its name ends in."""
    q, v = part.q, part.v
    if part.kind in (TURN, SLIDE):
        yield "hinge" if part.kind == TURN else "slide", part.axis, q, v, ""
    elif part.kind == BALL:
        yield "ball", None, q, v, ""
    elif part.kind == PLANE:
        for i, (direction, letter) in enumerate(zip(directions(part).T, "xy"), 1):
            yield "slide", direction, (q[i],), (v[i],), f":{letter}"
        yield "hinge", part.axis, (q[0],), (v[0],), ":angle"
    elif part.kind == FREE and floats:
        yield "free", None, q, v, ""
    else:
        for i, (direction, letter) in enumerate(zip(np.eye(3), "xyz")):
            yield "slide", direction, (q[i],), (v[3 + i],), f":{letter}"
        yield "ball", None, q[3:], v[:3], ":ball"


def _write_chain(out: Document, chain: list[Body], taken: set[str]) -> None:
    """The body that a chain becomes, in its parent; several, where MuJoCo cannot have all of the joints on one."""
    last, parent = chain[-1], out.bodies[chain[0].parent]
    steps, end = _steps(chain)
    groups: list[list[Step]] = [[]]
    for step in steps:
        if groups[-1] and not _joins(groups[-1], step):
            groups.append([])
        groups[-1].append(step)
    kinds = [step.kind for step in groups[-1]]
    if ("free" in kinds and not _same(end)) or ("ball" in kinds and not _same((end[0], np.zeros(3)))):
        groups.append([])
    for group in groups:
        final = group is groups[-1]
        name = last.name if final else unused(f"{last.name}:{group[-1].name}", taken)
        taken.add(name)
        element = SubElement(parent, "body", name=name)
        _write_body(out, element, group, end if final else (np.eye(3), np.zeros(3)))
        out.bodies[name] = parent = element


def _joins(group: list[Step], step: Step) -> bool:
    """Whether MuJoCo can have a joint on the same body as those before it."""
    size = {"free": 6, "ball": 3}
    kinds = [one.kind for one in group]
    if "free" in kinds or sum(size.get(kind, 1) for kind in (*kinds, step.kind)) > 6:
        return False
    return "ball" not in kinds or (step.kind == "slide" and _same((step.rotation, np.zeros(3))))


def _write_body(out: Document, element: Element, group: list[Step], end) -> None:
    """The frame of a body, and its joints in it; `end` is the frame, seen from what the last of them moves."""
    frames = []
    rotation, position = np.eye(3), np.zeros(3)
    for step in group:
        own = step.moved()
        rotation, position = rotation @ own[0], position + rotation @ own[1]
        frames.append((rotation, position))
    rotation, position = rotation @ end[0], position + rotation @ end[1]
    if group and group[0].kind == "free":
        reference = group[0].body.reference
        rotation, position = rotation_matrix(reference[3:]), reference[:3]
    set_frame(element, rotation, position)
    for step, frame in zip(group, frames, strict=True):
        joint = SubElement(element, "joint", name=step.name, type=step.kind)
        out.joints[step.name] = Written(step.body, step.kind, step.part, step.q, step.v)
        anchor = rotation.T @ (frame[1] - position)
        if step.kind in ("hinge", "ball") and not _same((np.eye(3), anchor)):
            joint.set("pos", text(anchor))
        if step.axis is not None:
            turned = rotation.T @ frame[0]
            joint.set("axis", text(step.axis if _same((turned, np.zeros(3))) else turned @ step.axis))
        _along(out, joint, step)


def _along(out: Document, joint: Element, step: Step) -> None:
    """What acts along a joint."""
    body, kind = step.body, step.part.kind
    entry = lambda name: float(np.broadcast_to(getattr(body, name), body.joint.nq)[step.q[0]])
    if step.kind in ("hinge", "slide"):
        if step.reference:
            joint.set("ref", text(step.reference))
        ends = [entry("lower"), entry("upper")]
        if np.isfinite(ends).any():
            joint.set("limited", "true")
            joint.set("range", text(_wide(*ends)))
        effort = float(_of(body, "effort_limit")[step.v[0]])
        if np.isfinite(effort):
            joint.set("actuatorfrclimited", "true")
            joint.set("actuatorfrcrange", text(_wide(-effort, effort)))
    turned = (
        kind in (FREE, PLANE) and step.kind == "slide"
    )  # slides of the parent's axes, where v has those of the body
    entries = [*step.part.v[1:]] if turned and kind == PLANE else [*step.part.v[3:]] if turned else [*step.v]
    for name, word in WORDS.items():
        values = _of(body, name)[entries]
        if not np.any(values):
            continue
        if name == "stiffness" and kind in (FREE, PLANE):
            out.losses.add("springs of joints that float", body.joint_name)
        elif name == "friction" and turned:
            out.losses.add("friction of joints that float on other bodies or in planes", body.joint_name)
        elif not (values == values[0]).all():
            out.losses.add(f"{name} that differs between directions, of joints", body.joint_name)
        else:
            joint.set(word, text(values[0]))
            if name == "stiffness" and step.kind != "ball":
                joint.set("springref", text(entry("spring_reference")))


def _wide(lower: float, upper: float) -> tuple[float, float]:
    """A range, which for MuJoCo must not be a single number."""
    return (
        (lower, upper)
        if lower < upper
        else (lower, max(np.nextafter(upper, np.inf), upper + np.finfo(float).tiny))
    )


def _of(body: Body, name: str) -> np.ndarray:
    """What acts along each degree of freedom of a body's joint."""
    return np.broadcast_to(getattr(body, name), body.joint.nv)


def _tell_losses(out: Document, body: Body) -> None:
    """What acts along a joint, or is said of it, and has no words."""
    if np.isfinite(_of(body, "velocity_limit")).any():
        out.losses.add("velocity limits of joints", body.joint_name)
    for part in parts_of(body):
        if part.kind not in (BALL, FREE):
            continue
        q, v = list(part.q), list(part.v)
        turn = q[-4:]
        if part.kind == BALL and not _is_unturned(body.reference[turn]):
            out.losses.add("the neutral configuration of balls", body.joint_name)
        if np.any(_of(body, "stiffness")[v]) and not _is_unturned(body.spring_reference[turn]):
            out.losses.add("the turned rest of springs of balls", body.joint_name)
        ends = [np.broadcast_to(getattr(body, name), body.joint.nq)[q] for name in ("lower", "upper")]
        if np.isfinite(ends).any():
            out.losses.add("limits of joints that turn freely", body.joint_name)
        if np.isfinite(_of(body, "effort_limit")[v]).any():
            out.losses.add("effort limits of joints that turn freely", body.joint_name)


def _is_unturned(quaternion) -> bool:
    return np.array_equal(quaternion, (1, 0, 0, 0))


# Masses.


def _masses(chains: list[list[Body]], eps: float) -> dict[str, Mass]:
    """Of each body that is written. Where one is such as no real body has, the moving body has that of all welded to it."""
    masses = {chain[-1].name: Mass.of(chain[-1], eps) for chain in chains}
    carriers: dict[str, tuple[str, Placement]] = {}
    for chain in chains:
        body = chain[-1]
        welded = len(chain) == 1 and not parts_of(body)
        at = Placement(np.asarray(body.placement.rotation), np.asarray(body.placement.position))
        if welded and body.parent in carriers:
            carrier, above = carriers[body.parent]
            carriers[body.name] = carrier, above @ at
        elif not welded:
            carriers[body.name] = body.name, Placement.identity()
    unreal = {name for name, mass in masses.items() if not _is_real(mass)}
    for name, (carrier, at) in carriers.items():
        if name != carrier and any(carriers.get(one, ("",))[0] == carrier for one in unreal):
            masses[carrier] = masses[carrier].joined(masses[name], at.rotation, at.position)
            masses[name] = Mass(0.0, np.zeros(3), np.zeros((3, 3)), 0.0)
    return masses


def _is_real(mass: Mass) -> bool:
    least, middle, most = sorted(principal(mass.central, mass.tolerance)[0])
    return bool(mass.mass >= 0 and least >= 0 and least + middle >= most)


def _axes(out: Document) -> dict[str, np.ndarray]:
    """The axes of the cuboids that fluid drags at, which are those of the bodies' inertias where both are MuJoCo's."""
    return {
        body: np.asarray(force.frames.rotation[row], float)
        for force in out.model.forces
        if isinstance(force, BoxDrag)
        for row, body in enumerate(force.bodies)
    }


def _write_mass(out: Document, body: Body, mass: Mass, wanted) -> None:
    if mass.empty:
        return
    moments, axes = principal(mass.central, mass.tolerance, wanted)
    if not _is_real(mass):
        out.losses.add("inertias that no real body has, of bodies", body.name)
        moments, axes = np.full(3, max(moments.mean(), 0)), np.eye(3)
    element = SubElement(out.bodies[body.name], "inertial", pos=text(mass.com))
    if not np.array_equal(axes, np.eye(3)):
        element.set("quat", text(quaternion(axes)))
    element.set("mass", text(max(mass.mass, 0)))
    element.set("diaginertia", text(moments))


def _least_masses(body: Element) -> bool:
    """Whether a body of the file or one welded to it has the mass that MuJoCo asks for; what moves without gets it."""
    carried = [_least_masses(child) for child in body.findall("body")]
    welded = [child.find("joint") is None for child in body.findall("body")]
    inertial = body.find("inertial")
    numbers = [0.0, 0, 0, 0]
    if inertial is not None:
        numbers = [float(x) for key in ("mass", "diaginertia") for x in inertial.attrib[key].split()]
    enough = min(numbers) >= LEAST or any(has and weld for has, weld in zip(carried, welded))
    if not enough and body.find("joint") is not None:
        inertial = SubElement(body, "inertial", pos="0 0 0") if inertial is None else inertial
        mass, *moments = np.maximum(numbers, LEAST)
        inertial.set("mass", text(mass))
        inertial.set("diaginertia", text(moments))
        return True
    return enough


def _same(frame) -> bool:
    """Whether a frame is where it is seen from, but for rounding."""
    return bool(np.abs(frame[0] - np.eye(3)).max() <= SAME and np.abs(frame[1]).max() <= SAME)


def _turn(axis, angle: float) -> np.ndarray:
    return rotation_matrix(np.array([np.cos(angle / 2), *(np.sin(angle / 2) * axis)]))
