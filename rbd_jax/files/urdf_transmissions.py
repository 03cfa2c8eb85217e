"""Reads the motors of a URDF from its ROS `<transmission>` elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..forces import FixedTendon
from ..forces.actuators import Motor, OnTendon
from ..model import Body
from ..spatial.attached import Attached
from .xml import Element


def transmissions_of(robot: Element, bodies: Sequence[Body]) -> tuple[list[Attached], list[str]]:
    """Returns the motors of a robot with their tendons, and descriptions of the unsupported transmissions.

    - A simple transmission becomes a motor at its joint; the reduction is its gear.
    - A differential transmission becomes two motors that each move two joints, through a tendon that is a sum of their
      coordinates.
    """
    efforts = {
        body.joint_name: body.effort_limit for body in bodies if body.joint.nv == 1 and body.mimic is None
    }
    things: list[Attached] = []
    foreign: dict[str, list[str]] = {}
    names: set[str] = set()
    for element in robot.all("transmission"):
        kind = _kind(element)
        joints, motors = _by_role(element, "joint"), _by_role(element, "actuator")
        own, size = (joint.text("name") for joint in joints), {"Simple": 1, "Differential": 2}.get(kind)
        known = [name for name in own if name in efforts]
        if size is None or len(motors) != size or len(joints) != size:
            foreign.setdefault(f"transmissions ({kind})", []).append(element.attributes.get("name", ""))
            continue
        if len(known) < size:  # a joint is welded or missing
            foreign.setdefault("transmissions of joints that are fixed, coupled or missing", []).append(
                element.attributes.get("name", "")
            )
            continue
        ratios = [motor.inside_one("mechanicalReduction", 1.0) for motor in motors]
        along = [joint.inside_one("mechanicalReduction", 1.0) for joint in joints]
        for place, (motor, ratio) in enumerate(zip(motors, ratios, strict=True)):
            name = motor.text("name")
            while name in names:
                name += "_"
            names.add(name)
            if size == 1:
                most = efforts[known[0]]
                range_ = (
                    (-most / abs(ratio), most / abs(ratio))
                    if np.isfinite(most) and most > 0 and ratio
                    else None
                )
                things.append(Motor(name, known[0], gear=ratio, control_range=range_))
                continue
            signs = (1.0, 1.0 - 2.0 * place)
            things.append(FixedTendon(name, {j: s * n for j, s, n in zip(known, signs, along, strict=True)}))
            things.append(Motor(name, OnTendon(name), gear=ratio))
    return things, [f"{what} {', '.join(map(repr, listed))}" for what, listed in foreign.items()]


def _kind(element: Element) -> str:
    """Returns the type without prefix and suffix: `Simple` for `transmission_interface/SimpleTransmission`."""
    said = element.child("type")
    word = element.attributes.get("type", "") if said is None else said.content
    return word.strip().rsplit("/", 1)[-1].removesuffix("Transmission") or "of no type"


def _by_role(element: Element, tag: str) -> list[Element]:
    """Returns the joints or the actuators of a transmission, sorted by role if they have roles."""

    def role(one: Element) -> str:
        said = one.child("role")
        return "" if said is None else said.content.strip()

    return sorted(element.all(tag), key=role)
