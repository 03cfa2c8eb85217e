"""Branches that depend on values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool


def only_if(condition: Bool[Array, ""], compute: Callable[[], Any]) -> Any:
    """Returns `compute()` if a condition holds, otherwise zeros of the same structure."""
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(compute))
    return lax.cond(condition, compute, lambda: nothing)
