"""Numbers as a user at a prompt wants to see them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from .array import is_known


#: Vectors of more numbers than this are shortened to the first and last ones.
SHOWN, ENDS = 12, 3


def can_be_shown(tree) -> bool:
    """Whether all leaves are arrays whose numbers can be looked at: of a derivative by integers there are none."""
    leaves = jax.tree.leaves(tree)
    number = lambda leaf: (
        isinstance(leaf, jax.Array | np.ndarray | np.generic) and leaf.dtype != jax.dtypes.float0
    )
    arrays = all(map(number, leaves))
    return arrays and is_known(tree) and not any(getattr(leaf, "is_deleted", bool)() for leaf in leaves)


def numbers(array) -> str:
    """A number or a vector with four digits each, a long one shortened; of a batch type and shape, such as `float32[8,2]`."""
    array = np.asarray(array)
    if array.ndim > 1:
        return f"{array.dtype}[{','.join(map(str, array.shape))}]"
    style: Any = {"float_kind": "{:.4g}".format}
    return np.array2string(array, formatter=style, threshold=SHOWN, edgeitems=ENDS, max_line_width=10**6)
