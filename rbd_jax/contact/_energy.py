"""Restitution that the energy of the motion allows."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._array import dot


def as_energy_allows(
    inertia: Callable[[Float[Array, "n"]], Float[Array, "n"]],
    before: Float[Array, "n"],
    stopped: Float[Array, "n"],
    after: Float[Array, "n"],
) -> Float[Array, ""]:
    """The largest share of the way from the velocity `stopped` to `after` on which there is no more energy than before.

    - `inertia`: what M makes of a velocity.
    """
    way = after - stopped
    most, least = dot(before, inertia(before)), dot(stopped, inertia(stopped))
    linear, square = dot(stopped, inertia(way)), dot(way, inertia(way))
    room = jnp.maximum(most - least, 0)
    grows = least + 2 * linear + square > most
    # The larger root of square s² + 2 linear s = room, without differences of what is nearly equal.
    inside = jnp.where(grows, linear**2 + square * room, 1)
    root = jnp.sqrt(jnp.where(inside > 0, inside, 1))
    ahead, moves = linear > 0, square > 0
    share = jnp.where(
        ahead, room / jnp.where(ahead, linear + root, 1), (root - linear) / jnp.where(moves, square, 1)
    )
    return jnp.where(grows & moves, jnp.clip(share, 0, 1), 1)
