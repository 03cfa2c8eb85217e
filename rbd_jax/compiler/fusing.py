"""The program of one sample as scalars and as loops that stay loops: what a kernel works out, and what is left for after it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jax import lax
from jax.extend.core import Jaxpr, JaxprEqn, Literal

from .compat import place_of
from .expressions import Scalars
from .jaxprs import PROGRAMS, aval_of, entries, of_scan, opened
from .scalarize import UNROLLED, Interpreter
from .schedule import NoKernel, Piece


#: A loop stays a loop if unrolled it would work on more entries of arrays than these; if it cannot stay one, up to so many more
#: are unrolled.
ENTRIES, MOST_ENTRIES = 100_000, 400_000


class Later:
    """An array that is there only after the kernel."""


@dataclass(eq=False)
class Rows(Later):
    """What a loop of the kernel returns row by row.

    - `nodes`: a row, of the scalars of a round.
    """

    nodes: np.ndarray
    length: int
    dtype: np.dtype


@dataclass(eq=False)
class Made(Later):
    """What an operation after the kernel makes."""


@dataclass(eq=False)
class Loop:
    """A loop that stays: each round works out from what is carried what is carried on, and rows.

    - `length`: the number of rounds; None where each sample goes on for as long as `goes_on`, a scalar of a round, is true, which
      begins at all if `begins`, one outside, is.
    - `start`: the scalars outside of it that it begins with; `carried` those of a round, and `kinds` their types.
    - `outer`: what a round uses of the scalars outside.
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
        """The scalars outside of it that it needs."""
        return (*self.start, *self.outer, *(() if self.begins is None else (self.begins,)))

    @property
    def wanted(self) -> list[int]:
        """Those of a round that are needed after it."""
        return [*self.carried, *(() if self.goes_on is None else (self.goes_on,))]


class KernelScalars(Scalars):
    """Scalars, of which some are what a loop ends with."""

    def loop(self, loop: Loop) -> list[int]:
        node = self._add(("loop", next(self._count)), "loop", loop.given, loop, np.int64)
        return [self._add(("entry", node, i), "entry", (node,), i, kind) for i, kind in enumerate(loop.kinds)]

    def variable(self, source: tuple, place: int, dtype) -> int:
        """A number that is not known: where it comes from, and its place there.

        It is one of those that a loop carries, `("carry",)`, one from around the loop, `("outer",)`, of what all samples share,
        `("shared", number)`, or of an argument or a table, `("sample" | "table", number, steps)`, where with each round of each
        loop around it the place moves on by that loop's step.
        """
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


class Fusing(Interpreter):
    """Runs a program on scalars, with long loops as loops.

    - `tables`: known rows that loops are given, shared with what runs the program around it.
    - `depth`: the loops around it; 0 for the whole program.
    - `path`: the operation that it is at, after those that this is within.
    - `later`: operations on what is there only after the kernel, with their arguments and results. `loops`: those that stay.
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
        self.path.pop()
        return results

    def stepped(self, equation: JaxprEqn, args: list) -> list:
        if any(isinstance(x, Later) for x in args):
            args = [x if isinstance(x, Later) else self.scalars.all_settled(x, last=True) for x in args]
            results: list = [Made() for _ in equation.outvars]
            self.later.append((equation, args, results))
            return results
        return super().step(equation, args)

    def as_it_is(self, equation: JaxprEqn, args: list) -> list:
        if all(
            self.known(x, aval_of(atom)) is not None for x, atom in zip(args, equation.invars, strict=True)
        ):
            return super().as_it_is(equation, args)
        raise NoKernel(
            f"{self.owner}: function does `{equation.primitive.name}`{place_of(self.path)} in a way that depends on the sample, "
            "which a fused kernel cannot; leave fused out"
        )

    def on_cond(self, equation: JaxprEqn, args: list) -> list:
        """All branches, and of their results those of the one that is taken."""
        found = super().on_cond(equation, args)
        if found is not None:
            return found
        which, branches = int(args[0]), equation.params["branches"]
        cases = [self.run(branch, args[1:]) for branch in branches]
        return [
            self.chosen(which, aval_of(equation.invars[0]).dtype, of_each, aval_of(var).dtype)
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
        """A loop whose rounds are known, or one in which each sample goes on for as long as it has to."""
        found = super().on_while(equation, args)
        if found is not None:
            return found
        avals = map(aval_of, equation.invars)
        if all(self.known(x, aval) is not None for x, aval in zip(args, avals, strict=True)):
            return self.as_it_is(equation, args)
        params = equation.params
        tests, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        args = [self.scalars.all_settled(x) for x in args]
        test, fixed, carry = args[:tests], args[tests:last], args[last:]
        begins = int(self.run(params["cond_jaxpr"], [*test, *carry])[0])
        passed = passed_on(opened(params["body_jaxpr"])[0])
        same = [origin == len(fixed) + place for place, origin in enumerate(passed)]
        inner, outside = self.inside()
        own, start, kinds = self.carry(inner, outside, same, carry, params["body_jaxpr"].out_avals)
        results = inner.run(params["body_jaxpr"], [*map(outside, fixed), *own])
        results = [inner.scalars.all_settled(x) for x in results]
        goes_on = int(inner.run(params["cond_jaxpr"], [*map(outside, test), *results])[0])
        carried = flat(x for is_same, x in zip(same, results, strict=True) if not is_same)
        piece = Piece(inner.scalars, [*carried, goes_on])
        loop = Loop(None, False, piece, start, carried, kinds, [], piece.outer(), begins, goes_on)
        return self.ends(loop, same, carry)

    def on_scan(self, equation: JaxprEqn, args: list) -> list:
        params = equation.params
        length, body = params["length"], opened(params["jaxpr"])[0]
        if stays(equation):
            try:
                return self.kept(params, args)
            except _Unroll as reason:
                if length > UNROLLED or length * entries(body) > MOST_ENTRIES:
                    raise NoKernel(
                        f"{self.owner}: function has a loop of {length} rounds with {reason}, which a fused kernel cannot; leave "
                        "fused out"
                    ) from None
        found = super().on_scan(equation, args)
        assert found is not None
        return found

    def kept(self, params: dict, args: list) -> list:
        """A loop that stays one."""
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
        """What runs a round of a loop, and what makes arrays from outside of it known to it."""
        inner = Fusing(self.owner, self.tables, self.depth + 1)
        inner.path = self.path.copy()
        outside = np.vectorize(lambda node: inner.scalars.outside(node, self.scalars), otypes=[np.int64])
        return inner, lambda nodes: outside(nodes) if nodes.size else nodes

    def carry(
        self, inner: Fusing, outside: Callable, same: Sequence[bool], args: list, avals: Sequence
    ) -> tuple:
        """What a round is given of what the loop carries, the scalars that it starts with, and their types.

        - `same`: what a round hands on as it is. It is known if it was at the start.
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
        """What a loop ends with, of what it carries."""
        ends = iter(self.scalars.loop(loop))
        self.loops.append(loop)
        return [
            x if is_same else np.array([next(ends) for _ in range(x.size)], np.int64).reshape(x.shape)
            for is_same, x in zip(same, args, strict=True)
        ]

    def row(self, nodes: np.ndarray, aval) -> Callable[[KernelScalars], np.ndarray]:
        """What a round reads of these rows: out of an argument, out of a table of what is known, or what is the same in each."""
        flat = nodes.reshape(len(nodes), -1)
        known = self.scalars.values(flat, aval.dtype)
        if known is not None:
            source = ("table", len(self.tables), (0,) * self.depth + (flat.shape[1],))
            self.tables.append(known.reshape(-1))
            return lambda scalars: scalars.array(source, aval.shape, aval.dtype)
        own = [self.entry(column, aval.dtype) for column in flat.T.tolist()]
        return lambda scalars: np.array([entry(scalars) for entry in own], np.int64).reshape(aval.shape)

    def entry(self, column: list[int], dtype) -> Callable[[KernelScalars], int]:
        """One entry of a row, of which this is what it is in each round."""
        if len(set(column)) == 1:
            return lambda scalars: scalars.outside(column[0], self.scalars)
        if any(self.scalars.operation[node] != "input" for node in column):
            raise _Unroll("rows that are computed, and not given")
        sources = {self.scalars.extra[node][0] for node in column}
        places = np.array([self.scalars.extra[node][1] for node in column])
        steps = set(np.diff(places).tolist())
        (source, *others) = sources
        if others or len(steps) > 1 or source[0] not in ("sample", "table"):
            raise _Unroll("rows that are not those of one argument")
        kind, number, before = source
        return lambda scalars: scalars.variable((kind, number, (*before, *steps)), int(places[0]), dtype)


def flat(arrays: Iterable[np.ndarray]) -> list[int]:
    """The scalars of some arrays, one after the other."""
    return [node for x in arrays for node in x.reshape(-1).tolist()]


def stays(equation: JaxprEqn) -> bool:
    """Whether a scan is to stay a loop."""
    length, body = equation.params["length"], opened(equation.params["jaxpr"])[0]
    return length > UNROLLED or length * entries(body) > ENTRIES


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
