"""One-sided springs and dampers with a smooth onset, for joint limits and slack cables."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._core.array import clamped


def engagement(depth: Float[Array, "*n"], transition: Float[Array, ""]) -> Float[Array, "*n"]:
    """Returns the engagement of a one-sided contact: 0 up to depth 0, 1 from `transition`, `3 s² - 2 s³` between (C¹)."""
    share = clamped(depth / transition, 0, 1)
    return share**2 * (3 - 2 * share)


def compression(depth: Float[Array, "*n"], transition: Float[Array, ""]) -> Float[Array, "*n"]:
    """Returns the integral of `engagement`, C²: `max(depth, 0)` with a rounded corner, less `transition / 2` beyond it."""
    share = clamped(depth / transition, 0, 1)
    return transition * (share**3 - share**4 / 2) + _past(depth, transition)


def work(depth: Float[Array, "*n"], transition: Float[Array, ""]) -> Float[Array, "*n"]:
    """Returns the integral of `compression`: the energy of a one-sided spring with unit constant."""
    share = clamped(depth / transition, 0, 1)
    beyond = _past(depth, transition)
    return transition**2 * (share**4 / 4 - share**5 / 10) + beyond * (transition + beyond) / 2


def _past(depth, transition):
    """Returns `depth - transition`, zero below; the derivative at the transition is that of the rounded part."""
    return jnp.where(depth > transition, depth - transition, 0)


def rises(missing: Float[Array, "*n"], activation: Float[Array, "*n"]) -> Bool[Array, "*n"]:
    """Returns whether the activation of a muscle rises, which has another time constant than falling.

    `missing` is excitation minus activation. If it is zero, the rate is zero, and the derivative with the excitation is
    chosen from inside the range of the activation: it counts as rising, and at 1 as falling.
    """
    return jnp.where(activation < 1, missing >= 0, missing > 0)
