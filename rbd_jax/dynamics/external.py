"""External forces: the user's form and the form that the algorithms use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import sum_rows
from ..model import Model
from ..model.lumping import sum_by_moving_body
from ..spatial import moment_shift
from .motion import Motion


ExternalForces: TypeAlias = Mapping[str, Float[Array, "d"]] | Float[Array, "nb d"] | None
"""External forces on bodies: `{body: wrench}`, an array with one row per body, (nb, 6), or None. Wrenches are `[n; f]`,
in the world's axes about the world's origin.

>>> model, hanging = rbd.load("pendulum"), jnp.zeros(1)
>>> push: rbd.dynamics.ExternalForces = {"bob": jnp.array([0.0, -1.0, 0.0, 1.0, 0.0, 0.0])}  # 1 N along x, 1 m below the hinge
>>> print(rbd.forward_dynamics(model, hanging, hanging, hanging, push))
[-0.999]
"""


def external_forces(motion: Motion, f_ext: ExternalForces) -> Float[Array, "m d"] | None:
    """Returns the force on each moving body in the common frame, or None without external forces.

    Forces on bodies welded to the world have no effect.
    """
    wrenches = given_wrenches(motion.model, f_ext)
    if wrenches is None:
        return None
    return moment_shift(sum_by_moving_body(motion.model, wrenches), motion.common.origins)


def given_wrenches(model: Model, f_ext: ExternalForces) -> Float[Array, "nb d"] | None:
    """Returns one row per body, in the world frame at the world's origin, or None without external forces."""
    if not isinstance(f_ext, Mapping):
        return f_ext
    if not f_ext:
        return None
    return sum_rows(jnp.stack(list(f_ext.values())), [model.body_index(body) for body in f_ext], model.nb)
