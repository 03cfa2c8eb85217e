"""External forces as the user gives them, and as the algorithms need them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._array import sum_rows
from ..model import Model
from ..model.lumping import sum_by_moving_body
from ..spatial import moment_shift
from .motion import Motion


#: A spatial force on each body, in the world frame at the world's origin: `{body: wrench}` or an (nb, 6) array. Of a
#: planar model, those of its plane: three entries.
ExternalForces: TypeAlias = Mapping[str, Float[Array, "d"]] | Float[Array, "nb d"] | None


def external_forces(motion: Motion, f_ext: ExternalForces) -> Float[Array, "m d"] | None:
    """The force on each moving body in the common frame, or None where there is none.

    A force on a body welded to the world does nothing.
    """
    wrenches = given_wrenches(motion.model, f_ext)
    if wrenches is None:
        return None
    return moment_shift(sum_by_moving_body(motion.model, wrenches), motion.common.origins)


def given_wrenches(model: Model, f_ext: ExternalForces) -> Float[Array, "nb d"] | None:
    """A row for each body, in the world frame at the world's origin, or None where there is no force."""
    if not isinstance(f_ext, Mapping):
        return f_ext
    if not f_ext:
        return None
    return sum_rows(jnp.stack(list(f_ext.values())), [model.body_index(body) for body in f_ext], model.nb)
