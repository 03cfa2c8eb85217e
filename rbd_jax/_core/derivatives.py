"""Functions with custom derivative rules that can be batched in any order: `jax.custom_jvp` with a consistent layout.

JAX batches such a function and its rule separately. If a compiled function is batched and then differentiated in reverse mode,
JAX assumes the same batch axes for both. Here both have their batch axis first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax


class custom_jvp:
    """A `jax.custom_jvp` with a consistent batch layout; `defjvp` sets the rule."""

    def __init__(self, function: Callable, nondiff_argnums: tuple[int, ...] = ()):
        functools.update_wrapper(self, function)
        self._own = jax.custom_jvp(_laid_out(function), nondiff_argnums=nondiff_argnums)

    def __call__(self, *args, **named):
        return self._own(*args, **named)

    def defjvp(self, rule: Callable, symbolic_zeros: bool = False) -> Callable:
        self._own.defjvp(_laid_out(rule), symbolic_zeros=symbolic_zeros)
        return rule


def linear(function: Callable, *changes):
    """Returns `function(*changes)` for a function that is linear in them, as a derivative rule computes it.

    In a plain call within a rule, functions with their own rule (`rbd_jax._core.array.gather`) would be transposed without it.
    """
    return jax.jvp(function, jax.tree.map(jnp.zeros_like, changes), changes)[1]


def _laid_out(function: Callable) -> Callable:
    @functools.wraps(function)
    def run(*args, **named):
        return jax.tree.map(_first, function(*args, **named))

    return run


def _first(x):
    """Returns the same numbers with the batch, if any, as the first axis. The compiler removes these operations."""
    if not isinstance(x, jax.Array) or not x.ndim:
        return x
    return lax.squeeze(lax.broadcast_in_dim(x, (1, *x.shape), range(1, x.ndim + 1)), (0,))
