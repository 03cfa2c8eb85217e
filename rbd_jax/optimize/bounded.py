"""Quadratics within bounds: what a search with limits asks for at each step."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from .._core.array import times
from .._core.positive import apply_inverse


def bounded_minimum(
    curvature: Float[Array, "n n"],
    slope: Float[Array, "n"],
    least: Float[Array, "n"],
    most: Float[Array, "n"],
) -> Float[Array, "n"]:
    """A step d between bounds, zero being one, that makes `½ dᵀ H d + gᵀ d` small; H is positive definite.

    What is at a bound and pushed outwards stays there. The rest goes where the quadratic is least, and what would pass a bound
    on the way there is put on it, until nothing does. Nothing that is put on a bound is let go again in the same step, so this
    is the minimum only where the bounds that it meets are those that hold there; of a search that begins anew from where a
    step has led, each by its own slope, that is what it comes to.
    """
    eye = np.eye(len(slope), dtype=bool)

    def going_on(carry):
        return carry[2]

    def solve(carry):
        step, fixed, _ = carry
        both = ~fixed[:, None] & ~fixed[None, :]
        inner = jnp.where(both, curvature, jnp.where(eye, jnp.ones((), curvature.dtype), 0))
        kept = jnp.where(fixed, step, 0)
        rhs = jnp.where(fixed, 0, -slope - times(curvature, kept))
        found = kept + jnp.where(fixed, 0, apply_inverse(inner, rhs))
        beyond = ~fixed & ((found < least) | (found > most))
        step = jnp.where(beyond, jnp.clip(found, least, most), found)
        return step, fixed | beyond, jnp.any(beyond)

    start = jnp.zeros_like(slope), at_bound(slope, least, most), jnp.asarray(True)
    return lax.while_loop(going_on, solve, start)[0]


def at_bound(slope: Float[Array, "n"], least: Float[Array, "n"], most: Float[Array, "n"]) -> Bool[Array, "n"]:
    """What cannot move, or is at a bound and would be moved beyond by going down the slope."""
    stuck = (least >= 0) & (most <= 0)
    return stuck | ((least >= 0) & (slope > 0)) | ((most <= 0) & (slope < 0))
