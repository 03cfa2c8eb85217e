"""The state of a simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class State(eqx.Module):
    """Configuration q and velocity v of a model, and what its force elements remember themselves.

    `own` holds the states of the forces that have one, those that the model carries first and then those that a rollout is
    given. Left out it is empty, and they start where the forces say.
    """

    q: Float[Array, "*batch nq"]
    v: Float[Array, "*batch nv"]
    if TYPE_CHECKING:
        own: Float[Array, "*batch own"]
    else:  # none where q and v are no arrays: the axes of a batch, say
        own: Float[Array, "*batch own"] | None

    def __init__(self, q, v, own=None):
        self.q, self.v, self.own = q, v, own  # pyright: ignore[reportAttributeAccessIssue]
        if own is None and np.ndim(q):
            dtype = jnp.result_type(q)
            dtype = dtype if jnp.issubdtype(dtype, jnp.floating) else jnp.result_type(float)
            self.own = jnp.zeros((*np.shape(q)[:-1], 0), dtype)
