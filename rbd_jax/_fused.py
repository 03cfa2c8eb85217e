"""A function of one sample as one kernel of a GPU: every thread has a sample, and what it computes stays on the chip.

The program of one sample is taken apart into scalars, as `rbd_jax._simplify` does: arrays fall apart, short loops unroll, what
is known folds. In the kernel each scalar is a vector of as many samples as a block has threads, one number in each. Arithmetic
is written as instructions (`rbd_jax._instructions`); sines and the like, loads and stores are Pallas's.

Long loops stay loops: what they carry are vectors, a row that they are given is read from memory in its round, and a row that
they return is written in it. Rows are too many to be kept on chip, so what is made of them is made after the kernel, mapped by
`jax.vmap`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import core, lax
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from ._instructions import Arithmetic, instruction, run
from ._lanes import PROGRAMS, opened
from ._rules import custom_jvp
from ._simplify import UNROLLED, Interpreter, Scalars


#: Samples of a block: the threads of a warp. Kernels that need all registers are given more of them by more blocks.
BLOCK = 32

#: A loop stays a loop if unrolled it would work on more entries of arrays than these.
ENTRIES = 100_000


def mapped(owner: str, function: Callable[[Any], Any], batched: Any, interpret: bool = False) -> Any:
    """`function` of one sample, a PyTree of arrays, of each sample along axis 0: as one kernel.

    What is used from around it is known, and folds into the kernel, or traced, and is read by it. The derivative is that of
    `jax.vmap`. With `interpret` the kernel is run step by step by XLA, on any device.
    """
    leaves, structure = jax.tree.flatten(batched)
    of_one = lambda *rows: function(jax.tree.unflatten(structure, rows))
    one = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in leaves]
    closed, found = jax.make_jaxpr(of_one, return_shape=True)(*one)
    shared = [x for x in closed.consts if isinstance(x, core.Tracer)]
    results = _run(_Program(owner, closed), interpret, shared, leaves)
    return jax.tree.unflatten(jax.tree.structure(found), results)


class _Program:
    """A function of one sample: its operations, and of the constants that it has from around it those that are known."""

    def __init__(self, owner: str, closed: ClosedJaxpr):
        self.owner, self.jaxpr = owner, closed.jaxpr
        self.known = [None if isinstance(x, core.Tracer) else x for x in closed.consts]

    def consts(self, shared: Sequence) -> list:
        traced = iter(shared)
        return [next(traced) if x is None else x for x in self.known]


@functools.partial(custom_jvp, nondiff_argnums=(0, 1))
def _run(program: _Program, interpret: bool, shared: list, samples: list) -> list:
    # Not as part of whatever is being traced at the moment: all of this is about constants.
    with jax.ensure_compile_time_eval():
        kernel = Kernel(program.owner, program.jaxpr, program.known)
    return kernel(shared, samples, interpret)


def _one_by_one(program: _Program, shared: list, samples: list) -> list:
    consts = program.consts(shared)
    return jax.vmap(lambda *rows: core.eval_jaxpr(program.jaxpr, consts, *rows))(*samples)


@functools.partial(_run.defjvp, symbolic_zeros=True)
def _derivative(program: _Program, interpret: bool, primals, tangents):
    """The derivative of the same program by what changes, mapped by JAX."""
    count = len(primals[0])
    given, changes = [*primals[0], *primals[1]], [*tangents[0], *tangents[1]]
    moving = [not isinstance(change, SymbolicZero) for change in changes]

    def results(*moved):
        moved = iter(moved)
        values = [next(moved) if moves else x for moves, x in zip(moving, given, strict=True)]
        return _one_by_one(program, values[:count], values[count:])

    pick = lambda values: [x for x, moves in zip(values, moving, strict=True) if moves]
    return jax.jvp(results, pick(given), pick(changes))


# From the program of one sample to scalars.


class _Later:
    """An array that is there only after the kernel."""


@dataclass(eq=False)
class _Rows(_Later):
    """What a loop of the kernel returns row by row.

    - `nodes`: a row, of the scalars of a round.
    """

    nodes: np.ndarray
    length: int
    dtype: np.dtype


@dataclass(eq=False)
class _Made(_Later):
    """What an operation after the kernel makes."""


@dataclass(eq=False)
class _Loop:
    """A loop that stays: each round works out from what is carried what is carried on, and rows.

    - `start`: the scalars outside of it that it begins with; `carried` those of a round, and `kinds` their types.
    - `outer`: what a round uses of the scalars outside.
    """

    length: int
    reverse: bool
    piece: Piece
    start: list[int]
    carried: list[int]
    kinds: list[np.dtype]
    rows: list[_Rows]
    outer: list[int]


class KernelScalars(Scalars):
    """Scalars, of which some are what a loop ends with."""

    def loop(self, loop: _Loop) -> list[int]:
        node = self._add(("loop", next(self._count)), "loop", (*loop.start, *loop.outer), loop, np.int64)
        return [self._add(("entry", node, i), "entry", (node,), i, kind) for i, kind in enumerate(loop.kinds)]

    def variable(self, source: tuple, place: int, dtype) -> int:
        """A number that is not known: where it comes from, and its place there."""
        return self._add(("input", source, place), "input", (), (source, place), dtype)

    def array(self, source: tuple, shape, dtype) -> np.ndarray:
        """An array that is not known."""
        own = [self.variable(source, place, dtype) for place in range(math.prod(shape))]
        return np.array(own, np.int64).reshape(shape)

    def outside(self, node: int, of: Scalars) -> int:
        """A scalar of the program around this one."""
        value = of.value(node)
        if value is not None:
            return self.constant(value)
        return self.variable(("outer",), node, of.dtype[node])


class _Unroll(Exception):
    """A loop that cannot stay one."""


class _Fusing(Interpreter):
    """Runs a program on scalars, with long loops as loops.

    - `tables`: known rows that loops are given, shared with what runs the program around it.
    - `top`: whether this is the whole program, and not a round of a loop.
    - `later`: operations on what is there only after the kernel, with their arguments and results. `loops`: those that stay.
    """

    scalars: KernelScalars

    def __init__(self, owner: str, tables: list[np.ndarray], top: bool):
        super().__init__(KernelScalars())
        self.owner, self.tables, self.top = owner, tables, top
        self.later: list[tuple[JaxprEqn, list, list]] = []
        self.loops: list[_Loop] = []

    def step(self, equation: JaxprEqn, args: list) -> list:
        if any(isinstance(x, _Later) for x in args):
            results: list = [_Made() for _ in equation.outvars]
            self.later.append((equation, args, results))
            return results
        return super().step(equation, args)

    def as_it_is(self, equation: JaxprEqn, args: list) -> list:
        if all(self.known(x, _aval(atom)) is not None for x, atom in zip(args, equation.invars, strict=True)):
            return super().as_it_is(equation, args)
        raise ValueError(
            f"{self.owner}: function does `{equation.primitive.name}` in a way that depends on the sample, which a fused kernel "
            "cannot; leave fused out"
        )

    def on_cond(self, equation: JaxprEqn, args: list) -> list:
        """All branches, and of their results those of the one that is taken."""
        found = super().on_cond(equation, args)
        if found is not None:
            return found
        which, branches = int(args[0]), equation.params["branches"]
        cases = [self.run(branch, args[1:]) for branch in branches]
        return [
            self.chosen(which, _aval(equation.invars[0]).dtype, of_each, _aval(var).dtype)
            for of_each, var in zip(zip(*cases, strict=True), equation.outvars, strict=True)
        ]

    def chosen(self, which: int, kind, cases: Sequence[np.ndarray], dtype) -> np.ndarray:
        """Arrays of which the sample takes one, by number; the last one from its number on."""
        scalars, chosen = self.scalars, cases[0]
        for number, case in enumerate(cases[1:], 1):
            if kind == bool:
                beyond = which
            else:
                beyond = scalars.apply(
                    lax.ge_p, (), (which, scalars.constant(np.asarray(number, kind))), bool
                )
            pairs = zip(chosen.reshape(-1).tolist(), case.reshape(-1).tolist(), strict=True)
            own = [scalars.apply(lax.select_n_p, (), (beyond, a, b), dtype) for a, b in pairs]
            chosen = np.array(own, np.int64).reshape(case.shape)
        return chosen

    def on_while(self, equation: JaxprEqn, args: list) -> list | None:
        found = super().on_while(equation, args)
        return self.as_it_is(equation, args) if found is None else found

    def on_scan(self, equation: JaxprEqn, args: list) -> list:
        params = equation.params
        length, body = params["length"], opened(params["jaxpr"])[0]
        if length > UNROLLED or length * entries(body) > ENTRIES:
            try:
                return self.kept(params, args)
            except _Unroll as reason:
                if length > UNROLLED:
                    raise ValueError(
                        f"{self.owner}: function has a loop of {length} rounds with {reason}, which a fused kernel cannot; leave "
                        "fused out"
                    ) from None
        found = super().on_scan(equation, args)
        assert found is not None
        return found

    def kept(self, params: dict, args: list) -> list:
        """A loop that stays one."""
        closed, length = params["jaxpr"], params["length"]
        fixed, last = params["num_consts"], params["num_consts"] + params["num_carry"]
        if len(closed.out_avals) > params["num_carry"] and not self.top:
            raise _Unroll("rows of a loop in another loop")
        rows = [self.row(x, aval) for x, aval in zip(args[last:], closed.in_avals[last:], strict=True)]
        inner = _Fusing(self.owner, self.tables, top=False)
        of_round = inner.scalars
        outside = np.vectorize(lambda node: of_round.outside(node, self.scalars), otypes=[np.int64])
        array = lambda nodes: outside(nodes) if nodes.size else nodes
        # What a round hands on as it is, is known if it was at the start.
        passed = passed_on(opened(closed)[0])[: params["num_carry"]]
        same = [origin == fixed + place for place, origin in enumerate(passed)]
        given, start, kinds = [array(x) for x in args[:fixed]], [], []
        for is_same, x, aval in zip(same, args[fixed:last], closed.in_avals[fixed:last], strict=True):
            if is_same:
                given.append(array(x))
                continue
            numbers = range(len(start), len(start) + x.size)
            own = [of_round.variable(("carry",), number, aval.dtype) for number in numbers]
            given.append(np.array(own, np.int64).reshape(x.shape))
            start += x.reshape(-1).tolist()
            kinds += [np.dtype(aval.dtype)] * x.size
        given += [row(of_round) for row in rows]
        try:
            results = inner.run(closed, given)
        except ValueError as error:
            if length > UNROLLED:
                raise
            raise _Unroll(str(error)) from None
        carried = [
            node
            for is_same, x in zip(same, results[: len(same)], strict=True)
            if not is_same
            for node in x.reshape(-1).tolist()
        ]
        returned = [
            _Rows(x, length, aval.dtype) if x.size else np.zeros((length, *x.shape), np.int64)
            for x, aval in zip(results[len(same) :], closed.out_avals[len(same) :], strict=True)
        ]
        found = [x for x in returned if isinstance(x, _Rows)]
        piece = Piece(of_round, carried, placed([x.nodes for x in found]))
        loop = _Loop(length, params["reverse"], piece, start, carried, kinds, found, piece.outer())
        ends = iter(self.scalars.loop(loop))
        self.loops.append(loop)
        carry = [
            x if is_same else np.array([next(ends) for _ in range(x.size)], np.int64).reshape(x.shape)
            for is_same, x in zip(same, args[fixed:last], strict=True)
        ]
        return [*carry, *returned]

    def row(self, nodes: np.ndarray, aval) -> Callable[[KernelScalars], np.ndarray]:
        """What a round reads of these rows: out of an argument, or out of a table of what is known."""
        flat = nodes.reshape(len(nodes), -1)
        known = self.scalars.values(flat, aval.dtype)
        if known is not None:
            source = ("table", len(self.tables))
            self.tables.append(known)
            return lambda scalars: scalars.array(source, aval.shape, aval.dtype)
        if any(self.scalars.operation[node] != "input" for node in flat.reshape(-1).tolist()):
            raise _Unroll("rows that are computed, and not given")
        own = []
        for column in flat.T.tolist():
            sources = {self.scalars.extra[node][0] for node in column}
            places = np.array([self.scalars.extra[node][1] for node in column])
            steps = set(np.diff(places).tolist())
            (source, *others) = sources
            if others or len(steps) > 1 or source[0] != "sample":
                raise _Unroll("rows that are not those of one argument")
            own.append((("row", source[1], steps.pop() if steps else 0), int(places[0])))
        return lambda scalars: np.array(
            [scalars.variable(source, place, aval.dtype) for source, place in own], np.int64
        ).reshape(aval.shape)


def entries(jaxpr: Jaxpr) -> int:
    """How many entries the arrays have that a program makes, loops unrolled."""
    total = 0
    for equation in jaxpr.eqns:
        params = equation.params
        inner = [
            x for value in params.values() for x in (value if isinstance(value, tuple | list) else [value])
        ]
        inner = [opened(x)[0] for x in inner if isinstance(x, Jaxpr | ClosedJaxpr)]
        own = sum(math.prod(_aval(var).shape) for var in equation.outvars)
        total += sum(map(entries, inner)) * params.get("length", 1) if inner else own
    return total


def depth_first(arguments: Sequence[tuple[int, ...]], wanted: Sequence[int]) -> list[int]:
    """Scalars in an order in which they can be computed: before each what it needs that is not there yet, and no sooner."""
    order: dict[int, None] = {}
    for root in wanted:
        waiting = [(root, iter(arguments[root]))]
        while waiting:
            node, rest = waiting[-1]
            operand = next((x for x in rest if x not in order), None)
            if operand is None:
                order[node] = None
                waiting.pop()
            else:
                waiting.append((operand, iter(arguments[operand])))
    return list(order)


def placed(arrays: Sequence[np.ndarray]) -> list[tuple[int, int, int]]:
    """Each entry of some arrays: which array, its place there, and the scalar."""
    return [
        (number, place, node)
        for number, nodes in enumerate(arrays)
        for place, node in enumerate(nodes.reshape(-1).tolist())
    ]


def passed_on(jaxpr: Jaxpr) -> list[int | None]:
    """Which argument of a program each of its results is, as it was; None if it is another."""
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


def _aval(atom) -> Any:
    """The shape and the type of a value."""
    return atom.aval


# The kernel.


class _Level(NamedTuple):
    """Scalars that are not arithmetic, and then some that are."""

    others: list[int]
    instructions: Arithmetic


class Piece:
    """Scalars that are worked out one after the other: of the whole kernel, or of a round of a loop.

    They come in levels, each of what is not arithmetic and then of arithmetic, which needs nothing that comes after it.

    - `wanted`: those that are asked for.
    - `stored`: those that are written to memory: `(array, place, scalar)`.
    """

    def __init__(self, scalars: Scalars, wanted: Sequence[int], stored: Sequence[tuple[int, int, int]]):
        self.scalars, self.wanted, self.stored = scalars, list(wanted), list(stored)
        needed = np.zeros(len(scalars.operation), bool)
        needed[self.wanted + [node for *_, node in stored]] = True
        for node in range(len(needed) - 1, -1, -1):
            if needed[node] or self._writes(node):
                needed[node] = True
                needed[list(scalars.arguments[node])] = True
        self.nodes = np.flatnonzero(needed).tolist()
        self.levels = self._in_levels()

    def _writes(self, node: int) -> bool:
        return self.scalars.operation[node] == "loop" and bool(self.scalars.extra[node].rows)

    def outer(self) -> list[int]:
        """The scalars around it that it needs."""
        extra = self.scalars.extra
        inputs = [node for node in self.nodes if self.scalars.operation[node] == "input"]
        return [extra[node][1] for node in inputs if extra[node][0] == ("outer",)]

    def _in_levels(self) -> list[_Level]:
        scalars, level, plain = self.scalars, {}, {}
        for node in self.nodes:
            plain[node] = scalars.operation[node] != "constant" and instruction(scalars, node) is not None
            own = [level[x] + (plain[x] and not plain[node]) for x in scalars.arguments[node]]
            level[node] = max(own, default=0)
        late: dict[int, int] = {}
        for node in reversed(self.nodes):  # what is needed late is worked out late
            if plain[node] and node in late:
                level[node] = late[node]
            for x in scalars.arguments[node]:
                before = level[node] - (plain[x] and not plain[node])
                late[x] = min(before, late[x]) if x in late else before
        self.written = [x for x in self.stored if not plain[x[2]] or scalars.dtype[x[2]] == bool]
        leaving = {*self.wanted, *(node for *_, node in self.written)}
        for node in self.nodes:
            leaving.update(x for x in scalars.arguments[node] if not plain[node] or level[x] < level[node])
        stores: dict[int, list] = {}
        for array, place, node in set(self.stored) - set(self.written):
            stores.setdefault(node, []).append((("written", array), place))
        found = []
        # As they were traced, or depth first: whichever needs to keep less at a time.
        wanted = [node for node in self.nodes if node in leaving or node in stores]
        orders = self.nodes, depth_first(scalars.arguments, wanted)
        for number in range(1 + max(level.values(), default=0)):
            tried = []
            for nodes in orders:
                sums = [node for node in nodes if level[node] == number and plain[node]]
                own = {node: stores[node] for node in sums if node in stores}
                tried.append(Arithmetic(scalars, sums, leaving, own))
            others = [node for node in self.nodes if level[node] == number and not plain[node]]
            found.append(_Level(others, min(tried, key=lambda instructions: instructions.moved)))
        return found

    def __call__(self, block: Any, read: Callable, first: Callable) -> dict[int, Any]:
        """The scalars, each a vector of the samples of a block; what is to be stored is.

        - `read`: `(source, place, dtype) -> vector` of what is given.
        - `first`: `source -> (array, place)` where a number of a sample is that is read, or where it is written.
        """
        values: dict[int, Any] = {}
        for others, instructions in self.levels:
            for node in others:
                values[node] = self._other(node, values, read, block.loop)
            if block.interpret:
                for node in instructions.nodes:
                    values[node] = self._other(node, values, read, block.loop)
                for node, places in instructions.stores.items():
                    for source, place in places:
                        array, start = first(source)
                        block.write(array, start + place, values[node])
            elif instructions.nodes:
                memory = [(array, block.samples, start) for array, start in map(first, instructions.memory)]
                values |= run(instructions, [values[x] for x in instructions.given], memory)
        for number, place, node in self.written:
            array, start = first(("written", number))
            block.write(array, start + place, values[node])
        return values

    def _other(self, node: int, values: dict, read: Callable, loop: Callable) -> Any:
        scalars = self.scalars
        operation, extra = scalars.operation[node], scalars.extra[node]
        if operation == "constant":
            return jnp.full((BLOCK,), extra)
        if operation == "input":
            return read(*extra, scalars.dtype[node])
        operands = [values[x] for x in scalars.arguments[node]]
        if operation == "loop":
            count = len(extra.start)
            return loop(extra, operands[:count], operands[count:])
        return operands[0][extra] if operation == "entry" else _bound(scalars, node, values)


def _bound(scalars: Scalars, node: int, values: dict) -> Any:
    """One operation on vectors."""
    primitive, params = scalars.extra[node]
    operands = [values[x] for x in scalars.arguments[node]]
    return primitive.bind(*operands, **dict(params))


class Kernel:
    """A function of one sample as a kernel, and what is left for after it.

    - `known`: the constants that the program has from around it, None where they are not known.
    """

    def __init__(self, owner: str, jaxpr: Jaxpr, known: Sequence):
        self.tables: list[np.ndarray] = []
        fusing = _Fusing(owner, self.tables, top=True)
        scalars = fusing.scalars
        shared, given = 0, []
        for var, value in zip(jaxpr.constvars, known, strict=True):
            if value is None:
                given.append(scalars.array(("shared", shared), _aval(var).shape, _aval(var).dtype))
                shared += 1
            else:
                given.append(scalars.constants(value))
        for number, var in enumerate(jaxpr.invars):
            given.append(scalars.array(("sample", number), _aval(var).shape, _aval(var).dtype))
        whole = jaxpr.replace(constvars=(), invars=(*jaxpr.constvars, *jaxpr.invars))
        self.results = fusing.run(ClosedJaxpr(whole, ()), given)
        self.avals = [_aval(atom) for atom in jaxpr.outvars]
        self.scalars, self.later = scalars, fusing.later
        self.stored: list[tuple[np.ndarray, np.dtype]] = []
        self._numbers: dict[int, int] = {}
        for x, aval in zip(self.results, self.avals, strict=True):
            self._store(x, aval.dtype)
        for equation, args, _ in self.later:
            for x, atom in zip(args, equation.invars, strict=True):
                self._store(x, _aval(atom).dtype)
        self.rows = [x for loop in fusing.loops for x in loop.rows]
        self.piece = Piece(scalars, (), placed([nodes for nodes, _ in self.stored]))

    def _store(self, x, dtype) -> None:
        """Have the kernel write an array, if it makes it and it is not known."""
        if isinstance(x, _Later) or id(x) in self._numbers or self.scalars.values(x, dtype) is not None:
            return
        self._numbers[id(x)] = len(self.stored)
        self.stored.append((x, np.dtype(dtype)))

    def __call__(self, shared: list, samples: list, interpret: bool) -> list:
        """The results, of arrays with an axis of samples."""
        size = samples[0].shape[0]
        written = self._launched(shared, samples, size, interpret)
        stored, rows = written[: len(self.stored)], written[len(self.stored) :]
        arrays = dict(zip(map(id, self.rows), rows, strict=True))

        def value(x, dtype):
            """An array, and whether it has an axis of samples."""
            if isinstance(x, _Later):
                return arrays[id(x)], True
            if id(x) in self._numbers:
                return stored[self._numbers[id(x)]], True
            return jnp.asarray(self.scalars.values(x, dtype)), False

        for equation, args, results in self.later:
            given = [value(x, _aval(atom).dtype) for x, atom in zip(args, equation.invars, strict=True)]
            arrays |= zip(map(id, results), _after(equation, given), strict=True)
        found = [value(x, aval.dtype) for x, aval in zip(self.results, self.avals, strict=True)]
        return [x if own else jnp.broadcast_to(x, (size, *x.shape)) for x, own in found]

    def _launched(self, shared: list, samples: list, size: int, interpret: bool) -> list:
        """What the kernel writes: what is stored, and the rows of loops."""
        shapes = [(nodes.shape, kind) for nodes, kind in self.stored]
        shapes += [((x.length, *x.nodes.shape), x.dtype) for x in self.rows]
        if not shapes:
            return []
        blocks = -(-size // BLOCK)
        given = {("sample", i): x.reshape(size, -1) for i, x in enumerate(samples)}
        given |= {("shared", i): jnp.reshape(x, -1) for i, x in enumerate(shared)}
        given |= {("table", i): jnp.asarray(x) for i, x in enumerate(self.tables)}
        given = {key: _numbers(x) for key, x in given.items() if x.size}
        outputs = [
            jax.ShapeDtypeStruct((size, math.prod(shape)), np.int32 if kind == bool else kind)
            for shape, kind in shapes
        ]
        written = _pallas_call(
            functools.partial(self._body, list(given), size, interpret), blocks, outputs, interpret
        )(*given.values())
        return [
            _truths(x, kind).reshape(size, *shape) for x, (shape, kind) in zip(written, shapes, strict=True)
        ]

    def _body(self, keys: list, size: int, interpret: bool, *refs) -> None:
        from jax.experimental import pallas as pl

        # Threads beyond the last sample do it again.
        place = pl.program_id(0).astype(jnp.int32) * BLOCK + jnp.arange(BLOCK, dtype=jnp.int32)
        samples = jnp.minimum(place, jnp.full((BLOCK,), size - 1, jnp.int32))
        given, written = dict(zip(keys, refs)), refs[len(keys) :]
        rows_at = {id(x): written[len(self.stored) + number] for number, x in enumerate(self.rows)}
        block = _Block(given, rows_at, samples, interpret)
        self.piece(
            block,
            block.load,
            lambda source: (written[source[1]] if source[0] == "written" else given[source], 0),
        )


class _Block:
    """What a block of threads does.

    - `given`: what is read, by source: samples (size, entries), what is shared (entries,), tables (rounds, entries).
    - `rows_at`: where the rows of loops are written: (size, rounds times entries).
    - `samples`: that of each thread.
    """

    def __init__(self, given: dict, rows_at: dict, samples: jax.Array, interpret: bool):
        self.given, self.rows_at, self.samples, self.interpret = given, rows_at, samples, interpret

    def load(self, source: tuple, place, dtype, round_=None) -> jax.Array:
        """A number of each sample."""
        kind = source[0]
        if kind == "sample":
            x = self.given[source][self.samples, place]
        elif kind == "row":
            x = self.given["sample", source[1]][self.samples, place + round_ * source[2]]
        else:
            x = self.given[source][place] if kind == "shared" else self.given[source][round_, place]
            x = jnp.broadcast_to(x, (BLOCK,))
        return x != 0 if dtype == bool else x

    def write(self, array, place, x) -> None:
        array[self.samples, place] = x.astype(jnp.int32) if x.dtype == bool else x

    def loop(self, loop: _Loop, start: list, outside: list) -> list:
        outer = dict(zip(loop.outer, outside, strict=True))

        def once(number, carry):
            number = jnp.asarray(number, jnp.int32)
            round_ = loop.length - 1 - number if loop.reverse else number

            def read(source, place, dtype):
                if source[0] in ("carry", "outer"):
                    return carry[place] if source[0] == "carry" else outer[place]
                return self.load(source, place, dtype, round_)

            def first(source):
                if source[0] == "written":
                    rows = loop.rows[source[1]]
                    return self.rows_at[id(rows)], round_ * rows.nodes.size
                if source[0] == "row":
                    return self.given["sample", source[1]], round_ * source[2]
                return self.given[source], 0

            values = loop.piece(self, read, first)
            return [values[node] for node in loop.carried]

        return lax.fori_loop(0, loop.length, once, start)


def _pallas_call(body: Callable, blocks: int, outputs: list, interpret: bool) -> Callable:
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    how: dict = (
        {"interpret": True}
        if interpret
        else {"compiler_params": triton.CompilerParams(num_warps=BLOCK // 32)}
    )
    return pl.pallas_call(body, grid=(blocks,), out_shape=outputs, name="fused", **how)


def _numbers(x) -> jax.Array:
    """Truth values as whole numbers: memory has no bits."""
    return x.astype(jnp.int32) if x.dtype == bool else jnp.asarray(x)


def _truths(x: jax.Array, kind) -> jax.Array:
    return x != 0 if kind == bool else x


def _after(equation: JaxprEqn, given: Sequence[tuple[Any, bool]]) -> list:
    """An operation after the kernel, on arrays with an axis of samples where that is said."""
    primitive, params = equation.primitive, equation.params

    def of_one(*xs):
        if primitive.name in PROGRAMS:
            return core.eval_jaxpr(*opened(params[PROGRAMS[primitive.name]]), *xs)
        found = primitive.bind(*xs, **params)
        return list(found) if primitive.multiple_results else [found]

    arrays, axes = zip(*((x, 0 if own else None) for x, own in given))
    return jax.vmap(of_one, in_axes=axes)(*arrays)
