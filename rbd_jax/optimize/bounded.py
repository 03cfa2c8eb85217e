"""Minimization of quadratic functions within bounds, as one step of a bounded search."""

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
    """Returns a step d within bounds that makes `½ dᵀ H d + gᵀ d` small.

    Entries at a bound whose slope points outwards stay there. The others move to the minimum of the quadratic. Entries that
    would pass a bound are put on the bound, and the minimization repeats with the remaining entries until none passes a bound.
    An entry on a bound is not released within the same call. The result is therefore the minimum only if the final active set
    is the right one. A search that repeats such steps, each from its own slope, converges to the bounded minimum.

    Args:
      curvature: H, positive definite.
      slope: g.
      least: Lower bounds of d, at most zero.
      most: Upper bounds of d, at least zero.
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
    """Returns the entries that cannot move, or that are at a bound and would leave it downhill."""
    stuck = (least >= 0) & (most <= 0)
    return stuck | ((least >= 0) & (slope > 0)) | ((most <= 0) & (slope < 0))
