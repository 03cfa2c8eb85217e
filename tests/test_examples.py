"""Every public function has an example in its docstring, and what it prints is what the docstring says."""

import doctest
import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd


#: Also those that a package is.
FUNCTIONS = [name for name in rbd.__all__ if inspect.isfunction(inspect.unwrap(getattr(rbd, name)))]

#: What the examples suppose, as the docstring of the package says.
NAMES = {"jax": jax, "jnp": jnp, "np": np, "rbd": rbd}


class Checker(doctest.OutputChecker):
    """Takes a zero for a zero whatever its sign, and with it the width of the column that it is in."""

    def check_output(self, want, got, optionflags):
        return super().check_output(*map(self._unsigned, (want, got)), optionflags)

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


def test_functions_are_found():
    assert {"load", "forward_dynamics", "rollout", "checked"} <= set(FUNCTIONS)
    callables = {name for name in rbd.__all__ if name.islower() and callable(getattr(rbd, name))}
    assert callables == set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_example(name):
    said, count = failures_of(name, inspect.getdoc(inspect.unwrap(getattr(rbd, name))))
    assert count, "there is no example"
    assert not said, said


def test_a_wrong_example_fails():
    right = ">>> print(jnp.array([-0.0, 1.2345678, -1.0]))\n[ 0.     1.235 -1.   ]\n"
    assert failures_of("right", right) == ("", 1)
    said, _ = failures_of("wrong", right.replace("1.235", "1.236"))
    assert "1.236" in said
    said, _ = failures_of("wrong", right.replace("-1. ", " 1. "))
    assert "Expected" in said
