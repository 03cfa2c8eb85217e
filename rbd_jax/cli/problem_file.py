"""A problem of optimal control as a user has it: a bundled one by its name, or a file of Python that defines one."""

from __future__ import annotations

from ..control import Guess, Problem, Solution, Solver, problems
from ..control.problems import Posed
from .python_file import defined


#: What a file defines, and what each is to be.
WANTED = {
    "problem": (Problem, "an rbd.control.Problem"),
    "solver": (Solver, "a solver, such as rbd.control.DDP()"),
    "guess": ((Guess, Solution), "an rbd.control.Guess, or an earlier solution"),
}


def posed(name: str, console) -> Posed:
    """The problem of that name or file, with what is suspicious about its model in yellow."""
    if name in problems.NAMES:
        return problems.load(name)
    return Posed(**defined(name, "problem", problems.NAMES, WANTED, console))
