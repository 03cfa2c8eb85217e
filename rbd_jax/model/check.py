"""Whether the numbers of a model can be those of a mechanism."""

from __future__ import annotations

import warnings

import jax
import numpy as np

from .._arguments import instance
from .._array import is_known
from .._errors import ModelError, ModelWarning
from .builder import inertia_fault
from .model import Model


#: What belongs to each degree of freedom and is not negative.
COEFFICIENTS = ("armature", "damping", "friction", "stiffness", "velocity_limit", "effort_limit")


def check(model: Model) -> None:
    """Look at every number of a model, and raise a `ModelError` that names all that cannot be, with what they should be.

    Masses and coefficients are not negative, nothing but limits is infinite, lower limits are below upper ones. Rotational
    inertias that no real body has are told in a `ModelWarning`: robot descriptions in use are full of them, and they can be
    simulated. Numbers that are being traced are not looked at.

    A builder and the loaders check what they are given; this is for models whose numbers were changed since, by
    `dataclasses.replace`, `equinox.tree_at` or an optimizer. `rollout` refuses what is refused here.

    >>> from dataclasses import replace
    >>> model = rbd.load("pendulum")
    >>> rbd.check(model)  # there is nothing to say
    >>> rbd.check(replace(model, damping=jnp.array([-1.0])))
    Traceback (most recent call last):
        ...
    rbd_jax._errors.ModelError: check: model 'pendulum' is not possible: joint 'swing': its damping is -1; it is zero or more
    """
    instance("check", "model", model, Model, "a Model, as rbd.load and rbd.load_urdf give one")
    refuse_faults("check", model)
    if not is_known(model.inertias):
        return
    faults = {name: inertia_fault(model.inertias[i]) for i, name in enumerate(model.body_names)}
    listed = "; ".join(f"{body!r}: {fault}" for body, fault in faults.items() if fault)
    if listed:
        message = f"model {model.name!r} has inertias that are not physical: {listed}"
        warnings.warn(message, ModelWarning, stacklevel=2)


def refuse_faults(owner: str, model: Model) -> None:
    """Raise an error that lists all that makes a model impossible, as far as it can be seen."""
    faults = [*_bodies(model), *_degrees_of_freedom(model), *_limits(model)]
    if faults:
        raise ModelError(f"{owner}: model {model.name!r} is not possible: {'; '.join(faults)}")


def _bodies(model: Model) -> list[str]:
    faults = []
    if is_known(model.gravity) and not np.isfinite(np.asarray(model.gravity)).all():
        faults.append(f"its gravity is {np.asarray(model.gravity).tolist()}, which is not finite")
    for what in ("placements", "inertias"):
        leaves = jax.tree.leaves(getattr(model, what))
        if is_known(leaves):
            broken = [~np.isfinite(np.asarray(x).reshape(len(x), -1)).all(axis=1) for x in leaves]
            for body in np.flatnonzero(np.any(broken, axis=0)):
                faults.append(
                    f"body {model.body_names[body]!r}: its {what[:-1]} has a number that is not finite"
                )
    if is_known(model.inertias.mass):
        masses = np.asarray(model.inertias.mass)
        for body in np.flatnonzero(masses < 0):
            faults.append(
                f"body {model.body_names[body]!r}: its mass is {masses[body]:g}; a mass is positive or zero"
            )
    return faults


def _degrees_of_freedom(model: Model) -> list[str]:
    faults = []
    for name in COEFFICIENTS:
        values = getattr(model, name)
        if not is_known(values):
            continue
        values = np.asarray(values)
        wrong = ~(values >= 0) | (np.isinf(values) & ("limit" not in name))
        for entry in np.flatnonzero(wrong).tolist():
            faults.append(
                f"joint {_joint(model, entry, model.topology.v_offsets)!r}: its {name} is {values[entry]:g}; it is zero or more"
                + (" and finite" if np.isinf(values[entry]) else "")
            )
    return faults


def _limits(model: Model) -> list[str]:
    if not is_known((model.lower, model.upper)):
        return []
    lower, upper = np.asarray(model.lower), np.asarray(model.upper)
    return [
        f"joint {_joint(model, entry, model.topology.q_offsets)!r}: its lower limit {lower[entry]:g} is above its upper limit "
        f"{upper[entry]:g}"
        for entry in np.flatnonzero(~(lower <= upper)).tolist()
    ]


def _joint(model: Model, entry: int, offsets) -> str:
    """The joint that an entry of q or v belongs to."""
    bodies = [body for body in range(model.nb) if not model.topology.is_mimic[body]]
    return next(model.joint_names[body] for body in bodies if offsets[body] <= entry < offsets[body + 1])
