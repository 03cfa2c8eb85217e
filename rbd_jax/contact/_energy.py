"""Energy limit for restitution."""

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
    """Returns the largest fraction of the change from velocity `stopped` to `after` that does not increase the energy.

    Args:
      inertia: The product of M with a velocity.
      before: The velocity whose energy is the limit.
      stopped: The velocity without restitution.
      after: The velocity with full restitution.
    """
    way = after - stopped
    most, least = dot(before, inertia(before)), dot(stopped, inertia(stopped))
    linear, square = dot(stopped, inertia(way)), dot(way, inertia(way))
    room = jnp.maximum(most - least, 0)
    grows = least + 2 * linear + square > most
    # The non-negative root of square s² + 2 linear s = room, in the form without cancellation. The other form is 0 / 0 if both
    # velocities agree to rounding.
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
