"""Symbolic simplification of a function with known arguments (book §10.4).

JAX traces the function, and its program runs once on names of scalars instead of numbers. Loops are unrolled and arrays are
split into their entries. The result is a list of assignments of scalars: the book's assignment-statement file. Each assignment
is simplified when it is created, so the rules apply exhaustively:

- Constant expressions are evaluated.
- `x + 0`, `x · 1`, `x · 0`, `x / 1`, `x - x` and double negations are simplified, and so are selections between equal values or
  by a known condition.
- Adjacent constants are combined: `c₁ (c₂ x)`, `c₁ + (c₂ + x)`, `c₁ - (c₂ - x)`. Division by a constant becomes multiplication.
- Signs move outwards until a sum absorbs them.
- Equal expressions are computed once.

Dead code is removed. The result is a JAX program of scalars.

`x · 0` stays NaN for an infinite or NaN x: see `expressions`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Literal

from . import indexing as entries
from .expressions import Scalars, evaluated, no_collection
from .jaxprs import of_scan, of_solve


#: Maximum number of iterations of unrolled loops. Longer loops are not simplified.
UNROLLED = 256

#: Element-wise primitives.
_ELEMENTWISE = set(
    "add sub mul div neg add_any max min pow integer_pow square sqrt rsqrt cbrt sin cos tan asin acos atan atan2 sinh cosh "
    "tanh asinh acosh atanh exp exp2 log log1p expm1 logistic erf erfc erf_inv abs sign floor ceil round rem clamp select_n "
    "lt gt le ge eq ne and or xor not is_finite convert_element_type nextafter shift_left shift_right_logical "
    "shift_right_arithmetic real imag".split()
)

#: Primitives that return their operands.
_HANDED_ON = {
    "copy",
    "copy_p",
    "optimization_barrier",
    "stop_gradient",
    "sharding_constraint",
    "mhlo_sharding",
    "name",
}


#: Operations that XLA fuses into one kernel in any number.
_CHEAP = set(
    "add sub mul div neg sqrt max min select_n lt gt le ge eq ne and or xor not abs sign clamp convert_element_type "
    "is_finite square".split()
)


class ScalarProgram:
    """A simplified program of scalars, which is a function of arrays of given shapes.

    The program consists of stages. A stage contains only arithmetic, so that XLA compiles it to one kernel. The values that later
    stages need leave it as one vector. Without stages, XLA would compile a kernel per entry, which repeats shared computations.

    >>> from rbd_jax import compiler
    >>> program = compiler.ScalarProgram(jax.make_jaxpr(lambda x: 2.0 * (3.0 * x) + 0.0 * x)(1.0))
    >>> print(program(jnp.array(2.0)), rbd.count_operations(program, 2.0).total)
    [Array(12., dtype=float64)] 1
    """

    def __init__(self, closed: ClosedJaxpr):
        self._scalars = scalars = Scalars()
        # All values here are constants, and must not become part of a surrounding trace.
        with jax.ensure_compile_time_eval(), no_collection():
            given = [scalars.input(i, aval.shape, aval.dtype) for i, aval in enumerate(closed.in_avals)]
            results = Interpreter(scalars).run(closed, given)
            self._outputs = [scalars.all_settled(x, last=True) for x in results]
        self._dtypes = [aval.dtype for aval in closed.out_avals]
        uses = np.zeros(len(scalars.operation), int)
        for output in self._outputs:
            uses[output.reshape(-1)] += 2
        for node in range(len(uses) - 1, -1, -1):
            if uses[node]:
                for operand in scalars.arguments[node]:
                    uses[operand] += 1
        needed = np.flatnonzero(uses).tolist()
        # If only the negative of a difference is used, the difference is reversed.
        self._operands = {node: scalars.arguments[node] for node in needed}
        self._turned = set()
        for node in needed:
            if scalars.operation[node] == "neg":
                (own,) = scalars.arguments[node]
                if scalars.operation[own] == "sub" and uses[own] == 1:
                    self._turned.add(node)
                    self._operands[node] = scalars.arguments[own][::-1]
                    del self._operands[own]
        self._arrange()

    def _arrange(self) -> None:
        """Assigns the scalars to stages, and determines the values that leave each stage."""
        stage, leaving = {}, set()
        for node, operands in self._operands.items():
            operation = self._scalars.operation[node]
            before = max((stage[x] for x in operands), default=0)
            costly = operation not in _CHEAP and operation not in ("constant", "input", "entry")
            stage[node] = before + costly
            leaving.update(x for x in operands if stage[x] < stage[node])
        self._stages = [[] for _ in range(1 + max(stage.values(), default=0))]
        for node, place in stage.items():
            self._stages[place].append(node)
        given = ("constant", "input", "opaque", "entry")
        self._leaving = [
            [node for node in nodes if node in leaving and self._scalars.operation[node] not in given]
            for nodes in self._stages
        ]

    def __call__(self, *arrays):
        """Returns the results for given arrays, as a list."""
        values: dict[int, Any] = {}
        flat = [jnp.reshape(x, -1) for x in arrays]
        for nodes, leaving in zip(self._stages, self._leaving, strict=True):
            for node in nodes:
                values[node] = self._value(node, values, flat)
            by_type: dict[Any, list[int]] = {}
            for node in leaving:
                by_type.setdefault(self._scalars.dtype[node], []).append(node)
            for own in by_type.values():
                vector = _side_by_side([values[node] for node in own])
                for place, node in enumerate(own):
                    values[node] = lax.index_in_dim(vector, place, keepdims=False)
        return [
            _assembled(output, dtype, self._scalars, values)
            for output, dtype in zip(self._outputs, self._dtypes, strict=True)
        ]

    def _value(self, node: int, values, flat):
        operation, extra = self._scalars.operation[node], self._scalars.extra[node]
        operands = self._operands[node]
        if operation == "constant":
            return extra
        if operation == "input":
            array, place = extra
            return lax.index_in_dim(flat[array], place, keepdims=False)
        if operation == "entry":
            result, place = extra
            return lax.index_in_dim(jnp.reshape(values[operands[0]][result], -1), place, keepdims=False)
        own = [jnp.asarray(values[x]) for x in operands]
        if operation == "opaque":
            primitive, params, shapes, dtypes = extra
            entries, whole = iter(own), []
            for shape, dtype in zip(shapes, dtypes, strict=True):
                parts = [next(entries) for _ in range(int(np.prod(shape)))]
                whole.append(jnp.stack(parts).reshape(shape) if parts else jnp.zeros(shape, dtype))
            results = primitive.bind(*whole, **params)
            return list(results) if primitive.multiple_results else [results]
        if node in self._turned:
            return lax.sub(*own)
        primitive, params = extra
        return primitive.bind(*own, **dict(params))


def _side_by_side(scalars):
    """Returns scalars as a vector, in a form that XLA compiles to one kernel."""
    if len(scalars) == 1:
        return jnp.reshape(scalars[0], 1)
    place = lax.iota(np.int32, len(scalars))
    vector = jnp.broadcast_to(scalars[-1], place.shape)
    for i, scalar in enumerate(scalars[:-1]):
        vector = jnp.where(place == np.int32(i), scalar, vector)
    return vector


def _assembled(output: np.ndarray, dtype, scalars: Scalars, values):
    """Returns an array of scalars, in a form that XLA compiles to one kernel: an array of constants with insertions."""
    nodes = output.reshape(-1)
    if not nodes.size:
        return jnp.zeros(output.shape, dtype)
    known = np.array([scalars.value(node) or 0 for node in nodes.tolist()], dtype)
    vector = jnp.asarray(known)
    for node in dict.fromkeys(nodes.tolist()):
        if scalars.value(node) is None:
            value = jnp.asarray(values[node], dtype)
            where = nodes == node
            vector = jnp.broadcast_to(value, vector.shape) if where.all() else jnp.where(where, value, vector)
    return vector.reshape(output.shape)


class Interpreter:
    """Runs a jaxpr on arrays of scalar indices."""

    def __init__(self, scalars: Scalars):
        self.scalars = scalars

    def run(self, closed: ClosedJaxpr, args) -> list:
        known = dict(zip(closed.jaxpr.constvars, (self.literal(x) for x in closed.consts), strict=True))
        known |= zip(closed.jaxpr.invars, args, strict=True)

        def nodes(atom):
            if not isinstance(atom, Literal):
                return known[atom]
            # Literals are Python numbers; the program determines their data type.
            aval: Any = atom.aval
            return self.literal(np.asarray(atom.val, aval.dtype))

        for equation in closed.jaxpr.eqns:
            results = self.step(equation, [nodes(atom) for atom in equation.invars])
            known |= zip(equation.outvars, results, strict=True)
        return [nodes(atom) for atom in closed.jaxpr.outvars]

    def literal(self, value) -> np.ndarray:
        return self.scalars.constants(value)

    @classmethod
    def does(cls, name: str) -> bool:
        """Returns True if there is a rule for an operation."""
        rule = f"on_{name.replace('-', '_')}"
        return name in _ELEMENTWISE or name in _HANDED_ON or hasattr(cls, rule)

    def step(self, equation, args: list) -> list:
        name, params = equation.primitive.name, equation.params
        if name in _ELEMENTWISE:
            return [self.elementwise(equation, args)]
        if name in _HANDED_ON:
            return args
        rule = getattr(self, f"on_{name.replace('-', '_')}", None)
        if rule is not None:
            results = rule(equation, args)
            if results is not None:
                return results
        for key in ("call_jaxpr", "jaxpr", "fun_jaxpr"):
            if key in params and name not in (
                "scan",
                "while",
            ):  # a function called: jit, remat, custom derivatives
                inner = params[key]
                return self.run(inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ()), args)
        return self.as_it_is(equation, args)

    def as_it_is(self, equation, args) -> list[np.ndarray]:
        """Evaluates an operation with known operands; otherwise keeps it as an opaque operation."""
        avals = [atom.aval for atom in equation.invars]
        values = [self.scalars.values(x, aval.dtype) for x, aval in zip(args, avals, strict=True)]
        if all(x is not None for x in values):
            results = equation.primitive.bind(*map(jnp.asarray, values), **equation.params)
            results = results if equation.primitive.multiple_results else [results]
            return [self.literal(x) for x in results]
        out = [atom.aval for atom in equation.outvars]
        return self.scalars.opaque(equation.primitive, equation.params, args, avals, out)

    def known(self, nodes: np.ndarray, aval) -> np.ndarray | None:
        return self.scalars.values(nodes, aval.dtype)

    # Element-wise operations.

    def elementwise(self, equation, args) -> np.ndarray:
        primitive, params = equation.primitive, equation.params
        aval = equation.outvars[0].aval
        if primitive.name == "convert_element_type" and equation.invars[0].aval.dtype == aval.dtype:
            return args[0]
        fixed = tuple((key, params[key]) for key in sorted(params))
        known = [self.known(x, atom.aval) for x, atom in zip(args, equation.invars, strict=True)]
        if all(x is not None for x in known):
            values = evaluated(primitive, fixed, known, aval.dtype)
            return self.literal(np.broadcast_to(values, aval.shape))
        rows = [np.broadcast_to(x, aval.shape).reshape(-1).tolist() for x in args]
        own = [
            self.scalars.apply(primitive, fixed, operands, aval.dtype) for operands in zip(*rows, strict=True)
        ]
        return np.array(own, np.int64).reshape(aval.shape)

    def combine(self, primitive, x: int, y: int, dtype) -> int:
        return self.scalars.apply(primitive, (), (x, y), dtype)

    def total(self, terms, dtype) -> int:
        """Returns the sum of scalars."""
        terms = list(terms)
        if not terms:
            return self.scalars.constant(np.zeros((), dtype))
        total = terms[0]
        for term in terms[1:]:
            total = self.combine(lax.add_p, total, term, dtype)
        return total

    # Sums and products of arrays.

    def reduced(self, equation, args, primitive, start) -> list[np.ndarray]:
        x, axes = args[0], tuple(equation.params["axes"])
        aval = equation.outvars[0].aval
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        rows = np.transpose(x, [*kept, *axes]).reshape(
            int(np.prod(aval.shape)), int(np.prod([x.shape[axis] for axis in axes]))
        )
        own = []
        for row in rows.tolist():
            total = row[0] if row else self.scalars.constant(np.asarray(start, aval.dtype))
            for term in row[1:]:
                total = self.combine(primitive, total, term, aval.dtype)
            own.append(total)
        return [np.array(own, np.int64).reshape(aval.shape)]

    def on_reduce_sum(self, equation, args):
        return self.reduced(equation, args, lax.add_p, 0)

    def on_reduce_prod(self, equation, args):
        return self.reduced(equation, args, lax.mul_p, 1)

    def on_reduce_and(self, equation, args):
        return self.reduced(equation, args, lax.and_p, True)

    def on_reduce_or(self, equation, args):
        return self.reduced(equation, args, lax.or_p, False)

    def on_reduce_max(self, equation, args):
        return self.reduced(equation, args, lax.max_p, 0) if equation.invars[0].aval.size else None

    def on_reduce_min(self, equation, args):
        return self.reduced(equation, args, lax.min_p, 0) if equation.invars[0].aval.size else None

    def on_argmax(self, equation, args):
        return self.best(equation, args, lax.gt_p)

    def on_argmin(self, equation, args):
        return self.best(equation, args, lax.lt_p)

    def best(self, equation, args, better) -> list[np.ndarray]:
        """Returns the index of the first best entry along an axis. NaN counts as best."""
        dtype, aval = equation.invars[0].aval.dtype, equation.outvars[0].aval
        (axis,) = equation.params["axes"]
        truth = np.dtype(bool)
        is_better = lambda x, y: self.scalars.apply(better, (), (x, y), truth)
        if dtype == bool:
            no = lambda x: self.scalars.apply(lax.not_p, (), (x,), truth)
            pair = (lambda x, y: (x, no(y))) if better is lax.gt_p else (lambda x, y: (no(x), y))
            is_better = lambda x, y: self.scalars.apply(lax.and_p, (), pair(x, y), truth)
        elif dtype.kind == "f":
            is_nan = lambda x: self.scalars.apply(lax.ne_p, (), (x, x), truth)
            is_number = lambda x: self.scalars.apply(lax.eq_p, (), (x, x), truth)
            both = lambda x, y: self.scalars.apply(lax.and_p, (), (x, y), truth)
            either = lambda x, y: self.scalars.apply(lax.or_p, (), (x, y), truth)
            of_numbers = is_better
            is_better = lambda x, y: either(of_numbers(x, y), both(is_nan(x), is_number(y)))
        choose = lambda which, no, yes, kind: self.scalars.apply(lax.select_n_p, (), (which, no, yes), kind)
        own = []
        for row in np.moveaxis(args[0], axis, -1).reshape(-1, args[0].shape[axis]).tolist():
            found, place = row[0], self.scalars.constant(np.zeros((), aval.dtype))
            for number, x in enumerate(row[1:], 1):
                ahead = is_better(x, found)
                found = choose(ahead, found, x, dtype)
                place = choose(
                    ahead, place, self.scalars.constant(np.asarray(number, aval.dtype)), aval.dtype
                )
            own.append(place)
        return [np.array(own, np.int64).reshape(aval.shape)]

    def on_cumsum(self, equation, args):
        x, params, dtype = args[0], equation.params, equation.outvars[0].aval.dtype
        rows = np.moveaxis(x, params["axis"], 0)
        order = range(len(rows) - 1, -1, -1) if params["reverse"] else range(len(rows))
        out, total = np.zeros_like(rows), None
        for index in order:
            if total is None:
                total = rows[index]
            else:
                pairs = zip(total.reshape(-1).tolist(), rows[index].reshape(-1).tolist(), strict=True)
                total = np.array([self.combine(lax.add_p, a, b, dtype) for a, b in pairs], np.int64)
            out[index] = total = total.reshape(rows.shape[1:])
        return [np.moveaxis(out, 0, params["axis"])]

    def on_dot_general(self, equation, args):
        (left, right), (left_batch, right_batch) = equation.params["dimension_numbers"]
        a, b = args
        aval = equation.outvars[0].aval
        if any(atom.aval.dtype != aval.dtype for atom in equation.invars):
            return None
        free_a = [axis for axis in range(a.ndim) if axis not in (*left, *left_batch)]
        free_b = [axis for axis in range(b.ndim) if axis not in (*right, *right_batch)]
        size = lambda x, axes: int(np.prod([x.shape[axis] for axis in axes]))
        batch, inner = size(a, left_batch), size(a, left)
        rows, columns = (batch, size(a, free_a), inner), (batch, size(b, free_b), inner)
        a = np.transpose(a, [*left_batch, *free_a, *left]).reshape(rows)
        b = np.transpose(b, [*right_batch, *free_b, *right]).reshape(columns)
        first, second = (self.scalars.values(x, aval.dtype) for x in (a, b))
        if first is not None and second is not None:
            return [self.literal(np.einsum("bik,bjk->bij", first, second).reshape(aval.shape))]
        a, b = a.tolist(), b.tolist()
        own = [
            self.total((self.combine(lax.mul_p, x, y, aval.dtype) for x, y in zip(row, column)), aval.dtype)
            for rows, columns in zip(a, b)
            for row in rows
            for column in columns
        ]
        return [np.array(own, np.int64).reshape(aval.shape)]

    def scattered(self, equation, args):
        """Returns the target of each update of a scatter with known indices, as 1 plus the flat index, 0 for none; or None."""
        operand, indices, updates = args
        places = self.known(indices, equation.invars[1].aval)
        if places is None or equation.params["mode"] == lax.GatherScatterMode.CLIP:
            return None
        # A gather of the flat indices yields the target of each entry of the updates.
        numbers = np.arange(1, operand.size + 1, dtype=np.int32).reshape(operand.shape)
        dimensions = equation.params["dimension_numbers"]
        gather = lax.GatherDimensionNumbers(
            offset_dims=dimensions.update_window_dims,
            collapsed_slice_dims=dimensions.inserted_window_dims,
            start_index_map=dimensions.scatter_dims_to_operand_dims,
            operand_batching_dims=dimensions.operand_batching_dims,
            start_indices_batching_dims=dimensions.scatter_indices_batching_dims,
        )
        sizes, window = [], iter(updates.shape[axis] for axis in dimensions.update_window_dims)
        for axis in range(operand.ndim):
            missing = axis in (*dimensions.inserted_window_dims, *dimensions.operand_batching_dims)
            sizes.append(1 if missing else next(window))
        return entries.gather(numbers, places, gather, sizes, fill=0)

    def on_scatter_add(self, equation, args):
        at, dtype = self.scattered(equation, args), equation.outvars[0].aval.dtype
        if at is None:
            return None
        out = args[0].copy().reshape(-1)
        for place, update in zip(at.reshape(-1).tolist(), args[2].reshape(-1).tolist(), strict=True):
            if place:
                out[place - 1] = self.combine(lax.add_p, int(out[place - 1]), update, dtype)
        return [out.reshape(args[0].shape)]

    def on_scatter(self, equation, args):
        at = self.scattered(equation, args)
        if at is None:
            return None
        out = args[0].copy().reshape(-1)
        for place, update in zip(at.reshape(-1).tolist(), args[2].reshape(-1).tolist(), strict=True):
            if place:
                out[place - 1] = update
        return [out.reshape(args[0].shape)]

    # Rearranging entries.

    def on_reshape(self, equation, args):
        return (
            [args[0].reshape(equation.outvars[0].aval.shape)]
            if equation.params["dimensions"] is None
            else None
        )

    def on_squeeze(self, equation, args):
        return [args[0].reshape(equation.outvars[0].aval.shape)]

    def on_expand_dims(self, equation, args):
        return [args[0].reshape(equation.outvars[0].aval.shape)]

    def on_transpose(self, equation, args):
        return [np.transpose(args[0], equation.params["permutation"])]

    def on_broadcast_in_dim(self, equation, args):
        if len(args) > 1:
            return None
        shape, axes = equation.outvars[0].aval.shape, equation.params["broadcast_dimensions"]
        wide = [1] * len(shape)
        for axis, size in zip(axes, args[0].shape, strict=True):
            wide[axis] = size
        return [np.broadcast_to(args[0].reshape(wide), shape)]

    def on_slice(self, equation, args):
        params = equation.params
        strides = params["strides"] or (1,) * args[0].ndim
        cuts = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
        return [args[0][tuple(slice(*cut) for cut in cuts)]]

    def on_concatenate(self, equation, args):
        return [np.concatenate(args, axis=equation.params["dimension"])]

    def on_stack(self, equation, args):
        return [np.stack(args, axis=equation.params["axis"])]

    def on_unstack(self, equation, args):
        return list(np.moveaxis(args[0], equation.params["axis"], 0))

    def on_tile(self, equation, args):
        return [np.tile(args[0], equation.params["reps"])]

    def on_rev(self, equation, args):
        return [np.flip(args[0], equation.params["dimensions"])]

    def on_split(self, equation, args):
        sizes, axis = equation.params["sizes"], equation.params["axis"]
        return np.split(args[0], np.cumsum(sizes)[:-1].astype(int), axis=axis)

    def on_pad(self, equation, args):
        return [entries.pad(args[0], int(args[1]), equation.params["padding_config"])]

    def on_gather(self, equation, args):
        places, params = self.known(args[1], equation.invars[1].aval), equation.params
        if places is None:
            return None
        fill = -1 if params["mode"] == lax.GatherScatterMode.FILL_OR_DROP else None
        found = entries.gather(args[0], places, params["dimension_numbers"], params["slice_sizes"], fill)
        if (found < 0).any():  # gathered from outside
            dtype, outside = equation.outvars[0].aval.dtype, params["fill_value"]
            if outside is None:
                outside = np.nan if np.issubdtype(dtype, np.inexact) else np.iinfo(dtype).min
            found = np.where(found < 0, self.scalars.constant(np.asarray(outside, dtype)), found)
        return [found]

    def on_dynamic_slice(self, equation, args):
        starts = self.starts(equation, args, 1)
        if starts is None:
            return None
        return [entries.dynamic_slice(args[0], *starts, sizes=equation.params["slice_sizes"])]

    def on_dynamic_update_slice(self, equation, args):
        starts = self.starts(equation, args, 2)
        return None if starts is None else [entries.dynamic_update_slice(args[0], args[1], *starts)]

    def starts(self, equation, args, first: int) -> list[np.ndarray] | None:
        """Returns the start indices that follow the first arguments, if they are known."""
        atoms = equation.invars[first:]
        places = [self.known(x, atom.aval) for x, atom in zip(args[first:], atoms, strict=True)]
        known = [x for x in places if x is not None]
        return known if len(known) == len(places) else None

    def on_iota(self, equation, args):
        params = equation.params
        if args or params["dimension"] is None:
            return None
        wide = [-1 if axis == params["dimension"] else 1 for axis in range(len(params["shape"]))]
        along = np.arange(params["shape"][params["dimension"]]).astype(params["dtype"])
        return [np.broadcast_to(self.literal(along).reshape(wide), params["shape"])]

    # Control flow and linear solves.

    def on_scan(self, equation, args):
        params = equation.params
        length = params["length"]
        if length > UNROLLED:
            return None
        fixed, carried = of_scan(params)
        consts, carry, rows = args[:fixed], args[fixed : fixed + carried], args[fixed + carried :]
        outputs: dict[int, list[np.ndarray]] = {}
        for index in range(length - 1, -1, -1) if params["reverse"] else range(length):
            given = [
                self.row_of(row, index, var.aval)
                for row, var in zip(rows, equation.invars[fixed + carried :])
            ]
            results = self.run(params["jaxpr"], [*consts, *carry, *given])
            carry, outputs[index] = results[:carried], results[carried:]
        stacked = [
            self.stacked([outputs[i][place] for i in range(length)], aval)
            for place, aval in enumerate(params["jaxpr"].out_avals[carried:])
        ]
        return [*carry, *stacked]

    def on_mapped(self, equation, args):
        program = equation.params["program"]
        shared, rows = args[: program.shared], args[program.shared :]
        types = program.given[program.shared :]
        found = []
        for index in range(equation.invars[program.shared].aval.shape[0]):
            given = [self.row_of(row, index, aval) for row, aval in zip(rows, types, strict=True)]
            found.append(self.run(program.closed, [*shared, *given]))
        return [
            self.summed(list(of_each), aval) if is_sum else self.stacked(list(of_each), aval)
            for of_each, aval, is_sum in zip(
                zip(*found, strict=True), program.results, program.summed, strict=True
            )
        ]

    def summed(self, arrays: list, aval):
        """Returns the sum of arrays of a type."""
        own = [self.total(terms, aval.dtype) for terms in zip(*(x.reshape(-1).tolist() for x in arrays))]
        return np.array(own, np.int64).reshape(aval.shape)

    def row_of(self, x, index: int, aval):
        """Returns row `index` of an array."""
        return np.asarray(x[index])

    def stacked(self, rows: list, aval):
        """Returns arrays of a type as the rows of one."""
        return np.stack(rows) if rows else np.zeros((0, *aval.shape), np.int64)

    def on_while(self, equation, args):
        params = equation.params
        tests, steps = params["cond_nconsts"], params["body_nconsts"]
        test, body, carry = args[:tests], args[tests : tests + steps], args[tests + steps :]
        for _ in range(UNROLLED):
            (goes_on,) = self.run(params["cond_jaxpr"], [*test, *carry])
            known = self.scalars.value(int(goes_on)) if goes_on.ndim == 0 else None
            if (
                known is None
            ):  # the number of iterations depends on the inputs, or differs among the elements of a batch
                return None
            if not known:
                return carry
            carry = self.run(params["body_jaxpr"], [*body, *carry])
        return None

    def on_cond(self, equation, args):
        which, *args = args
        branches = equation.params["branches"]
        chosen = self.scalars.value(int(which))
        if chosen is None:
            return None
        return self.run(branches[int(np.clip(chosen, 0, len(branches) - 1))], args)

    def on_custom_linear_solve(self, equation, args):
        return self.run(equation.params["jaxprs"].solve, of_solve(equation.params, args))
