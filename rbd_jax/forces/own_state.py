"""The states that forces have themselves, of several forces one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..dynamics import Motion


if TYPE_CHECKING:
    from ._force import Force


def own_states(forces: Sequence[Force]) -> Float[Array, "own"]:
    """Where they start."""
    states = [force.own for force in forces if force.own.size]
    return jnp.concatenate(states) if states else jnp.zeros(0)


def holding(forces: Sequence[Force], own: Float[Array, "own"]) -> tuple[Force, ...]:
    """The forces in these states."""
    held, start = [], 0
    for force in forces:
        size = force.own.size
        held.append(force.holding(own[start : start + size]) if size else force)
        start += size
    return tuple(held)


def own_rates(forces: Sequence[Force], motion: Motion) -> Float[Array, "own"]:
    """The rates at which they change."""
    rates = [force.own_rate(motion) for force in forces if force.own.size]
    return jnp.concatenate(rates) if rates else jnp.zeros(0, motion.q.dtype)
