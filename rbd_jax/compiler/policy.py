"""When a function of one sample is made a kernel without being asked for: where that is possible, and worth its compilation."""

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


#: Without being asked: programs of so many entries of arrays, which on a GPU compile about as fast as with `vmap`, and on a CPU
#: in about a minute at most; of so many times more than they read and write, because what only moves numbers is not faster;
#: without large matrices, as those of a policy are, which a library multiplies faster: sums of so many terms; and with so many
#: numbers that all samples share.
LONGEST, AT_LEAST, TERMS, SHARED = {"cpu": 6_000_000, "cuda": 450_000}, 8, 64, 4000

#: Entries that an iteration of a `while` loop selects among. Measured on contact steps with dense rows: kernels are 3 to 10 times
#: as fast with 2,000 (16 contacts of a humanoid), and 4 times as slow with 3,000 (56 contacts of a quadruped).
PICKED = 2_500


def is_kernel(platform: str) -> bool:
    """Whether there are kernels for what is compiled for."""
    return platform in LONGEST


def is_worth_it(program: Any, platform: str) -> bool:
    """Whether to try a kernel of a `primitive.Mapped` without being asked for one."""
    return why_not(program, platform) is None


def why_not(program: Any, platform: str) -> str | None:
    """Why no kernel is tried without being asked for, or None."""
    jaxpr = program.closed.jaxpr
    numbers = lambda avals: sum(math.prod(x.shape) for x in avals)
    shared, own = program.given[: program.shared], program.given[program.shared :]
    of_each = [x for x, is_sum in zip(program.results, program.summed, strict=True) if not is_sum]
    if jaxpr.effects:
        return "it does something besides returning results"
    if not (is_compiled_here() if platform == "cpu" else is_available()):
        return "there is no compiler for it here"
    if (count := numbers(shared)) > SHARED:
        return f"all samples share {count:,} numbers, and more than {SHARED:,} take long to read"
    if (count := entries(jaxpr, once=True)) > LONGEST[platform]:
        return f"its arrays have {count:,} entries, and more than {LONGEST[platform]:,} take long to compile"
    if (count := entries(jaxpr)) < AT_LEAST * (moved := numbers(own) + numbers(of_each)):
        return f"it works out {count:,} numbers, too few for the {moved:,} that it reads and writes"
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
    """The largest number of entries that a slice at an index of a `while` loop's own may have to select among.

    - `iterates`: whether this is the body of such a loop.
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
        if name != "scan":  # whose own indices are known
            inside = (most_picked(x, name == "while" or iterates) for x in programs_of(equation))
        else:
            inside = (most_picked(x) for x in programs_of(equation))
        most = max([most, *inside])
    return most


def has_loops(jaxpr: Jaxpr) -> bool:
    """Whether there are loops in it that are to stay."""
    return any(
        (equation.primitive.name == "scan" and stays(equation)) or any(map(has_loops, programs_of(equation)))
        for equation in jaxpr.eqns
    )


def refused_in(jaxpr: Jaxpr, given: Sequence[bool]) -> list[JaxprEqn]:
    """The first operation for which a kernel is refused, after those that it is within, or nothing.

    It is of those that are found before all of the program is taken apart.

    - `given`: which of its arguments are not known.
    """
    known = dict.fromkeys(jaxpr.constvars, False) | dict(zip(jaxpr.invars, given, strict=True))
    after: set = set()
    for equation in jaxpr.eqns:
        atoms = [atom for atom in equation.invars if not isinstance(atom, Literal)]
        of = tuple(not isinstance(atom, Literal) and known[atom] for atom in equation.invars)
        flags = dependent_results(equation, of)
        is_after = any(atom in after for atom in atoms)
        # Loops after a kernel are mapped by themselves.
        if is_after and any(of) and equation.primitive.name != "scan" and not _is_quick(equation):
            return [equation]
        if any(of) and not is_after and (refused := _refused(equation, of, flags)):
            return refused
        known |= dict(zip(equation.outvars, flags, strict=True))
        if is_after or _has_rows(equation):
            after.update(equation.outvars)
    return []


def _refused(equation: JaxprEqn, given: tuple[bool, ...], flags: Sequence[bool]) -> list[JaxprEqn]:
    """The operation itself, and one within it; or nothing."""
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
    """The programs that a kernel runs for an operation, and which of their arguments are not known; None where it has none."""
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
    """Whether it may be left for after the kernel: it has no loops."""
    inner = (x for program in programs_of(equation) for x in program.eqns)
    return equation.primitive.name not in ("scan", "while") and all(map(_is_quick, inner))


def _has_rows(equation: JaxprEqn) -> bool:
    """Whether it is, or has in it, a loop that stays one and returns rows."""
    if equation.primitive.name == "scan" and equation.params["length"] > UNROLLED:
        return True
    return any(_has_rows(inner) for program in programs_of(equation) for inner in program.eqns)
