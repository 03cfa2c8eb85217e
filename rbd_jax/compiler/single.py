"""The JAX operation `single`: a function of one sample, which `jax.vmap` turns into a `Mapped` function.

Without `jax.vmap` the operations of the function are compiled as usual. Derivatives are operations of the same type, so that
`jax.vmap` of a gradient is mapped, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import core
from jax.extend.core import ClosedJaxpr, Primitive
from jax.interpreters import ad, batching, mlir

from .._core import under_vmap
from .._core.platform import is_cpu
from .primitive import Mapped, forward, reverse


#: Minimum number of samples for a kernel on a CPU. JAX's compilation cache does not store all of a kernel, which costs more than
#: smaller batches gain. `rbd.batch_map` also uses kernels for smaller batches.
ENOUGH = 64


def single(function: Callable[[Any], Any], given: Any) -> Any:
    """Evaluates a function as one operation.

    Args:
      function: The function of a PyTree. It may capture traced arrays.
      given: The PyTree. Only its traced arrays are arguments of the operation.

    >>> from rbd_jax import compiler
    >>> print(jax.make_jaxpr(jax.vmap(lambda x: compiler.single(jnp.sin, x)))(jnp.ones(100)).eqns[0].primitive)
    mapped
    """
    leaves, structure = jax.tree.flatten(given)
    traced = [number for number, x in enumerate(leaves) if isinstance(x, core.Tracer)]

    def of_traced(*arrays):
        filled = list(leaves)
        for number, x in zip(traced, arrays, strict=True):
            filled[number] = x
        return function(jax.tree.unflatten(structure, filled))

    avals = [jax.ShapeDtypeStruct(leaves[number].shape, leaves[number].dtype) for number in traced]
    closed, found = jax.make_jaxpr(of_traced, return_shape=True)(*avals)
    if closed.effects:
        return function(given)
    around = [isinstance(x, core.Tracer) for x in closed.consts]
    pick = lambda own, flag: [x for x, is_one in zip(own, around, strict=True) if is_one == flag]
    variables = closed.jaxpr.constvars
    jaxpr = closed.jaxpr.replace(
        constvars=pick(variables, False), invars=[*pick(variables, True), *closed.jaxpr.invars]
    )
    whole = ClosedJaxpr(jaxpr, pick(closed.consts, False))
    program = Single("jax.vmap", whole.in_avals, whole.out_avals, 0, None, Mapped.by_vmap, lambda: whole)
    arguments = [*pick(closed.consts, True), *(leaves[number] for number in traced)]
    return jax.tree.unflatten(jax.tree.structure(found), program.bound([], arguments))


class Single(Mapped):
    """A function of one sample that is not mapped yet: all arguments belong to the sample."""

    def bound(self, shared: Sequence, samples: Sequence) -> list:
        return operation.bind(*samples, program=self)

    def without_kernel(self, shared: Sequence, samples: Sequence) -> list:
        return self.of_one(*samples)

    def mapped(self, is_own: Sequence[bool]) -> Mapped:
        """Returns the function mapped over a batch.

        Args:
          is_own: Which arguments have a batch axis. The others are the first arguments of the mapped function.
        """
        order = ordered(is_own)
        avals = [self.given[number] for number in order]

        def make() -> ClosedJaxpr:
            closed = self.closed
            invars = [closed.jaxpr.invars[number] for number in order]
            return ClosedJaxpr(closed.jaxpr.replace(invars=invars), closed.consts)

        return Mapped(self.owner, avals, self.results, len(avals) - sum(is_own), None, self.otherwise, make)


def ordered(is_own: Sequence[bool]) -> list[int]:
    """Returns the indices of the shared arguments, then those of the sample."""
    return sorted(range(len(is_own)), key=lambda number: is_own[number])


operation = Primitive("single")
operation.multiple_results = True
operation.def_impl(lambda *args, program: program.of_one(*args))
operation.def_abstract_eval(
    lambda *args, program: [core.ShapedArray(x.shape, x.dtype) for x in program.results]
)
mlir.register_lowering(
    operation, mlir.lower_fun(lambda *args, program: program.of_one(*args), multiple_results=True)
)
ad.primitive_jvps[operation] = forward
ad.primitive_transposes[operation] = reverse


def _batched(args, axes, *, program: Single):
    is_own = [axis is not None for axis in axes]
    rows = [x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(args, axes, strict=True)]
    (size,) = {x.shape[0] for x, is_one in zip(rows, is_own, strict=True) if is_one}
    own = program.mapped(is_own)
    given = [rows[number] for number in ordered(is_own)]
    run = own.without_kernel if is_cpu() and size < ENOUGH else own.bound
    return run(given[: own.shared], given[own.shared :]), [0] * len(program.results)


batching.primitive_batchers[operation] = _batched
under_vmap.bind = single
