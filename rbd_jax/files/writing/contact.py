"""Contact properties of shapes, where they differ from the defaults."""

from __future__ import annotations

import functools

import numpy as np

from ...shapes import Sphere
from ...shapes.shape import Shape
from ..mjcf.shapes import NUMBERS, WORDS
from .numerals import text


@functools.cache
def unsaid() -> Shape:
    """Returns a shape with default properties."""
    return Shape("default", "world", Sphere(1.0))


def contact_numbers(shape: Shape) -> dict[str, str]:
    """Returns the properties that differ from the defaults, by MuJoCo's names.

    A shape that does not collide has both bit masks 0.
    """
    bits = {} if shape.collision else {"contype": 0, "conaffinity": 0}
    found = {}
    for key in WORDS:
        value = bits.get(key, getattr(shape, key))
        if value != getattr(unsaid(), key):
            found[key] = str(value)
    for key in NUMBERS:
        value = np.asarray(getattr(shape, key), float)
        if not np.array_equal(value.astype(np.float32), np.asarray(getattr(unsaid(), key), np.float32)):
            found[key] = text(value)
    return found
