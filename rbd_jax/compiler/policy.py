"""Rules for automatic kernels: a function becomes a kernel if that is possible and worth the compilation time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jax.extend.core import Jaxpr, JaxprEqn, Literal

from .compat import place_of
from .cpu.xla_ffi import is_available as is_compiled_here
from .dependence import OfWhile, dependent_results, of_rounds
from .fusing import stays
from .gpu.thread import is_available
from .jaxprs import PROGRAMS, aval_of, entries, longest_product, of_solve, opened, programs_of
from .scalarize import UNROLLED, Interpreter
from .schedule import KINDS


#: Limits for automatic kernels.
#: LONGEST: maximum number of array entries. On a GPU such programs compile about as fast as with `vmap`, on a CPU in at most
#: about a minute.
#: AT_LEAST: minimum ratio of computed numbers to numbers read and written, because pure data movement is not faster.
#: TERMS: maximum number of terms of matrix products, because libraries multiply large matrices (as of policies) faster.
#: SHARED: maximum number of numbers that all samples share.
LONGEST, AT_LEAST, TERMS, SHARED = {"cpu": 6_000_000, "cuda": 450_000}, 8, 64, 4000

#: Entries that an iteration of a `while` loop selects among. Measured on contact steps with dense rows: kernels are 3 to 10 times
#: as fast with 2,000 (16 contacts of a humanoid), and 4 times as slow with 3,000 (56 contacts of a quadruped).
PICKED = 2_500


def is_kernel(platform: str) -> bool:
    """Returns True if kernels support a platform."""
    return platform in LONGEST


def is_worth_it(program: Any, platform: str) -> bool:
    """Returns True if a `primitive.Mapped` should automatically become a kernel."""
    return why_not(program, platform) is None


def why_not(program: Any, platform: str) -> str | None:
    """Returns the reason against an automatic kernel, or None."""
    jaxpr = program.closed.jaxpr
    numbers = lambda avals: sum(math.prod(x.shape) for x in avals)
    shared, own = program.given[: program.shared], program.given[program.shared :]
    of_each = [x for x, is_sum in zip(program.results, program.summed, strict=True) if not is_sum]
    if jaxpr.effects:
        return "it has side effects"
    if not (is_compiled_here() if platform == "cpu" else is_available()):
        return "no kernel compiler is installed for this platform"
    if (count := numbers(shared)) > SHARED:
        return f"all samples share {count:,} numbers, and more than {SHARED:,} take long to read"
    if (count := entries(jaxpr, once=True)) > LONGEST[platform]:
        return f"its arrays have {count:,} entries, and more than {LONGEST[platform]:,} take long to compile"
    if (count := entries(jaxpr)) < AT_LEAST * (moved := numbers(own) + numbers(of_each)):
        return f"it computes {count:,} numbers, too few for the {moved:,} that it reads and writes"
    if (count := longest_product(jaxpr)) > TERMS:
        return (
            f"it has products of matrices with {count:,} terms, and of more than {TERMS} a library is faster"
        )
    if (count := most_picked(jaxpr)) > PICKED:
        return (
            f"an iteration of a `while` loop would select among {count:,} entries of an array, and above {PICKED:,} a kernel is "
            "slower"
        )
    if refused := refused_in(jaxpr, (True,) * len(program.given)):
        return (
            f"`{refused[-1].primitive.name}`{place_of(refused)} depends on the sample, which no kernel can do"
        )
    return None


def most_picked(jaxpr: Jaxpr, iterates: bool = False) -> int:
    """Returns the largest number of entries among which a slice with a varying index in a `while` loop may have to select.

    Args:
      jaxpr: The program.
      iterates: True if the program is the body of such a loop.
    """
    most = 0
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if (
            iterates
            and name == "dynamic_slice"
            and any(not isinstance(x, Literal) for x in equation.invars[1:])
        ):
            (size, slices) = aval_of(equation.invars[0]).shape, equation.params["slice_sizes"]
            free = math.prod(n - part + 1 for n, part in zip(size, slices, strict=True))
            most = max(most, free * math.prod(slices))
        if name != "scan":  # indices of scans are known
            inside = (most_picked(x, name == "while" or iterates) for x in programs_of(equation))
        else:
            inside = (most_picked(x) for x in programs_of(equation))
        most = max([most, *inside])
    return most


def has_loops(jaxpr: Jaxpr) -> bool:
    """Returns True if a program contains loops that are not unrolled."""
    return any(
        (equation.primitive.name == "scan" and stays(equation)) or any(map(has_loops, programs_of(equation)))
        for equation in jaxpr.eqns
    )


def refused_in(jaxpr: Jaxpr, given: Sequence[bool]) -> list[JaxprEqn]:
    """Returns the first operation that a kernel does not support, preceded by the operations that contain it; or nothing.

    This finds only those operations that can be detected without flattening the program to scalars.

    Args:
      jaxpr: The program.
      given: Which arguments are unknown.
    """
    known = dict.fromkeys(jaxpr.constvars, False) | dict(zip(jaxpr.invars, given, strict=True))
    after: set = set()
    for equation in jaxpr.eqns:
        atoms = [atom for atom in equation.invars if not isinstance(atom, Literal)]
        of = tuple(not isinstance(atom, Literal) and known[atom] for atom in equation.invars)
        flags = dependent_results(equation, of)
        is_after = any(atom in after for atom in atoms)
        # Loops after a kernel are mapped separately.
        if is_after and any(of) and equation.primitive.name != "scan" and not _is_quick(equation):
            return [equation]
        if any(of) and not is_after and (refused := _refused(equation, of, flags)):
            return refused
        known |= dict(zip(equation.outvars, flags, strict=True))
        if is_after or _has_rows(equation):
            after.update(equation.outvars)
    return []


def _refused(equation: JaxprEqn, given: tuple[bool, ...], flags: Sequence[bool]) -> list[JaxprEqn]:
    """Returns an unsupported operation and the operation within it that causes this; or nothing."""
    within = _run(equation, given)
    if within is not None:
        refused = next(filter(None, (refused_in(*one) for one in within)), [])
        return [equation, *refused] if refused else []
    name = equation.primitive.name
    kinds = (aval_of(var).dtype for var, own in zip(equation.outvars, flags, strict=True) if own)
    if not all(kind in KINDS for kind in kinds):
        return [equation]
    return [] if Interpreter.does(name) else [equation]


def _run(equation: JaxprEqn, given: tuple[bool, ...]) -> list[tuple[Jaxpr, tuple[bool, ...]]] | None:
    """Returns the inner programs that a kernel runs for an operation, and which of their arguments are unknown; or None."""
    name, params = equation.primitive.name, equation.params
    if name in PROGRAMS:
        return [(opened(params[PROGRAMS[name]])[0], given)]
    if name == "scan":
        return [(opened(params["jaxpr"])[0], of_rounds(params, given))]
    if name == "while":
        parts = OfWhile(params, given)
        return [
            (opened(params["cond_jaxpr"])[0], (*given[parts.test], *parts.carried)),
            (opened(params["body_jaxpr"])[0], (*given[parts.body], *parts.carried)),
        ]
    if name == "cond":
        return [(opened(branch)[0], given[1:]) for branch in params["branches"]]
    if name == "custom_linear_solve":
        return [(opened(params["jaxprs"].solve)[0], tuple(of_solve(params, given)))]
    return None


def _is_quick(equation: JaxprEqn) -> bool:
    """Returns True if an operation may follow the kernel, because it has no loops."""
    inner = (x for program in programs_of(equation) for x in program.eqns)
    return equation.primitive.name not in ("scan", "while") and all(map(_is_quick, inner))


def _has_rows(equation: JaxprEqn) -> bool:
    """Returns True if an operation is or contains a long scan, which is not unrolled and may return rows."""
    if equation.primitive.name == "scan" and equation.params["length"] > UNROLLED:
        return True
    return any(_has_rows(inner) for program in programs_of(equation) for inner in program.eqns)
