"""Turning results that are not finite into exceptions, inside compiled code too."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp


P = ParamSpec("P")
R = TypeVar("R")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, raising at run time where its result has a number that is not finite.

    A compiled function cannot raise on the numbers it meets: a singular mass matrix gives infinities and a diverged
    rollout gives NaN. Wrap the function, under `jit` or not, to have an exception instead.
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
        return eqx.error_if(result, ~jnp.all(finite), message)

    return wrapper
