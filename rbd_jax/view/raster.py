"""Rasterization of triangles in NumPy: all fragments of all triangles at once, and the visible ones. Decision 0058.

A triangle is divided into spans, one for each row of pixels whose center line it crosses, and a span into fragments, one for
each pixel whose center it covers. Triangles that share an edge compute its crossings from the same numbers, so each pixel
along it belongs to exactly one triangle, without cracks. A quantity divided by depth is linear in the picture, also in
perspective.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Fragments(NamedTuple):
    """Pixels of triangles: the index of the triangle, of the pixel (row by row), and the nearness there; larger is nearer."""

    triangle: np.ndarray
    pixel: np.ndarray
    nearness: np.ndarray

    def of(self, which: np.ndarray | slice) -> Fragments:
        return Fragments(self.triangle[which], self.pixel[which], self.nearness[which])


def plane_of(corners: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns the linear functions `a x + b y + c` with given values (t, 3, ...) at corners (t, 3, 2), shape (t, 3, ...)."""
    x, y = corners[..., 0], corners[..., 1]
    area = doubled_area(corners)
    slopes = np.stack([np.roll(y, -1, 1) - np.roll(y, 1, 1), np.roll(x, 1, 1) - np.roll(x, -1, 1)], axis=1)
    slopes /= np.where(area == 0, 1, area)[:, None, None]
    slope = np.einsum("tdk,tk...->td...", slopes, values)
    at_first = np.einsum("td,td...->t...", corners[:, 0], slope)
    return np.concatenate([slope, (values[:, 0] - at_first)[:, None]], axis=1)


def doubled_area(corners: np.ndarray) -> np.ndarray:
    """Returns twice the area of triangles (t, 3, 2), positive if they are oriented from x to y."""
    first, second = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    return first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]


def fragments(corners: np.ndarray, nearness: np.ndarray, width: int, height: int) -> Fragments:
    """Returns all fragments of triangles.

    Args:
      corners: Corners (t, 3, 2) in pixels, x to the right and y down.
      nearness: Coefficients (a, b, c) of the nearness of each triangle, (t, 3).
      width: Width of the picture in pixels.
      height: Height of the picture in pixels.
    """
    x, y = corners[..., 0], corners[..., 1]
    first = np.clip(np.ceil(y.min(axis=1) - 0.5), 0, height).astype(np.int32)
    last = np.clip(np.ceil(y.max(axis=1) - 0.5), 0, height).astype(np.int32)
    beside = (x.max(axis=1) < 0.5) | (x.min(axis=1) > width - 0.5) | (doubled_area(corners) == 0)
    some = np.flatnonzero((last > first) & ~beside)
    corners, first, count = corners[some], first[some], (last - first)[some]
    triangle, row = _counted(count)
    row += np.repeat(first, count)
    low, high = _spans(corners, count, row + 0.5)
    start = np.clip(np.ceil(low - 0.5), 0, width).astype(np.int32)
    length = np.clip(np.ceil(high - 0.5), 0, width).astype(np.int32) - start
    seen = np.flatnonzero(length > 0)
    triangle, row, start, length = some[triangle[seen]], row[seen], start[seen], length[seen]
    a, b, c = nearness.astype(np.float64).T
    at_start = b[triangle] * (row + 0.5) + c[triangle] + a[triangle] * (start + 0.5)
    _, along = _counted(length)
    near = np.repeat(at_start.astype(np.float32), length)
    near += along * np.repeat(a[triangle].astype(np.float32), length)
    pixel = along + np.repeat(row * width + start, length)
    return Fragments(np.repeat(triangle.astype(np.int32), length), pixel, near)


def _counted(count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns, for concatenated groups of `count` elements, the index of the group and the index within it."""
    group = np.repeat(np.arange(len(count), dtype=np.int32), count)
    starts = np.cumsum(count) - count
    return group, np.arange(len(group), dtype=np.int32) - np.repeat(starts.astype(np.int32), count)


def _spans(corners: np.ndarray, count: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the start and the end along x of triangles at rows y, with `count` rows for each triangle."""
    over = np.sign(doubled_area(corners))
    low = np.repeat(corners[..., 0].min(axis=1), count)
    high = np.repeat(corners[..., 0].max(axis=1), count)
    for k in range(3):
        (x0, y0), (x1, y1) = corners[:, k].T, corners[:, (k + 1) % 3].T
        a, b, c = (
            y0 - y1,
            x1 - x0,
            x0 * y1 - x1 * y0,
        )  # the reversed edge has exactly the negative coefficients
        upright = a != 0
        divisor = np.where(upright, a, 1)
        slope, offset = np.where(upright, -b / divisor, 0), -c / divisor
        inside = a * over
        crossing = np.repeat(slope, count) * y
        low = np.maximum(low, crossing + np.repeat(np.where(inside > 0, offset, -np.inf), count))
        high = np.minimum(high, crossing + np.repeat(np.where(inside < 0, offset, np.inf), count))
    return low, high


def nearest(found: Fragments, pixels: int) -> tuple[Fragments, np.ndarray]:
    """Returns the visible fragment of each covered pixel, and the nearness in all pixels, -inf without a fragment.

    Nearness must be positive.
    """
    # Positive floats have the order of their bits as integers: one maximum finds the nearness and the triangle.
    key = found.nearness.view(np.uint32).astype(np.uint64) << np.uint64(32)
    key |= found.triangle.view(np.uint32)
    buffer = np.zeros(pixels, np.uint64)
    np.maximum.at(buffer, found.pixel, key)
    pixel = np.flatnonzero(buffer).astype(np.int32)
    key = buffer[pixel]
    near = (key >> np.uint64(32)).astype(np.uint32).view(np.float32)
    everywhere = np.full(pixels, -np.inf, np.float32)
    everywhere[pixel] = near
    return Fragments((key & np.uint64(0xFFFFFFFF)).astype(np.int32), pixel, near), everywhere


def stacked(found: Fragments):
    """Yields layers of fragments from the farthest to the nearest, with at most one fragment for each pixel."""
    order = np.lexsort((found.nearness, found.pixel))
    found = found.of(order)
    new = np.append(True, found.pixel[1:] != found.pixel[:-1]) if len(order) else np.zeros(0, bool)
    starts = np.flatnonzero(new)
    place = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    for number in range(int(place.max(initial=-1)) + 1):
        yield found.of(place == number)
