"""Branches that depend on values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool


def only_if(condition: Bool[Array, ""], compute: Callable[[], Any]) -> Any:
    """Returns `compute()` if a condition holds, otherwise zeros of the same structure.

    Differentiation stores what `compute` reads, and not what it computes on the way, which a kernel would have to store for all
    branches.
    """
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(compute))
    return lax.cond(condition, jax.checkpoint(compute), lambda: nothing)
