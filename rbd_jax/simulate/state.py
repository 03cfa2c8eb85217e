"""The state of a simulation."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.text import can_be_shown, numbers


class State(eqx.Module):
    """Configuration q and velocity v of a model, and the internal states of its force elements.

    `own` contains the internal states of forces: first of the forces that the model carries, then of the forces given to a
    rollout; None if no force has an internal state. If omitted, they start at the values that the forces define.

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
        """The internal states of forces as an array, empty without internal states."""
        return jnp.zeros((*self.q.shape[:-1], 0), self.q.dtype) if self.own is None else self.own

    def __repr__(self) -> str:
        if not can_be_shown(self):
            return super().__repr__()
        own = "" if self.own is None else f", own={numbers(self.own)}"
        return f"State(q={numbers(self.q)}, v={numbers(self.v)}{own})"
