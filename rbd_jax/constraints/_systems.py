"""The linear system of constrained motion, and ways to solve it (book §8.5).

    M a - Gᵀ λ = f
    G a        = k
    λ - G y    = e

The first two rows are the equation of motion (8.36). Where constraints are redundant, G has less rank than rows: `a` is unique
and λ is not. The third row, with e = 0, picks the λ of least norm, since that is the one in the range of G; y is whatever
makes it so. Written as one linear system in (a, λ, y), the solution has the derivative `K⁻¹ (d rhs - dK x)`, which is one more
solution of the same system: it needs no derivative of a singular value or a pivot, is finite where rows
become dependent, and is right wherever the rank does not change. A k that contradicts itself is replaced by the nearest that
does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from ..dynamics.inverse import inertia_force
from ..model import Model
from ._dense import NullSpace, RangeSpace, Saddle
from ._elimination import Elimination
from ._factors import Factors
from .evaluate import ConstraintMatrix


#: How the equations are solved; methods differ in cost and not in result.
Method = Literal["auto", "elimination", "range_space", "null_space", "kkt"]

METHODS: dict[str, Callable[..., Factors]] = {
    "elimination": Elimination.at,
    "range_space": RangeSpace.of,
    "null_space": NullSpace.of,
    "kkt": Saddle.of,
}


class Solution(eqx.Module):
    """The unknowns of the system."""

    a: Float[Array, "nv"]
    multipliers: Float[Array, "m"]
    y: Float[Array, "nv"]


def factorize(model: Model, q, method: str = "auto") -> Factors:
    """The factors of the system in a configuration; constant to differentiation, see `solve_system`."""
    if method == "auto":
        method = "elimination" if Elimination.pays(model) else "range_space"
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; it is 'auto' or one of {', '.join(map(repr, METHODS))}")
    return METHODS[method](*jax.lax.stop_gradient((model, q)))


@jax.custom_jvp
def solve_system(f, k, e, factors: Factors, model: Model, q) -> Solution:
    """The solution of the system of `model` in `q`, whose `factors` are given; `e` may be None, for zero."""
    a, multipliers = factors.motion(f, factors.onto(k))
    y, _ = factors.motion(jnp.zeros_like(f), multipliers)
    return Solution(a, multipliers if e is None else multipliers + e - factors.onto(e), y)


def _rule(primals, tangents):
    f, k, e, factors, model, q = primals
    x = solve_system(*primals)

    leaves, structure = jax.tree.flatten((model, q))
    changes = jax.tree.leaves((tangents[4], tangents[5]), is_leaf=_is_zero)
    moving = [i for i, change in enumerate(changes) if not _is_zero(change)]
    rhs = [
        None if x is None else jnp.zeros_like(x) if _is_zero(dx) else dx
        for x, dx in zip(primals[:3], tangents[:3])
    ]
    if moving:

        def product(*values):
            replaced = list(leaves)
            for i, value in zip(moving, values, strict=True):
                replaced[i] = value
            model, q = jax.tree.unflatten(structure, replaced)
            g = ConstraintMatrix.at(model, q)
            force = inertia_force(model, q, x.a) - g.transposed(x.multipliers)
            return force, g.times(x.a), x.multipliers - g.times(x.y)

        of = jax.jvp(product, [leaves[i] for i in moving], [changes[i] for i in moving])[1]
        rhs = [-own if dx is None else dx - own for dx, own in zip(rhs, of)]
    return x, solve_system(*rhs, factors, model, q)


solve_system.defjvp(_rule, symbolic_zeros=True)


def _is_zero(x: Any) -> bool:
    return isinstance(x, SymbolicZero)
