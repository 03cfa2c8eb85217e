"""Formatting of numbers for interactive use."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from .array import is_known


#: Vectors longer than the first number are shortened to the second number of entries at each end.
SHOWN, ENDS = 12, 3


def can_be_shown(tree) -> bool:
    """Returns whether all leaves are arrays with concrete numbers; derivatives by integers (float0) are not."""
    leaves = jax.tree.leaves(tree)
    number = lambda leaf: (
        isinstance(leaf, jax.Array | np.ndarray | np.generic) and leaf.dtype != jax.dtypes.float0
    )
    arrays = all(map(number, leaves))
    return arrays and is_known(tree) and not any(getattr(leaf, "is_deleted", bool)() for leaf in leaves)


def numbers(array) -> str:
    """Formats a number or a vector with four digits, shortening long ones; a batch as type and shape, `float32[8,2]`."""
    array = np.asarray(array)
    if array.ndim > 1:
        return f"{array.dtype}[{','.join(map(str, array.shape))}]"
    style: Any = {"float_kind": "{:.4g}".format}
    return np.array2string(array, formatter=style, threshold=SHOWN, edgeitems=ENDS, max_line_width=10**6)
