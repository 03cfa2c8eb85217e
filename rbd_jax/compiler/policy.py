"""When a function of one sample is made a kernel without being asked for: where that is possible, and worth its compilation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jax.extend.core import Jaxpr, JaxprEqn, Literal

from .cpu.xla_ffi import is_available as is_compiled_here
from .dependence import dependent_results, ends_apart, of_rounds
from .fusing import stays
from .gpu.instructions import is_available
from .jaxprs import PROGRAMS, aval_of, entries, longest_product, of_solve, opened, programs_of
from .scalarize import UNROLLED, Interpreter
from .schedule import KINDS


#: Without being asked: programs of so many entries of arrays, which on a GPU compile about as fast as with `vmap`, and on a CPU
#: in about half a minute at most; of so many times more than they read and write, because what only moves numbers is not faster;
#: without large matrices, as those of a policy are, which a library multiplies faster: sums of so many terms; and with so many
#: numbers that all samples share.
LONGEST, AT_LEAST, TERMS, SHARED = {"cpu": 2_000_000, "cuda": 450_000}, 8, 64, 4000


def is_kernel(platform: str) -> bool:
    """Whether there are kernels for what is compiled for."""
    return platform in LONGEST


def is_worth_it(program: Any, platform: str) -> bool:
    """Whether to try a kernel of a `primitive.Mapped` without being asked for one."""
    jaxpr = program.closed.jaxpr
    numbers = lambda avals: sum(math.prod(x.shape) for x in avals)
    shared, own = program.given[: program.shared], program.given[program.shared :]
    of_each = (x for x, is_sum in zip(program.results, program.summed, strict=True) if not is_sum)
    return (
        not jaxpr.effects
        and numbers(shared) <= SHARED
        and entries(jaxpr, once=True) <= LONGEST[platform]
        and entries(jaxpr) >= AT_LEAST * (numbers(own) + numbers(of_each))
        and longest_product(jaxpr) <= TERMS
        and (is_compiled_here() if platform == "cpu" else is_available())
        and may_be_one(jaxpr, (True,) * len(program.given))
    )


def has_loops(jaxpr: Jaxpr) -> bool:
    """Whether there are loops in it that are to stay."""
    return any(
        (equation.primitive.name == "scan" and stays(equation)) or any(map(has_loops, programs_of(equation)))
        for equation in jaxpr.eqns
    )


def may_be_one(jaxpr: Jaxpr, given: Sequence[bool]) -> bool:
    """Whether a kernel is not refused for an operation that is found before all of it is taken apart.

    - `given`: which of its arguments are not known.
    """
    known = dict.fromkeys(jaxpr.constvars, False) | dict(zip(jaxpr.invars, given, strict=True))
    after: set = set()
    for equation in jaxpr.eqns:
        atoms = [atom for atom in equation.invars if not isinstance(atom, Literal)]
        of = tuple(not isinstance(atom, Literal) and known[atom] for atom in equation.invars)
        flags = dependent_results(equation, of)
        is_after = any(atom in after for atom in atoms)
        if any(of) and not (_is_quick(equation) if is_after else _may_be(equation, of, flags)):
            return False
        known |= dict(zip(equation.outvars, flags, strict=True))
        if is_after or _has_rows(equation):
            after.update(equation.outvars)
    return True


def _may_be(equation: JaxprEqn, given: tuple[bool, ...], flags: Sequence[bool]) -> bool:
    name, params = equation.primitive.name, equation.params
    if name in PROGRAMS:
        return may_be_one(opened(params[PROGRAMS[name]])[0], given)
    if name == "scan":
        return may_be_one(opened(params["jaxpr"])[0], of_rounds(params, given))
    if name == "cond":
        return all(may_be_one(opened(branch)[0], given[1:]) for branch in params["branches"])
    if name == "custom_linear_solve":
        return may_be_one(opened(params["jaxprs"].solve)[0], tuple(of_solve(params, given)))
    kinds = (aval_of(var).dtype for var, own in zip(equation.outvars, flags, strict=True) if own)
    if not all(kind in KINDS for kind in kinds):
        return False
    if name == "while":
        return not ends_apart(params, given)
    return Interpreter.does(name)


def _is_quick(equation: JaxprEqn) -> bool:
    """Whether it may be left for after the kernel: it has no loops."""
    inner = (x for program in programs_of(equation) for x in program.eqns)
    return equation.primitive.name not in ("scan", "while") and all(map(_is_quick, inner))


def _has_rows(equation: JaxprEqn) -> bool:
    """Whether it is, or has in it, a loop that stays one and returns rows."""
    if equation.primitive.name == "scan" and equation.params["length"] > UNROLLED:
        return True
    return any(_has_rows(inner) for program in programs_of(equation) for inner in program.eqns)
