"""Functions that are one operation under `jax.vmap`, so that their batches are computed as `rbd.batch_map` computes them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jax.core import Tracer

from .versions import BatchTracer


F = TypeVar("F", bound=Callable)

#: Binds a call as one operation, `(function, arguments) -> results`. `rbd_jax.compiler` sets it; without a compiler it is
#: `None`.
bind: Callable[[Callable, Any], Any] | None = None


def one_operation(function: F) -> F:
    """Returns the function, as one operation wherever `jax.vmap` passes it a batch.

    `jax.vmap` of a function that `jax.jit` has traced already sees the operations inside: `jax.vmap(jax.jit(function))` is always
    the program of `jax.vmap`.

    >>> from rbd_jax._core.under_vmap import one_operation
    >>> double = one_operation(lambda x: 2 * x)
    >>> print(jax.jit(jax.vmap(double))(jnp.arange(3.0)))
    [0. 2. 4.]
    """

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if bind is None or not any(map(is_batched, jax.tree.leaves((args, kwargs)))):
            return function(*args, **kwargs)
        return bind(lambda given: function(*given[0], **given[1]), (args, kwargs))

    return wrapper  # pyright: ignore[reportReturnType]


def is_batched(x: Any) -> bool:
    """Returns whether `jax.vmap` has given an array a batch axis, inside any derivatives that are being taken."""
    while not isinstance(x, BatchTracer):
        x = getattr(x, "primal", None) if isinstance(x, Tracer) else None
        if x is None:
            return False
    return True
