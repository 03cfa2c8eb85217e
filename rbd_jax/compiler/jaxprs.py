"""What the operations of JAX that have programs of their own are made of: loops, branches, calls, linear solves.

Their parameters are no public part of JAX: what its versions name differently is read here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.extend.core import Jaxpr


#: Operations that are a program, and the parameter that it is.
PROGRAMS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
}


def opened(program) -> tuple[Jaxpr, Sequence]:
    """A program's operations, and the constants that it has of its own."""
    return (program.jaxpr, program.consts) if hasattr(program, "consts") else (program, ())


def aval_of(atom) -> Any:
    """The shape and the type of a value."""
    return atom.aval


def of_scan(params: dict) -> tuple[int, int]:
    """How many arguments of a `scan` are the same in each step, and how many it carries from step to step."""
    if "ft_in" in params:  # from JAX 0.11 on
        constants, carried, _ = (len(list(part)) for part in params["ft_in"].unpack())
        return constants, carried
    return params["num_consts"], params["num_carry"]


def of_solve(params: dict, xs: Sequence) -> list:
    """Of the arguments of a linear solve, those of what solves it."""
    lengths = params["const_lengths"]
    first, rhs = lengths.matvec + lengths.vecmat, sum(lengths)
    return [*xs[first : first + lengths.solve], *xs[rhs:]]
