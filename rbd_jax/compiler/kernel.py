"""A function of one sample as one kernel, which keeps intermediate values in registers.

The program of one sample is flattened to scalars, as in `scalarize`: arrays are split, short loops are unrolled, and constants
are folded. Each scalar becomes an instruction. On a GPU each thread computes one sample (`gpu.thread`); on a CPU each lane of a
vector does (`cpu.routine`).

Long loops stay loops: an iteration reads its input row from memory, and writes its output row. Rows are too many for registers.
Operations on them therefore follow the kernel: loops as separate kernels where that is worthwhile, other operations by
`jax.vmap`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import core
from jax.extend.core import ClosedJaxpr, JaxprEqn

from .cpu.routine import Routine
from .expressions import no_collection
from .fusing import Fusing, Later
from .gpu.thread import Thread
from .jaxprs import PROGRAMS, aval_of, opened
from .schedule import NoKernel, Piece


#: Results with more numbers than this are stored as columns, so that the threads of a block write to adjacent memory. Stored per
#: sample, each write of each thread would be a separate memory transaction.
IN_COLUMNS = 32


def _by_vmap(function: Callable, arrays: list) -> list:
    return jax.vmap(function)(*arrays)


class Kernel:
    """A function of one sample as a kernel, and the operations that follow it.

    - `owner`: the name of the public function, for messages.
    - `closed`: the program of one sample.
    - `shared`: the number of leading arguments that all samples share.
    - `summed`: which results are summed over the samples.
    - `again`: maps a loop over results of the kernel, a function of one sample's arrays, over the samples.
    - `stored`: the arrays that the kernel writes, their data types, and whether each is summed over the samples.
    - `rows`: the stacked outputs of loops that the kernel writes.
    """

    def __init__(
        self,
        owner: str,
        closed: ClosedJaxpr,
        shared: int,
        summed: Sequence[bool],
        again: Callable = _by_vmap,
    ):
        self.again = again
        # All values here are constants, and must not become part of a surrounding trace.
        with jax.ensure_compile_time_eval(), no_collection():
            self._take_apart(owner, closed, shared, summed)

    def _take_apart(self, owner: str, closed: ClosedJaxpr, shared: int, summed: Sequence[bool]) -> None:
        self.tables: list[np.ndarray] = []
        fusing = Fusing(owner, self.tables)
        self.scalars = scalars = fusing.scalars
        for x in closed.consts:
            if jnp.issubdtype(jnp.result_type(x), jax.dtypes.extended):
                raise NoKernel(
                    f"{owner}: function uses a random key, which a fused kernel does not support; leave fused out"
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
        self.piece = Piece(
            scalars, [node for nodes, *_ in self.stored for node in nodes.reshape(-1).tolist()]
        )

    def _store(self, x, dtype, is_sum: bool = False) -> None:
        """Adds an array to the results of the kernel, if the kernel computes it and it is not constant."""
        key = id(x), is_sum
        if isinstance(x, Later) or key in self._numbers or self.scalars.values(x, dtype) is not None:
            return
        self._numbers[key] = len(self.stored)
        self.stored.append((x, np.dtype(dtype), is_sum))

    def __call__(self, shared: list, samples: list, how: str) -> list:
        """Computes the results of all samples.

        Args:
          shared: The arrays that all samples share.
          samples: The arrays with a batch axis.
          how: The platform, or "interpret" for the GPU kernel on a CPU.
        """
        size = samples[0].shape[0]
        given = {("sample", i): x.reshape(size, -1) for i, x in enumerate(samples)}
        given |= {("shared", i): jnp.reshape(x, -1) for i, x in enumerate(shared)}
        given |= {("table", i): jnp.asarray(x) for i, x in enumerate(self.tables)}
        read = self.piece.sources()
        given = {key: _numbers(x) for key, x in given.items() if key in read}
        written = []
        if self.stored or self.rows:
            written = self._written(given, size, how)
        stored, rows = written[: len(self.stored)], written[len(self.stored) :]
        arrays = dict(zip(map(id, self.rows), rows, strict=True))

        def value(x, dtype):
            """Returns an array, and whether it has a batch axis."""
            if isinstance(x, Later):
                return arrays[id(x)], True
            if (id(x), False) in self._numbers:
                return stored[self._numbers[id(x), False]], True
            # A NumPy array, so that traced programs know its values.
            known = self.scalars.values(x, dtype)
            assert known is not None
            return known, False

        for equation, args, results in self.later:
            given = [value(x, aval_of(atom).dtype) for x, atom in zip(args, equation.invars, strict=True)]
            arrays |= zip(map(id, results), _after(equation, given, self.again), strict=True)
        found = []
        for x, aval, is_sum in zip(self.results, self.avals, self.summed, strict=True):
            if (id(x), is_sum) in self._numbers:
                found.append(stored[self._numbers[id(x), is_sum]])
                continue
            each, own = value(x, aval.dtype)
            each = each if own else jnp.broadcast_to(each, (size, *each.shape))
            found.append(each.sum(0) if is_sum else each)
        return found

    def _written(self, given: dict, size: int, how: str) -> list:
        """Runs the kernel and returns its results: stored arrays, and rows of loops."""
        if not any(kind == "sample" for kind, _ in given):
            raise NoKernel("fused: function uses no numbers of the samples; leave fused out")
        sizes = {key: (x.size // size if key[0] == "sample" else x.size, x.dtype) for key, x in given.items()}
        kinds = [*(kind for _, kind, _ in self.stored), *(x.dtype for x in self.rows)]
        sums = [*(is_sum for *_, is_sum in self.stored), *(False for _ in self.rows)]
        with no_collection():
            if how == "cpu":
                written = Routine(self, sizes)(list(given.values()), size)
            else:
                thread = Thread(self, sizes, size, "cpu" if how == "interpret" else "cuda")
                written = [
                    x.sum(0) if is_sum else x
                    for x, is_sum in zip(thread(list(given.values())), sums, strict=True)
                ]
        return [_truths(x, kind) for x, kind in zip(written, kinds, strict=True)]


def _numbers(x) -> jax.Array:
    """Converts truth values to integers, their representation in memory."""
    return x.astype(jnp.int32) if x.dtype == bool else jnp.asarray(x)


def _truths(x: jax.Array, kind) -> jax.Array:
    return x != 0 if kind == bool else x


def _after(equation: JaxprEqn, given: Sequence[tuple[Any, bool]], again: Callable) -> list:
    """Evaluates an operation that follows the kernel; `given` contains its operands and whether they have a batch axis."""
    primitive, params = equation.primitive, equation.params

    def of_one(*xs):
        if primitive.name in PROGRAMS:
            return core.eval_jaxpr(*opened(params[PROGRAMS[primitive.name]]), *xs)
        found = primitive.bind(*xs, **params)
        return list(found) if primitive.multiple_results else [found]

    arrays = [x for x, own in given if own]
    apart = lambda *own: (rows := iter(own)) and of_one(*(next(rows) if is_own else x for x, is_own in given))
    return list(again(apart, arrays) if primitive.name == "scan" else jax.vmap(apart)(*arrays))
