"""Derivatives of functions that solve an equation, from the equation instead of the solution's steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero


def implicit(solve: Callable[..., tuple[Any, Callable]], residual: Callable[..., Any]) -> Callable[..., Any]:
    """The x with `residual(x, *args) = rhs`, where the residual is affine in x; as a function of `(rhs, *args)`.

    Its derivative is `A⁻¹ (d rhs - d residual)`, A the derivative of the residual by x and the latter at fixed x, for the
    arguments that do change. Nothing of the solution's own steps is differentiated or remembered.

    **Arguments**

    - `solve`: of `(rhs, *args)`, the solution and a function that applies `A⁻¹` with what is factored already.
    - `residual`: of `(x, *args)`.
    """

    @jax.custom_jvp
    def solution(rhs, *args):
        return solve(rhs, *args)[0]

    def rule(primals, tangents):
        rhs, *args = primals
        x, apply_inverse = solve(rhs, *args)
        leaves, structure = jax.tree.flatten(args)
        changes = jax.tree.leaves(list(tangents[1:]), is_leaf=lambda t: isinstance(t, SymbolicZero))
        moving = [i for i, change in enumerate(changes) if not isinstance(change, SymbolicZero)]

        def of_moving(*values):
            replaced = list(leaves)
            for i, value in zip(moving, values, strict=True):
                replaced[i] = value
            return residual(x, *jax.tree.unflatten(structure, replaced))

        change = jnp.zeros_like(x) if isinstance(tangents[0], SymbolicZero) else tangents[0]
        if moving:
            at, by = [leaves[i] for i in moving], [changes[i] for i in moving]
            change = change - jax.jvp(of_moving, at, by)[1]
        return x, apply_inverse(change)

    solution.defjvp(rule, symbolic_zeros=True)
    return solution
