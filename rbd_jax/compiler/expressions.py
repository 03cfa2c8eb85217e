"""The scalars of a program, each computed from others. Operations are simplified when they are created (see `scalarize`).

Non-finite numbers
------------------
The rules replace `x · 0` and `x - x` by 0, which is the main source of speed. In plain arithmetic these are NaN if x is
infinite or NaN. So the new zero carries the set of inputs that would make it NaN (it is `Spoilt` by them), and each operation
propagates the set. A result is NaN if one of these inputs is not finite; the check is omitted where the result depends on the
input anyway. A result is therefore finite only if it is finite in plain arithmetic, for all inputs. One case is not detected:
an overflow or a division by zero, from finite inputs, that is multiplied by a known zero.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax


#: Operations that NumPy evaluates if all operands are known. JAX evaluates the others.
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


#: Operations whose result is NaN if an operand is NaN; those that are infinite or NaN if an operand is infinite; and those that
#: are NaN then.
_NAN_STAYS = frozenset(
    "add sub mul div neg abs square integer_pow sqrt rsqrt cbrt max min clamp sin cos tan asin acos atan atan2 sinh cosh tanh "
    "asinh acosh atanh exp exp2 log log1p expm1 logistic erf erfc erf_inv floor ceil round rem sign nextafter "
    "convert_element_type".split()
)
_INFINITE_STAYS = frozenset("add sub mul neg abs square integer_pow sqrt cbrt log log1p sinh cosh".split())
_INFINITE_IS_NAN = frozenset("sin cos tan asin acos atanh".split())


class Spoilt(NamedTuple):
    """The inputs that make a scalar NaN, one bit each: the inputs that do so if they are NaN, and if they are infinite."""

    by_nan: int
    by_infinite: int


class Reach(NamedTuple):
    """Inputs that make a scalar non-finite, one bit each.

    - `nan`: inputs for which NaN makes the scalar NaN.
    - `infinite`: inputs for which infinity makes the scalar infinite or NaN.
    - `infinite_is_nan`: inputs for which infinity makes the scalar NaN.
    """

    nan: int
    infinite: int
    infinite_is_nan: int


_NO_REACH = Reach(0, 0, 0)


def _unspoilt(rule):
    """Extends a rule for plain scalars to spoilt ones: it acts on the plain scalars, and its result is spoilt by all of them."""

    @functools.wraps(rule)
    def run(self, *operands, **how):
        by = self.by
        for x in operands:
            if by[x]:
                return self._ruled(rule, operands, how)
        return rule(self, *operands, **how)

    return run


#: Inputs per group: most sets of inputs that are checked together have many groups in common.
_GROUP = 8

_TRUTH = np.dtype(bool)


class Scalars:
    """All scalars of a program, by index, in an order in which they can be computed. Equal scalars have the same index."""

    def __init__(self):
        self.reach: list[Reach] = []
        self.plain: list[int] = []  # for a spoilt scalar, the scalar itself
        self.by: list[int] = []  # and the index of its spoilers; 0 for none
        self._spoilers = [Spoilt(0, 0)]
        self._spoilers_by = {self._spoilers[0]: 0}
        self._unions: dict[tuple[int, int], int] = {}
        self._spoilt: dict[tuple[int, int], int] = {}
        self._fines: dict[tuple[int, int], int] = {}
        self._inputs: list[int] = []  # and other numbers that may or may not be finite
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
            self.reach.append(self._reached(found))
            self.plain.append(found)
            self.by.append(0)
        return found

    def _reached(self, node: int) -> Reach:
        operation = self.operation[node]
        if getattr(self.dtype[node], "kind", "") != "f" or operation == "constant":
            return _NO_REACH
        if operation in ("input", "entry"):
            return self._as_input(node)
        own = [self.reach[x] for x in self.arguments[node]]
        if operation == "select_n":
            cases = own[1:]
            if any(case != cases[0] for case in cases):
                # If inputs reach only some of the cases, the selection itself counts as an input.
                common = Reach(*(functools.reduce(operator.and_, masks) for masks in zip(*cases)))
                return Reach(*(a | b for a, b in zip(common, self._as_input(node))))
            return cases[0]
        if operation not in _NAN_STAYS:
            return _NO_REACH
        nan = infinite = infinite_is_nan = 0
        for x in own:
            nan, infinite = nan | x.nan, infinite | x.infinite
            infinite_is_nan |= x.infinite_is_nan
        if operation in _INFINITE_IS_NAN:
            infinite_is_nan = infinite
        elif operation == "div":
            infinite = own[0].infinite | infinite_is_nan
        elif operation not in _INFINITE_STAYS:
            infinite = infinite_is_nan
        return Reach(nan, infinite, infinite_is_nan)

    def _as_input(self, node: int) -> Reach:
        """Returns the reach of a new input, which may or may not be finite."""
        bit = 1 << len(self._inputs)
        self._inputs.append(node)
        return Reach(bit, bit, 0)

    # Non-finite numbers.

    def spoilt(self, node: int, by: int) -> int:
        """Returns `node`, spoilt by the spoilers with this index."""
        if self.by[node]:
            node, by = self.plain[node], self._union(self.by[node], by)
        found = self._spoilt.get((node, by))
        if found is None:
            found = self._spoilt[node, by] = self._made_spoilt(node, by)
        return found

    def _made_spoilt(self, node: int, by: int) -> int:
        reach, (nan, infinite) = self.reach[node], self._spoilers[by]
        left = Spoilt(nan & ~reach.nan, infinite & ~reach.infinite_is_nan)
        if not any(left):
            return node
        by = self._spoiler(left)
        found = self._add(("spoilt", node, by), "spoilt", (node,), by, self.dtype[node])
        self.plain[found], self.by[found] = node, by
        return found

    def _spoiler(self, spoilt: Spoilt) -> int:
        by = self._spoilers_by.setdefault(spoilt, len(self._spoilers))
        if by == len(self._spoilers):
            self._spoilers.append(spoilt)
        return by

    def _union(self, one: int, other: int) -> int:
        if one == other or not other:
            return one
        if not one:
            return other
        found = self._unions.get((one, other))
        if found is None:
            pairs = zip(self._spoilers[one], self._spoilers[other])
            found = self._unions[one, other] = self._spoiler(Spoilt(*(a | b for a, b in pairs)))
        return found

    def dropped(self, node: int, x: int) -> int:
        """Returns `node`, spoilt by the inputs that make x non-finite. It replaces an expression that is NaN then."""
        reach = self.reach[x]
        return self.spoilt(node, self._spoiler(Spoilt(reach.nan, reach.infinite))) if reach.nan else node

    def _ruled(self, rule, operands: Sequence[int], how: dict) -> int:
        by = 0
        for x in operands:
            by = self._union(by, self.by[x])
        return self.spoilt(rule(self, *[self.plain[x] for x in operands], **how), by)

    def settled(self, node: int, last: bool = False) -> int:
        """Returns a plain scalar that is NaN where this one is spoilt. As a `last` result it may also be infinite."""
        if not self.by[node]:
            return node
        plain, (nan, infinite) = self.plain[node], self._spoilers[self.by[node]]
        if last:
            infinite &= ~self.reach[plain].infinite
        if not nan and not infinite:
            return plain
        dtype, reach = self.dtype[node], self.reach[plain]
        no_number = self.constant(np.asarray(np.nan, dtype))
        found = self._plain(
            "select_n", lax.select_n_p, (), (self._fine(nan, infinite), no_number, plain), dtype
        )
        self.reach[found] = Reach(
            reach.nan | nan, reach.infinite | infinite, reach.infinite_is_nan | infinite
        )
        return found

    def all_settled(self, nodes: np.ndarray, last: bool = False) -> np.ndarray:
        if not nodes.size:
            return nodes
        own = [self.settled(node, last) for node in nodes.reshape(-1).tolist()]
        return np.array(own, np.int64).reshape(nodes.shape)

    def _fine(self, nan: int, infinite: int) -> int:
        """Returns a scalar that is true if no input of `nan` is NaN, and no input of `infinite` is infinite or NaN."""
        found = self._fines.get((nan, infinite))
        if found is not None:
            return found
        every, groups, place = nan | infinite, [], 0
        while every >> place:
            of_group = ((1 << _GROUP) - 1) << place
            if every & of_group:
                groups.append((nan & of_group, infinite & of_group))
            place += _GROUP
        if len(groups) > 1:
            truths = [self._fine(*group) for group in groups]
        else:
            truths = []
            while every:
                bit = every & -every
                node = self._inputs[bit.bit_length() - 1]
                every ^= bit
                is_finite = bool(infinite & bit)
                name, primitive, operands = (
                    ("is_finite", lax.is_finite_p, (node,)) if is_finite else ("eq", lax.eq_p, (node, node))
                )
                truths.append(self._plain(name, primitive, (), operands, _TRUTH))
        assert truths
        fine = truths[0]
        for truth in truths[1:]:
            fine = self._plain("and", lax.and_p, (), (fine, truth), _TRUTH)
        self._fines[nan, infinite] = fine
        return fine

    # Creation.

    def input(self, index: int, shape, dtype) -> np.ndarray:
        """Returns an unknown array."""
        size = int(np.prod(shape))
        own = [self._add(("input", index, i), "input", (), (index, i), dtype) for i in range(size)]
        return np.array(own, np.int64).reshape(shape)

    def constant(self, value) -> int:
        value = np.asarray(value)[()]
        return self._add(("constant", value.dtype.str, value.tobytes()), "constant", (), value, value.dtype)

    def constants(self, array) -> np.ndarray:
        """Returns a known array."""
        array = np.asarray(array)
        flat, kind, size, raw = array.reshape(-1), array.dtype.str, array.itemsize, array.tobytes()
        own = []
        for place in range(len(flat)):
            key = "constant", kind, raw[place * size : (place + 1) * size]
            found = self._known.get(key)
            own.append(self._add(key, "constant", (), flat[place], array.dtype) if found is None else found)
        return np.array(own, np.int64).reshape(array.shape)

    def opaque(self, primitive, params, operands, avals, out_avals) -> list[np.ndarray]:
        """Returns the results of an operation on arrays that is not split into scalars."""
        operands = [self.all_settled(x) for x in operands]
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

    # Inspection.

    def value(self, node: int):
        """Returns the number, or None if it is unknown."""
        return self.extra[node] if self.operation[node] == "constant" else None

    def values(self, nodes: np.ndarray, dtype) -> np.ndarray | None:
        """Returns the numbers of an array, or None if one of them is unknown."""
        if not nodes.size:
            return np.zeros(nodes.shape, dtype)
        flat = nodes.reshape(-1).tolist()
        if any(self.operation[node] != "constant" for node in flat):
            return None
        return np.array([self.extra[node] for node in flat], dtype).reshape(nodes.shape)

    def _is(self, node: int, operation: str) -> bool:
        return self.operation[node] == operation

    # Operations.

    def apply(self, primitive, params: tuple, operands: Sequence[int], dtype) -> int:
        """Returns the simplified result of an operation on scalars."""
        name = "add" if primitive.name == "add_any" else primitive.name
        known, operation = True, self.operation
        for node in operands:
            if operation[node] != "constant":
                if self.by[node]:
                    return self._applied_to_spoilt(name, primitive, params, operands, dtype)
                known = False
        if known:
            return self.constant(evaluated(primitive, params, [self.extra[node] for node in operands], dtype))
        rule = _RULES.get(name)
        if rule is not None and (name in _ALL_TYPES or dtype.kind == "f"):
            exponent = {key: value for key, value in params if key == "y"}
            return rule(self, *operands, **exponent)
        return self._plain(name, primitive, params, operands, dtype)

    def _applied_to_spoilt(self, name: str, primitive, params: tuple, operands: Sequence[int], dtype) -> int:
        plain = [self.plain[x] for x in operands]
        if name == "select_n":
            # If all cases have the same spoilers, these spoil the selection. Otherwise the cases are settled first.
            chosen = self.value(operands[0])
            if chosen is not None:
                return operands[1 + int(chosen)]
            (by, *others) = {self.by[x] for x in operands[1:]}
            if not others:
                return self.spoilt(self.apply(primitive, params, plain, dtype), by)
        elif (
            name in _NAN_STAYS
            and dtype.kind == "f"
            and not (name == "integer_pow" and dict(params)["y"] == 0)
        ):
            by = 0
            for x in operands:
                by = self._union(by, self.by[x])
            return self.spoilt(self.apply(primitive, params, plain, dtype), by)
        return self.apply(primitive, params, [self.settled(x) for x in operands], dtype)

    def _plain(self, name, primitive, params, operands, dtype) -> int:
        operands = tuple(operands)
        if name in _EITHER_WAY and operands[0] > operands[1]:
            operands = operands[::-1]
        key = (name, operands, str(params)) if params else (name, operands)
        return self._add(key, name, operands, (primitive, params), dtype)

    def _of(self, primitive, *operands: int, params=()) -> int:
        """Returns an operation with the operands' type, without simplification."""
        return self._plain(primitive.name, primitive, params, operands, self.dtype[operands[0]])

    def _number(self, value, like: int) -> int:
        return self.constant(np.asarray(value, self.dtype[like]))

    @_unspoilt
    def _negative(self, x: int) -> int:
        if self._is(x, "constant"):
            return self.constant(-self.extra[x])
        if self._is(x, "neg"):
            return self.arguments[x][0]
        return self._of(lax.neg_p, x)

    @_unspoilt
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

    @_unspoilt
    def _difference(self, x: int, y: int) -> int:
        a, b = self.value(x), self.value(y)
        if x == y:
            return self.dropped(self._number(0, x), x)
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
        # Both orders share one difference, up to its sign.
        if x > y:
            return self._negative(self._of(lax.sub_p, y, x))
        return self._of(lax.sub_p, x, y)

    @_unspoilt
    def _product(self, x: int, y: int) -> int:
        a, b = self.value(x), self.value(y)
        if a is not None and b is not None:
            return self.constant(a * b)
        if b is not None:
            x, y, a, b = y, x, b, a
        if a is not None:
            if a == 0:
                return self.dropped(self._number(0, y), y)
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

    @_unspoilt
    def _quotient(self, x: int, y: int) -> int:
        b = self.value(y)
        if b is not None and b != 0 and np.isfinite(1 / b):
            return self._product(x, self._number(1 / b, y))
        if self._is(x, "neg"):
            return self._negative(self._quotient(self.arguments[x][0], y))
        if self._is(y, "neg"):
            return self._negative(self._quotient(x, self.arguments[y][0]))
        return self._of(lax.div_p, x, y)

    def _square(self, x: int) -> int:
        return self._product(x, x)

    @_unspoilt
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


#: Rules that also hold for integers and truth values.
_ALL_TYPES = {"select_n", "and", "or"}

#: Commutative operations.
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
    """Disables Python's garbage collection, which would take a third of the time: scalars are many and long-lived."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def evaluated(primitive, params: tuple, known, dtype) -> np.ndarray:
    """Evaluates an operation on known arrays."""
    name = primitive.name
    with np.errstate(all="ignore"):
        if name in _NUMPY:
            return np.asarray(_NUMPY[name](*known), dtype)
        if name == "integer_pow":
            return np.asarray(known[0] ** dict(params)["y"], dtype)
        if name == "select_n":
            return np.asarray(np.choose(np.asarray(known[0], int), known[1:]), dtype)
        if name == "convert_element_type":
            return np.asarray(known[0]).astype(dtype)
    return np.asarray(primitive.bind(*map(jnp.asarray, known), **dict(params)))
