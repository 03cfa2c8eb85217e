"""Scalars of a program, each computed from others: an operation on them is simplified as it is made (see `_simplify`)."""

from __future__ import annotations

import contextlib
import gc
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax


#: What is evaluated in NumPy where all operands are known. The rest is evaluated by JAX.
_NUMPY = {
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "max": np.maximum,
    "min": np.minimum,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "abs": np.abs,
    "square": np.square,
    "lt": np.less,
    "gt": np.greater,
    "le": np.less_equal,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "is_finite": np.isfinite,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "floor": np.floor,
    "ceil": np.ceil,
}


class Scalars:
    """All scalars of a program, by number, in the order in which they can be computed. Equal ones have the same number."""

    def __init__(self):
        self.operation: list[str] = []
        self.arguments: list[tuple[int, ...]] = []
        self.extra: list[Any] = []
        self.dtype: list[np.dtype] = []
        self._known: dict[Any, int] = {}
        self._count = itertools.count()

    def _add(self, key, operation, arguments, extra, dtype) -> int:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.operation)
            self.operation.append(operation)
            self.arguments.append(arguments)
            self.extra.append(extra)
            self.dtype.append(np.dtype(dtype) if isinstance(dtype, type) else dtype)
        return found

    # Making them.

    def input(self, index: int, shape, dtype) -> np.ndarray:
        """An array that is not known."""
        size = int(np.prod(shape))
        own = [self._add(("input", index, i), "input", (), (index, i), dtype) for i in range(size)]
        return np.array(own, np.int64).reshape(shape)

    def constant(self, value) -> int:
        value = np.asarray(value)[()]
        return self._add(("constant", value.dtype.str, value.tobytes()), "constant", (), value, value.dtype)

    def constants(self, array) -> np.ndarray:
        """An array that is known."""
        array = np.asarray(array)
        flat, kind, size, raw = array.reshape(-1), array.dtype.str, array.itemsize, array.tobytes()
        own = []
        for place in range(len(flat)):
            key = "constant", kind, raw[place * size : (place + 1) * size]
            found = self._known.get(key)
            own.append(self._add(key, "constant", (), flat[place], array.dtype) if found is None else found)
        return np.array(own, np.int64).reshape(array.shape)

    def opaque(self, primitive, params, operands, avals, out_avals) -> list[np.ndarray]:
        """An operation that is left as it is, on whole arrays."""
        flat = tuple(int(i) for x in operands for i in x.reshape(-1))
        shapes, dtypes = [x.shape for x in operands], [aval.dtype for aval in avals]
        place = ("opaque", next(self._count))
        node = self._add(place, "opaque", flat, (primitive, params, shapes, dtypes), np.dtype(np.int64))
        results = []
        for index, aval in enumerate(out_avals):
            size = int(np.prod(aval.shape))
            own = [
                self._add(("entry", node, index, i), "entry", (node,), (index, i), aval.dtype)
                for i in range(size)
            ]
            results.append(np.array(own, np.int64).reshape(aval.shape))
        return results

    # Looking at them.

    def value(self, node: int):
        """The number, or None where it is not known."""
        return self.extra[node] if self.operation[node] == "constant" else None

    def values(self, nodes: np.ndarray, dtype) -> np.ndarray | None:
        """The numbers of an array, or None where one of them is not known."""
        if not nodes.size:
            return np.zeros(nodes.shape, dtype)
        flat = nodes.reshape(-1).tolist()
        if any(self.operation[node] != "constant" for node in flat):
            return None
        return np.array([self.extra[node] for node in flat], dtype).reshape(nodes.shape)

    def _is(self, node: int, operation: str) -> bool:
        return self.operation[node] == operation

    # Computing with them.

    def apply(self, primitive, params: tuple, operands: Sequence[int], dtype) -> int:
        """One operation on scalars, simplified."""
        name = "add" if primitive.name == "add_any" else primitive.name
        for node in operands:
            if self.operation[node] != "constant":
                break
        else:
            known = [self.extra[node] for node in operands]
            return self.constant(_evaluated(primitive, params, known, dtype))
        rule = _RULES.get(name)
        if rule is not None and (name in _ALL_TYPES or dtype.kind == "f"):
            exponent = {key: value for key, value in params if key == "y"}
            return rule(self, *operands, **exponent)
        return self._plain(name, primitive, params, operands, dtype)

    def _plain(self, name, primitive, params, operands, dtype) -> int:
        operands = tuple(operands)
        if name in _EITHER_WAY and operands[0] > operands[1]:
            operands = operands[::-1]
        key = (name, operands, str(params)) if params else (name, operands)
        return self._add(key, name, operands, (primitive, params), dtype)

    def _of(self, primitive, *operands: int, params=()) -> int:
        """An operation of the operands' type as it stands."""
        return self._plain(primitive.name, primitive, params, operands, self.dtype[operands[0]])

    def _number(self, value, like: int) -> int:
        return self.constant(np.asarray(value, self.dtype[like]))

    def _negative(self, x: int) -> int:
        if self._is(x, "constant"):
            return self.constant(-self.extra[x])
        if self._is(x, "neg"):
            return self.arguments[x][0]
        return self._of(lax.neg_p, x)

    def _sum(self, x: int, y: int) -> int:
        a, b = self.value(x), self.value(y)
        if a is not None and b is not None:
            return self.constant(a + b)
        if a == 0:
            return y
        if b == 0:
            return x
        if b is not None:
            x, y, a, b = y, x, b, a
        if a is not None:  # a + y
            if self._is(y, "neg"):
                return self._difference(x, self.arguments[y][0])
            if self._is(y, "add"):
                first, second = self.arguments[y]
                if self._is(first, "constant"):
                    return self._sum(self._sum(x, first), second)
                if self._is(second, "constant"):
                    return self._sum(self._sum(x, second), first)
            if self._is(y, "sub") and self._is(self.arguments[y][0], "constant"):
                first, second = self.arguments[y]
                return self._difference(self._sum(x, first), second)
            return self._of(lax.add_p, x, y)
        if self._is(y, "neg"):
            return self._difference(x, self.arguments[y][0])
        if self._is(x, "neg"):
            return self._difference(y, self.arguments[x][0])
        return self._of(lax.add_p, x, y)

    def _difference(self, x: int, y: int) -> int:
        a, b = self.value(x), self.value(y)
        if x == y:
            return self._number(0, x)
        if b is not None:
            return self._sum(x, self._negative(y))
        if a == 0:
            return self._negative(y)
        if self._is(y, "neg"):
            return self._sum(x, self.arguments[y][0])
        if self._is(x, "neg"):
            return self._negative(self._sum(self.arguments[x][0], y))
        if a is not None:
            if self._is(y, "add"):
                first, second = self.arguments[y]
                for constant, rest in ((first, second), (second, first)):
                    if self._is(constant, "constant"):
                        return self._difference(self._sum(x, self._negative(constant)), rest)
            if self._is(y, "sub") and self._is(self.arguments[y][0], "constant"):
                first, second = self.arguments[y]
                return self._sum(self._sum(x, self._negative(first)), second)
            return self._of(lax.sub_p, x, y)
        # The two ways round are one difference and its negative.
        if x > y:
            return self._negative(self._of(lax.sub_p, y, x))
        return self._of(lax.sub_p, x, y)

    def _product(self, x: int, y: int) -> int:
        a, b = self.value(x), self.value(y)
        if a is not None and b is not None:
            return self.constant(a * b)
        if b is not None:
            x, y, a, b = y, x, b, a
        if a is not None:
            if a == 0:
                return self._number(0, y)
            if a < 0:
                return self._negative(self._product(self._negative(x), y))
            if a == 1:
                return y
            if self._is(y, "neg"):
                return self._negative(self._product(x, self.arguments[y][0]))
            if self._is(y, "mul"):
                for constant, rest in (self.arguments[y], self.arguments[y][::-1]):
                    if self._is(constant, "constant"):
                        return self._product(self._product(x, constant), rest)
            return self._of(lax.mul_p, x, y)
        if self._is(x, "neg"):
            return self._negative(self._product(self.arguments[x][0], y))
        if self._is(y, "neg"):
            return self._negative(self._product(x, self.arguments[y][0]))
        return self._of(lax.mul_p, x, y)

    def _quotient(self, x: int, y: int) -> int:
        a, b = self.value(x), self.value(y)
        if b is not None and b != 0 and np.isfinite(1 / b):
            return self._product(x, self._number(1 / b, y))
        if a == 0:
            return x
        if self._is(x, "neg"):
            return self._negative(self._quotient(self.arguments[x][0], y))
        if self._is(y, "neg"):
            return self._negative(self._quotient(x, self.arguments[y][0]))
        return self._of(lax.div_p, x, y)

    def _square(self, x: int) -> int:
        return self._product(x, x)

    def _power(self, x: int, y: int) -> int:
        if y == 0:
            return self._number(1, x)
        if y < 0:
            return self._quotient(self._number(1, x), self._power(x, -y))
        half = self._power(x, y // 2) if y > 1 else None
        if half is None:
            return x
        square = self._product(half, half)
        return self._product(square, x) if y % 2 else square

    def _selection(self, which: int, *cases: int) -> int:
        chosen = self.value(which)
        if chosen is not None:
            return cases[int(chosen)]
        if all(case == cases[0] for case in cases):
            return cases[0]
        return self._plain("select_n", lax.select_n_p, (), (which, *cases), self.dtype[cases[0]])

    def _both(self, x: int, y: int) -> int:
        return self._logical(lax.and_p, x, y, True)

    def _either(self, x: int, y: int) -> int:
        return self._logical(lax.or_p, x, y, False)

    def _logical(self, primitive, x: int, y: int, neutral: bool) -> int:
        if self.dtype[x] == np.dtype(bool):
            for one, other in ((x, y), (y, x)):
                known = self.value(one)
                if known is not None:
                    return other if bool(known) == neutral else one
        return self._of(primitive, x, y)


#: Rules that hold for integers and truth values as well.
_ALL_TYPES = {"select_n", "and", "or"}

#: Operations that give the same either way round.
_EITHER_WAY = {"add", "mul", "max", "min", "and", "or"}

_RULES = {
    "add": Scalars._sum,
    "sub": Scalars._difference,
    "neg": Scalars._negative,
    "mul": Scalars._product,
    "div": Scalars._quotient,
    "square": Scalars._square,
    "integer_pow": Scalars._power,
    "select_n": Scalars._selection,
    "and": Scalars._both,
    "or": Scalars._either,
}


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Without Python's search for garbage: scalars are many and stay, and to go over all of them again and again takes a third of
    the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _evaluated(primitive, params: tuple, known, dtype):
    """An operation on known scalars."""
    name = primitive.name
    with np.errstate(all="ignore"):
        if name in _NUMPY:
            return np.asarray(_NUMPY[name](*known), dtype)
        if name == "integer_pow":
            return np.asarray(known[0] ** dict(params)["y"], dtype)
        if name == "select_n":
            return np.asarray(known[1 + int(known[0])], dtype)
        if name == "convert_element_type":
            return np.asarray(known[0]).astype(dtype)
    return np.asarray(primitive.bind(*map(jnp.asarray, known), **dict(params)))
