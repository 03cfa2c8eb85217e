"""External forces as the user gives them, and as the algorithms need them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._array import matmul
from ..model.lumping import sum_by_moving_body
from ..spatial import moment_shift
from .motion import Motion


#: A spatial force on each body, in the world frame at the world's origin: `{body: wrench}` or an (nb, 6) array.
ExternalForces: TypeAlias = Mapping[str, Float[Array, "6"]] | Float[Array, "nb 6"] | None


def external_forces(motion: Motion, f_ext: ExternalForces) -> Float[Array, "m 6"] | None:
    """The force on each moving body in the common frame, or None where there is none.

    A force on a body welded to the world does nothing.
    """
    if f_ext is None:
        return None
    model = motion.model
    if isinstance(f_ext, Mapping):
        if not f_ext:
            return None
        bodies = [model.body_index(body) for body in f_ext]
        carried = model.topology.carriers[bodies] == np.arange(len(model.topology.moving_bodies))[:, None]
        stacked = jnp.stack(list(f_ext.values()))
        forces = matmul(jnp.asarray(carried, stacked.dtype), stacked)
    else:
        forces = sum_by_moving_body(model, f_ext)
    return moment_shift(forces, motion.common.origins)
