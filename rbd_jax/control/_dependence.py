"""Dependence of a function's results on its arguments, from its program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal


def depends_on(function: Callable[..., Any], *args: Any) -> tuple[bool, ...]:
    """Returns, for each argument, whether any result of `function(*args)` may depend on it.

    The check ignores values: `0 * x` counts as dependent on x. Results of loops and branches depend on all their inputs.
    """
    leaves = [jax.tree.leaves(arg) for arg in args]
    closed = jax.make_jaxpr(function)(*args)
    flags = [{place} for place, part in enumerate(leaves) for _ in part]
    found = set().union(*_results(closed.jaxpr, flags))
    return tuple(place in found for place in range(len(args)))


def _results(program: Jaxpr, given: list[set]) -> list[set]:
    """Returns the sources of each result of a program, given the sources of its arguments."""
    known: dict[Any, set] = dict(zip(program.invars, given, strict=True))
    read = lambda variable: set() if isinstance(variable, Literal) else known.get(variable, set())
    for equation in program.eqns:
        sources = [read(variable) for variable in equation.invars]
        inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
        inner = inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner
        plain = equation.primitive.name in (
            "jit",
            "pjit",
            "closed_call",
            "custom_jvp_call",
            "remat",
            "checkpoint",
        )
        if plain and inner is not None and len(inner.invars) == len(sources):
            results = _results(inner, sources)
        else:
            results = [set().union(*sources)] * len(equation.outvars)
        known.update(zip(equation.outvars, results, strict=True))
    return [read(variable) for variable in program.outvars]
