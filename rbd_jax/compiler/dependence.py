"""Analysis of which values in a program depend on the sample."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from jax.extend.core import Jaxpr, JaxprEqn, Literal

from .jaxprs import PROGRAMS, of_scan, opened


@functools.lru_cache(maxsize=4096)
def dependent(jaxpr: Jaxpr, given: tuple[bool, ...]) -> tuple[bool, ...]:
    """Returns which results of a program depend on the sample, if the arguments in `given` do."""
    known = dict.fromkeys(jaxpr.constvars, False) | dict(zip(jaxpr.invars, given, strict=True))
    read = lambda atom: not isinstance(atom, Literal) and known[atom]
    for equation in jaxpr.eqns:
        flags = dependent_results(equation, tuple(map(read, equation.invars)))
        known |= dict(zip(equation.outvars, flags, strict=True))
    return tuple(map(read, jaxpr.outvars))


def dependent_results(equation: JaxprEqn, given: tuple[bool, ...]) -> tuple[bool, ...]:
    name, params = equation.primitive.name, equation.params
    if any(given) and name in PROGRAMS:
        return dependent(opened(params[PROGRAMS[name]])[0], given)
    if any(given) and name == "scan":
        return OfScan(params, given).dependent
    if any(given) and name == "while":
        return OfWhile(params, given).carried
    if any(given) and name == "cond":
        of_each = [dependent(opened(branch)[0], given[1:]) for branch in params["branches"]]
        return tuple(given[0] or any(of_one) for of_one in zip(*of_each))
    return (any(given),) * len(equation.outvars)


class OfScan:
    """The parts of a scan's arguments, and which of what it carries and returns depend on the sample."""

    def __init__(self, params: dict, given: Sequence[bool]):
        self.constants, self.count = of_scan(params)
        last = self.constants + self.count
        self.carry = slice(self.constants, last)
        self.program = params["jaxpr"]
        jaxpr = opened(self.program)[0]
        self.carried = tuple(given[self.carry])
        while True:
            self.given = (*given[: self.constants], *self.carried, *given[last:])
            of_step = dependent(jaxpr, self.given)
            grown = tuple(a or b for a, b in zip(self.carried, of_step))
            if grown == self.carried:
                break
            self.carried = grown
        self.of_step = of_step
        self.dependent = (*self.carried, *of_step[self.count :])


class OfWhile:
    """The parts of the arguments of a `while_loop`, and which carried values depend on the sample."""

    def __init__(self, params: dict, given: Sequence[bool]):
        tests, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        self.test, self.body = slice(0, tests), slice(tests, last)
        self.carry = slice(last, None)
        test, body = (opened(params[name])[0] for name in ("cond_jaxpr", "body_jaxpr"))
        self.carried = tuple(given[self.carry])
        while True:
            (self.apart,) = dependent(test, (*given[self.test], *self.carried))
            self.of_step = dependent(body, (*given[self.body], *self.carried))
            # If samples stop at different iterations, all carried values depend on the sample.
            grown = tuple(a or b or self.apart for a, b in zip(self.carried, self.of_step))
            if grown == self.carried:
                break
            self.carried = grown


def of_rounds(params: dict, given: Sequence[bool]) -> tuple[bool, ...]:
    """Returns which arguments of the body of a scan depend on the sample."""
    return OfScan(params, given).given
