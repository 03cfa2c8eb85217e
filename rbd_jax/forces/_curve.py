"""Curves through knots, cubic between the knots and straight beyond them (Sueda's notes, eq. 1.40)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


@dataclass(frozen=True)
class Curve:
    """A C¹ curve with given values and slopes at its knots."""

    knots: Sequence[float]
    values: Sequence[float]
    slopes: Sequence[float]

    def __call__(self, x: Float[Array, ""]) -> Float[Array, ""]:
        """Returns the value at x."""
        return self._pieces(x, self.coefficients)

    def integral(self, x: Float[Array, ""]) -> Float[Array, ""]:
        """Returns the integral of the curve from the first knot to x."""
        areas = self.coefficients / np.arange(1, 5)
        widths = np.diff([self.knots[0], *self.knots])
        ends = sum(areas[:-1, i] * widths ** (i + 1) for i in range(4))
        before = np.concatenate([[0.0], np.cumsum(ends)])
        return self._pieces(x, np.column_stack([before, areas]))

    @cached_property
    def coefficients(self) -> Float[np.ndarray, "pieces 4"]:
        """The coefficients of `1, t, t², t³` on each piece, with t relative to its `origins`."""
        knots, values, slopes = (np.array(row, float) for row in (self.knots, self.values, self.slopes))
        width, rise = np.diff(knots), np.diff(values)
        left, right, chord = slopes[:-1], slopes[1:], rise / width
        cubics = np.column_stack(
            [values[:-1], left, (3 * chord - 2 * left - right) / width, (left + right - 2 * chord) / width**2]
        )
        ends = np.column_stack([values, slopes, 0 * values, 0 * values])[[0, -1]]
        return np.concatenate([ends[:1], cubics, ends[1:]])

    @property
    def origins(self) -> tuple[float, ...]:
        """The point with t = 0 on each piece: its first knot, or its only one."""
        return (self.knots[0], *self.knots)

    def _pieces(self, x, coefficients):
        result = self._polynomial(x - self.origins[0], coefficients[0])
        for origin, row in zip(self.origins[1:], coefficients[1:], strict=True):
            result = jnp.where(x < origin, result, self._polynomial(x - origin, row))
        return result

    @staticmethod
    def _polynomial(t, coefficients):
        value = jnp.zeros_like(t)
        for c in reversed(coefficients.tolist()):
            value = value * t + c
        return value
