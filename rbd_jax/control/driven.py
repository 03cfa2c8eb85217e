"""Which degrees of freedom are driven, where no actuators say so."""

from __future__ import annotations

import numpy as np

from .._core.arguments import instance
from ..joints import Free
from ..model import Model
from ..simulate import Simulated
from ..simulate.controls import Actuation


def dof_count(model: Model, joint: str) -> int:
    """How many degrees of freedom a joint has."""
    return len(np.arange(model.nv)[model.v_slice(joint)])


def driven(owner: str, model: Simulated, actuation: Actuation | None) -> Actuation | None:
    """Which joints are driven, if that is not what the model's actuators say, or all of them."""
    if actuation is not None:
        instance(owner, "actuation", actuation, Actuation, "an Actuation: rbd.Actuation(joints=[...])")
        if not isinstance(model, Model):
            raise ValueError(
                f"{owner}: actuation is for a Model; the controls of the reduced model {model.name!r} act along its variables"
            )
        actuation.dof(model)
        return actuation
    if not isinstance(model, Model) or model.nu:
        return None
    return _but_free(owner, model)


def _but_free(owner: str, model: Model) -> Actuation | None:
    """All joints but those of free bodies; None where there are no such."""
    kinds = model.topology.kind_of
    free = [isinstance(model.joints[kind], Free) for kind, _ in kinds]
    if not any(free):
        return None
    driven = [
        name
        for name, drifts in zip(model.joint_names, free, strict=True)
        if not drifts and dof_count(model, name)
    ]
    if not driven:
        raise ValueError(
            f"{owner}: nothing drives model {model.name!r}: it has neither actuators nor joints but those of free bodies; attach "
            "actuators to it, or say what acts: actuation=rbd.Actuation(joints=[...])"
        )
    return Actuation(driven)


def driven_dof(model: Model, actuation: Actuation | None) -> np.ndarray:
    """The degrees of freedom that efforts are decided on for."""
    actuation = driven("control.Bounds.of", model, actuation)
    return np.arange(model.nv) if actuation is None else actuation.dof(model)


def driven_joints(owner: str, model: Simulated, actuation: Actuation | None) -> np.ndarray:
    """The degrees of freedom that generalized forces act on: those of joints that are named, or of all but free bodies."""
    if actuation is None and isinstance(model, Model) and model.nu:
        actuation = _but_free(owner, model)
    else:
        actuation = driven(owner, model, actuation)
    return np.arange(model.nv) if actuation is None else actuation.dof(model)  # pyright: ignore[reportArgumentType]
