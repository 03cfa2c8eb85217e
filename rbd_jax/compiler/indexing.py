"""NumPy versions of JAX operations that rearrange arrays, to avoid the compilation time of the JAX operations.

They act on arrays of indices that represent the entries of other arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax import lax


def gather(
    x: np.ndarray,
    places: np.ndarray,
    dimensions: lax.GatherDimensionNumbers,
    sizes: Sequence[int],
    fill: int | None,
) -> np.ndarray:
    """Computes `lax.gather`.

    Args:
      x: The array.
      places: The start indices.
      dimensions: The dimension numbers.
      sizes: The sizes of the windows.
      fill: The value in windows that start outside of the valid range; None moves them inside.
    """
    places = places.astype(np.int64)
    batch, kept = places.shape[:-1], [*dimensions.collapsed_slice_dims, *dimensions.operand_batching_dims]
    first = [np.zeros(batch, np.int64) for _ in sizes]
    for column, axis in enumerate(dimensions.start_index_map):
        first[axis] = places[..., column]
    pairs = zip(dimensions.operand_batching_dims, dimensions.start_indices_batching_dims, strict=True)
    for axis, along in pairs:
        first[axis] = np.broadcast_to(
            np.arange(batch[along]).reshape(-1, *[1] * (len(batch) - along - 1)), batch
        )
    last = [n - size for n, size in zip(x.shape, sizes, strict=True)]
    outside = np.zeros(batch, bool)
    for start, most in zip(first, last, strict=True):
        outside |= (start < 0) | (start > most)
    window = [axis for axis in range(x.ndim) if axis not in kept]
    at = []
    for axis, (start, most) in enumerate(zip(first, last, strict=True)):
        steps = np.arange(sizes[axis]).reshape([-1 if axis == other else 1 for other in window])
        at.append(np.clip(start, 0, most).reshape(batch + (1,) * len(window)) + steps)
    found = np.broadcast_to(x[tuple(at)], batch + tuple(sizes[axis] for axis in window))
    if fill is not None and outside.any():
        found = np.where(outside.reshape(batch + (1,) * len(window)), fill, found)
    return np.moveaxis(found, range(len(batch), found.ndim), dimensions.offset_dims)


def dynamic_slice(x: np.ndarray, *starts: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    return x[_window(x, starts, sizes)]


def dynamic_update_slice(x: np.ndarray, update: np.ndarray, *starts: np.ndarray) -> np.ndarray:
    found = x.copy()
    found[_window(x, starts, update.shape)] = update
    return found


def _window(x: np.ndarray, starts: Sequence[np.ndarray], sizes: Sequence[int]) -> tuple[slice, ...]:
    first = [min(max(int(start), 0), n - size) for start, size, n in zip(starts, sizes, x.shape, strict=True)]
    return tuple(slice(start, start + size) for start, size in zip(first, sizes, strict=True))


def pad(x: np.ndarray, fill: int, config: Sequence[Sequence]) -> np.ndarray:
    """Computes `lax.pad`: padding before, after and between entries along each axis. Negative padding removes entries."""
    for axis, (before, after, between) in enumerate(config):
        n = x.shape[axis]
        spread = n + between * max(n - 1, 0)
        found = np.full((*x.shape[:axis], spread, *x.shape[axis + 1 :]), fill, x.dtype)
        along = lambda cut, axis=axis: (slice(None),) * axis + (cut,)
        found[along(slice(None, None, between + 1))] = x
        found = found[along(slice(max(-before, 0), spread - max(-after, 0)))]
        around = [(0, 0)] * x.ndim
        around[axis] = max(before, 0), max(after, 0)
        x = np.pad(found, around, constant_values=fill)
    return x
