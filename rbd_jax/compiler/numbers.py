"""Arithmetic on vectors with Python operators, emitted as LLVM instructions.

Every operation rounds once. Operations must not be contracted or reordered, because `elementary` computes exact rounding errors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .instructions import Instructions


class Number:
    """A register with a number in each lane."""

    __slots__ = ("code", "dtype", "name")

    def __init__(self, code: Instructions, name: str, dtype):
        self.code, self.name, self.dtype = code, name, np.dtype(dtype)

    def constant(self, value) -> Number:
        """Returns the same number in each lane, with this number's data type."""
        return Number(self.code, self.code.constant(value, self.dtype), self.dtype)

    def _named(self, other) -> str:
        return other.name if isinstance(other, Number) else self.code.constant(other, self.dtype)

    def _binary(self, instruction: str, other, dtype=None) -> Number:
        line = f"{instruction} {self.code.type(self.dtype)} {self.name}, {self._named(other)}"
        return Number(self.code, self.code.new(line), self.dtype if dtype is None else dtype)

    def _intrinsic(self, name: str, *others) -> Number:
        called = self.code.intrinsic(name, [self.name, *map(self._named, others)], self.dtype)
        return Number(self.code, called, self.dtype)

    @property
    def _letter(self) -> str:
        return "f" if self.dtype.kind == "f" else ""

    def __add__(self, other) -> Number:
        return self._binary(f"{self._letter}add", other)

    def __radd__(self, other) -> Number:
        return self.constant(other) + self

    def __sub__(self, other) -> Number:
        return self._binary(f"{self._letter}sub", other)

    def __rsub__(self, other) -> Number:
        return self.constant(other) - self

    def __mul__(self, other) -> Number:
        return self._binary(f"{self._letter}mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other) -> Number:
        return self._binary("fdiv", other)

    def __rtruediv__(self, other) -> Number:
        return self.constant(other) / self

    def __neg__(self) -> Number:
        line = f"fneg {self.code.type(self.dtype)} {self.name}"
        return Number(self.code, self.code.new(line), self.dtype)

    def __abs__(self) -> Number:
        return self._intrinsic("fabs")

    def __lt__(self, other) -> Number:
        return self._compared("olt", other)

    def __le__(self, other) -> Number:
        return self._compared("ole", other)

    def __gt__(self, other) -> Number:
        return self._compared("ogt", other)

    def __ge__(self, other) -> Number:
        return self._compared("oge", other)

    def equals(self, other) -> Number:
        return (
            self._compared("oeq", other) if self.dtype.kind == "f" else self._binary("icmp eq", other, bool)
        )

    def differs(self, other) -> Number:
        """Returns if two numbers differ. NaN differs from every number, including itself."""
        return (
            self._compared("une", other) if self.dtype.kind == "f" else self._binary("icmp ne", other, bool)
        )

    def _compared(self, how: str, other) -> Number:
        return self._binary(f"fcmp {how}", other, bool)

    def __and__(self, other) -> Number:
        return self._binary("and", other)

    def __or__(self, other) -> Number:
        return self._binary("or", other)

    def __xor__(self, other) -> Number:
        return self._binary("xor", other)

    def __invert__(self) -> Number:
        return self._binary("xor", True)

    def __lshift__(self, places: int) -> Number:
        return self._binary("shl", places)

    def __rshift__(self, places: int) -> Number:
        """Returns the logical shift to the right."""
        return self._binary("lshr", places)

    def fma(self, factor, term) -> Number:
        """Returns `self * factor + term`, rounded once."""
        return self._intrinsic("fma", factor, term)

    def sqrt(self) -> Number:
        return self._intrinsic("sqrt")

    def floor(self) -> Number:
        return self._intrinsic("floor")

    def copysign(self, other: Number) -> Number:
        return self._intrinsic("copysign", other)

    def select(self, yes, no) -> Number:
        """Returns `yes` where this truth value is true, and `no` elsewhere."""
        like = yes if isinstance(yes, Number) else no
        of = like.code.type(like.dtype)
        yes, no = (like._named(x) for x in (yes, no))
        line = f"select {self.code.type(bool)} {self.name}, {of} {yes}, {of} {no}"
        return Number(self.code, self.code.new(line), like.dtype)

    @property
    def whole(self) -> np.dtype:
        """The integer type of the same size."""
        return np.dtype(f"i{self.dtype.itemsize}")

    def bits(self) -> Number:
        """Returns the bits of a floating-point number as an integer."""
        return self._reinterpreted(self.whole)

    def from_bits(self) -> Number:
        """Returns the floating-point number with these bits."""
        return self._reinterpreted(np.dtype(f"f{self.dtype.itemsize}"))

    def _reinterpreted(self, dtype: np.dtype) -> Number:
        line = f"bitcast {self.code.type(self.dtype)} {self.name} to {self.code.type(dtype)}"
        return Number(self.code, self.code.new(line), dtype)


class Double(NamedTuple):
    """A number with twice the digits: `high`, and its rounding error `low`."""

    high: Number
    low: Number

    def __neg__(self) -> Double:
        return Double(-self.high, -self.low)

    def rounded(self) -> Number:
        return self.high + self.low

    def __truediv__(self, other: Double) -> Double:  # pyright: ignore[reportIncompatibleMethodOverride]
        ratio = self.high / other.high
        left = (-ratio).fma(other.high, self.high) + (-ratio).fma(other.low, self.low)
        return Double(ratio, left / other.high)


def exact_sum(x: Number, y: Number) -> Double:
    """Returns the sum of two numbers with its rounding error."""
    total = x + y
    of_y = total - x
    return Double(total, (x - (total - of_y)) + (y - of_y))


def ordered_sum(x: Number, y: Number) -> Double:
    """Returns the sum of two numbers with its rounding error, if the first number is larger or zero."""
    total = x + y
    return Double(total, y - (total - x))


def exact_product(x: Number, y: Number) -> Double:
    """Returns the product of two numbers with its rounding error."""
    product = x * y
    return Double(product, x.fma(y, -product))


def root(x: Double) -> Double:
    """Returns the square root, which is zero for zero."""
    found = x.high.sqrt()
    left = (-found).fma(found, x.high) + x.low
    return Double(found, (found > 0).select(left / (found + found), 0.0))
