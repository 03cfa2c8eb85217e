"""Springs and dampers that act on one side only, and come in smoothly: what stops, and what goes slack."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._core.array import clamped


def engagement(depth: Float[Array, "*n"], transition: Float[Array, ""]) -> Float[Array, "*n"]:
    """How far a one-sided contact is made: 0 at depth zero, 1 from `transition` on, `3 s² - 2 s³` between: C¹."""
    share = clamped(depth / transition, 0, 1)
    return share**2 * (3 - 2 * share)


def compression(depth: Float[Array, "*n"], transition: Float[Array, ""]) -> Float[Array, "*n"]:
    """The integral of `engagement`, C²: `max(depth, 0)` with its corner rounded, less `transition / 2` beyond it."""
    share = clamped(depth / transition, 0, 1)
    return transition * (share**3 - share**4 / 2) + _past(depth, transition)


def work(depth: Float[Array, "*n"], transition: Float[Array, ""]) -> Float[Array, "*n"]:
    """The integral of `compression`: the energy in a one-sided spring of unit constant."""
    share = clamped(depth / transition, 0, 1)
    beyond = _past(depth, transition)
    return transition**2 * (share**4 / 4 - share**5 / 10) + beyond * (transition + beyond) / 2


def _past(depth, transition):
    """Zero at the transition itself: its derivative there is the one of the rounded part."""
    return jnp.where(depth > transition, depth - transition, 0)


def rises(missing: Float[Array, "*n"], activation: Float[Array, "*n"]) -> Bool[Array, "*n"]:
    """Whether the activation of a muscle rises, which takes another time than falling; `missing` is excitation less activation.

    Where nothing is missing the rate is zero, and its derivative by the excitation is the one from inside its range: the
    activation rises, and at 1 it falls.
    """
    return jnp.where(activation < 1, missing >= 0, missing > 0)
