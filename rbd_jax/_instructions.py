"""Arithmetic on scalars as instructions of a GPU, each thread with numbers of its own (NVIDIA's PTX).

Triton, through which Pallas compiles kernels, takes minutes for some thousand operations one after the other. Written as
instructions they are one operation to it, and the assembler of the device, which sees them all, decides what stays in
registers. A product whose sum is taken becomes one instruction there, with one rounding.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive

from ._simplify import Scalars


#: Types of numbers, and the letters of registers that hold them. Truth values enter and leave as whole numbers.
LETTERS = {np.dtype(np.float32): "f", np.dtype(np.float64): "d", np.dtype(bool): "r"}

#: Instructions of floating-point numbers, by the names of JAX. `neu` is true where a side is not a number, as `!=` is.
INSTRUCTIONS = {
    "add": "add.{0} {1}, {2}, {3};",
    "sub": "sub.{0} {1}, {2}, {3};",
    "mul": "mul.{0} {1}, {2}, {3};",
    "div": "div.rn.{0} {1}, {2}, {3};",
    "neg": "neg.{0} {1}, {2};",
    "abs": "abs.{0} {1}, {2};",
    "sqrt": "sqrt.rn.{0} {1}, {2};",
    "select_n": "selp.{0} {1}, {4}, {3}, {2};",
    "is_finite": "testp.finite.{0} {1}, {2};",
    "eq": "setp.eq.{0} {1}, {2}, {3};",
    "ne": "setp.neu.{0} {1}, {2}, {3};",
    "lt": "setp.lt.{0} {1}, {2}, {3};",
    "le": "setp.le.{0} {1}, {2}, {3};",
    "gt": "setp.gt.{0} {1}, {2}, {3};",
    "ge": "setp.ge.{0} {1}, {2}, {3};",
}

#: Those that there are for single precision only, and those of truth values.
SINGLE = {"max": "max.NaN.{0} {1}, {2}, {3};", "min": "min.NaN.{0} {1}, {2}, {3};"}
LOGICAL = {"and": "and.pred {1}, {2}, {3};", "or": "or.pred {1}, {2}, {3};", "not": "not.pred {1}, {2};"}


def instruction(scalars: Scalars, node: int) -> str | None:
    """The instruction that computes a scalar, or None where there is none. `{0}` is a type, the others are registers."""
    operation, own = scalars.operation[node], scalars.dtype[node]
    given = [scalars.dtype[x] for x in scalars.arguments[node]]
    if operation == "select_n" and (len(given) != 3 or given[0] != bool):
        return None
    numbers = given[1:] if operation == "select_n" else given
    if not numbers:
        return None
    if all(x == bool for x in numbers):
        return LOGICAL.get(operation)
    if any(x not in LETTERS or x == bool for x in numbers) or own not in LETTERS:
        return None
    found = INSTRUCTIONS.get(operation)
    return SINGLE.get(operation) if found is None and own == np.float32 else found


def arithmetic(scalars: Scalars, nodes: Sequence[int], given: Sequence[int], leaving: Sequence[int]) -> str:
    """The instructions for these scalars in their order. `$0`, `$1` and so on are the registers of those that leave, which are
    among them, and then of those that are given."""
    lines, names = [], {}
    places = {node: place for place, node in enumerate(nodes)}
    for number, node in enumerate(given, len(leaving)):
        names[node] = f"${number}"
        if scalars.dtype[node] == bool:
            names[node] = f"g{number}"
            lines.append(f"setp.ne.s32 g{number}, ${number}, 0;")

    def named(node: int) -> str:
        value = scalars.value(node)
        return names[node] if value is None else _constant(value)

    for node in nodes:
        own, operands = scalars.dtype[node], scalars.arguments[node]
        names[node] = f"{'p' if own == bool else LETTERS[own]}{places[node]}"
        kind = scalars.dtype[operands[-1]]
        written = instruction(scalars, node)
        assert written is not None
        lines.append(written.format(_type(kind), names[node], *map(named, operands)))
    for number, node in enumerate(leaving):
        own = scalars.dtype[node]
        move = f"selp.s32 ${number}, 1, 0, " if own == bool else f"mov.{_type(own)} ${number}, "
        lines.append(f"{move}{names[node]};")
    count = len(nodes)
    registers = (
        f".reg .f32 f<{count}>; .reg .f64 d<{count}>; .reg .pred p<{count}>, g<{len(leaving) + len(given)}>;"
    )
    return "\n".join(["{", registers, *lines, "}"])


def _type(dtype) -> str:
    return "pred" if dtype == bool else f"f{8 * dtype.itemsize}"


def _constant(value) -> str:
    """A number, bit by bit."""
    if value.dtype == np.float32:
        return f"0f{value.view(np.uint32):08X}"
    assert value.dtype == np.float64, "truth values that are known are gone"
    return f"0d{value.view(np.uint64):016X}"


def run(text: str, kinds: Sequence[np.dtype], xs: Sequence[jax.Array]) -> list[jax.Array]:
    """Instructions, within a kernel: of vectors of one length, in each thread. `kinds` are the types of what leaves."""
    xs = [x.astype(jnp.int32) if x.dtype == bool else x for x in xs]
    found = _primitive().bind(*xs, text=text, kinds=tuple(kinds))
    return [x != 0 if kind == bool else x for x, kind in zip(found, kinds, strict=True)]


@functools.cache
def _primitive() -> Any:
    """An operation of several results, which Pallas has not: it takes instructions with one. JAX has no public way to add one."""
    from jax._src.pallas.triton.lowering import register_lowering
    from jaxlib.mlir import ir
    from jaxlib.triton.dialect import ElementwiseInlineAsmOp

    primitive = Primitive("instructions")
    primitive.multiple_results = True

    @primitive.def_abstract_eval
    def _(*avals, text, kinds):
        stored = [np.dtype(np.int32) if kind == bool else kind for kind in kinds]
        return [ShapedArray(avals[0].shape, kind) for kind in stored]

    @register_lowering(primitive)
    def _(context, *xs, text, kinds):
        if context.context.platform != "cuda":
            raise NotImplementedError("a fused kernel is for GPUs of NVIDIA; leave fused out")
        element = {"f": ir.F32Type.get(), "d": ir.F64Type.get(), "r": ir.IntegerType.get_signless(32)}
        letters = [LETTERS[kind] for kind in kinds]
        shape = context.avals_in[0].shape
        types = [ir.RankedTensorType.get(shape, element[letter]) for letter in letters]
        given = ["r" if x.dtype == np.int32 else LETTERS[np.dtype(x.dtype)] for x in context.avals_in]
        constraints = ",".join([*(f"=&{letter}" for letter in letters), *given])
        return list(ElementwiseInlineAsmOp(types, text, constraints, True, 1, xs).results)

    return primitive
