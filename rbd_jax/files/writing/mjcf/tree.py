"""Writes the bodies and joints of an MJCF file.

A body of the file has the same frame as in the model. Its joints act in series in that frame at the joints' reference
(`ref`). So the joints of consecutive massless bodies can be joints of one body, wherever they are.
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


#: Mass and moments of moving bodies, twice MuJoCo's minimum (mjMINVAL), so that rounding stays above that minimum.
LEAST = 2e-15

#: Passive properties of joints, and their MJCF attributes.
WORDS = {"damping": "damping", "friction": "frictionloss", "armature": "armature", "stiffness": "stiffness"}

#: Frames whose difference is at most this rounding error are equal.
SAME = 1e-14


@dataclass(frozen=True)
class Step:
    """A joint to write, with its frame relative to the preceding joint.

    - `kind`: "hinge", "slide", "ball" or "free".
    - `rotation`, `position`: its frame, in the frame that the preceding joint moves.
    - `part`: its part of the joint of a body; `q` and `v` are its indices in that joint.
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
        """The coordinate of a hinge or a slide in the configuration in which the body is written."""
        return float(self.body.reference[self.q[0]])

    def moved(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the frame that the joint moves at its reference, in the frame of the preceding joint."""
        if self.kind == "hinge":
            return self.rotation @ _turn(self.axis, self.reference), self.position
        if self.kind == "slide":
            return self.rotation, self.position + self.rotation @ self.axis * self.reference
        return self.rotation, self.position


def write_tree(out: Document, bodies: list[Body], eps: float) -> None:
    """Writes all bodies, and the equalities between mimic joints and their leaders."""
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
        if body.mimic is not None:  # relative to the references of both joints, which are consistent
            SubElement(
                out.section("equality"), "joint", joint1=body.joint_name, joint2=body.mimic.leader,
                polycoef=text([0, float(body.mimic.multiplier), 0, 0, 0]),
            )  # fmt: skip


def _with_reference(body: Body, bodies: list[Body]) -> Body:
    """Returns a body whose mimic joint has the reference that follows from its leader's."""
    if body.mimic is None:
        return body
    leader = next(one for one in bodies if one.joint_name == body.mimic.leader)
    return replace(body, reference=float(body.mimic.multiplier) * leader.reference + float(body.mimic.offset))


def _chains(bodies: list[Body], used: set[str]) -> list[list[Body]]:
    """Returns groups of bodies that form one body of the file: each with the bodies that `load_mjcf` makes for its joints."""
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
    """Returns the joints of a chain, and the frame of the body relative to the last of them."""
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
                    f"joint {body.joint_name!r} is a {type(body.joint).__name__}, which MJCF does not have. "
                    "Write URDF (rbd.save_urdf), or use a slide and a hinge with a rbd.constraints.CoordinateCoupling"
                )
            for kind, axis, q, v, ending in _elements(part, floats):
                steps.append(Step(name + ending, kind, part, axis, rotation, position, body, q, v))
                rotation, position = np.eye(3), np.zeros(3)
    return steps, (rotation, position)


def _elements(part: Part, floats: bool):
    """Yields MuJoCo's joints for a part: kind, axis, coordinates, degrees of freedom, and suffix of the name."""
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
    """Writes the body of a chain; several bodies if MuJoCo cannot have all of its joints on one."""
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
    """Returns whether MuJoCo allows a joint on the same body as the preceding joints."""
    size = {"free": 6, "ball": 3}
    kinds = [one.kind for one in group]
    if "free" in kinds or sum(size.get(kind, 1) for kind in (*kinds, step.kind)) > 6:
        return False
    return "ball" not in kinds or (step.kind == "slide" and _same((step.rotation, np.zeros(3))))


def _write_body(out: Document, element: Element, group: list[Step], end) -> None:
    """Writes the frame of a body and its joints; `end` is the body's frame relative to that of its last joint."""
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
    """Writes the reference, limits and passive properties of a joint."""
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
    )  # these slides are along the parent's axes, while v is in the body's
    entries = [*step.part.v[1:]] if turned and kind == PLANE else [*step.part.v[3:]] if turned else [*step.v]
    for name, word in WORDS.items():
        values = _of(body, name)[entries]
        if not np.any(values):
            continue
        if name == "stiffness" and kind in (FREE, PLANE):
            out.losses.add("springs of floating and planar joints", body.joint_name)
        elif name == "friction" and turned:
            out.losses.add("friction of planar joints and of free joints on other bodies", body.joint_name)
        elif not (values == values[0]).all():
            out.losses.add(f"direction-dependent {name} of joints", body.joint_name)
        else:
            joint.set(word, text(values[0]))
            if name == "stiffness" and step.kind != "ball":
                joint.set("springref", text(entry("spring_reference")))


def _wide(lower: float, upper: float) -> tuple[float, float]:
    """Returns a range of nonzero width, which MuJoCo requires."""
    return (
        (lower, upper)
        if lower < upper
        else (lower, max(np.nextafter(upper, np.inf), upper + np.finfo(float).tiny))
    )


def _of(body: Body, name: str) -> np.ndarray:
    """Returns a property for each degree of freedom of a body's joint."""
    return np.broadcast_to(getattr(body, name), body.joint.nv)


def _tell_losses(out: Document, body: Body) -> None:
    """Records the properties of a joint that MJCF cannot express."""
    if np.isfinite(_of(body, "velocity_limit")).any():
        out.losses.add("velocity limits of joints", body.joint_name)
    for part in parts_of(body):
        if part.kind not in (BALL, FREE):
            continue
        q, v = list(part.q), list(part.v)
        turn = q[-4:]
        if part.kind == BALL and not _is_unturned(body.reference[turn]):
            out.losses.add("neutral configurations of ball joints", body.joint_name)
        if np.any(_of(body, "stiffness")[v]) and not _is_unturned(body.spring_reference[turn]):
            out.losses.add("rotated rest configurations of springs of ball joints", body.joint_name)
        ends = [np.broadcast_to(getattr(body, name), body.joint.nq)[q] for name in ("lower", "upper")]
        if np.isfinite(ends).any():
            out.losses.add("limits of ball and free joints", body.joint_name)
        if np.isfinite(_of(body, "effort_limit")[v]).any():
            out.losses.add("effort limits of ball and free joints", body.joint_name)


def _is_unturned(quaternion) -> bool:
    return np.array_equal(quaternion, (1, 0, 0, 0))


# Masses.


def _masses(chains: list[list[Body]], eps: float) -> dict[str, Mass]:
    """Returns the inertia of each written body.

    If one of several welded bodies has a physically inconsistent inertia, the moving body gets the inertia of all of them.
    """
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
    """Returns the axes of the cuboids with fluid drag. In MuJoCo they are also the axes of the bodies' inertias."""
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
        out.losses.add("physically inconsistent inertias of bodies", body.name)
        moments, axes = np.full(3, max(moments.mean(), 0)), np.eye(3)
    element = SubElement(out.bodies[body.name], "inertial", pos=text(mass.com))
    if not np.array_equal(axes, np.eye(3)):
        element.set("quat", text(quaternion(axes)))
    element.set("mass", text(max(mass.mass, 0)))
    element.set("diaginertia", text(moments))


def _least_masses(body: Element) -> bool:
    """Gives moving massless bodies the least mass. Returns whether the body or one welded to it has enough mass for MuJoCo."""
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
    """Returns whether a frame is the identity up to rounding."""
    return bool(np.abs(frame[0] - np.eye(3)).max() <= SAME and np.abs(frame[1]).max() <= SAME)


def _turn(axis, angle: float) -> np.ndarray:
    return rotation_matrix(np.array([np.cos(angle / 2), *(np.sin(angle / 2) * axis)]))
