"""Springs and dampers that act on one side only, and come in smoothly: what stops, and what goes slack."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float


def engagement(depth: Float[Array, "*n"], transition: Float[Array, ""]) -> Float[Array, "*n"]:
    """How far a one-sided contact is made: 0 at depth zero, 1 from `transition` on, `3 s² - 2 s³` between: C¹."""
    share = jnp.clip(depth / transition, 0, 1)
    return share**2 * (3 - 2 * share)


def compression(depth: Float[Array, "*n"], transition: Float[Array, ""]) -> Float[Array, "*n"]:
    """The integral of `engagement`, C²: `max(depth, 0)` with its corner rounded, less `transition / 2` beyond it."""
    share = jnp.clip(depth / transition, 0, 1)
    return transition * (share**3 - share**4 / 2) + jnp.maximum(depth - transition, 0)


def work(depth: Float[Array, "*n"], transition: Float[Array, ""]) -> Float[Array, "*n"]:
    """The integral of `compression`: the energy in a one-sided spring of unit constant."""
    share = jnp.clip(depth / transition, 0, 1)
    beyond = jnp.maximum(depth - transition, 0)
    return transition**2 * (share**4 / 4 - share**5 / 10) + beyond * (transition + beyond) / 2
