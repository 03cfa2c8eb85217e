"""The examples of docstrings: which there are, and what they print that they do not say. Each room has a file of tests."""

import doctest
import importlib.util
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import rbd_jax as rbd


HERE = Path(__file__).resolve().parent

#: What the examples suppose, as the docstring of the package says.
NAMES = {"jax": jax, "jnp": jnp, "np": np, "rbd": rbd}


def _public_names():
    where = importlib.util.spec_from_file_location(
        "public_names", HERE.parents[1] / "scripts" / "public_names.py"
    )
    assert where and where.loader
    module = importlib.util.module_from_spec(where)
    where.loader.exec_module(module)
    return module


public_names = _public_names()
ENTRIES = public_names.entries()


class Checker(doctest.OutputChecker):
    """Takes a zero for a zero whatever its sign, and with it the width of the column that it is in."""

    def check_output(self, want, got, optionflags):
        return super().check_output(self._unsigned(want), self._unsigned(got), optionflags)

    @staticmethod
    def _unsigned(text):
        return re.sub(r"\[ +", "[", re.sub(r"-(0\.0*)(?![\d])", r"\1", text))


def failures_of(name, docstring):
    """What the examples of a docstring print that it does not say, as text; and how many examples there are."""
    test = doctest.DocTestParser().get_doctest(docstring, dict(NAMES), name, None, None)
    said = []
    runner = doctest.DocTestRunner(Checker(), optionflags=doctest.NORMALIZE_WHITESPACE)
    with np.printoptions(precision=3, suppress=True):
        runner.run(test, out=said.append)
    return "".join(said), len(test.examples)


def docstring_of(path):
    return public_names.docstring_of(*path.rsplit(".", 1))


def examples_of(*packages):
    """The names that have their entries with these packages, to parametrize a test with."""
    return [path for path, name in ENTRIES.items() if name.package in packages]


def check_example(path):
    """Fails where the example is missing, or prints something else than it says."""
    said, count = failures_of(path, docstring_of(path))
    assert count, f"{path} has no example: its docstring should end with one (>>>)"
    assert not said, said
