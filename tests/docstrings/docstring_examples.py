"""Collects and runs the examples of docstrings. Each package has a test file."""

import doctest
import importlib.util
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import rbd_jax as rbd


HERE = Path(__file__).resolve().parent

#: Names that the examples assume, as documented in the package's docstring.
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
    """Ignores the sign of zeros, and with it the width of array columns."""

    def check_output(self, want, got, optionflags):
        return super().check_output(self._unsigned(want), self._unsigned(got), optionflags)

    @staticmethod
    def _unsigned(text):
        return re.sub(r"\[ +", "[", re.sub(r"-(0\.0*)(?![\d])", r"\1", text))


def failures_of(name, docstring):
    """Returns the output that differs from a docstring's examples, as text, and the number of examples."""
    test = doctest.DocTestParser().get_doctest(docstring, dict(NAMES), name, None, None)
    said = []
    runner = doctest.DocTestRunner(Checker(), optionflags=doctest.NORMALIZE_WHITESPACE)
    with np.printoptions(precision=3, suppress=True):
        runner.run(test, out=said.append)
    return "".join(said), len(test.examples)


def docstring_of(path):
    return public_names.docstring_of(*path.rsplit(".", 1))


def examples_of(*packages):
    """Returns the names documented under these packages, as test parameters."""
    return [path for path, name in ENTRIES.items() if name.package in packages]


def check_example(path):
    """Fails if the example is missing or prints something else."""
    said, count = failures_of(path, docstring_of(path))
    assert count, f"{path} has no example: its docstring should end with one (>>>)"
    assert not said, said
