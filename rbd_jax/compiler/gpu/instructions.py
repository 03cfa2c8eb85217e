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
from jax import lax
from jax.core import ShapedArray
from jax.extend.core import Primitive

from ..expressions import Scalars


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
    "floor": "cvt.rmi.{0}.{0} {1}, {2};",
    "ceil": "cvt.rpi.{0}.{0} {1}, {2};",
    "round": "cvt.rni.{0}.{0} {1}, {2};",
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

#: Those that there are for single precision only.
SINGLE = {"max": "max.NaN.{0} {1}, {2}, {3};", "min": "min.NaN.{0} {1}, {2}, {3};"}
#: Those of truth values.
LOGICAL = {"and": "and.pred {1}, {2}, {3};", "or": "or.pred {1}, {2}, {3};", "not": "not.pred {1}, {2};"}


def instruction(scalars: Scalars, node: int) -> str | None:
    """The instruction that computes a scalar, or None where there is none. `{0}` is a type, the others are registers."""
    operation, own = scalars.operation[node], scalars.dtype[node]
    if operation == "input":
        in_memory = scalars.extra[node][0][0] == "sample" and own in LETTERS and own != bool
        return "ld.global.{0} {1}, {2};" if in_memory else None
    given = [scalars.dtype[x] for x in scalars.arguments[node]]
    if (
        operation == "round"
        and lax.RoundingMethod.TO_NEAREST_EVEN not in dict(scalars.extra[node][1]).values()
    ):
        return None
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


#: So many registers of a thread hold numbers; it has 255, and the rest are for addresses and for instructions that overlap.
REGISTERS = 200


class Arithmetic:
    """Instructions for scalars in the order in which they come.

    - `nodes`: the scalars; `given` what they need of others, `leaving` those of them that others need.
    - `stores`: where some of them are written: `(source, place)`.
    - `memory`: the sources in memory of what is read and written.
    - `moved`: how many numbers are saved for want of registers, and loaded again.
    - `text`: the instructions. `$0`, `$1` and so on are the registers of what leaves (of zero, where nothing does), then of what
      is given, then of addresses.
    """

    def __init__(self, scalars: Scalars, nodes: Sequence[int], leaving: set[int], stores: dict[int, list]):
        self.scalars, self.nodes, self.stores = scalars, list(nodes), stores
        self.leaving = [node for node in nodes if node in leaving]
        within = set(nodes)
        given = dict.fromkeys(x for node in nodes for x in scalars.arguments[node])
        self.given = [x for x in given if x not in within and scalars.value(x) is None]
        read = [scalars.extra[node][0] for node in nodes if scalars.operation[node] == "input"]
        written = [source for places in stores.values() for source, _ in places]
        self.memory = list(dict.fromkeys([*read, *written]))
        self.kinds = tuple(scalars.dtype[node] for node in self.leaving) or (np.dtype(bool),)
        self.text = self._text()

    def _text(self) -> str:
        scalars, outputs = self.scalars, len(self.kinds)
        names, lines = {}, [] if self.leaving else ["mov.s32 $0, 0;"]
        for number, node in enumerate(self.given, outputs):
            names[node] = f"${number}"
            if scalars.dtype[node] == bool:
                names[node] = f"g{number}"
                lines.append(f"setp.ne.s32 g{number}, ${number}, 0;")
        first = outputs + len(self.given)
        addresses = {source: f"${number}" for number, source in enumerate(self.memory, first)}
        steps, slots = self._steps()
        self.moved = sum(what != "compute" for what, *_ in steps)
        width = 8 if self._wide() else 4
        for place, (what, node, slot) in enumerate(steps):
            own = scalars.dtype[node]
            if what == "save":
                lines.append(f"st.local.{_type(own)} [stack+{width * slot}], {names[node]};")
                continue
            names[node] = f"{'p' if own == bool else LETTERS[own]}{place}"
            if what == "load":
                lines.append(f"ld.local.{_type(own)} {names[node]}, [stack+{width * slot}];")
                continue
            if scalars.operation[node] == "input":
                source, offset = scalars.extra[node]
                kind, operands = own, [f"[{addresses[source]}+{offset * own.itemsize}]"]
            else:
                kind = scalars.dtype[scalars.arguments[node][-1]]
                known = [(x, scalars.value(x)) for x in scalars.arguments[node]]
                operands = [names[x] if value is None else _constant(value) for x, value in known]
            written = instruction(scalars, node)
            assert written is not None
            lines.append(written.format(_type(kind), names[node], *operands))
            for source, offset in self.stores.get(node, ()) if what == "compute" else ():
                target = f"[{addresses[source]}+{offset * own.itemsize}]"
                lines.append(f"st.global.{_type(own)} {target}, {names[node]};")
        for number, node in enumerate(self.leaving):
            own = scalars.dtype[node]
            move = f"selp.s32 ${number}, 1, 0, " if own == bool else f"mov.{_type(own)} ${number}, "
            lines.append(f"{move}{names[node]};")
        count = len(steps)
        registers = f".reg .f32 f<{count}>; .reg .f64 d<{count}>; .reg .pred p<{count}>, g<{first}>;"
        stack = [f".local .align 8 .b8 stack[{width * slots}];"] if slots else []
        return "\n".join(["{", registers, *stack, *lines, "}"])

    def _wide(self) -> bool:
        """Whether numbers in double precision are among them, of which each takes two registers."""
        return any(self.scalars.dtype[node] == np.float64 for node in self.nodes)

    def _steps(self) -> tuple[list[tuple[str, int, int]], int]:
        """What is done one after the other, so that never more numbers are in registers than there are, and the places in the
        memory of a thread that this takes: `("compute" | "again" | "save" | "load", scalar, place)`.

        Where there is no room, what is needed last goes. What was read from the memory of a sample is read again; the rest is
        saved. The assembler, left to itself, saves and loads twice as much.
        """
        scalars, room = self.scalars, REGISTERS // 2 if self._wide() else REGISTERS
        of_numbers = lambda nodes: [x for x in nodes if scalars.value(x) is None and scalars.dtype[x] != bool]
        needed = [of_numbers(dict.fromkeys(scalars.arguments[node])) for node in self.nodes]
        leaving = of_numbers(self.leaving)
        uses: dict[int, list[int]] = {}  # of each scalar, when it is needed, the next time last
        for time, operands in reversed(list(enumerate([*needed, leaving]))):
            for x in operands:
                uses.setdefault(x, []).append(time)
        there = dict.fromkeys(x for x in self.given if x in uses)
        again = {node for node in self.nodes if scalars.operation[node] == "input"}
        steps: list[tuple[str, int, int]] = []
        places: dict[int, int] = {}
        free: list[int] = []
        slots = 0

        def fetch(operands: Sequence[int]) -> None:
            for x in operands:
                if x not in there:
                    steps.append(("load", x, places[x]) if x in places else ("again", x, 0))
                    there[x] = None

        for node, operands in zip(self.nodes, needed, strict=True):
            fetch(operands)
            while len(there) >= room:
                last = max((x for x in there if x not in operands), key=lambda x: uses[x][-1])
                del there[last]
                if last not in places and last not in again:
                    places[last] = free.pop() if free else slots
                    slots = max(slots, places[last] + 1)
                    steps.append(("save", last, places[last]))
            steps.append(("compute", node, 0))
            for x in operands:
                uses[x].pop()
                if not uses[x]:
                    del there[x]
                    if x in places:
                        free.append(places.pop(x))
            if uses.get(node):
                there[node] = None
        fetch(leaving)
        return steps, slots


def _type(dtype) -> str:
    return "pred" if dtype == bool else f"f{8 * dtype.itemsize}"


def _constant(value) -> str:
    """A number, bit by bit."""
    if value.dtype == np.float32:
        return f"0f{value.view(np.uint32):08X}"
    assert value.dtype == np.float64, "truth values that are known are gone"
    return f"0d{value.view(np.uint64):016X}"


def run(
    instructions: Arithmetic, given: Sequence[jax.Array], memory: Sequence[tuple]
) -> dict[int, jax.Array]:
    """Instructions, within a kernel: of vectors of one length, in each thread. What leaves, by scalar.

    - `memory`: for each source of `instructions.memory` an array in memory, and the row and column where each thread begins.
    """
    given = [x.astype(jnp.int32) if x.dtype == bool else x for x in given]
    places = [array.at[rows, columns] for array, rows, columns in memory]
    flat, structure = jax.tree.flatten([(place.ref, place.transforms) for place in places])
    at = [sum(len(jax.tree.leaves((x.ref, x.transforms))) for x in places[:i]) for i in range(len(places))]
    stored = tuple(source[0] == "written" for source in instructions.memory)
    found = _primitive().bind(
        *given,
        *flat,
        text=instructions.text,
        kinds=instructions.kinds,
        structure=structure,
        at=tuple(at),
        stored=stored,
    )
    kinds = instructions.kinds
    return {node: x != 0 if kind == bool else x for node, x, kind in zip(instructions.leaving, found, kinds)}


def is_available() -> bool:
    """Whether this JAX has the private parts that kernels are made with, and its devices are NVIDIA's, Ampere or later."""
    device = jax.devices()[0]
    if "cuda" not in device.client.platform_version.lower() or float(device.compute_capability) < 8:
        return False
    try:
        _primitive()
    except (ImportError, AttributeError):
        return False
    return True


def has_lowering(primitive) -> bool:
    """Whether Pallas compiles an operation for a GPU."""
    from jax._src.pallas.triton.lowering import triton_lowering_rules

    return primitive in triton_lowering_rules


@functools.cache
def _primitive() -> Any:
    """An operation of several results that reads and writes memory, which Pallas has not: its instructions have one result. JAX
    has no public way to add one.

    Its arguments are vectors and then, for each place in memory, what Pallas knows of it, beginning with the array: `at`.
    """
    from jax._src.pallas.triton.lowering import _compute_pointers_from_indices, register_lowering
    from jax._src.state.types import ReadEffect, WriteEffect
    from jaxlib.mlir import ir
    from jaxlib.triton.dialect import ElementwiseInlineAsmOp, PtrToIntOp

    primitive = Primitive("instructions")
    primitive.multiple_results = True

    @primitive.def_effectful_abstract_eval
    def _(*avals, text, kinds, structure, at, stored):
        given = len(avals) - structure.num_leaves
        shape = avals[0].shape if given else avals[at[0] + 1].shape
        results = [ShapedArray(shape, np.dtype(np.int32) if kind == bool else kind) for kind in kinds]
        effects = {
            WriteEffect(given + i) if writes else ReadEffect(given + i) for i, writes in zip(at, stored)
        }
        return results, effects

    @register_lowering(primitive)
    def _(context, *xs, text, kinds, structure, at, stored):
        if context.context.platform != "cuda":
            raise ValueError("fused: a kernel is for GPUs of NVIDIA; leave fused out")
        given = len(xs) - structure.num_leaves
        shape = context.avals_out[0].shape
        tensor = lambda element: ir.RankedTensorType.get(shape, element)
        addresses = []
        for i, (array, transforms) in zip(at, jax.tree.unflatten(structure, xs[given:])):
            pointers = _compute_pointers_from_indices(array, context.block_infos[given + i], transforms[0])
            addresses.append(PtrToIntOp(tensor(ir.IntegerType.get_signless(64)), pointers).result)
        element = {"f": ir.F32Type.get(), "d": ir.F64Type.get(), "r": ir.IntegerType.get_signless(32)}
        letters = [LETTERS[kind] for kind in kinds]
        own = [LETTERS.get(np.dtype(x.dtype), "r") for x in context.avals_in[:given]]
        constraints = ",".join([*(f"=&{letter}" for letter in letters), *own, *("l" for _ in addresses)])
        types = [tensor(element[letter]) for letter in letters]
        pure = not any(stored)
        return list(
            ElementwiseInlineAsmOp(types, text, constraints, pure, 1, [*xs[:given], *addresses]).results
        )

    return primitive
