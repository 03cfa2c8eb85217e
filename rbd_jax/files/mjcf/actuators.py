"""Reads the actuators of an MJCF file."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.errors import ModelError
from ...forces.actuators import (
    Activation,
    Actuator,
    Affine,
    Constant,
    Filter,
    Integrator,
    Law,
    MuscleActivation,
    MuscleBias,
    MuscleCurves,
    MuscleGain,
    OnJoint,
    OnSite,
    OnTendon,
    SliderCrank,
    Transmission,
)
from .compiled import BALL, FREE, disabled_effects, joint_names, names_of
from .sites import site_names
from .tendons import tendon_names


def actuator_names(compiled) -> list[str]:
    """Returns the name of each actuator of an `MjModel` in the model: `actuator_3`, by MuJoCo's index, if it has none."""
    count = compiled.nactuator if hasattr(compiled, "nactuator") else compiled.nu  # since MuJoCo 4
    return names_of([compiled.actuator(i).name or f"actuator_{i}" for i in range(count)], compiled.actuator)


def actuators_of(mujoco, compiled) -> list[Actuator]:
    """Returns the supported actuators, in the order of the file."""
    names = actuator_names(compiled)
    return [_actuator(mujoco, compiled, index, names[index]) for index in known_actuators(mujoco, compiled)]


def not_driven(mujoco, compiled) -> list[str]:
    """Returns descriptions of the unsupported actuators and of unsupported properties of other actuators."""
    if "ACTUATION" in disabled_effects(mujoco, compiled):
        return []
    by_reason: dict[str, list[str]] = {}
    for index, name in enumerate(actuator_names(compiled)):
        foreign = _foreign(mujoco, compiled, index)
        if foreign is not None:
            by_reason.setdefault(f"actuators ({foreign})", []).append(name)
            continue
        if _delay(compiled, index) is None and np.any(
            getattr(compiled, "actuator_delay", [0.0] * (index + 1))[index]
        ):
            by_reason.setdefault("delays of actuators with interpolation", []).append(name)
        for field, what in (
            ("armature", "armature"),
            ("damping", "damping"),
            ("dampingpoly", "damping"),
            ("actearly", "early activation"),
        ):
            if hasattr(compiled, f"actuator_{field}") and np.any(
                getattr(compiled, f"actuator_{field}")[index]
            ):
                by_reason.setdefault(f"{what} of actuators", []).append(name)
    return [f"{what} {', '.join(map(repr, dict.fromkeys(names)))}" for what, names in by_reason.items()]


def known_actuators(mujoco, compiled) -> list[int]:
    """Returns MuJoCo's indices of the supported actuators."""
    if "ACTUATION" in disabled_effects(mujoco, compiled):
        return []
    return [i for i in range(len(actuator_names(compiled))) if _foreign(mujoco, compiled, i) is None]


def control_place(compiled, index: int) -> int:
    """Returns the index of an actuator's control in MuJoCo's `ctrl`."""
    return int(compiled.actuator_ctrladr[index]) if hasattr(compiled, "actuator_ctrladr") else index


def _foreign(mujoco, compiled, index: int) -> str | None:
    """Returns MuJoCo's word for an unsupported property of an actuator, or None if the actuator is supported."""
    kinds = (
        ("trntype", mujoco.mjtTrn, "mjTRN_", ("JOINT", "JOINTINPARENT", "TENDON", "SITE", "SLIDERCRANK")),
        ("dyntype", mujoco.mjtDyn, "mjDYN_", ("NONE", "INTEGRATOR", "FILTER", "FILTEREXACT", "MUSCLE")),
        ("gaintype", mujoco.mjtGain, "mjGAIN_", ("FIXED", "AFFINE", "MUSCLE")),
        ("biastype", mujoco.mjtBias, "mjBIAS_", ("NONE", "AFFINE", "MUSCLE")),
    )
    for field, enumeration, prefix, known in kinds:
        kind = enumeration(int(getattr(compiled, f"actuator_{field}")[index])).name.removeprefix(prefix)
        if kind not in known:
            return kind.lower()
    if hasattr(compiled, "actuator_plugin") and compiled.actuator_plugin[index] >= 0:
        return "plugin"
    group = int(compiled.actuator_group[index])
    if 0 <= group < 31 and compiled.opt.disableactuator >> group & 1:
        return f"group {group}, which is disabled"
    return None


def _actuator(mujoco, compiled, index: int, name: str) -> Actuator:
    limited = "CLAMPCTRL" not in disabled_effects(mujoco, compiled)
    muscular = _muscle(compiled, index)
    gain_kind = mujoco.mjtGain(int(compiled.actuator_gaintype[index]))
    bias_kind = mujoco.mjtBias(int(compiled.actuator_biastype[index]))
    gain, bias = np.array(compiled.actuator_gainprm[index]), np.array(compiled.actuator_biasprm[index])
    gains, biases = mujoco.mjtGain, mujoco.mjtBias
    try:
        transmission, gear = _transmission(mujoco, compiled, index)
        return Actuator(
            name,
            transmission,
            gear=gear,
            gain=_law(gain_kind, gains.mjGAIN_AFFINE, gains.mjGAIN_MUSCLE, gain, MuscleGain, muscular),
            bias=None
            if bias_kind == biases.mjBIAS_NONE
            else _law(bias_kind, biases.mjBIAS_AFFINE, biases.mjBIAS_MUSCLE, bias, MuscleBias, muscular),
            dynamics=_dynamics(mujoco, compiled, index),
            control_range=_range(compiled, "ctrl", index) if limited else None,
            force_range=_range(compiled, "force", index),
            activation_range=_range(compiled, "act", index),
            delay=_delay(compiled, index),
        )
    except (ModelError, ValueError) as error:
        raise ModelError(f"actuator {name!r}: {error}") from None


def _delay(compiled, index: int) -> float | None:
    """Returns the delay of the control (since MuJoCo 3.5), or None without a delay or if MuJoCo interpolates between samples."""
    delay = getattr(compiled, "actuator_delay", None)
    if delay is None or delay[index] <= 0 or compiled.actuator_history[index, 1] != 0:
        return None
    return delay[index]


def _transmission(mujoco, compiled, index: int) -> tuple[Transmission, Any]:
    """Returns the transmission and its gear. MuJoCo orders forces before torques."""
    kinds, kind = mujoco.mjtTrn, mujoco.mjtTrn(int(compiled.actuator_trntype[index]))
    gear = np.array(compiled.actuator_gear[index])
    own, other = (int(i) for i in compiled.actuator_trnid[index])
    wrench = gear[[3, 4, 5, 0, 1, 2]]
    if kind in (kinds.mjTRN_JOINT, kinds.mjTRN_JOINTINPARENT):
        in_parent = bool(kind == kinds.mjTRN_JOINTINPARENT)
        by_kind = {FREE: wrench, BALL: gear[:3]}
        return OnJoint(joint_names(compiled)[own], in_parent), by_kind.get(compiled.jnt_type[own], gear[0])
    if kind == kinds.mjTRN_TENDON:
        return OnTendon(tendon_names(compiled)[own]), gear[0]
    sites = site_names(compiled)
    if kind == kinds.mjTRN_SITE:
        return OnSite(sites[own], None if other < 0 else sites[other]), wrench
    return SliderCrank(sites[own], sites[other], compiled.actuator_cranklength[index]), gear[0]


def _law(kind, affine, muscle, numbers: np.ndarray, family, muscular) -> Law:
    if kind == muscle:
        return family(MuscleCurves(*muscular(numbers)))
    return Affine(*numbers[:3]) if kind == affine else Constant(numbers[0])


def _muscle(compiled, index: int):
    """Returns a function that computes a muscle's parameters.

    The peak force is the given one, or else follows from the acceleration per unit force.
    """

    def numbers(given: np.ndarray):
        low, high, peak, scale, shortest, longest, fastest, passive, eccentric = given[:9]
        if peak < 0:
            peak = scale / max(compiled.actuator_acc0[index], 1e-15)
        lengths = np.array(compiled.actuator_lengthrange[index])
        return peak, lengths, (low, high), shortest, longest, fastest, passive, eccentric

    return numbers


def _dynamics(mujoco, compiled, index: int) -> Activation | None:
    kinds, kind = mujoco.mjtDyn, mujoco.mjtDyn(int(compiled.actuator_dyntype[index]))
    numbers = np.array(compiled.actuator_dynprm[index])
    if kind == kinds.mjDYN_NONE:
        return None
    if kind == kinds.mjDYN_INTEGRATOR:
        return Integrator()
    if kind == kinds.mjDYN_MUSCLE:
        return MuscleActivation(*numbers[:3])
    return Filter(max(numbers[0], 1e-15), exact=bool(kind == kinds.mjDYN_FILTEREXACT))


def _range(compiled, what: str, index: int) -> np.ndarray | None:
    if not getattr(compiled, f"actuator_{what}limited")[index]:
        return None
    return np.array(getattr(compiled, f"actuator_{what}range")[index])
