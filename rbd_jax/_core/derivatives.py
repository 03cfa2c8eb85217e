"""Functions with derivative rules of their own that can be batched in any order: `jax.custom_jvp`, laid out alike.

JAX batches such a function and its rule one by one, and where a compiled function is batched and then differentiated in reverse,
it takes the batches of one to lie along the axis that they have in the other. Here both have theirs first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax


class custom_jvp:
    """As `jax.custom_jvp`, with `defjvp` to give the rule."""

    def __init__(self, function: Callable, nondiff_argnums: tuple[int, ...] = ()):
        functools.update_wrapper(self, function)
        self._own = jax.custom_jvp(_laid_out(function), nondiff_argnums=nondiff_argnums)

    def __call__(self, *args, **named):
        return self._own(*args, **named)

    def defjvp(self, rule: Callable, symbolic_zeros: bool = False) -> Callable:
        self._own.defjvp(_laid_out(rule), symbolic_zeros=symbolic_zeros)
        return rule


def linear(function: Callable, *changes):
    """`function(*changes)`, of a function that is linear in them, as a rule works out a derivative.

    Called plainly within a rule, what has a rule of its own (`rbd_jax._core.array.gather`) would be transposed without it.
    """
    return jax.jvp(function, jax.tree.map(jnp.zeros_like, changes), changes)[1]


def _laid_out(function: Callable) -> Callable:
    @functools.wraps(function)
    def run(*args, **named):
        return jax.tree.map(_first, function(*args, **named))

    return run


def _first(x):
    """The same numbers; where they are batched, the batch is the first axis. The compiler makes nothing of it."""
    if not isinstance(x, jax.Array) or not x.ndim:
        return x
    return lax.squeeze(lax.broadcast_in_dim(x, (1, *x.shape), range(1, x.ndim + 1)), (0,))
