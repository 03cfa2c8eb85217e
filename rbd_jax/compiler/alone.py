"""A function of one sample as one operation of JAX, which is a kernel of one thread where that is worth it.

XLA compiles a large program as often as it occurs in another one, and each time anew. As a kernel it is compiled once, and in less
time. Mapped over a batch it is `primitive.operation`; within another kernel it is part of that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import core
from jax.extend.core import ClosedJaxpr, Primitive
from jax.interpreters import ad, batching, mlir

from . import faults
from .jaxprs import PROGRAMS, entries
from .policy import is_worth_it
from .primitive import Mapped, is_floating
from .schedule import NoKernel


#: Programs that make fewer entries of arrays are left to XLA: their calls would take longer than they do.
LEAST = 3000


def alone(owner: str, function: Callable) -> Callable:
    """`function` of any PyTrees as one operation.

    >>> from rbd_jax import compiler
    >>> print(compiler.alone("an example", jnp.sin)(jnp.array(0.0)))
    0.0
    """

    def called(*args):
        leaves, structure = jax.tree.flatten(args)
        leaves = [jnp.asarray(x) for x in leaves]
        of_leaves = lambda *xs: function(*jax.tree.unflatten(structure, xs))
        closed, found = jax.make_jaxpr(of_leaves, return_shape=True)(*leaves)
        if closed.effects:
            return function(*args)
        traced = [isinstance(x, core.Tracer) for x in closed.consts]
        pick = lambda xs, flag: [x for x, is_one in zip(xs, traced, strict=True) if is_one == flag]
        variables = closed.jaxpr.constvars
        program = ClosedJaxpr(
            closed.jaxpr.replace(
                constvars=pick(variables, False), invars=[*pick(variables, True), *closed.jaxpr.invars]
            ),
            pick(closed.consts, False),
        )
        results = operation.bind(*pick(closed.consts, True), *leaves, jaxpr=program, owner=owner)
        return jax.tree.unflatten(jax.tree.structure(found), results)

    return called


operation = Primitive("alone")
operation.multiple_results = True
PROGRAMS[operation.name] = "jaxpr"


def _evaluated(*args, jaxpr: ClosedJaxpr, owner: str) -> list:
    return core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *args)


operation.def_impl(lambda *args, **params: jax.jit(lambda *xs: operation.bind(*xs, **params))(*args))


@operation.def_abstract_eval
def _shapes(*args, jaxpr: ClosedJaxpr, owner: str) -> list:
    return [core.ShapedArray(x.shape, x.dtype) for x in jaxpr.out_avals]


def _mapped(jaxpr: ClosedJaxpr, owner: str, shared: tuple[int, ...] = ()) -> Mapped:
    """The function of each sample of a batch; some of its arguments, which come first, are the same for all."""
    order = [*shared, *(i for i in range(len(jaxpr.in_avals)) if i not in shared)]

    def by_jax(program: Mapped, shared: list, samples: list) -> list:
        if samples[0].shape[0] == 1:
            return [x[None] for x in program.of_one(*shared, *(x[0] for x in samples))]
        return jax.vmap(lambda *rows: program.of_one(*shared, *rows))(*samples)

    def make() -> ClosedJaxpr:
        invars = [jaxpr.jaxpr.invars[i] for i in order]
        return ClosedJaxpr(jaxpr.jaxpr.replace(invars=invars), jaxpr.consts)

    given = [jaxpr.in_avals[i] for i in order]
    return Mapped(owner, given, jaxpr.out_avals, len(shared), None, by_jax, make)


def _is_large(jaxpr: ClosedJaxpr) -> bool:
    return entries(jaxpr.jaxpr) >= LEAST


def _lowered(context, *args, jaxpr: ClosedJaxpr, owner: str):
    exported = context.module_context.lowering_parameters.for_export

    def run(*args):
        if not exported and args and _is_large(jaxpr):
            program = _mapped(jaxpr, owner)
            if faults.why_no_kernels("cpu") is None and is_worth_it(program, "cpu"):
                try:
                    return [x[0] for x in program.kernel()([], [x[None] for x in args], "cpu")]
                except NoKernel:
                    pass
                except Exception as error:  # whatever goes wrong here does not without a kernel
                    faults.warn(error)
        return _evaluated(*args, jaxpr=jaxpr, owner=owner)

    return mlir.lower_fun(run, multiple_results=True)(context, *args)


mlir.register_lowering(operation, mlir.lower_fun(_evaluated, multiple_results=True))
mlir.register_lowering(operation, _lowered, platform="cpu")


def _forward(primals, tangents, *, jaxpr: ClosedJaxpr, owner: str):
    moving = [i for i, x in enumerate(tangents) if not isinstance(x, ad.Zero) and is_floating(primals[i])]
    program = _mapped(jaxpr, owner)
    if not moving:
        results = operation.bind(*primals, jaxpr=jaxpr, owner=owner)
        return results, [ad.Zero(jax.typeof(x).to_tangent_aval()) for x in results]
    if not (_is_large(jaxpr) and program.has_derivative):

        def by_jax(*moved):
            args = list(primals)
            for i, x in zip(moving, moved, strict=True):
                args[i] = x
            return _evaluated(*args, jaxpr=jaxpr, owner=owner)

        results, moved = jax.jvp(by_jax, [primals[i] for i in moving], [tangents[i] for i in moving])
        zero = lambda x: ad.Zero(jax.typeof(x).to_tangent_aval())
        return results, [y if is_floating(x) else zero(x) for x, y in zip(results, moved, strict=True)]
    results = operation.bind(*primals, jaxpr=jaxpr, owner=owner)
    given = [x[None] for x in (*primals, *(tangents[i] for i in moving))]
    found = iter(program.along(moving).bound([], given))
    zero = lambda x: ad.Zero(jax.typeof(x).to_tangent_aval())
    return results, [next(found)[0] if is_floating(x) else zero(x) for x in results]


ad.primitive_jvps[operation] = _forward


def _batched(args, axes, *, jaxpr: ClosedJaxpr, owner: str):
    """What is not batched is the same for all samples."""
    shared = tuple(i for i, axis in enumerate(axes) if axis is None)
    samples = [jnp.moveaxis(x, axis, 0) for x, axis in zip(args, axes, strict=True) if axis is not None]
    found: Any = _mapped(jaxpr, owner, shared).bound([args[i] for i in shared], samples)
    return found, [0] * len(found)


batching.primitive_batchers[operation] = _batched
