"""Driven degrees of freedom of models without actuators."""

from __future__ import annotations

import numpy as np

from .._core.arguments import instance
from ..joints import Free
from ..model import Model
from ..simulate import Simulated
from ..simulate.controls import Actuation


def dof_count(model: Model, joint: str) -> int:
    """Returns the number of degrees of freedom of a joint."""
    return len(np.arange(model.nv)[model.v_slice(joint)])


def driven(owner: str, model: Simulated, actuation: Actuation | None) -> Actuation | None:
    """Returns the driven joints; None if the actuators determine them, or if all joints are driven."""
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
    """Returns all joints except those of free bodies; None for a model without free bodies."""
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
            f"{owner}: nothing drives model {model.name!r}: it has no actuators, and no joints except those of free bodies. "
            "Attach actuators, or pass actuation=rbd.Actuation(joints=[...])."
        )
    return Actuation(driven)


def driven_dof(model: Model, actuation: Actuation | None) -> np.ndarray:
    """Returns the degrees of freedom whose efforts are decision variables."""
    actuation = driven("control.Bounds.of", model, actuation)
    return np.arange(model.nv) if actuation is None else actuation.dof(model)


def driven_joints(owner: str, model: Simulated, actuation: Actuation | None) -> np.ndarray:
    """Returns the degrees of freedom of the given joints, or of all joints except free bodies."""
    if actuation is None and isinstance(model, Model) and model.nu:
        actuation = _but_free(owner, model)
    else:
        actuation = driven(owner, model, actuation)
    return np.arange(model.nv) if actuation is None else actuation.dof(model)  # pyright: ignore[reportArgumentType]
