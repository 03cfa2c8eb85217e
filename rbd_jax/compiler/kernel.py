"""A function of one sample as one kernel: every thread of a GPU has a sample, and what it computes stays on the chip.

The program of one sample is taken apart into scalars, as `scalarize` does: arrays fall apart, short loops unroll, what is known
folds. In the kernel each scalar is a vector of as many samples as a block has threads, one number in each. Arithmetic
is written as instructions (`gpu.instructions`); sines and the like, loads and stores are Pallas's.

Long loops stay loops: what they carry are vectors, a row that they are given is read from memory in its round, and a row that
they return is written in it. Rows are too many to be kept on chip, so what is made of them is made after the kernel, mapped by
`jax.vmap`.

On a processor the same scalars are machine code (`cpu.routine`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import core, lax
from jax.extend.core import ClosedJaxpr, JaxprEqn

from .cpu.routine import Routine
from .expressions import no_collection
from .fusing import Fusing, Later, Loop
from .jaxprs import PROGRAMS, aval_of, opened
from .schedule import BLOCK, NoKernel, Piece, placed


#: Results of more numbers than these are written number by number, side by side what the threads of a block write at once.
#: Written sample by sample, each number of each thread would be a piece of memory of its own.
IN_COLUMNS = 32


class Kernel:
    """A function of one sample as a kernel, and what is left for after it.

    - `owner`: who is asked for it.
    - `shared`: how many of the first arguments are the same for all samples; `summed`: which results are summed over them.
    - `stored`: the arrays that it writes, their types, and whether each is summed over the samples; `rows` those of loops.
    """

    def __init__(self, owner: str, closed: ClosedJaxpr, shared: int, summed: Sequence[bool]):
        # Not as part of whatever is being traced at the moment: all of this is about constants.
        with jax.ensure_compile_time_eval(), no_collection():
            self._take_apart(owner, closed, shared, summed)

    def _take_apart(self, owner: str, closed: ClosedJaxpr, shared: int, summed: Sequence[bool]) -> None:
        self.tables: list[np.ndarray] = []
        fusing = Fusing(owner, self.tables)
        self.scalars = scalars = fusing.scalars
        for x in closed.consts:
            if jnp.issubdtype(jnp.result_type(x), jax.dtypes.extended):
                raise NoKernel(
                    f"{owner}: function uses a random key, which a fused kernel cannot; leave fused out"
                )
        given = []
        for number, aval in enumerate(closed.in_avals):
            source = ("shared", number) if number < shared else ("sample", number - shared, ())
            given.append(scalars.array(source, aval.shape, aval.dtype))
        settled = lambda x: x if isinstance(x, Later) else scalars.all_settled(x, last=True)
        self.results = list(map(settled, fusing.run(closed, given)))
        self.avals, self.summed = closed.out_avals, summed
        self.later = fusing.later
        self.stored: list[tuple[np.ndarray, np.dtype, bool]] = []
        self._numbers: dict[tuple[int, bool], int] = {}
        for x, aval, is_sum in zip(self.results, self.avals, summed, strict=True):
            self._store(x, aval.dtype, is_sum)
        for equation, args, _ in self.later:
            for x, atom in zip(args, equation.invars, strict=True):
                self._store(x, aval_of(atom).dtype)
        self.rows = [x for loop in fusing.loops for x in loop.rows]
        self.in_columns = [nodes.size > IN_COLUMNS for nodes, *_ in self.stored]
        apart = [BLOCK if columns else 1 for columns in self.in_columns]
        self.piece = Piece(scalars, (), placed([nodes for nodes, *_ in self.stored], apart))

    def _store(self, x, dtype, is_sum: bool = False) -> None:
        """Have the kernel write an array, if it makes it and it is not known."""
        key = id(x), is_sum
        if isinstance(x, Later) or key in self._numbers or self.scalars.values(x, dtype) is not None:
            return
        self._numbers[key] = len(self.stored)
        self.stored.append((x, np.dtype(dtype), is_sum))

    def __call__(self, shared: list, samples: list, how: str) -> list:
        """The results, of arrays with an axis of samples.

        - `how`: the platform that it is compiled for, or "interpret".
        """
        size = samples[0].shape[0]
        given = {("sample", i): x.reshape(size, -1) for i, x in enumerate(samples)}
        given |= {("shared", i): jnp.reshape(x, -1) for i, x in enumerate(shared)}
        given |= {("table", i): jnp.asarray(x) for i, x in enumerate(self.tables)}
        read = self.piece.sources()
        given = {key: _numbers(x) for key, x in given.items() if key in read}
        written = []
        if self.stored or self.rows:
            written = self._on_a_processor(given, size) if how == "cpu" else self._launched(given, size, how)
        stored, rows = written[: len(self.stored)], written[len(self.stored) :]
        arrays = dict(zip(map(id, self.rows), rows, strict=True))

        def value(x, dtype):
            """An array, and whether it has an axis of samples."""
            if isinstance(x, Later):
                return arrays[id(x)], True
            if (id(x), False) in self._numbers:
                return stored[self._numbers[id(x), False]], True
            return jnp.asarray(self.scalars.values(x, dtype)), False

        for equation, args, results in self.later:
            given = [value(x, aval_of(atom).dtype) for x, atom in zip(args, equation.invars, strict=True)]
            arrays |= zip(map(id, results), _after(equation, given), strict=True)
        found = []
        for x, aval, is_sum in zip(self.results, self.avals, self.summed, strict=True):
            if (id(x), is_sum) in self._numbers:
                found.append(stored[self._numbers[id(x), is_sum]])
                continue
            each, own = value(x, aval.dtype)
            each = each if own else jnp.broadcast_to(each, (size, *each.shape))
            found.append(each.sum(0) if is_sum else each)
        return found

    def _on_a_processor(self, given: dict, size: int) -> list:
        """What machine code writes: what is stored, and the rows of loops."""
        if not any(kind == "sample" for kind, _ in given):
            raise NoKernel("fused: function is given no numbers of the samples; leave fused out")
        sizes = {key: (x.size // size if key[0] == "sample" else x.size, x.dtype) for key, x in given.items()}
        with no_collection():
            routine = Routine(self, sizes)
        written = routine(list(given.values()), size)
        kinds = [*(kind for _, kind, _ in self.stored), *(x.dtype for x in self.rows)]
        return [_truths(x, kind) for x, kind in zip(written, kinds, strict=True)]

    def _launched(self, given: dict, size: int, how: str) -> list:
        """What the kernel writes: what is stored, and the rows of loops."""
        shapes = [
            (nodes.shape, kind, columns)
            for (nodes, kind, _), columns in zip(self.stored, self.in_columns, strict=True)
        ]
        shapes += [((x.length, *x.nodes.shape), x.dtype, False) for x in self.rows]
        blocks = -(-size // BLOCK)
        rows = lambda columns: (blocks, BLOCK) if columns else (size, 1)
        interpret = how == "interpret"
        outputs = [
            jax.ShapeDtypeStruct(
                (rows(columns)[0], math.prod(shape) * rows(columns)[1]), np.int32 if kind == bool else kind
            )
            for shape, kind, columns in shapes
        ]
        written = _pallas_call(
            functools.partial(self._body, list(given), size, interpret), blocks, outputs, interpret
        )(*given.values())
        in_rows = lambda x: x.reshape(blocks, -1, BLOCK).swapaxes(1, 2).reshape(blocks * BLOCK, -1)[:size]
        arrays = [
            _truths(in_rows(x) if columns else x, kind).reshape(size, *shape)
            for x, (shape, kind, columns) in zip(written, shapes, strict=True)
        ]
        sums = [*(is_sum for *_, is_sum in self.stored), *(False for _ in self.rows)]
        return [x.sum(0) if is_sum else x for x, is_sum in zip(arrays, sums, strict=True)]

    def _body(self, keys: list, size: int, interpret: bool, *refs) -> None:
        from jax.experimental import pallas as pl

        # Threads beyond the last sample do it again.
        number, threads = pl.program_id(0).astype(jnp.int32), jnp.arange(BLOCK, dtype=jnp.int32)
        samples = jnp.minimum(number * BLOCK + threads, jnp.full((BLOCK,), size - 1, jnp.int32))
        given, written = dict(zip(keys, refs)), refs[len(keys) :]
        rows_at = {id(x): written[len(self.stored) + number] for number, x in enumerate(self.rows)}
        block = _Block(given, rows_at, samples, interpret)

        def first(source):
            if source[0] != "written":
                return block.at(source)
            array = written[source[1]]
            if self.in_columns[source[1]]:
                return array, block.all(number), threads
            return array, samples, block.all(0)

        self.piece(block, block.load, first)


class _Block:
    """What a block of threads does.

    - `given`: what is read, by kind and number: samples (size, entries), what is shared and tables (entries,).
    - `rows_at`: where the rows of loops are written: (size, rounds times entries).
    - `samples`: that of each thread.
    - `rounds`: that of each loop around what is done, the innermost last.
    """

    def __init__(self, given: dict, rows_at: dict, samples: jax.Array, interpret: bool, rounds: tuple = ()):
        self.given, self.rows_at, self.samples, self.interpret = given, rows_at, samples, interpret
        self.rounds = rounds

    def load(self, source: tuple, place: int, dtype) -> jax.Array:
        """A number of each sample."""
        kind, number, *steps = source
        at = place + self._moved(*steps)
        if kind == "sample":
            x = self.given[kind, number][self.samples, at]
        else:
            x = jnp.broadcast_to(self.given[kind, number][at], (BLOCK,))
        return x != 0 if dtype == bool else x

    def at(self, source: tuple) -> tuple:
        """Where in memory each thread begins to read what is of its sample."""
        kind, number, steps = source
        return self.given[kind, number], self.samples, self.all(self._moved(steps))

    def _moved(self, steps: Sequence[int] = ()) -> Any:
        """How far these rounds are from the first."""
        return sum(step * round_ for step, round_ in zip(steps, self.rounds))

    def write(self, first: tuple, place: int, x) -> None:
        array, rows, columns = first
        array[rows, columns + jnp.full_like(columns, place)] = x.astype(jnp.int32) if x.dtype == bool else x

    def all(self, number) -> jax.Array:
        """A number for each thread."""
        return jnp.full((BLOCK,), number, jnp.int32)

    def loop(self, loop: Loop, start: list, outside: list) -> list:
        outer = dict(zip(loop.outer, outside, strict=True))

        def once(number, carry):
            number = jnp.asarray(number, jnp.int32)
            round_ = loop.length - 1 - number if loop.reverse else number
            within = _Block(self.given, self.rows_at, self.samples, self.interpret, (*self.rounds, round_))

            def read(source, place, dtype):
                if source[0] in ("carry", "outer"):
                    return carry[place] if source[0] == "carry" else outer[place]
                return within.load(source, place, dtype)

            def first(source):
                if source[0] == "written":
                    rows = loop.rows[source[1]]
                    return self.rows_at[id(rows)], self.samples, self.all(round_ * rows.nodes.size)
                return within.at(source)

            values = loop.piece(within, read, first)
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
