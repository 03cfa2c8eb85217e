"""A function of one sample, of each sample of a batch, as one operation of JAX: its form is chosen when it is compiled.

A kernel (`kernel`) takes a second or more to be made. As an operation it is made only of what is compiled, and for what
that is compiled for: a processor, or a GPU. Its derivatives are such operations too, of the function's derivative: forward of
its tangents, and in reverse of the pullback, which begins with the samples again. What all samples share has as its derivative
the sum over them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import core, lax
from jax.extend.core import ClosedJaxpr, Jaxpr, Primitive
from jax.interpreters import ad, batching, mlir

from .._core.platform import is_cpu
from . import faults
from .jaxprs import needed, programs_of
from .kernel import Kernel
from .policy import has_loops, is_kernel, is_worth_it, why_not
from .schedule import NoKernel


#: What is done of a program without a kernel: `(program, shared, samples) -> results`.
Otherwise = Callable[["Mapped", list, list], list]


def mapped(
    owner: str, function: Callable[[Any], Any], batched: Any, how: bool | str | None, otherwise: Otherwise
) -> Any:
    """`function` of one sample, a PyTree of arrays, of each sample along axis 0.

    What is used from around it is known, and folds into a kernel, or traced, and is read by it.

    - `how`: with True it is a kernel, with "interpret" that of a GPU, run on a processor. With None it is what
      `otherwise` makes of it where there is no kernel, or where that is not worth it.

    >>> from rbd_jax import compiler
    >>> by_jax = lambda one, shared, samples: jax.vmap(lambda *x: one.of_one(*shared, *x))(*samples)
    >>> print(compiler.mapped("an example", lambda x: 2 * x, jnp.arange(3.0), None, by_jax))
    [0. 2. 4.]
    """
    leaves, structure = jax.tree.flatten(batched)
    of_one = lambda *rows: function(jax.tree.unflatten(structure, rows))
    one = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in leaves]
    closed, found = jax.make_jaxpr(of_one, return_shape=True)(*one)
    traced = [isinstance(x, core.Tracer) for x in closed.consts]
    shared = [x for x, is_one in zip(closed.consts, traced, strict=True) if is_one]
    split = lambda flag: [
        var for var, is_one in zip(closed.jaxpr.constvars, traced, strict=True) if is_one == flag
    ]
    program = Mapped(
        owner, (*map(jax.typeof, shared), *closed.in_avals), closed.out_avals, len(shared), how, otherwise,
        lambda: ClosedJaxpr(
            closed.jaxpr.replace(constvars=split(False), invars=[*split(True), *closed.jaxpr.invars]),
            [x for x in closed.consts if not isinstance(x, core.Tracer)],
        ),
    )  # fmt: skip
    if closed.effects and how:
        raise ValueError(
            f"{owner}: function does something besides, which a fused kernel cannot; leave fused out"
        )
    results = otherwise(program, shared, leaves) if closed.effects else program.bound(shared, leaves)
    return jax.tree.unflatten(jax.tree.structure(found), results)


def each(function: Callable[[Any], Any], stacked: Any) -> Any:
    """Returns the results of a function of one row of arrays, for each row.

    Compiled by XLA this is `jax.vmap`. In a kernel each row is computed by itself, so that a `cond` in the function skips rows.

    Args:
      function: The function of one row of each array.
      stacked: A PyTree of arrays whose first axes have the same length.

    >>> from rbd_jax import compiler
    >>> print(compiler.each(lambda x: 2 * x, jnp.arange(3.0)))
    [0. 2. 4.]
    """
    if len(jax.tree.leaves(stacked)[0]) == 1:
        return jax.tree.map(lambda x: x[None], function(jax.tree.map(lambda x: jnp.squeeze(x, 0), stacked)))
    return mapped("each", function, stacked, _EACH, Mapped.by_vmap)


#: Of a program that is part of others: it is no kernel by itself.
_EACH = "each"


class Mapped:
    """A function of one sample.

    - `given`: the shapes and types of its arguments: of `shared` that all samples share, and then of the sample's own; `results`
      those of its results.
    - `how`, `otherwise`: as for `mapped`.
    - `make`: traces it, when it is needed.
    - `summed`: which results are summed over the samples.
    - `origin`: of a derivative by some arguments, forward: the program that it is of, and the numbers of these.

    >>> from rbd_jax import compiler
    >>> seen = []
    >>> def by_jax(one: compiler.Mapped, shared, samples):
    ...     seen.append([x.shape for x in one.given])
    ...     return jax.vmap(lambda *x: one.of_one(*shared, *x))(*samples)
    >>> total = compiler.mapped("an example", jnp.sum, jnp.ones((3, 2)), None, by_jax)
    >>> print(seen[0], total)
    [(2,)] [2. 2. 2.]
    """

    def __init__(
        self,
        owner: str,
        given: Sequence,
        results: Sequence,
        shared: int,
        how: bool | str | None,
        otherwise: Otherwise,
        make: Callable[[], ClosedJaxpr],
        summed: Sequence[bool] | None = None,
        origin: tuple[Mapped, tuple[int, ...]] | None = None,
    ):
        self.owner, self.given, self.results, self.shared = owner, tuple(given), tuple(results), shared
        self.how, self.otherwise, self.origin = how, otherwise, origin
        self.summed = (False,) * len(self.results) if summed is None else tuple(summed)
        self._make = make

    @functools.cached_property
    def closed(self) -> ClosedJaxpr:
        """Its operations: of what is shared, then of the sample."""
        return needed(self._make())

    def of_one(self, *args) -> list:
        return core.eval_jaxpr(self.closed.jaxpr, self.closed.consts, *args)

    def by_vmap(self, shared: list, samples: list) -> list:
        """The results of each sample, by `jax.vmap`."""
        return jax.vmap(lambda *rows: self.of_one(*shared, *rows))(*samples)

    def bound(self, shared: Sequence, samples: Sequence) -> list:
        """The results of each sample, (size, ...) each, or what they sum up to."""
        return operation.bind(*shared, *samples, program=self)

    def along(self, moving: Sequence[int]) -> Mapped:
        """The tangents of its results, of floating-point numbers, along those of some arguments.

        It is of what is shared, the tangents of that, the sample, and the tangents of that.
        """
        of_all = [number for number in moving if number < self.shared]
        split = lambda own: ([*own[: self.shared]], [*own[self.shared :]])
        of_sample = list(moving[len(of_all) :])
        shared, rows = split(self.given)
        shared += [self.given[number] for number in of_all]
        count = len(shared)

        def of_one(*args):
            (primals, more), tangents = split(args[:count]), args[count + len(rows) :]
            primals = [*primals, *args[count : count + len(rows)]]
            return jax.jvp(self._by(moving, primals), [primals[i] for i in moving], [*more, *tangents])[1]

        given = [*shared, *rows, *(self.given[number] for number in of_sample)]
        floating = list(map(is_floating, self.results))
        pick = lambda own: [x for x, is_one in zip(own, floating, strict=True) if is_one]
        return self._derived(
            given, pick(self.results), count, of_one, pick(self.summed), (self, tuple(moving))
        )

    def pulled_back(self, moving: Sequence[int]) -> Mapped:
        """What cotangents of its results, of floating-point numbers, are for some arguments.

        It is of what is shared, the cotangents of what is summed, the sample, and the other cotangents. What it finds for what is
        shared is summed.
        """
        pairs = [pair for pair in zip(self.results, self.summed, strict=True) if is_floating(pair[0])]
        of_all = [*self.given[: self.shared], *(x for x, is_sum in pairs if is_sum)]
        of_sample = [*self.given[self.shared :], *(x for x, is_sum in pairs if not is_sum)]
        count = len(of_all)

        def of_one(*args):
            shared, own = args[:count], args[count:]
            rows = len(self.given) - self.shared
            primals = [*shared[: self.shared], *own[:rows]]
            sums, others = iter(shared[self.shared :]), iter(own[rows:])
            cotangents = [next(sums) if is_sum else next(others) for _, is_sum in pairs]
            return jax.vjp(self._by(moving, primals), *(primals[number] for number in moving))[1](cotangents)

        results = [self.given[number] for number in moving]
        summed = [number < self.shared for number in moving]
        return self._derived([*of_all, *of_sample], results, count, of_one, summed)

    def _derived(self, given, results, shared: int, of_one: Callable, summed, origin=None) -> Mapped:
        """A function that is made of this one. It need not be a kernel."""
        shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in given]
        make = lambda: jax.make_jaxpr(of_one)(*shapes)
        how = self.how if self.how == _EACH else None
        return type(self)(self.owner, given, results, shared, how, self.otherwise, make, summed, origin)

    @functools.cached_property
    def has_derivative(self) -> bool:
        """Whether its derivative is made of functions like this.

        The way back begins again with the samples. That pays only if it is a kernel. Otherwise it is faster to store what is
        needed on the way there.
        """
        platform = "cpu" if is_cpu() else "cuda"
        if self.how == _EACH:
            return True
        if not is_worth_it(self, platform):
            return False
        moving = [number for number, aval in enumerate(self.given) if is_floating(aval)]
        return not has_loops(self.closed.jaxpr) or is_worth_it(self.pulled_back(moving), platform)

    def without_kernel(self, shared: Sequence, samples: Sequence) -> list:
        found = self.otherwise(self, list(shared), list(samples))
        return [x.sum(0) if is_sum else x for x, is_sum in zip(found, self.summed, strict=True)]

    def _by(self, moving: Sequence[int], primals: Sequence) -> Callable:
        """Its results that are floating-point numbers, as a function of some arguments."""

        def results(*moved):
            args = list(primals)
            for number, x in zip(moving, moved, strict=True):
                args[number] = x
            found = self.of_one(*args)
            return [x for x, aval in zip(found, self.results, strict=True) if is_floating(aval)]

        return results

    def on(self, platform: str | None, *args) -> list:
        """The results, as they are computed on a platform."""
        shared, samples = list(args[: self.shared]), list(args[self.shared :])
        if self.how == _EACH:
            return self.without_kernel(shared, samples)
        if self.how == "interpret" and platform != "cpu":
            raise NoKernel(f'{self.owner}: with fused="interpret" the kernel of a GPU runs on a processor')
        if platform is None or not is_kernel(platform):
            fault = "there are none where this is compiled for"
        else:
            fault = faults.why_no_kernels(platform)
        if platform is not None and fault is None and (self.how or is_worth_it(self, platform)):
            try:
                return self._kernel()(shared, samples, "interpret" if self.how == "interpret" else platform)
            except NoKernel:
                if self.how:
                    raise
            except Exception as error:  # whatever goes wrong here does not without a kernel
                if self.how:
                    raise
                faults.warn(error)
        elif self.how:
            raise NoKernel(f"{self.owner}: there are no fused kernels: {fault}; leave fused out")
        return self.without_kernel(shared, samples)

    def explained(self, platform: str) -> Explanation:
        """What is made of it on a platform, and why."""
        if (fault := faults.why_no_kernels(platform)) is not None:
            return Explanation(False, f"kernels are switched off: {fault}")
        if not self.how and (reason := why_not(self, platform)) is not None:
            return Explanation(False, reason)
        try:
            kernel = self._kernel()
        except NoKernel as error:
            return Explanation(False, str(error))
        return Explanation(True, "it is asked for" if self.how else "it pays", kernel.piece.count())

    def _kernel(self) -> Kernel:
        return Kernel(self.owner, self.closed, self.shared, self.summed, self._again)

    def _again(self, function: Callable, arrays: list) -> list:
        """Returns the results of a function of one sample for each sample, as another operation like this one."""
        return mapped(self.owner, lambda own: function(*own), arrays, None, self.otherwise)


class Explanation(NamedTuple):
    """Whether a function of one sample is a kernel, why, and of how many scalars, those in loops once.

    >>> from rbd_jax import compiler
    >>> print(compiler.Explanation(True, "it pays", 20_000).seconds)
    1.4
    """

    is_kernel: bool
    reason: str
    scalars: int = 0

    @property
    def seconds(self) -> float:
        """About how long it takes to compile, of processor time."""
        return 0.2 + 6e-5 * self.scalars


def is_floating(aval) -> bool:
    return jnp.issubdtype(aval.dtype, jnp.inexact)


operation = Primitive("mapped")
operation.multiple_results = True
operation.def_impl(lambda *args, program: program.on(jax.default_backend(), *args))


@operation.def_abstract_eval
def _shapes(*args, program: Mapped) -> list:
    size = args[program.shared].shape[:1]
    pairs = zip(program.results, program.summed, strict=True)
    return [core.ShapedArray((() if is_sum else size) + x.shape, x.dtype) for x, is_sum in pairs]


def _lowered(platform: str | None) -> Callable:
    def rule(context, *args, program: Mapped):
        # What is exported may run where there is no routine that it could call.
        exported = context.module_context.lowering_parameters.for_export and platform == "cpu"
        run = functools.partial(program.on, None if exported else platform)
        return mlir.lower_fun(run, multiple_results=True)(context, *args)

    return rule


mlir.register_lowering(operation, _lowered(None))
for name in ("cpu", "cuda"):
    mlir.register_lowering(operation, _lowered(name), platform=name)


def forward(primals, tangents, *, program: Mapped):
    changes = lambda x: not isinstance(x, ad.Zero) and is_floating(x)
    moving = [number for number, x in enumerate(tangents) if changes(x)]
    if moving and not program.has_derivative:

        def by_jax(*moved):
            args = list(primals)
            for number, x in zip(moving, moved, strict=True):
                args[number] = x
            return program.without_kernel(args[: program.shared], args[program.shared :])

        results, moved = jax.jvp(by_jax, [primals[i] for i in moving], [tangents[i] for i in moving])
        zero = lambda x: ad.Zero(jax.typeof(x).to_tangent_aval())
        return results, [y if is_floating(x) else zero(x) for x, y in zip(results, moved, strict=True)]
    results = program.bound(primals[: program.shared], primals[program.shared :])
    zeros = [ad.Zero(jax.typeof(x).to_tangent_aval()) for x in results]
    if not moving:
        return results, zeros
    along = program.along(moving)
    of_all = [*primals[: program.shared], *(tangents[i] for i in moving if i < program.shared)]
    of_samples = [*primals[program.shared :], *(tangents[i] for i in moving if i >= program.shared)]
    found = iter(along.bound(of_all, of_samples))
    moved = [next(found) if is_floating(x) else zero for x, zero in zip(results, zeros, strict=True)]
    return results, moved


ad.primitive_jvps[operation] = forward


def reverse(cotangents, *args, program: Mapped):
    """Of a derivative forward, which is linear in tangents."""
    assert program.origin is not None
    of, moving = program.origin
    shared, samples = args[: program.shared], args[program.shared :]
    count = len(of.given) - of.shared
    tangents = [*shared[of.shared :], *samples[count:]]
    wanted = [number for number, x in zip(moving, tangents, strict=True) if ad.is_undefined_primal(x)]
    filled = list(zip(map(ad.instantiate_zeros, cotangents), program.summed, strict=True))
    found = of.pulled_back(wanted).bound(
        [*shared[: of.shared], *(x for x, is_sum in filled if is_sum)],
        [*samples[:count], *(x for x, is_sum in filled if not is_sum)],
    )
    back = dict(zip(wanted, found, strict=True))
    own = [back.get(number) for number in moving]
    by_all = sum(number < of.shared for number in moving)
    return [*[None] * of.shared, *own[:by_all], *[None] * count, *own[by_all:]]


ad.primitive_transposes[operation] = reverse


def _batched(args, axes, *, program: Mapped):
    """Batches of batches are one, if what samples share is the same in each, and nothing is summed over one of them."""
    (number,) = {x.shape[axis] for x, axis in zip(args, axes, strict=True) if axis is not None}
    if program.how == _EACH:
        plain = lambda *args: program.without_kernel(args[: program.shared], args[program.shared :])
        return jax.vmap(plain, axes)(*args), [0] * len(program.results)
    if any(program.summed) or any(axis is not None for axis in axes[: program.shared]):
        own = [axis is not None for axis in axes]
        rows = [jnp.moveaxis(x, axis, 0) for x, axis in zip(args, axes, strict=True) if axis is not None]

        def of_each(rows):
            rows = iter(rows)
            given = [next(rows) if is_own else x for x, is_own in zip(args, own, strict=True)]
            return program.bound(given[: program.shared], given[program.shared :])

        return lax.map(of_each, rows), [0] * len(program.results)
    flat = []
    for x, axis in zip(args[program.shared :], axes[program.shared :], strict=True):
        rows = jnp.broadcast_to(x, (number, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        flat.append(rows.reshape(-1, *rows.shape[2:]))
    found = program.bound(args[: program.shared], flat)
    return [x.reshape(number, -1, *x.shape[1:]) for x in found], [0] * len(found)


batching.primitive_batchers[operation] = _batched


def kernels_in(jaxpr: Jaxpr, platform: str) -> list[Explanation]:
    """What is made of each mapped function within a program.

    >>> from rbd_jax import compiler
    >>> program = jax.make_jaxpr(rbd.batch_map(lambda x: 2 * x))(jnp.ones((9, 3)))
    >>> print(compiler.kernels_in(program.jaxpr, "cpu")[0].is_kernel)
    False
    """
    found = []
    for equation in jaxpr.eqns:
        if equation.primitive is operation and equation.params["program"].how != _EACH:
            found.append(equation.params["program"].explained(platform))
        for inner in programs_of(equation):
            found += kernels_in(inner, platform)
    return found
