"""Translation of scalar operations to LLVM instructions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax import lax

from . import elementary
from .instructions import Instructions, letter
from .schedule import NoKernel


#: Operations that are single instructions, for floating-point numbers, integers and booleans. Comparisons with NaN are false,
#: except for `ne`.
LOGICAL = {"and": "and", "or": "or", "xor": "xor"}
ARITHMETIC = {
    "f": {
        "add": "fadd contract",
        "sub": "fsub contract",
        "mul": "fmul contract",
        "div": "fdiv",
        "rem": "frem",
    },
    "i": {"add": "add", "sub": "sub", "mul": "mul"} | LOGICAL,
    "b": LOGICAL,
}
COMPARISONS = {
    "f": {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"},
    "i": {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"},
    "b": {"eq": "eq", "ne": "ne"},
}

#: Operations that are LLVM intrinsics.
INTRINSICS = {
    "f": dict(sqrt="sqrt", abs="fabs", floor="floor", ceil="ceil", max="maximum", min="minimum"),
    "i": dict(max="smax", min="smin"),
    "b": {},
}


def write(
    code: Instructions, operation: str, xs: Sequence[str], dtypes: Sequence, own, extra, divides: bool
) -> str:
    """Emits an operation and returns the name of its result.

    Args:
      code: The instructions to extend.
      operation: The name of the operation.
      xs: The operands.
      dtypes: The data types of the operands.
      own: The data type of the result.
      extra: The primitive and its parameters.
      divides: If True, integer division by the second operand cannot trap.

    Raises:
      NoKernel: If the operation has no implementation.
    """
    vector, dtype = code.type(own), dtypes[-1]
    of, kind = code.type(dtype), letter(dtype)
    if operation in ARITHMETIC[letter(own)] and kind == letter(own):
        return code.new(f"{ARITHMETIC[kind][operation]} {vector} {xs[0]}, {xs[1]}")
    if operation in COMPARISONS[kind]:
        return code.new(
            f"{'f' if kind == 'f' else 'i'}cmp {COMPARISONS[kind][operation]} {of} {xs[0]}, {xs[1]}"
        )
    if operation in ("div", "rem") and kind == "i" and divides:
        return code.new(f"s{operation} {vector} {xs[0]}, {xs[1]}")
    if operation == "clamp" and kind != "b":
        low, high = INTRINSICS[kind]["max"], INTRINSICS[kind]["min"]
        above = code.intrinsic(low, [xs[1], xs[0]], own)
        return code.intrinsic(high, [above, xs[2]], own)
    if operation == "not" and own == bool:
        return code.new(f"xor {vector} {xs[0]}, {code.all('true', bool)}")
    if operation == "neg":
        return code.new(f"fneg {vector} {xs[0]}" if kind == "f" else f"sub {vector} zeroinitializer, {xs[0]}")
    if operation == "square":
        return code.new(f"{ARITHMETIC[kind]['mul']} {vector} {xs[0]}, {xs[0]}")
    if operation == "rsqrt":
        root = code.intrinsic("sqrt", xs, own)
        return code.new(f"fdiv {vector} {code.all('1.0', own)}, {root}")
    if operation == "sign" and kind != "b":
        return _sign(code, xs[0], own)
    if operation == "select_n" and len(xs) == 3 and dtypes[0] == bool:
        return code.new(f"select {code.type(bool)} {xs[0]}, {vector} {xs[2]}, {vector} {xs[1]}")
    if operation == "is_finite":
        size = code.intrinsic("fabs", xs, dtype)
        return code.new(f"fcmp olt {of} {size}, {code.all('0x7FF0000000000000', dtype)}")
    if operation == "round" and lax.RoundingMethod.TO_NEAREST_EVEN in dict(extra[1]).values():
        return code.intrinsic("roundeven", xs, own)
    if operation in INTRINSICS[kind]:
        return code.intrinsic(INTRINSICS[kind][operation], xs, own)
    if operation == "convert_element_type":
        return converted(code, xs[0], dtype, own)
    if operation in elementary.FUNCTIONS and kind == "f":
        return elementary.write(operation, code, xs, own)
    raise NoKernel(f"fused: function uses `{operation}`, which has no machine instruction; leave fused out")


def _sign(code: Instructions, x: str, dtype) -> str:
    """Returns 1 for positive x, -1 for negative x, and otherwise x."""
    vector, truths, found = code.type(dtype), code.type(bool), x
    compare, one = ("fcmp o", "1.0") if letter(dtype) == "f" else ("icmp s", "1")
    for which, value in (("gt", one), ("lt", f"-{one}")):
        side = code.new(f"{compare}{which} {vector} {x}, zeroinitializer")
        found = code.new(f"select {truths} {side}, {vector} {code.all(value, dtype)}, {vector} {found}")
    return found


def converted(code: Instructions, x: str, old, new) -> str:
    """Converts numbers to another data type."""
    if old == new:
        return x
    of, to = code.type(old), code.type(new)
    if new == bool:
        compare = "fcmp une" if letter(old) == "f" else "icmp ne"
        return code.new(f"{compare} {of} {x}, zeroinitializer")
    if letter(old) + letter(new) == "fi":
        return code.saturated(x, old, new)
    wider = np.dtype(new).itemsize > np.dtype(old).itemsize
    change = {
        "ff": "fpext" if wider else "fptrunc",
        "ii": "sext" if wider else "trunc",
        "if": "sitofp",
        "bf": "uitofp",
        "bi": "zext",
    }[letter(old) + letter(new)]
    return code.new(f"{change} {of} {x} to {to}")
