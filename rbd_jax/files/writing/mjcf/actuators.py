"""Writes the actuators of an MJCF file, the inverse of `files/mjcf/actuators.py`."""

from __future__ import annotations

from xml.etree.ElementTree import SubElement

import numpy as np

from ....forces.actuators import (
    Actuator,
    Affine,
    Constant,
    Filter,
    Integrator,
    MuscleActivation,
    MuscleBias,
    MuscleGain,
    OnJoint,
    OnSite,
    OnTendon,
    SliderCrank,
)
from ..numerals import text
from .document import Document, late_by


def write_actuator(out: Document, actuator: Actuator) -> bool:
    """Writes an actuator as a `<general>`. Returns whether that is possible. Activations start at zero in MuJoCo."""
    found, dynamics = _transmission(out, actuator), _dynamics(actuator)
    gain, bias = _law(actuator.gain, "fixed"), _law(actuator.bias, "affine")
    lengths = [
        law.curves.numbers[1:3]
        for law in (actuator.gain, actuator.bias)
        if isinstance(law, MuscleGain | MuscleBias)
    ]
    if found is None or dynamics is None or gain is None or bias is None:
        return False
    if any(not np.array_equal(other, lengths[0]) for other in lengths):
        return False
    if actuator.activation is not None and np.any(actuator.activation):
        out.losses.add("initial activations of actuators", actuator.name)
    for what, (kind, numbers) in (("gain", gain), ("bias", bias)):
        found |= {f"{what}type": kind, f"{what}prm": text(numbers)}
    if lengths:
        found["lengthrange"] = text(lengths[0])
    for word, name in (("ctrl", "control_range"), ("force", "force_range"), ("act", "activation_range")):
        pair = getattr(actuator, name)
        if pair is not None:
            found |= {f"{word}limited": "true", f"{word}range": text(pair)}
    found |= dynamics | late_by(out, actuator.delay)
    SubElement(out.section("actuator"), "general", {"name": actuator.name} | found)
    return True


def _transmission(out: Document, actuator: Actuator) -> dict[str, str] | None:
    """Returns the attributes of the transmission. MuJoCo orders forces before torques."""
    on, gear = actuator.transmission, np.asarray(actuator.gear, float)
    if isinstance(on, OnJoint):
        if on.joint not in out.joints:
            return _in_series(out, actuator)
        free = out.joints[on.joint].kind == "free"
        word = "jointinparent" if on.in_parent else "joint"
        return {word: on.joint, "gear": text(gear[[3, 4, 5, 0, 1, 2]] if free else gear)}
    if isinstance(on, OnTendon):
        return {"tendon": on.tendon, "gear": text(gear)}
    if isinstance(on, OnSite):
        seen = {} if on.reference is None else {"refsite": on.reference}
        return {"site": on.site, **seen, "gear": text(gear[[3, 4, 5, 0, 1, 2]])}
    if isinstance(on, SliderCrank):
        return {
            "cranksite": on.crank,
            "slidersite": on.slider,
            "cranklength": text(on.rod),
            "gear": text(gear),
        }
    return None


def _in_series(out: Document, actuator: Actuator) -> dict[str, str] | None:
    """Returns the transmission to a joint written in series: one of its joints, or a tendon that sums over all of them."""
    [joint] = actuator.joints
    parts = {
        name: float(actuator.gear[part.v[0]])
        for name, part in out.joints.items()
        if part.body.joint_name == joint and part.kind in ("hinge", "slide")
    }
    if len(parts) != actuator.gear.size or not out.model.joint(joint).flat:
        return None
    parts = {name: gear for name, gear in parts.items() if gear}
    if len(parts) == 1:
        [(name, gear)] = parts.items()
        return {"joint": name, "gear": text(gear)}
    tendon = SubElement(out.section("tendon"), "fixed", name=out.unused("fixed", f"{actuator.name}:{joint}"))
    for name, gear in parts.items():
        SubElement(tendon, "joint", joint=name, coef=text(gear))
    return {"tendon": tendon.attrib["name"]}


def _law(law, constant: str) -> tuple[str, np.ndarray] | None:
    """Returns the type and parameters of a gain or a bias. `constant` is MuJoCo's word for a constant one."""
    if law is None:
        return "none", np.zeros(3)
    if type(law) is Constant:
        return constant, np.array([law.value, 0, 0])
    if type(law) is Affine:
        return "affine", np.asarray(law.coefficients)
    if isinstance(law, MuscleGain | MuscleBias):
        peak, _, _, low, high, *shape = np.asarray(law.curves.numbers)
        # MuJoCo requires the scale, but uses it only without a given peak force.
        return "muscle", np.array([low, high, peak, 200, *shape])
    return None


def _dynamics(actuator: Actuator) -> dict[str, str] | None:
    """Returns the activation dynamics in MuJoCo's words."""
    by = actuator.dynamics
    if by is None:
        return {"dyntype": "none"}
    if type(by) is Integrator:
        return {"dyntype": "integrator"}
    if type(by) is Filter:
        return {"dyntype": "filterexact" if by.exact else "filter", "dynprm": text(by.time_constant)}
    if type(by) is MuscleActivation:
        return {"dyntype": "muscle", "dynprm": text(by.numbers)}
    return None
