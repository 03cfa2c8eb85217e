"""Batching along the last axis, so that samples are lanes of vector instructions.

A CPU processes 8 or 16 adjacent numbers in the time of one. `jax.vmap` puts the batch axis first, so that the coordinates of a
point or the entries of a wrench are adjacent. This module runs the jaxpr of one sample on arrays with an additional last axis for
samples. Values that do not depend on the sample have no such axis, and are computed once. JAX batches operations without a rule
along that axis.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import core, lax
from jax.custom_derivatives import SymbolicZero
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import Jaxpr, JaxprEqn, Literal

from .._core.derivatives import custom_jvp
from .dependence import OfScan, OfWhile, dependent, dependent_results, of_rounds
from .jaxprs import PROGRAMS, aval_of, of_solve, opened


#: Maximum number of terms of sums that are written out; each term is one pass over the lanes.
SPELLED_OUT = 64

#: Element-wise operations.
ELEMENTWISE = frozenset(
    """abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp convert_element_type copy copy_p cos cosh
    digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt imag integer_pow is_finite le lgamma log log1p logistic lt max min
    mul name ne neg nextafter not or population_count pow real reduce_precision rem round rsqrt select_n shift_left
    shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh xor""".split()
)

#: Operations along axes that are counted from the first, so that an additional last axis has no effect.
ALONG_AXES = frozenset(
    "argmax argmin cumlogsumexp cummax cummin cumprod cumsum reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum "
    "reduce_xor rev sort".split()
)

#: Operations that have rules if their index arguments are the same for all samples, with the positions of these arguments.
INDICES = {
    "gather": slice(1, 2),
    "scatter": slice(1, 2),
    "scatter-add": slice(1, 2),
    "dynamic_slice": slice(1, None),
    "dynamic_update_slice": slice(2, None),
    "pad": slice(1, 2),
}


class Program(NamedTuple):
    """The jaxpr of a function of one sample, and the samples to which it is applied."""

    jaxpr: Jaxpr
    consts: list
    samples: list
    structure: Any
    """The PyTree of the results."""

    @staticmethod
    def of(function: Callable, batched: Any) -> Program:
        leaves, structure = jax.tree.flatten(batched)
        of_one = lambda *rows: function(jax.tree.unflatten(structure, rows))
        one = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in leaves]
        closed, found = jax.make_jaxpr(of_one, return_shape=True)(*one)
        return Program(closed.jaxpr, list(map(jnp.asarray, closed.consts)), leaves, jax.tree.structure(found))


#: Samples in a group: four registers of eight doubles, or two of sixteen floats. Smaller groups leave registers empty, and larger
#: ones exceed the L1 cache.
SIDE_BY_SIDE = 32


def in_lanes(function: Callable, batched: Any, lanes: int | None, most: int) -> Any:
    """Computes `jax.lax.map(function, batched)` over groups of samples, which are the last axis of each array.

    Derivatives are those of `lax.map` with single samples, because the function's own derivative rules do not apply to groups. To
    compute gradients in groups, map the gradient.

    Args:
      function: The function of one sample.
      batched: The samples: a PyTree of arrays with the batch axis first.
      lanes: The number of samples in a group. None selects `SIDE_BY_SIDE` if all operations have rules and all samples take the
        same number of iterations, else 1.
      most: The upper limit of `lanes`.

    >>> from rbd_jax import compiler
    >>> print(compiler.in_lanes(lambda x: x[0] - x[1], jnp.array([[3.0, 1.0], [5.0, 0.0]]), 2, 2))
    [2. 5.]
    """
    program = Program.of(function, batched)
    if lanes is None:
        known = has_rules(program.jaxpr, (True,) * len(program.samples))
        lanes = SIDE_BY_SIDE if known and all(map(_plain, program.samples)) else 1
    if lanes == 1 or program.jaxpr.effects:
        return lax.map(function, batched)
    results = side_by_side(program.jaxpr, min(lanes, most), program.consts, program.samples)
    return jax.tree.unflatten(program.structure, results)


def _plain(x) -> bool:
    return not jnp.issubdtype(x.dtype, jax.dtypes.extended)


def one_by_one(jaxpr: Jaxpr, consts: list, samples: list) -> list:
    return lax.map(lambda rows: core.eval_jaxpr(jaxpr, consts, *rows), samples)


@functools.partial(custom_jvp, nondiff_argnums=(0, 1))
def side_by_side(jaxpr: Jaxpr, lanes: int, consts: list, samples: list) -> list:
    depends = dependent(jaxpr, (True,) * len(samples))
    size, shapes = samples[0].shape[0], [(aval_of(x).shape, aval_of(x).dtype) for x in jaxpr.outvars]
    chunks = -(-size // lanes)
    missing = chunks * lanes - size
    if missing:  # copies of the last sample fill up
        samples = [jnp.concatenate([x, jnp.repeat(x[-1:], missing, 0)]) for x in samples]
    # Outside of the loop: otherwise XLA would fuse it with the computation, and iterate in an order without lanes.
    columns = [jnp.moveaxis(x.reshape(chunks, lanes, *x.shape[1:]), 1, -1) for x in samples]

    def of_chunk(number, all_results):
        own = [lax.dynamic_index_in_dim(x, number, keepdims=False) for x in columns]
        results = Lanes(lanes).run(jaxpr, consts, own, (True,) * len(own))
        placed = []
        for everything, x, of_each in zip(all_results, results, depends, strict=True):
            rows = _lanes_first(x) if of_each else jnp.broadcast_to(x, (lanes, *jnp.shape(x)))
            placed.append(lax.dynamic_update_index_in_dim(everything, rows, number, 0))
        return placed

    nothing = [jnp.zeros((chunks, lanes, *shape), dtype) for shape, dtype in shapes]
    results = lax.fori_loop(0, chunks, of_chunk, nothing)
    return [x.reshape(chunks * lanes, *x.shape[2:])[:size] for x in results]


def derivative(one_by_one: Callable, program: Any, consts: list, samples: list, by_consts, by_samples):
    """Computes the derivative of the program for single samples, by the arguments with nonzero tangents."""
    given, changes = [*consts, *samples], [*by_consts, *by_samples]
    moving = [not isinstance(change, SymbolicZero) for change in changes]

    def results(*moved):
        moved = iter(moved)
        values = [next(moved) if moves else x for moves, x in zip(moving, given, strict=True)]
        return one_by_one(program, values[: len(consts)], values[len(consts) :])

    pick = lambda values: [x for x, moves in zip(values, moving, strict=True) if moves]
    return jax.jvp(results, pick(given), pick(changes))


side_by_side.defjvp(
    lambda jaxpr, lanes, primals, tangents: derivative(one_by_one, jaxpr, *primals, *tangents),
    symbolic_zeros=True,
)


def _lanes_first(x: jax.Array) -> jax.Array:
    """Moves the last axis to the front after the values are computed: fused with the computation, it would have no lanes."""
    if x.ndim == 1 or not x.size:
        return jnp.moveaxis(x, -1, 0)

    return _once(x).reshape(-1, x.shape[-1]).T.reshape(x.shape[-1], *x.shape[:-1])


class Lanes:
    """Runs programs on arrays; those that depend on the sample have an additional last axis of length `lanes`."""

    def __init__(self, lanes: int):
        self.lanes = lanes
        self.by_jax: set[str] = set()
        """The names of the operations without a rule so far."""

    def run(self, jaxpr: Jaxpr, consts: Sequence, xs: Sequence, given: Sequence[bool]) -> list:
        """Returns the results of a program; `dependent` returns which of them have the sample axis."""
        values = {var: (x, False) for var, x in zip(jaxpr.constvars, consts, strict=True)}
        values |= {var: (x, own) for var, x, own in zip(jaxpr.invars, xs, given, strict=True)}
        read = lambda atom: (atom.val, False) if isinstance(atom, Literal) else values[atom]
        for equation in jaxpr.eqns:
            xs, given = zip(*map(read, equation.invars)) if equation.invars else ((), ())
            results, flags = self.operation(equation, list(xs), given), dependent_results(equation, given)
            values |= {var: (x, own) for var, x, own in zip(equation.outvars, results, flags, strict=True)}
        return [read(atom)[0] for atom in jaxpr.outvars]

    def operation(self, equation: JaxprEqn, xs: list, given: tuple[bool, ...]) -> list:
        """Returns the results of one operation."""
        name, params = equation.primitive.name, equation.params
        if name in PROGRAMS:
            return self.run(*opened(params[PROGRAMS[name]]), xs, given)
        if not any(given):
            return _bound(equation, xs)
        if name in OF_PROGRAMS:
            return OF_PROGRAMS[name](self, params, xs, given)
        if name in ELEMENTWISE:
            shape = aval_of(equation.outvars[0]).shape
            return _bound(equation, [self.along(shape, x, own) for x, own in zip(xs, given)])
        if name in ALONG_AXES:
            xs = self.spread(xs, given, (True,) * len(xs))
            return _summed(xs[0], params["axes"]) if name == "reduce_sum" else _bound(equation, xs)
        if not _has_rule(equation, given):
            self.by_jax.add(name)
            axes = [-1 if own else None for own in given]
            return jax.vmap(lambda *xs: _bound(equation, xs), in_axes=axes, out_axes=-1)(*xs)
        results = RULES[name](self, equation, xs, given)
        return results if isinstance(results, list) else [results]

    def spread(self, xs: Sequence, given: Sequence[bool], wanted: Sequence[bool]) -> list:
        """Returns arrays, with a sample axis added where it is wanted and missing."""
        return [
            self.along(jnp.shape(x), x, False) if want and not own else x
            for x, own, want in zip(xs, given, wanted, strict=True)
        ]

    def along(self, shape: tuple[int, ...], x, own: bool) -> jax.Array:
        """Returns a number or an array broadcast to a shape, with the sample axis."""
        x = x if own else jnp.asarray(x)[..., None]
        if x.ndim == 1:
            x = x.reshape((1,) * len(shape) + x.shape)
        return jnp.broadcast_to(x, (*shape, self.lanes))

    # Operations with inner programs.

    def scan(self, params: dict, xs: list, given: Sequence[bool]) -> list:
        parts = OfScan(params, given)
        count = parts.count
        shared, rows = xs[: parts.constants], xs[parts.carry.stop :]

        def step(carry, row):
            results = self.run(*opened(parts.program), [*shared, *carry, *row], parts.given)
            return self.spread(results[:count], parts.of_step[:count], parts.carried), results[count:]

        start = self.spread(xs[parts.carry], given[parts.carry], parts.carried)
        how = {name: params[name] for name in ("length", "reverse", "unroll")}
        end, found = lax.scan(step, start, rows, **how)
        return [*end, *found]

    def loop(self, params: dict, xs: list, given: Sequence[bool]) -> list:
        """Runs a loop until all samples are finished; finished samples keep their values."""
        parts = OfWhile(params, given)

        def goes_on(carry):
            test_given = (*given[parts.test], *parts.carried)
            return self.run(*opened(params["cond_jaxpr"]), [*xs[parts.test], *carry], test_given)[0]

        def step(carry):
            body_given = (*given[parts.body], *parts.carried)
            results = self.run(*opened(params["body_jaxpr"]), [*xs[parts.body], *carry], body_given)
            results = self.spread(results, parts.of_step, parts.carried)
            if not parts.apart:
                return results
            which = goes_on(carry)
            return [
                lax.select(jnp.broadcast_to(which, new.shape), new, old) for new, old in zip(results, carry)
            ]

        start = self.spread(xs[parts.carry], given[parts.carry], parts.carried)
        return lax.while_loop(lambda carry: jnp.any(goes_on(carry)), step, start)

    def branches(self, params: dict, xs: list, given: Sequence[bool]) -> list:
        """Runs one branch if all samples take the same; otherwise runs all branches and selects per sample."""
        programs, of_branch = params["branches"], given[1:]
        flags = [dependent(opened(program)[0], of_branch) for program in programs]
        wanted = [given[0] or any(of_one) for of_one in zip(*flags)]

        def branch(number: int):
            return self.spread(self.run(*opened(programs[number]), xs[1:], of_branch), flags[number], wanted)

        if not given[0]:
            return lax.switch(
                xs[0].astype(jnp.int32), [functools.partial(branch, i) for i in range(len(programs))]
            )
        which = jnp.clip(xs[0].astype(jnp.int32), 0, len(programs) - 1)
        of_each = zip(*map(branch, range(len(programs))))
        return [lax.select_n(jnp.broadcast_to(which, cases[0].shape), *cases) for cases in of_each]

    def linear_solve(self, params: dict, xs: list, given: Sequence[bool]) -> list:
        """Runs the solver of a linear solve, without its derivative rules."""
        program, own = params["jaxprs"].solve, tuple(of_solve(params, given))
        flags = dependent(opened(program)[0], own)
        return self.spread(self.run(*opened(program), of_solve(params, xs), own), flags, (True,) * len(flags))


OF_PROGRAMS: dict[str, Callable] = {
    "scan": Lanes.scan,
    "while": Lanes.loop,
    "cond": Lanes.branches,
    "custom_linear_solve": Lanes.linear_solve,
}


# Rules of the other operations. All their results depend on the sample.


def _broadcast(lanes: Lanes, equation, xs, given):
    shape, places = equation.params["shape"], equation.params["broadcast_dimensions"]
    return lax.broadcast_in_dim(xs[0], (*shape, lanes.lanes), (*places, len(shape)))


def _reshape(lanes: Lanes, equation, xs, given):
    return lax.reshape(xs[0], (*equation.params["new_sizes"], lanes.lanes))


def _transpose(lanes: Lanes, equation, xs, given):
    order = equation.params["permutation"]
    return lax.transpose(xs[0], (*order, len(order)))


def _slice(lanes: Lanes, equation, xs, given):
    params = equation.params
    strides = None if params["strides"] is None else (*params["strides"], 1)
    return lax.slice(xs[0], (*params["start_indices"], 0), (*params["limit_indices"], lanes.lanes), strides)


def _concatenate(lanes: Lanes, equation, xs, given):
    return lax.concatenate(lanes.spread(xs, given, (True,) * len(xs)), equation.params["dimension"])


def _stack(lanes: Lanes, equation, xs, given):
    axis = equation.params["axis"] % aval_of(equation.outvars[0]).ndim
    return jnp.stack(lanes.spread(xs, given, (True,) * len(xs)), axis)


def _unstack(lanes: Lanes, equation, xs, given):
    axis = equation.params["axis"] % (xs[0].ndim - 1)
    return [lax.index_in_dim(xs[0], i, axis, keepdims=False) for i in range(xs[0].shape[axis])]


def _pad(lanes: Lanes, equation, xs, given):
    (x,) = lanes.spread(xs[:1], given[:1], (True,))
    return lax.pad(x, xs[1], (*equation.params["padding_config"], (0, 0, 0)))


def _dynamic_slice(lanes: Lanes, equation, xs, given):
    return lax.dynamic_slice(
        xs[0], (*xs[1:], jnp.zeros_like(xs[1])), (*equation.params["slice_sizes"], lanes.lanes)
    )


def _dynamic_update_slice(lanes: Lanes, equation, xs, given):
    x, update = lanes.spread(xs[:2], given[:2], (True, True))
    return lax.dynamic_update_slice(x, update, (*xs[2:], jnp.zeros_like(xs[2])))


def _gather(lanes: Lanes, equation, xs, given):
    params, of = equation.params, equation.params["dimension_numbers"]
    numbers = lax.GatherDimensionNumbers(
        (*of.offset_dims, aval_of(equation.outvars[0]).ndim),
        of.collapsed_slice_dims,
        of.start_index_map,
        of.operand_batching_dims,
        of.start_indices_batching_dims,
    )
    how = _how(equation, "indices_are_sorted", "unique_indices", "mode", "fill_value")
    return lax.gather(xs[0], xs[1], numbers, (*params["slice_sizes"], lanes.lanes), **how)


def _scatter(function: Callable, lanes: Lanes, equation, xs, given):
    x, _, update = lanes.spread(xs, given, (True, False, True))
    of = equation.params["dimension_numbers"]
    numbers = lax.ScatterDimensionNumbers(
        (*of.update_window_dims, update.ndim - 1),
        of.inserted_window_dims,
        of.scatter_dims_to_operand_dims,
        of.operand_batching_dims,
        of.scatter_indices_batching_dims,
    )
    how = _how(equation, "indices_are_sorted", "unique_indices", "mode")
    return function(x, xs[1], update, numbers, **how)


def _dot_general(lanes: Lanes, equation, xs, given):
    """Computes sums of products term by term. Only the last axis is long, so matrix libraries would not be faster."""
    (summed_a, summed_b), (batch_a, batch_b) = equation.params["dimension_numbers"]
    shape, kind = aval_of(equation.outvars[0]).shape, aval_of(equation.outvars[0]).dtype
    terms = math.prod(xs[0].shape[i] for i in summed_a)

    def laid_out(x, own, summed, batch, first):
        """Returns an operand with the axes: terms, batch, rows and columns."""
        x = x if own else jnp.asarray(x)[..., None]
        rest = [i for i in range(x.ndim - 1) if i not in (*summed, *batch)]
        sizes = [x.shape[i] for i in rest]
        missing = (1,) * (len(shape) - len(batch) - len(rest))
        x = jnp.transpose(x, (*summed, *batch, *rest, x.ndim - 1))
        sizes = (*sizes, *missing) if first else (*missing, *sizes)
        return x.reshape(terms, *shape[: len(batch)], *sizes, x.shape[-1])

    if terms > SPELLED_OUT and not batch_a and not all(given):
        # A shared matrix times a vector per sample is a matrix product.
        how = _how(equation, "dimension_numbers", "precision", "preferred_element_type")
        product = lax.dot_general(xs[0], xs[1], **how)
        return jnp.moveaxis(product, xs[0].ndim - 1 - len(summed_a), -1) if given[0] else product
    free_a, free_b = (
        len(aval_of(atom).shape) > len(summed) + len(batch)
        for atom, summed, batch in zip(equation.invars, (summed_a, summed_b), (batch_a, batch_b))
    )
    # An operand is used several times if the other has free rows or columns. It is then computed once.
    first = _once(xs[0]) if free_b and given[0] else xs[0]
    second = _once(xs[1]) if free_a and given[1] else xs[1]
    a = laid_out(first, given[0], summed_a, batch_a, True)
    b = laid_out(second, given[1], summed_b, batch_b, False)
    if not terms:
        return jnp.zeros((*shape, lanes.lanes), kind)
    return _once(functools.reduce(jnp.add, [a[i] * b[i] for i in range(terms)])).astype(kind)


def _summed(x, axes: Sequence) -> list:
    """Returns `sum(x, axes)`; sums of few terms are written out."""
    terms = math.prod(x.shape[i] for i in axes)
    if not 0 < terms <= SPELLED_OUT:
        return [lax.reduce_sum(x, axes)]
    rest = [i for i in range(x.ndim) if i not in axes]
    x = jnp.transpose(x, (*axes, *rest)).reshape(terms, *(x.shape[i] for i in rest))
    return [_once(functools.reduce(jnp.add, [x[i] for i in range(terms)]))]


RULES: dict[str, Callable] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "concatenate": _concatenate,
    "stack": _stack,
    "unstack": _unstack,
    "pad": _pad,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": functools.partial(_scatter, lax.scatter),
    "scatter-add": functools.partial(_scatter, lax.scatter_add),
    "dot_general": _dot_general,
    "squeeze": lambda lanes, equation, xs, given: lax.squeeze(xs[0], equation.params["dimensions"]),
    "split": lambda lanes, equation, xs, given: list(
        lax.split(xs[0], equation.params["sizes"], equation.params["axis"])
    ),
}


def _how(equation: JaxprEqn, *names: str) -> dict:
    return {name: equation.params[name] for name in names}


def _once(x) -> jax.Array:
    """Returns x, computed once, and not again for each result: in `S (Sᵀ f)`, XLA would compute the sum six times.

    XLA does not fuse operations across the boundary of a function that must not be inlined.
    """
    with set_xla_metadata(inlineable="false"):
        return jax.jit(jnp.copy)(x)


def has_rules(jaxpr: Jaxpr, given: tuple[bool, ...], once: bool = True) -> bool:
    """Returns True if all operations that depend on the sample have rules, with the same iterations for each sample.

    Args:
      jaxpr: The program.
      given: Which arguments depend on the sample.
      once: True outside of loops. There, slices may have indices that depend on the sample: rollouts have one for the step at
        which they failed.
    """
    known = dict.fromkeys(jaxpr.constvars, False) | dict(zip(jaxpr.invars, given, strict=True))
    for equation in jaxpr.eqns:
        of = tuple(not isinstance(atom, Literal) and known[atom] for atom in equation.invars)
        if equation.effects or (any(of) and not _has_rule(equation, of, once)):
            return False
        known |= dict(zip(equation.outvars, dependent_results(equation, of), strict=True))
    return True


def _has_rule(equation: JaxprEqn, given: tuple[bool, ...], once: bool = False) -> bool:
    name, params = equation.primitive.name, equation.params
    if name in PROGRAMS:
        return has_rules(opened(params[PROGRAMS[name]])[0], given, once)
    if name == "dynamic_slice" and once:
        return True
    if name == "scan":
        return has_rules(opened(params["jaxpr"])[0], of_rounds(params, given), False)
    if name == "while":
        parts = OfWhile(params, given)
        body = has_rules(opened(params["body_jaxpr"])[0], (*given[parts.body], *parts.carried), False)
        return not parts.apart and body
    if name == "cond":
        return all(has_rules(opened(branch)[0], given[1:], once) for branch in params["branches"])
    if name == "custom_linear_solve":
        return has_rules(opened(params["jaxprs"].solve)[0], tuple(of_solve(params, given)), once)
    if name == "dot_general":  # large products are better left to a library of matrices
        sizes = aval_of(equation.invars[0]).shape
        return not all(given) or math.prod(sizes[i] for i in params["dimension_numbers"][0][0]) <= SPELLED_OUT
    if name in INDICES:
        return not any(given[INDICES[name]])
    return name in ELEMENTWISE or name in ALONG_AXES or name in RULES


def _bound(equation: JaxprEqn, xs: Sequence) -> list:
    """Evaluates an operation on arrays."""
    results = equation.primitive.bind(*xs, **equation.params)
    return list(results) if equation.primitive.multiple_results else [results]
