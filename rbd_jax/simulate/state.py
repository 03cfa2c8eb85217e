"""The state of a simulation."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.text import can_be_shown, numbers


class State(eqx.Module):
    """Configuration q and velocity v of a model, and what its force elements remember themselves.

    `own` holds the states of the forces that have one, those that the model carries first and then those that a rollout is
    given. Left out, they start where the forces say; where no force has one it is None.

    >>> model = rbd.load("double_pendulum")
    >>> state = rbd.State(rbd.neutral(model), jnp.zeros(model.nv))
    >>> print(state.q, state.v)
    [0. 0.] [0. 0.]
    """

    q: Float[Array, "*batch nq"]
    v: Float[Array, "*batch nv"]
    own: Float[Array, "*batch own"] | None

    def __init__(self, q, v, own=None):
        self.q, self.v = q, v
        self.own = None if own is None or np.shape(own)[-1:] == (0,) else own

    @property
    def internal(self) -> Float[Array, "*batch own"]:
        """The states that forces have themselves, as an array: an empty one where there is none."""
        return jnp.zeros((*self.q.shape[:-1], 0), self.q.dtype) if self.own is None else self.own

    def __repr__(self) -> str:
        if not can_be_shown(self):
            return super().__repr__()
        own = "" if self.own is None else f", own={numbers(self.own)}"
        return f"State(q={numbers(self.q)}, v={numbers(self.v)}{own})"
