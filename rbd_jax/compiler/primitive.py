"""The JAX operation `mapped`: a function of one sample, applied to each sample of a batch.

The compilation of a kernel (`kernel`) takes a second or more. With an operation, kernels are created only for programs that are
compiled, and only for their platform (CPU or GPU). Derivatives are operations of the same type. The forward derivative maps the
tangents of the function. The reverse derivative maps its pullback, which starts again from the samples. Derivatives by arguments
that all samples share are sums over the samples.
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


#: Evaluates a program without a kernel: `(program, shared, samples) -> results`.
Otherwise = Callable[["Mapped", list, list], list]


def mapped(
    owner: str, function: Callable[[Any], Any], batched: Any, how: bool | str | None, otherwise: Otherwise
) -> Any:
    """Applies a function of one sample to each sample along axis 0.

    Captured constants are folded into the kernel. Captured traced arrays are arguments of the kernel that all samples share.

    Args:
      owner: The name of the public function, for messages.
      function: The function of one sample, a PyTree of arrays.
      batched: The samples: a PyTree of arrays with the batch axis first.
      how: True requires a kernel. "interpret" runs the GPU kernel on a CPU. None uses a kernel where it is possible and
        worthwhile, and otherwise `otherwise`.
      otherwise: Evaluates the function without a kernel.

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
            f"{owner}: function has side effects, which a fused kernel does not support; leave fused out"
        )
    results = otherwise(program, shared, leaves) if closed.effects else program.bound(shared, leaves)
    return jax.tree.unflatten(jax.tree.structure(found), results)


def each(function: Callable[[Any], Any], stacked: Any) -> Any:
    """Applies a function of one row of arrays to each row.

    Compiled by XLA this is `jax.vmap`. A kernel computes each row separately, so that a `cond` in the function can skip rows.

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


#: The `how` of a program that is only part of other programs, and never a kernel of its own.
_EACH = "each"


class Mapped:
    """A function of one sample.

    - `given`: the shapes and types of its arguments: first those that all samples share, then those of the sample.
    - `results`: the shapes and types of its results.
    - `shared`: the number of arguments that all samples share.
    - `how`, `otherwise`: as for `mapped`.
    - `make`: traces the function on first use.
    - `summed`: which results are summed over the samples.
    - `origin`: for a forward derivative, the differentiated program and the indices of the arguments.

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
        """The jaxpr of the function; its arguments are the shared ones, then those of the sample."""
        return needed(self._make())

    def of_one(self, *args) -> list:
        return core.eval_jaxpr(self.closed.jaxpr, self.closed.consts, *args)

    def by_vmap(self, shared: list, samples: list) -> list:
        """Returns the results of each sample, by `jax.vmap`."""
        return jax.vmap(lambda *rows: self.of_one(*shared, *rows))(*samples)

    def bound(self, shared: Sequence, samples: Sequence) -> list:
        """Returns the results of all samples, each of shape (size, ...), or their sums."""
        return operation.bind(*shared, *samples, program=self)

    def along(self, moving: Sequence[int]) -> Mapped:
        """Returns the function of the tangents of all floating-point results by the arguments `moving`.

        Its arguments are the shared ones, their tangents, those of the sample, and their tangents.
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
        """Returns the function of the cotangents of the arguments `moving`, from those of all floating-point results.

        Its arguments are the shared ones, the cotangents of summed results, those of the sample, and the other cotangents. The
        cotangents of shared arguments are summed over the samples.
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
        """Returns a function derived from this one. It is not required to be a kernel."""
        shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in given]
        make = lambda: jax.make_jaxpr(of_one)(*shapes)
        how = self.how if self.how == _EACH else None
        return type(self)(self.owner, given, results, shared, how, self.otherwise, make, summed, origin)

    @functools.cached_property
    def has_derivative(self) -> bool:
        """If True, derivatives are `Mapped` functions, too.

        The reverse derivative repeats the forward computation. This is worthwhile only if it is a kernel. Otherwise it is faster
        to store intermediate results.
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
        """Returns the floating-point results as a function of the arguments `moving`."""

        def results(*moved):
            args = list(primals)
            for number, x in zip(moving, moved, strict=True):
                args[number] = x
            found = self.of_one(*args)
            return [x for x, aval in zip(found, self.results, strict=True) if is_floating(aval)]

        return results

    def on(self, platform: str | None, *args) -> list:
        """Computes the results on a platform; None stands for any platform without kernels."""
        shared, samples = list(args[: self.shared]), list(args[self.shared :])
        if self.how == _EACH:
            return self.without_kernel(shared, samples)
        if self.how == "interpret" and platform != "cpu":
            raise NoKernel(
                f'{self.owner}: fused="interpret" runs the GPU kernel on a CPU, and requires the platform "cpu"'
            )
        if platform is None or not is_kernel(platform):
            fault = "the platform does not support them"
        else:
            fault = faults.why_no_kernels(platform)
        if platform is not None and fault is None and (self.how or is_worth_it(self, platform)):
            try:
                return self._kernel()(shared, samples, "interpret" if self.how == "interpret" else platform)
            except NoKernel:
                if self.how:
                    raise
            except Exception as error:  # any failure here can be avoided without a kernel
                if self.how:
                    raise
                faults.warn(error)
        elif self.how:
            raise NoKernel(f"{self.owner}: there are no fused kernels: {fault}; leave fused out")
        return self.without_kernel(shared, samples)

    def explained(self, platform: str) -> Explanation:
        """Returns whether the function is a kernel on a platform, and why."""
        if (fault := faults.why_no_kernels(platform)) is not None:
            return Explanation(False, f"kernels are switched off: {fault}")
        if not self.how and (reason := why_not(self, platform)) is not None:
            return Explanation(False, reason)
        try:
            kernel = self._kernel()
        except NoKernel as error:
            return Explanation(False, str(error))
        return Explanation(True, "it was requested" if self.how else "it pays", kernel.piece.count())

    def _kernel(self) -> Kernel:
        return Kernel(self.owner, self.closed, self.shared, self.summed, self._again)

    def _again(self, function: Callable, arrays: list) -> list:
        """Applies a function of one sample to each sample, as another operation of this type."""
        return mapped(self.owner, lambda own: function(*own), arrays, None, self.otherwise)


class Explanation(NamedTuple):
    """The explanation for a function of one sample: if it is a kernel, why, and its number of scalars (loops count once).

    >>> from rbd_jax import compiler
    >>> print(compiler.Explanation(True, "it pays", 20_000).seconds)
    1.4
    """

    is_kernel: bool
    reason: str
    scalars: int = 0

    @property
    def seconds(self) -> float:
        """The approximate compilation time, in seconds of CPU time."""
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
        # An exported program may run in a process without the compiled routine.
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
    """Transposes a forward derivative, which is linear in the tangents."""
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
    """Batches the operation. Two batch axes become one if the shared arguments have no batch axis and no results are summed."""
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
    """Returns an explanation for each mapped function of a program.

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
