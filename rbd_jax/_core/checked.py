"""Exceptions for non-finite results, also inside compiled code."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp


P = ParamSpec("P")
R = TypeVar("R")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Returns `function` with a run-time error for non-finite numbers in its result, and for the `code` of a failure.

    A compiled function cannot raise on the numbers that it computes: a singular mass matrix gives infinities, a diverged
    rollout gives NaN, and a rollout whose constraints open reports this in `Trajectory.code`. Wrap the function, under `jit`
    or not, to get an exception instead.

    >>> model = rbd.load("double_pendulum")
    >>> energy = rbd.checked(rbd.potential_energy)
    >>> print(f"{energy(model, jnp.array([0.5, 1.0])):.3f}")
    -17.912
    """

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        result = function(*args, **kwargs)
        numbers = [leaf for leaf in jax.tree.leaves(result) if eqx.is_inexact_array(leaf)]
        if not numbers:
            return result
        finite = jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in numbers])
        name = getattr(function, "__name__", "function")
        message = f"{name}: the result has a number that is not finite (a singular mass matrix, or a simulation that diverged)"
        result = eqx.error_if(result, ~jnp.all(finite), message)
        for part in jax.tree.leaves(result, is_leaf=_has_code):
            if _has_code(part):
                message = (
                    f"{name}: the code of the result is not 0; see `rbd.Result(code).message` for the cause"
                )
                result = eqx.error_if(result, jnp.any(part.code != 0), message)
        return result

    return wrapper


def _has_code(part) -> bool:
    return isinstance(getattr(part, "code", None), jax.Array)
