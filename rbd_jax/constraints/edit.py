"""Constraints put on a model."""

from dataclasses import replace

import jax
import jax.numpy as jnp

from ..loops import Constraint
from ..model import Model
from ..model.constraint import check_constraints


def add_constraints(model: Model, *constraints: Constraint) -> Model:
    """The model with constraints after those that it has."""
    check_constraints(model.topology, constraints)
    added = jax.tree.map(lambda leaf: jnp.asarray(leaf, model.dtype), constraints)
    return replace(model, constraints=(*model.constraints, *added))


def without_constraints(model: Model) -> Model:
    """The bare tree."""
    return replace(model, constraints=())
