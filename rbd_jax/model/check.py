"""Validation of the parameters of a model."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator

import jax
import numpy as np

from .._core.arguments import instance
from .._core.array import is_known
from .._core.errors import ModelError, ModelWarning
from . import faults
from .builder import PER_DOF
from .model import Model


def check(model: Model) -> None:
    """Checks all parameters of a model, and raises a `ModelError` that lists all invalid ones with the requirements.

    Masses and coefficients must not be negative. Only limits may be infinite, and lower limits must not exceed upper limits.
    Physically impossible rotational inertias are reported in a `ModelWarning` only, since many robot descriptions contain them,
    and they can be simulated. Traced values are not checked.

    Builders and loaders check their inputs. This function is for models that were changed later, by `dataclasses.replace`,
    `equinox.tree_at` or an optimizer. `rollout` raises the same errors.

    >>> from dataclasses import replace
    >>> model = rbd.load("pendulum")
    >>> rbd.check(model)  # there is nothing to say
    >>> rbd.check(replace(model, damping=jnp.array([-1.0])))
    Traceback (most recent call last):
        ...
    rbd_jax.ModelError: check: model 'pendulum' is not possible: joint 'swing': its damping is -1; it cannot be negative
    """
    instance("check", "model", model, Model, "a Model, as rbd.load and rbd.load_urdf give one")
    refuse_faults("check", model)
    if not is_known(model.inertias):
        return
    found = faults.of_inertias(model.inertias)
    listed = "; ".join(f"{model.body_names[body]!r}: {fault}" for body, fault in found)
    if listed:
        message = f"model {model.name!r} has inertias that are not physical: {listed}"
        warnings.warn(message, ModelWarning, stacklevel=2)


def refuse_faults(owner: str, model: Model) -> None:
    """Raises an error that lists all invalid parameters of a model; traced values are not checked."""
    found = [*_of_gravity(model), *_of_bodies(model), *_of_joints(model)]
    if found:
        raise ModelError(f"{owner}: model {model.name!r} is not possible: {'; '.join(found)}")


def _of_gravity(model: Model) -> Iterator[str]:
    if is_known(model.gravity) and not np.isfinite(np.asarray(model.gravity)).all():
        yield f"its gravity is {np.asarray(model.gravity).tolist()}, which is not finite"


def _of_bodies(model: Model) -> Iterator[str]:
    found: list[faults.Faults] = []
    for name, value in (("placement", model.placements), ("inertia", model.inertias)):
        leaves = jax.tree.leaves(value)
        if is_known(leaves):
            found.append(faults.of_numbers(name, leaves))
    if is_known(model.inertias.mass):
        found.append(faults.of_masses(np.asarray(model.inertias.mass)))
    for body, fault in itertools.chain(*found):
        yield f"body {model.body_names[body]!r}: {fault}"


def _of_joints(model: Model) -> Iterator[str]:
    found: list[tuple[faults.Faults, np.ndarray]] = []
    for name in PER_DOF:
        if is_known(values := getattr(model, name)):
            found.append((faults.of_coefficients(name, np.asarray(values)), model.topology.v_offsets))
    if is_known((model.lower, model.upper)):
        limits = faults.of_limits(np.asarray(model.lower), np.asarray(model.upper))
        found.append((limits, model.topology.q_offsets))
    for some, offsets in found:
        for entry, fault in some:
            # Choose the last of the joints that start at this entry: the joints before it have no coordinates.
            body = int(np.searchsorted(offsets, entry, side="right")) - 1
            yield f"joint {model.joint_names[body]!r}: {fault}"
