"""Derivatives of functions that solve an equation, from the equation instead of the solution's steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.custom_derivatives import SymbolicZero

from .._core.derivatives import custom_jvp


#: The name under which `remembered` numbers are stored.
_REMEMBERED = "rbd_jax: result of a search"

T = TypeVar("T")
F = TypeVar("F", bound=Callable)


def remembered(found: T) -> T:
    """The result of a search, which reverse mode stores where a step is recomputed, so that the search is not."""
    return jax.tree.map(lambda x: checkpoint_name(x, _REMEMBERED), found)


def recomputed(step: F) -> F:
    """A step that reverse mode computes again, in place of storing what it computes: all but what is `remembered`.

    It is for the body of a loop, where the compiler cannot merge what is computed twice.
    """
    policy = jax.checkpoint_policies.save_only_these_names(_REMEMBERED)
    return jax.checkpoint(step, policy=policy, prevent_cse=False)  # pyright: ignore[reportReturnType]


def implicit(
    solve: Callable[..., tuple[Any, Callable]],
    residual: Callable[..., Any],
    symmetric: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """The x with `residual(x, *args) = rhs`, where the residual is affine in x; as a function of `(rhs, *args)`.

    Its derivative is `A⁻¹ (d rhs - d residual)`, A the derivative of the residual by x and the latter at fixed x, for the
    arguments that do change. Nothing of the solution's own steps is differentiated or remembered. All may be PyTrees; a
    part of `rhs` that is None is a zero.

    **Arguments**

    - `solve`: of `(rhs, *args)`, the solution and a function that applies `A⁻¹` with what is factored already.
    - `residual`: of `(x, *args)`.
    - `symmetric`: A itself, of `(dx, *args)`, where it is symmetric: reverse mode then solves with the same factors instead of
      transposing the steps of a solution.
    """

    @custom_jvp
    def solution(rhs, *args):
        return solve(rhs, *args)[0]

    @custom_jvp
    def found(x, rhs, *args):
        """The solution, which is x. Its derivative is that of the equation, whatever x was computed from."""
        return x

    def change(x, apply_inverse, rhs, given, args, moving):
        if moving is None:
            missing = instantiated(rhs, given)
        else:
            function, at, by = moving
            of = jax.jvp(lambda *values: residual(x, *function(*values)), at, by)[1]
            missing = jax.tree.map(_less, given, of, is_leaf=_is_nothing)
        if symmetric is None:
            return apply_inverse(missing)
        times = symmetric
        return lax.custom_linear_solve(
            lambda dx: times(dx, *args), missing, lambda _, rhs: apply_inverse(rhs), symmetric=True
        )

    def rule(primals, tangents):
        rhs, *args = primals
        given = tangents[0]
        moving = moving_arguments(args, tangents[1:])
        x, apply_inverse = solve(rhs, *args)
        # Not the derivative of the solution's steps either, where this is differentiated once more.
        x = found(x, rhs, *args)
        return x, change(x, apply_inverse, rhs, given, args, moving)

    def rule_of_found(primals, tangents):
        x, rhs, *args = primals
        moving = moving_arguments(args, tangents[2:])
        x, apply_inverse = found(x, rhs, *args), solve(rhs, *args)[1]
        return x, change(x, apply_inverse, rhs, tangents[1], args, moving)

    solution.defjvp(rule, symbolic_zeros=True)
    found.defjvp(rule_of_found, symbolic_zeros=True)
    return solution


def moving_arguments(args, changes) -> tuple[Callable, list, list] | None:
    """Of arguments of a rule with symbolic zeros those numbers that change; None if nothing does.

    **Returns** a function that makes all arguments of these, their values, and their changes.
    """
    leaves, structure = jax.tree.flatten(args)
    changes = jax.tree.leaves(changes, is_leaf=_is_zero)
    moving = [i for i, change in enumerate(changes) if not _is_zero(change)]
    if not moving:
        return None

    def rebuilt(*values):
        replaced = list(leaves)
        for i, value in zip(moving, values, strict=True):
            replaced[i] = value
        return jax.tree.unflatten(structure, replaced)

    return rebuilt, [leaves[i] for i in moving], [changes[i] for i in moving]


def moves(changes) -> bool:
    """Whether anything changes, as the rule of a function with symbolic zeros is told."""
    return any(not _is_zero(change) for change in jax.tree.leaves(changes, is_leaf=_is_zero))


def instantiated(x, changes):
    """The changes of x with zeros instead of symbolic ones."""
    return jax.tree.map(_instantiated, x, changes)


def _is_zero(x) -> bool:
    return isinstance(x, SymbolicZero)


def _is_nothing(x) -> bool:
    return x is None or _is_zero(x)


def _instantiated(x, change):
    return jnp.zeros_like(x) if _is_zero(change) else change


def _less(change, own):
    return -own if _is_nothing(change) else change - own
