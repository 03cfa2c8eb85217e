"""Application of a function to each row of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax


try:
    from ..compiler import each
except ImportError:  # The library also works without the compiler, but takes longer.

    def each(function: Callable[[Any], Any], stacked: Any) -> Any:
        return jax.vmap(function)(stacked)


__all__ = ["each"]
