"""Translation of a program of one sample to scalars and loops of a kernel, and to operations that follow the kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from .compat import place_of
from .expressions import Scalars
from .jaxprs import PROGRAMS, aval_of, entries, of_scan, opened
from .picking import MOST, Picking, Start
from .scalarize import UNROLLED, Interpreter
from .schedule import NoKernel, Piece


#: A loop is not unrolled if it would compute more array entries than ENTRIES. A loop that must be unrolled may have up to
#: MOST_ENTRIES.
ENTRIES, MOST_ENTRIES = 100_000, 400_000


#: Minimum number of array entries at which a branch of `cond` is worth a jump.
LARGE_BRANCH = 300

#: Maximum number of scalars before simplification, each of which takes 4 µs. A larger program has no kernel.
MOST_SCALARS = 4_000_000


class Later:
    """An array that is available only after the kernel."""


@dataclass(eq=False)
class Rows(Later):
    """The stacked outputs of a loop of the kernel.

    - `nodes`: the scalars of one iteration, which are a row.
    - `length`: the number of rows.
    - `dtype`: the data type.
    """

    nodes: np.ndarray
    length: int
    dtype: np.dtype


@dataclass(eq=False)
class Made(Later):
    """The result of an operation that follows the kernel."""


@dataclass(eq=False)
class Loop:
    """A loop of a kernel. Each iteration computes new carried values, and rows.

    - `length`: the number of iterations; None for a `while` loop.
    - `reverse`: True if a scan runs from its last row to its first.
    - `piece`: the scalars of one iteration.
    - `start`: the initial carried values, as scalars of the enclosing program.
    - `carried`: the carried values after an iteration, and `kinds`, their data types.
    - `rows`: the stacked outputs.
    - `outer`: the scalars of the enclosing program that an iteration uses.
    - `begins`, `goes_on`: the condition of a `while` loop before the first iteration, as a scalar of the enclosing program, and
      after each iteration.
    """

    length: int | None
    reverse: bool
    piece: Piece
    start: list[int]
    carried: list[int]
    kinds: list[np.dtype]
    rows: list[Rows]
    outer: list[int]
    begins: int | None = None
    goes_on: int | None = None

    @property
    def given(self) -> tuple[int, ...]:
        """The scalars of the enclosing program that the loop needs."""
        return (*self.start, *self.outer, *(() if self.begins is None else (self.begins,)))

    @property
    def wanted(self) -> list[int]:
        """The scalars of an iteration that are needed after it."""
        return [*self.carried, *(() if self.goes_on is None else (self.goes_on,))]


class KernelScalars(Scalars):
    """Scalars that may be final carried values of loops."""

    def loop(self, loop: Loop) -> list[int]:
        node = self._add(("loop", next(self._count)), "loop", loop.given, loop, np.int64)
        return [self._add(("entry", node, i), "entry", (node,), i, kind) for i, kind in enumerate(loop.kinds)]

    def variable(self, source: tuple, place: int, dtype) -> int:
        """Returns an unknown number, given by its source and its index there.

        Sources are the carried values of the loop, `("carry",)`, scalars of the enclosing program, `("outer",)`, shared
        arguments, `("shared", number)`, and arguments of the sample or tables, `("sample" | "table", number, steps)`. With each
        iteration of an enclosing loop, the index into the latter increases by the loop's step.
        """
        return self._add(("input", source, place), "input", (), (source, place), dtype)

    def array(self, source: tuple, shape, dtype) -> np.ndarray:
        """Returns an unknown array."""
        own = [self.variable(source, place, dtype) for place in range(math.prod(shape))]
        return np.array(own, np.int64).reshape(shape)

    def outside(self, node: int, of: Scalars) -> int:
        """Returns a scalar of the enclosing program."""
        value = of.value(node)
        if value is not None:
            return self.constant(value)
        return self.variable(("outer",), node, of.dtype[node])


class _Unroll(Exception):
    """Raised for a loop that must be unrolled."""


class Fusing(Interpreter):
    """Runs a program on scalars without unrolling long loops.

    - `owner`: the name of the public function, for messages.
    - `tables`: known rows that loops read, shared with the interpreter of the enclosing program.
    - `depth`: the number of enclosing loops; 0 for the complete program.
    - `path`: the current operation, preceded by the operations that contain it.
    - `later`: operations that follow the kernel, with their arguments and results.
    - `loops`: the loops that are not unrolled.
    """

    scalars: KernelScalars

    def __init__(self, owner: str, tables: list[np.ndarray], depth: int = 0):
        super().__init__(KernelScalars())
        self.owner, self.tables, self.depth = owner, tables, depth
        self.later: list[tuple[JaxprEqn, list, list]] = []
        self.loops: list[Loop] = []
        self.path: list[JaxprEqn] = []

    def step(self, equation: JaxprEqn, args: list) -> list:
        self.path.append(equation)
        results = self.stepped(equation, args)
        if len(self.scalars.operation) > MOST_SCALARS:
            raise NoKernel(
                f"{self.owner}: function has more than {MOST_SCALARS:,} scalars at `{equation.primitive.name}`"
                f"{place_of(self.path)}, which takes minutes to compile; leave fused out"
            )
        self.path.pop()
        return results

    def stepped(self, equation: JaxprEqn, args: list) -> list:
        if equation.primitive.name not in PROGRAMS and any(isinstance(x, Later) for x in args):
            args = [x if isinstance(x, Later) else self.scalars.all_settled(x, last=True) for x in args]
            results: list = [Made() for _ in equation.outvars]
            self.later.append((equation, args, results))
            return results
        return super().step(equation, args)

    def row_of(self, x, index: int, aval):
        if not isinstance(x, Later):
            return super().row_of(x, index, aval)
        return self.run(_traced(lambda x: x[index], aval), [x])[0]

    def stacked(self, rows: list, aval):
        if not any(isinstance(row, Later) for row in rows):
            return super().stacked(rows, aval)
        return self.run(_traced(lambda *rows: jnp.stack(rows), *[aval] * len(rows)), rows)[0]

    def as_it_is(self, equation: JaxprEqn, args: list) -> list:
        if self.all_known(equation, args):
            return super().as_it_is(equation, args)
        raise NoKernel(
            f"{self.owner}: function uses `{equation.primitive.name}`{place_of(self.path)} in a way that depends on the sample, "
            "which a fused kernel does not support; leave fused out"
        )

    def all_known(self, equation: JaxprEqn, args: list) -> bool:
        return all(
            self.known(x, aval_of(atom)) is not None for x, atom in zip(args, equation.invars, strict=True)
        )

    def on_cond(self, equation: JaxprEqn, args: list) -> list:
        """Evaluates all small branches and selects among them. A large branch is skipped unless a lane takes it."""
        found = super().on_cond(equation, args)
        if found is not None:
            return found
        which, branches = int(args[0]), equation.params["branches"]
        if max(entries(opened(branch)[0]) for branch in branches) >= LARGE_BRANCH:
            return self.branched(which, aval_of(equation.invars[0]).dtype, branches, args[1:])
        cases = [self.run(branch, args[1:]) for branch in branches]
        return [
            self.picking.case(which, aval_of(equation.invars[0]).dtype, of_each, aval_of(var).dtype)
            for of_each, var in zip(zip(*cases, strict=True), equation.outvars, strict=True)
        ]

    def branched(self, which: int, kind, branches: Sequence[ClosedJaxpr], args: list) -> list:
        """Returns the results of one of several branches.

        Each branch is a loop of one iteration, or of none, that carries the results. The first branch whose results are known
        needs no loop: its results are the initial values of the others.
        """
        args = [self.scalars.all_settled(x) for x in args]
        avals = branches[0].out_avals
        found, apart = self.known_case(branches, args)
        changes = [False] * len(avals)
        for number, branch in enumerate(branches):
            if number == apart:
                continue
            taken = self.picking.is_case(which, kind, number, len(branches))
            inner, outside = self.inside()
            _, start, kinds = self.carry(inner, outside, changes, found, avals)
            results = [inner.scalars.all_settled(x) for x in inner.run(branch, list(map(outside, args)))]
            ended = inner.scalars.constant(np.asarray(False))
            carried = flat(results)
            piece = Piece(inner.scalars, [*carried, ended])
            loop = Loop(None, False, piece, start, carried, kinds, [], piece.outer(), taken, ended)
            found = self.ends(loop, changes, found)
        return found

    def known_case(self, branches: Sequence[ClosedJaxpr], args: list) -> tuple[list, int | None]:
        """Returns the known results of a small branch and its number, or zeros and None if no such branch exists."""
        avals = branches[0].out_avals
        for number, branch in enumerate(branches):
            if entries(opened(branch)[0]) >= LARGE_BRANCH:
                continue
            inner, outside = self.inside()
            results = inner.run(branch, list(map(outside, args)))
            known = [inner.scalars.values(x, aval.dtype) for x, aval in zip(results, avals, strict=True)]
            if all(x is not None for x in known):
                return [self.scalars.constants(x) for x in known], number
        return [np.full(x.shape, self.scalars.constant(np.zeros((), x.dtype)), np.int64) for x in avals], None

    # Indices that depend on the sample.

    def on_dynamic_slice(self, equation: JaxprEqn, args: list) -> list | None:
        found = super().on_dynamic_slice(equation, args)
        if found is not None:
            return found
        starts, sizes = self.window_starts(equation, args, 1), equation.params["slice_sizes"]
        self.check_places(equation, args[0].shape, sizes, [starts])
        return [self.picking.read(args[0], starts, sizes, aval_of(equation.invars[0]).dtype)]

    def on_dynamic_update_slice(self, equation: JaxprEqn, args: list) -> list | None:
        found = super().on_dynamic_update_slice(equation, args)
        if found is not None:
            return found
        starts = self.window_starts(equation, args, 2)
        self.check_places(equation, args[0].shape, args[1].shape, [starts])
        dtype = aval_of(equation.invars[0]).dtype
        return [self.picking.write(args[0], args[1], starts, dtype, inside=True)]

    def window_starts(self, equation: JaxprEqn, args: list, first: int) -> list[Start]:
        """Returns the start index of a window along each axis."""
        atoms = equation.invars[first:]
        return [self.start(int(x), aval_of(atom).dtype) for x, atom in zip(args[first:], atoms, strict=True)]

    def start(self, node: int, dtype) -> Start:
        known = self.scalars.value(node)
        return (node, np.dtype(dtype)) if known is None else int(known)

    def on_gather(self, equation: JaxprEqn, args: list) -> list | None:
        found = super().on_gather(equation, args)
        if found is not None:
            return found
        (x, places), params = args, equation.params
        dimensions, sizes = params["dimension_numbers"], params["slice_sizes"]
        x_aval, places_aval = map(aval_of, equation.invars)
        batched = zip(dimensions.operand_batching_dims, dimensions.start_indices_batching_dims, strict=True)
        starts = self.windows(places, places_aval.dtype, x.ndim, dimensions.start_index_map, list(batched))
        self.check_places(equation, x.shape, sizes, starts.values())
        fills = params["mode"] == lax.GatherScatterMode.FILL_OR_DROP
        fill = params["fill_value"]
        if fill is None:
            fill = np.nan if np.issubdtype(x_aval.dtype, np.inexact) else np.iinfo(x_aval.dtype).min
        fill = self.scalars.constant(np.asarray(fill, x_aval.dtype)) if fills else 0
        last = [n - size for n, size in zip(x.shape, sizes, strict=True)]
        kept = {*dimensions.collapsed_slice_dims, *dimensions.operand_batching_dims}
        window = tuple(size for axis, size in enumerate(sizes) if axis not in kept)
        found = np.empty(places.shape[:-1] + window, np.int64)
        for at, own in starts.items():
            picked = self.picking.read(x, own, sizes, x_aval.dtype)
            outside = self.picking.outside(own, last) if fills else False
            if outside is True:
                picked = np.full_like(picked, fill)
            elif outside is not False:
                picked = self.picking.selected(outside, picked, np.full_like(picked, fill), x_aval.dtype)
            found[at] = picked.reshape(window)
        batch = places.ndim - 1
        return [np.moveaxis(found, range(batch, found.ndim), dimensions.offset_dims)]

    def on_scatter(self, equation: JaxprEqn, args: list) -> list | None:
        found = super().on_scatter(equation, args)
        return self.scattered_by_sample(equation, args, None) if found is None else found

    def on_scatter_add(self, equation: JaxprEqn, args: list) -> list | None:
        found = super().on_scatter_add(equation, args)
        dtype = aval_of(equation.outvars[0]).dtype
        add = lambda a, b: self.combine(lax.add_p, a, b, dtype)
        return self.scattered_by_sample(equation, args, add) if found is None else found

    def scattered_by_sample(self, equation: JaxprEqn, args: list, combine: Callable | None) -> list:
        (x, places, updates), params = args, equation.params
        dimensions, dtype = params["dimension_numbers"], aval_of(equation.invars[0]).dtype
        batched = list(
            zip(dimensions.operand_batching_dims, dimensions.scatter_indices_batching_dims, strict=True)
        )
        along = dimensions.scatter_dims_to_operand_dims
        starts = self.windows(places, aval_of(equation.invars[1]).dtype, x.ndim, along, batched)
        single = (*dimensions.inserted_window_dims, *dimensions.operand_batching_dims)
        window = dimensions.update_window_dims
        updates = np.moveaxis(updates, window, range(updates.ndim - len(window), updates.ndim))
        given = iter(updates.shape[updates.ndim - len(window) :])
        shape = tuple(1 if axis in single else next(given) for axis in range(x.ndim))
        self.check_places(equation, x.shape, shape, starts.values())
        inside = params["mode"] == lax.GatherScatterMode.CLIP
        for at, own in starts.items():
            x = self.picking.write(x, updates[at].reshape(shape), own, dtype, inside, combine)
        return [x]

    def windows(
        self, places: np.ndarray, dtype, axes: int, order: Iterable, batched: list
    ) -> dict[tuple, list[Start]]:
        """Returns the start indices of windows along each axis of an array, for each row of `places`.

        Args:
          places: The indices.
          dtype: Their data type.
          axes: The number of axes of the array.
          order: The axis of each entry of a row.
          batched: Pairs of a batch axis of the array and the axis of `places` that it corresponds to.
        """
        found = {}
        for at in np.ndindex(places.shape[:-1]):
            own: list[Start] = [0] * axes
            for axis, node in zip(map(int, order), places[at].tolist(), strict=True):
                own[axis] = self.start(node, dtype)
            for axis, along in batched:
                own[axis] = at[along]
            found[at] = own
        return found

    def check_places(self, equation: JaxprEqn, shape, sizes, starts: Iterable[Sequence[Start]]) -> None:
        """Raises `NoKernel` if the selections would be more than `MOST`."""
        free = [n - size + 1 for n, size in zip(shape, sizes, strict=True)]
        count = lambda own: math.prod(
            n for n, start in zip(free, own, strict=True) if not isinstance(start, int)
        )
        if sum(map(count, starts)) * math.prod(sizes) > MOST:
            raise NoKernel(
                f"{self.owner}: function uses `{equation.primitive.name}`{place_of(self.path)} at indices that depend on the "
                "sample, with too many candidates for a fused kernel; leave fused out"
            )

    @property
    def picking(self) -> Picking:
        return Picking(self.scalars)

    def on_while(self, equation: JaxprEqn, args: list) -> list | None:
        """Unrolls a loop whose condition is known. In other loops, each sample iterates while its own condition holds."""
        found = super().on_while(equation, args)
        if found is not None:
            return found
        if self.all_known(equation, args):
            return self.as_it_is(equation, args)
        params = equation.params
        tests, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        args = [self.scalars.all_settled(x) for x in args]
        test, fixed, carry = args[:tests], args[tests:last], args[last:]
        begins = self.in_some(self.run(params["cond_jaxpr"], [*test, *carry])[0])
        passed = passed_on(opened(params["body_jaxpr"])[0])
        same = [origin == len(fixed) + place for place, origin in enumerate(passed)]
        inner, outside = self.inside()
        own, start, kinds = self.carry(inner, outside, same, carry, params["body_jaxpr"].out_avals)
        results = inner.run(params["body_jaxpr"], [*map(outside, fixed), *own])
        # A loop over a batch within the sample has a condition for each element, and finished elements keep their values.
        if params["cond_jaxpr"].out_avals[0].ndim:
            (each,) = inner.run(params["cond_jaxpr"], [*map(outside, test), *own])
            avals = params["body_jaxpr"].out_avals
            results = [
                inner.chosen_by_each(each, a, b, aval.dtype)
                for a, b, aval in zip(own, results, avals, strict=True)
            ]
        results = [inner.scalars.all_settled(x) for x in results]
        goes_on = inner.in_some(inner.run(params["cond_jaxpr"], [*map(outside, test), *results])[0])
        carried = flat(x for is_same, x in zip(same, results, strict=True) if not is_same)
        piece = Piece(inner.scalars, [*carried, goes_on])
        loop = Loop(None, False, piece, start, carried, kinds, [], piece.outer(), begins, goes_on)
        return self.ends(loop, same, carry)

    def in_some(self, truths: np.ndarray) -> int:
        """Returns the logical or of truth values."""
        first, *others = truths.reshape(-1).tolist()
        for other in others:
            first = self.scalars.apply(lax.or_p, (), (first, other), bool)
        return first

    def chosen_by_each(self, truths: np.ndarray, no: np.ndarray, yes: np.ndarray, dtype) -> np.ndarray:
        """Returns `jnp.where(truths, yes, no)`, with `truths` along the leading axes."""
        shape = truths.shape + (1,) * (yes.ndim - truths.ndim)
        which = np.broadcast_to(truths.reshape(shape), yes.shape)
        own = [
            self.scalars.apply(lax.select_n_p, (), (int(is_true), a, b), dtype)
            for is_true, a, b in zip(
                which.reshape(-1), no.reshape(-1).tolist(), yes.reshape(-1).tolist(), strict=True
            )
        ]
        return np.array(own, np.int64).reshape(yes.shape)

    def on_scan(self, equation: JaxprEqn, args: list) -> list:
        params = equation.params
        length, body = params["length"], opened(params["jaxpr"])[0]
        if stays(equation):
            if self.all_known(equation, args):
                return self.as_it_is(equation, args)
            try:
                return self.kept(params, args)
            except _Unroll as reason:
                if length > UNROLLED or length * entries(body) > MOST_ENTRIES:
                    raise NoKernel(
                        f"{self.owner}: function has a loop of {length} iterations with {reason}, which a fused kernel does not "
                        "support; leave fused out"
                    ) from None
        found = super().on_scan(equation, args)
        assert found is not None
        return found

    def kept(self, params: dict, args: list) -> list:
        """Returns the results of a scan that is not unrolled."""
        closed, length = params["jaxpr"], params["length"]
        fixed, carried = of_scan(params)
        args = [self.scalars.all_settled(x) for x in args]
        last = fixed + carried
        if len(closed.out_avals) > carried and self.depth:
            raise _Unroll("rows of a loop in another loop")
        rows = [self.row(x, aval) for x, aval in zip(args[last:], closed.in_avals[last:], strict=True)]
        inner, outside = self.inside()
        of_round = inner.scalars
        passed = passed_on(opened(closed)[0])[:carried]
        same = [origin == fixed + place for place, origin in enumerate(passed)]
        own, start, kinds = self.carry(inner, outside, same, args[fixed:last], closed.in_avals[fixed:last])
        given = [*map(outside, args[:fixed]), *own, *(row(of_round) for row in rows)]
        try:
            results = [of_round.all_settled(x) for x in inner.run(closed, given)]
        except NoKernel as error:
            if length > UNROLLED:
                raise
            raise _Unroll(str(error)) from None
        carried = flat(x for is_same, x in zip(same, results[: len(same)], strict=True) if not is_same)
        returned = [
            Rows(x, length, aval.dtype) if x.size else np.zeros((length, *x.shape), np.int64)
            for x, aval in zip(results[len(same) :], closed.out_avals[len(same) :], strict=True)
        ]
        found = [x for x in returned if isinstance(x, Rows)]
        piece = Piece(of_round, [*carried, *flat(x.nodes for x in found)])
        loop = Loop(length, params["reverse"], piece, start, carried, kinds, found, piece.outer())
        return [*self.ends(loop, same, args[fixed:last]), *returned]

    def inside(self) -> tuple[Fusing, Callable[[np.ndarray], np.ndarray]]:
        """Returns an interpreter for the body of a loop, and a function that imports arrays of the enclosing program."""
        inner = Fusing(self.owner, self.tables, self.depth + 1)
        inner.path = self.path.copy()
        outside = np.vectorize(lambda node: inner.scalars.outside(node, self.scalars), otypes=[np.int64])
        return inner, lambda nodes: outside(nodes) if nodes.size else nodes

    def carry(
        self, inner: Fusing, outside: Callable, same: Sequence[bool], args: list, avals: Sequence
    ) -> tuple:
        """Returns the carried values of an iteration, their initial scalars, and the types of these.

        Args:
          inner: The interpreter of the body.
          outside: Imports arrays of the enclosing program.
          same: Which carried values the iterations do not change. These need not be carried.
          args: The initial values.
          avals: Their shapes and types.
        """
        given, start, kinds = [], [], []
        for is_same, x, aval in zip(same, args, avals, strict=True):
            if is_same:
                given.append(outside(x))
                continue
            numbers = range(len(start), len(start) + x.size)
            own = [inner.scalars.variable(("carry",), number, aval.dtype) for number in numbers]
            given.append(np.array(own, np.int64).reshape(x.shape))
            start += x.reshape(-1).tolist()
            kinds += [np.dtype(aval.dtype)] * x.size
        return given, start, kinds

    def ends(self, loop: Loop, same: Sequence[bool], args: list) -> list:
        """Adds a loop to the program and returns the final carried values."""
        ends = iter(self.scalars.loop(loop))
        self.loops.append(loop)
        return [
            x if is_same else np.array([next(ends) for _ in range(x.size)], np.int64).reshape(x.shape)
            for is_same, x in zip(same, args, strict=True)
        ]

    def row(self, nodes: np.ndarray, aval) -> Callable[[KernelScalars], np.ndarray]:
        """Returns a function that reads the current row in an iteration.

        A row is part of an argument, part of a table of known numbers, or the same in each iteration.
        """
        flat = nodes.reshape(len(nodes), -1)
        known = self.scalars.values(flat, aval.dtype)
        if known is not None:
            source = ("table", len(self.tables), (0,) * self.depth + (flat.shape[1],))
            self.tables.append(known.reshape(-1))
            return lambda scalars: scalars.array(source, aval.shape, aval.dtype)
        own = [self.entry(column, aval.dtype) for column in flat.T.tolist()]
        return lambda scalars: np.array([entry(scalars) for entry in own], np.int64).reshape(aval.shape)

    def entry(self, column: list[int], dtype) -> Callable[[KernelScalars], int]:
        """Returns a function that reads one entry of a row; `column` contains its scalars of all iterations."""
        if len(set(column)) == 1:
            return lambda scalars: scalars.outside(column[0], self.scalars)
        if any(self.scalars.operation[node] != "input" for node in column):
            raise _Unroll("rows that are computed instead of given")
        sources = {self.scalars.extra[node][0] for node in column}
        places = np.array([self.scalars.extra[node][1] for node in column])
        steps = set(np.diff(places).tolist())
        (source, *others) = sources
        if others or len(steps) > 1 or source[0] not in ("sample", "table"):
            raise _Unroll("rows that do not belong to one argument")
        kind, number, before = source
        return lambda scalars: scalars.variable((kind, number, (*before, *steps)), int(places[0]), dtype)


def _traced(function: Callable, *avals) -> ClosedJaxpr:
    return jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in avals))


def flat(arrays: Iterable[np.ndarray]) -> list[int]:
    """Returns the scalars of all arrays in one list."""
    return [node for x in arrays for node in x.reshape(-1).tolist()]


def stays(equation: JaxprEqn) -> bool:
    """Returns True if a scan should not be unrolled."""
    length, body = equation.params["length"], opened(equation.params["jaxpr"])[0]
    return length > UNROLLED or (length > 1 and length * entries(body) > ENTRIES)


def passed_on(jaxpr: Jaxpr) -> list[int | None]:
    """Returns the index of the argument that each result of a program is unchanged from; None for other results."""
    known = {var: place for place, var in enumerate(jaxpr.invars)}
    read = lambda atom: None if isinstance(atom, Literal) else known.get(atom)
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name in PROGRAMS:
            origins = passed_on(opened(equation.params[PROGRAMS[name]])[0])
            for var, origin in zip(equation.outvars, origins, strict=True):
                place = None if origin is None else read(equation.invars[origin])
                if place is not None:
                    known[var] = place
    return [read(atom) for atom in jaxpr.outvars]
