"""The linear system of constrained motion, and ways to solve it (book §8.5).

    M a - Gᵀ λ = f
    G a        = k
    λ - G y    = e

The first two rows are the equation of motion (3.17), (8.36). With redundant constraints, G has less rank than rows: `a`
is unique and λ is not. The third row, with e = 0, selects the λ of least norm, because that λ is in the range of G. In the
form of one linear system in (a, λ, y), the solution has the derivative `K⁻¹ (d rhs - dK x)`, another solution of the same
system. It needs no derivative of a singular value or a pivot, is finite where rows become dependent, and is valid where the
rank does not change. A contradictory k is replaced by the nearest consistent one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..dynamics import Motion
from ..dynamics.inverse import inertia_product
from ..optimize.implicit import implicit
from ._dense import NullSpace, RangeSpace, Saddle
from ._elimination import Elimination
from ._factors import Factors
from .evaluate import matrix_of, with_constraints


#: The solution method; methods differ in cost, not in the result.
Method = Literal["auto", "elimination", "range_space", "null_space", "kkt"]

METHODS: dict[str, Callable[[Motion], Factors]] = {
    "elimination": Elimination.of,
    "range_space": RangeSpace.of,
    "null_space": NullSpace.of,
    "kkt": Saddle.of,
}


class Solution(eqx.Module):
    """The unknowns of the system."""

    a: Float[Array, "nv"]
    multipliers: Float[Array, "m"]
    y: Float[Array, "nv"]


def factorize(motion: Motion, method: str = "auto") -> Factors:
    """Returns the factors of the system of a model in motion; a constant for differentiation, see `solve_system`."""
    if method == "auto":
        method = "elimination" if Elimination.pays(motion.model) else "range_space"
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; it is 'auto' or one of {', '.join(map(repr, METHODS))}")
    return METHODS[method](jax.lax.stop_gradient(_prepared(motion)))


def solve_system(rhs: tuple, factors: Factors, motion: Motion) -> Solution:
    """Returns the solution of the system of a model in motion.

    Args:
      rhs: The right-hand sides `(f, k, e)`; None for e means zero.
      factors: The factors of the system.
      motion: The model in motion.
    """
    return _solution(rhs, factors, _prepared(motion))


def _prepared(motion: Motion) -> Motion:
    """Returns the motion with the quantities stored that the solution, its derivative and the factors share."""
    return with_constraints(motion, "matrix").computed("inertias")


def _solve(rhs, factors: Factors, motion: Motion):
    f, k, e = rhs
    a, multipliers = factors.motion(f, factors.onto(k))
    in_range = multipliers
    if e is not None:  # λ = G y + e, and the part of e in the range of G is known
        within = factors.onto(e)
        multipliers, in_range = multipliers + e - within, multipliers - within
    y, _ = factors.motion(jnp.zeros_like(f), in_range)
    return Solution(a, multipliers, y), lambda rhs: _solution(rhs, factors, motion)


def _left_side(x: Solution, factors: Factors, motion: Motion):
    g = matrix_of(motion)
    force = inertia_product(motion, x.a) - g.transposed(x.multipliers)
    return force, g.times(x.a), x.multipliers - g.times(x.y)


_solution = implicit(_solve, _left_side)
