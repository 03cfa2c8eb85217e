"""Derivatives of functions that solve an equation, by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.custom_derivatives import SymbolicZero

from .._core.derivatives import custom_jvp


#: The checkpoint name of values that `remembered` marks.
_REMEMBERED = "rbd_jax: result of a search"

T = TypeVar("T")
F = TypeVar("F", bound=Callable)


def remembered(found: T) -> T:
    """Marks the result of a search, so that reverse mode stores it instead of repeating the search."""
    return jax.tree.map(lambda x: checkpoint_name(x, _REMEMBERED), found)


def recomputed(step: F) -> F:
    """Returns a step that reverse mode recomputes instead of storing its values.

    Values marked by `remembered` are stored nevertheless. Use it for the body of a loop, where the compiler cannot merge
    repeated computations.
    """
    policy = jax.checkpoint_policies.save_only_these_names(_REMEMBERED)
    return jax.checkpoint(step, policy=policy, prevent_cse=False)  # pyright: ignore[reportReturnType]


def implicit(
    solve: Callable[..., tuple[Any, Callable]],
    residual: Callable[..., Any],
    symmetric: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Returns a function of `(rhs, *args)` for the x with `residual(x, *args) = rhs`, with the residual affine in x.

    Its derivative is `A⁻¹ (d rhs - d residual)`, with A the derivative of the residual with respect to x. `d residual` is
    taken at fixed x, and only with respect to arguments that change. The steps of the solution are neither differentiated
    nor stored. All values may be PyTrees; a part of `rhs` that is `None` counts as zero.

    Args:
      solve: Function of `(rhs, *args)` that returns the solution and a function that applies `A⁻¹` with the same
        factorization.
      residual: Function of `(x, *args)`.
      symmetric: Function of `(dx, *args)` that applies A, if A is symmetric. Reverse mode then solves with the same factors
        instead of transposing the steps of a solution.
    """

    @custom_jvp
    def solution(rhs, *args):
        return solve(rhs, *args)[0]

    @custom_jvp
    def found(x, rhs, *args):
        """Returns x with the derivative of the equation, independent of how x was computed."""
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
        # Higher derivatives must not differentiate the steps of the solution either.
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
    """Selects the arguments of a rule with symbolic zeros that change.

    Returns:
      A function that rebuilds all arguments from these, their values, and their tangents; or None if no argument changes.
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
    """Returns whether any tangent of a rule with symbolic zeros is not a symbolic zero."""
    return any(not _is_zero(change) for change in jax.tree.leaves(changes, is_leaf=_is_zero))


def instantiated(x, changes):
    """Returns the tangents of x with arrays of zeros in place of symbolic zeros."""
    return jax.tree.map(_instantiated, x, changes)


def _is_zero(x) -> bool:
    return isinstance(x, SymbolicZero)


def _is_nothing(x) -> bool:
    return x is None or _is_zero(x)


def _instantiated(x, change):
    return jnp.zeros_like(x) if _is_zero(change) else change


def _less(change, own):
    return -own if _is_nothing(change) else change - own
