"""Access to the inner programs of JAX operations: loops, branches, calls and linear solves.

The parameters of these operations are not public in JAX. This module handles the differences between versions of JAX.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn
from jax.interpreters import partial_eval


#: Operations that run an inner program, and the name of the parameter that holds it.
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
    """Returns the jaxpr of a program and its constants."""
    return (program.jaxpr, program.consts) if hasattr(program, "consts") else (program, ())


def aval_of(atom) -> Any:
    """Returns the shape and type of a value."""
    return atom.aval


def of_scan(params: dict) -> tuple[int, int]:
    """Returns the number of constant arguments and the number of carried arguments of a `scan`."""
    if "ft_in" in params:  # from JAX 0.11 on
        constants, carried, _ = (len(list(part)) for part in params["ft_in"].unpack())
        return constants, carried
    return params["num_consts"], params["num_carry"]


def of_solve(params: dict, xs: Sequence) -> list:
    """Returns the arguments of the solver, from the arguments of a linear solve."""
    lengths = params["const_lengths"]
    first, rhs = lengths.matvec + lengths.vecmat, sum(lengths)
    return [*xs[first : first + lengths.solve], *xs[rhs:]]


def programs_of(equation: JaxprEqn) -> list[Jaxpr]:
    """Returns the inner programs of an operation."""
    if equation.primitive.name == "mapped":
        return [equation.params["program"].closed.jaxpr]
    of_params = (x if isinstance(x, tuple | list) else [x] for x in equation.params.values())
    return [opened(x)[0] for xs in of_params for x in xs if isinstance(x, Jaxpr | ClosedJaxpr)]


def needed(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Returns a program without dead code."""
    if closed.effects:
        return closed
    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    return ClosedJaxpr(jaxpr, closed.consts)


def _terms(equation: JaxprEqn) -> int:
    if equation.primitive.name != "dot_general":
        return 1
    (summed, _), _ = equation.params["dimension_numbers"]
    return math.prod(aval_of(equation.invars[0]).shape[i] for i in summed)


def entries(jaxpr: Jaxpr, once: bool = False) -> int:
    """Returns the total number of entries of all intermediate arrays; matrix products count their terms.

    Args:
      jaxpr: The program.
      once: If True, each loop counts as one iteration. Otherwise it counts as unrolled.
    """
    total = 0
    for equation in jaxpr.eqns:
        inner = programs_of(equation)
        own = sum(math.prod(aval_of(var).shape) for var in equation.outvars) * _terms(equation)
        rounds = 1 if once else _rounds(equation)
        total += sum(entries(x, once) for x in inner) * rounds if inner else own
    return total


def _rounds(equation: JaxprEqn) -> int:
    if equation.primitive.name == "mapped":
        return aval_of(equation.invars[equation.params["program"].shared]).shape[0]
    return equation.params.get("length", 1)


def longest_product(jaxpr: Jaxpr) -> int:
    """Returns the largest number of terms per entry in the matrix products of a program."""
    own = [_terms(equation) for equation in jaxpr.eqns]
    return max([1, *own, *(longest_product(x) for equation in jaxpr.eqns for x in programs_of(equation))])
