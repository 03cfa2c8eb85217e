"""Operation counts of functions: multiplications, additions, divisions, roots and other functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from .jaxprs import of_scan


@dataclass(frozen=True)
class Operations:
    """The numbers of multiplications, additions (or subtractions), divisions, roots, and evaluations of other functions.

    >>> model = rbd.load("pendulum")
    >>> counts = rbd.count_operations(rbd.gravity_force, model, jnp.zeros(1))
    >>> print(isinstance(counts, rbd.Operations), counts.total == counts.multiplications + counts.additions + counts.functions)
    True True
    """

    multiplications: int = 0
    additions: int = 0
    divisions: int = 0
    roots: int = 0
    functions: int = 0

    def __add__(self, other: Operations) -> Operations:
        return Operations(*(a + b for a, b in zip(self._all, other._all, strict=True)))

    @property
    def _all(self):
        return (self.multiplications, self.additions, self.divisions, self.roots, self.functions)

    @property
    def total(self) -> int:
        """The sum of all numbers."""
        return sum(self._all)


def count_operations(function: Callable, *args, zeros: bool = True) -> Operations:
    """Counts the floating-point operations of one call `function(*args)`, as JAX traces it, before any compiler optimization.

    The trace runs with the given arguments, so each iteration of a loop counts. Comparisons, selections, signs and integer
    operations do not count. The book's tables of costs are such counts (book tables 10.1, 10.2 and eqs. 10.2, 10.3).

    Args:
      function: The function.
      args: Its arguments.
      zeros: If True, operations with a zero operand count. If False, and with arguments that are not zero by chance, the count is
        that of a program that exploits the zeros of its matrices.

    Returns:
      The numbers of operations.

    >>> rbd.count_operations(jnp.dot, jnp.ones(3), jnp.ones(3))
    Operations(multiplications=3, additions=2, divisions=0, roots=0, functions=0)
    """
    leaves, structure = jax.tree.flatten(args)
    closed = jax.make_jaxpr(lambda *leaves: function(*jax.tree.unflatten(structure, leaves)))(*leaves)
    counter = _Counter(zeros)
    with jax.disable_jit():
        counter.run(closed, leaves)
    return counter.counted


#: Primitives that count as one function evaluation per entry of the result.
_FUNCTIONS = {
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "exp",
    "exp2",
    "log",
    "log1p",
    "expm1",
    "pow",
}
_FUNCTIONS |= {"sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "logistic", "erf", "cbrt"}


class _Counter:
    """Runs a jaxpr and adds up the costs of its operations."""

    def __init__(self, zeros: bool):
        self.zeros = zeros
        self.counted = Operations()

    def run(self, closed: ClosedJaxpr, args):
        known = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        known |= zip(closed.jaxpr.invars, args, strict=True)

        def value(atom):
            return atom.val if isinstance(atom, Literal) else known[atom]

        for equation in closed.jaxpr.eqns:
            results = self.step(equation, [value(atom) for atom in equation.invars])
            known |= zip(equation.outvars, results, strict=True)
        return [value(atom) for atom in closed.jaxpr.outvars]

    def step(self, equation, args):
        name, params = equation.primitive.name, equation.params
        if name == "scan":
            return self.scan(params, args)
        if name == "while":
            return self.loop(params, args)
        if name == "cond":
            index, *args = args
            return self.run(params["branches"][int(index)], args)
        for key in ("call_jaxpr", "jaxpr", "fun_jaxpr"):
            if key in params:  # calls: jit, remat, custom derivatives
                inner = params[key]
                return self.run(inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ()), args)
        results = equation.primitive.bind(*args, **params)
        results = list(results) if equation.primitive.multiple_results else [results]
        if results and np.issubdtype(np.asarray(results[0]).dtype, np.inexact):
            self.counted += self.cost(name, params, [np.asarray(x) for x in args], np.asarray(results[0]))
        return results

    def scan(self, params, args):
        (fixed, carried), length = of_scan(params), params["length"]
        consts, carry, rows = args[:fixed], args[fixed : fixed + carried], args[fixed + carried :]
        order = range(length - 1, -1, -1) if params["reverse"] else range(length)
        outputs = {}
        for index in order:
            results = self.run(params["jaxpr"], [*consts, *carry, *(row[index] for row in rows)])
            carry, outputs[index] = results[:carried], results[carried:]
        shapes = params["jaxpr"].out_avals[carried:]
        empty = [np.zeros((0, *aval.shape), aval.dtype) for aval in shapes]
        stacked = [np.stack(rows) for rows in zip(*(outputs[i] for i in range(length)), strict=True)]
        return [*carry, *(stacked if length else empty)]

    def loop(self, params, args):
        tests, steps = params["cond_nconsts"], params["body_nconsts"]
        test, body, carry = args[:tests], args[tests : tests + steps], args[tests + steps :]
        while self.run(params["cond_jaxpr"], [*test, *carry])[0]:
            carry = self.run(params["body_jaxpr"], [*body, *carry])
        return carry

    def cost(self, name, params, args, result) -> Operations:
        """Returns the cost of one operation, from its operands and its result."""
        if name in ("mul", "integer_pow", "square"):
            times = 1 if name == "mul" else abs(params.get("y", 2)) - 1
            return Operations(multiplications=times * self.needed(result, np.logical_and, args))
        if name in ("add", "sub", "add_any"):
            return Operations(additions=self.needed(result, np.logical_and, args))
        if name == "div":
            return Operations(divisions=self.needed(result, np.logical_and, args))
        if name in ("sqrt", "rsqrt"):
            return Operations(roots=result.size)
        if name in _FUNCTIONS:
            return Operations(functions=result.size)
        if name in ("reduce_sum", "cumsum"):
            terms = np.ones_like(args[0]) if self.zeros else args[0] != 0
            if name == "reduce_sum":
                return Operations(additions=_joined(np.sum(terms, axis=tuple(params["axes"]))))
            return Operations(additions=int(terms.sum()))
        if name.startswith("scatter-add") or name.startswith("scatter_add"):
            return Operations(additions=int(args[2].size if self.zeros else np.count_nonzero(args[2])))
        if name == "dot_general":
            a, b = ((np.ones_like(x) if self.zeros else (x != 0)).astype(np.float64) for x in args)
            terms = np.asarray(jax.lax.dot_general(a, b, params["dimension_numbers"], precision="highest"))
            return Operations(multiplications=round(float(terms.sum())), additions=_joined(terms))
        return Operations()

    def needed(self, result, combine, args) -> int:
        if self.zeros:
            return result.size
        nonzero = [np.broadcast_to(x != 0, result.shape) for x in args]
        return int(np.count_nonzero(combine.reduce(nonzero)))


def _joined(terms) -> int:
    """Returns the number of additions in sums with the given numbers of terms."""
    return round(float(np.sum(np.maximum(terms - 1, 0))))
