"""Restitution that the energy of the motion allows."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import dot


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
    # The root of square s² + 2 linear s = room that is not negative. Written with the quotient in which nothing cancels: where
    # both velocities are the same to rounding, the other one is 0 / 0.
    inside = linear**2 + square * room
    some = grows & (inside > 0)
    root = jnp.where(some, jnp.sqrt(jnp.where(some, inside, 1)), 0)
    rises, wide = some & (linear > 0), some & (square > 0)
    share = jnp.where(
        rises,
        room / jnp.where(rises, linear + root, 1),
        (root - linear) / jnp.where(wide, square, 1),
    )
    return jnp.where(grows, jnp.clip(share, 0, 1), 1)
