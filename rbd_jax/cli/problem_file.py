"""Loads a problem of optimal control: a bundled one by its name, or one defined by a Python file."""

from __future__ import annotations

from ..control import Guess, Problem, Solution, Solver, problems
from ..control.problems import Posed
from .python_file import defined


#: The names that a file may define, with their types and descriptions.
WANTED = {
    "problem": (Problem, "an rbd.control.Problem"),
    "solver": (Solver, "a solver, such as rbd.control.DDP()"),
    "guess": ((Guess, Solution), "an rbd.control.Guess, or an earlier solution"),
}


def posed(name: str, console) -> Posed:
    """Returns the problem of that name or file, and prints warnings of its model in yellow."""
    if name in problems.NAMES:
        return problems.load(name)
    return Posed(**defined(name, "problem", problems.NAMES, WANTED, console))
