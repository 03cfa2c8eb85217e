"""The state of a simulation."""

from __future__ import annotations

import equinox as eqx
from jaxtyping import Array, Float


class State(eqx.Module):
    """Configuration q and velocity v of a model, and what its force elements remember themselves.

    `own` holds the states of the forces that have one, those that the model carries first and then those that a rollout is given.
    Left out, they start where the forces say.
    """

    q: Float[Array, "*batch nq"]
    v: Float[Array, "*batch nv"]
    own: Float[Array, "*batch own"] | None = None
