"""Every public name has an example in its docstring, and its output is as documented.

The files of this directory run the examples, one file per package.
"""

import inspect
import re

from docstring_examples import ENTRIES, HERE, docstring_of, failures_of, public_names

import rbd_jax as rbd


def test_names_are_found():
    assert {"rbd_jax.load", "rbd_jax.rollout", "rbd_jax.joints.Revolute", "rbd_jax.lie.SO3"} <= set(ENTRIES)
    named = [getattr(rbd, name) for name in rbd.__all__]
    assert len(ENTRIES) > len([thing for thing in named if not inspect.ismodule(thing)])


def test_every_package_has_a_file_of_tests():
    tested = [
        package
        for file in HERE.glob("test_*.py")
        for given in re.findall(r"examples_of\(([^)]*)\)", file.read_text(encoding="utf-8"))
        for package in re.findall(r"\"(rbd_jax[\w.]*)\"", given)
    ]
    assert sorted(tested) == sorted({name.package for name in ENTRIES.values()})


def test_every_name_has_an_example():
    assert not [path for path in ENTRIES if ">>>" not in docstring_of(path)]


def test_docstrings_of_constants_are_found():
    assert docstring_of("rbd_jax.joints.Revolute") == inspect.getdoc(rbd.joints.Revolute)
    assert docstring_of("rbd_jax.lie.SO3").startswith("Rotations")
    assert public_names.docstring_of("rbd_jax.simulate", "SUCCESS").startswith("The code of a step")


def test_a_wrong_example_fails():
    right = ">>> print(jnp.array([-0.0, 1.2345678, -1.0]))\n[ 0.     1.235 -1.   ]\n"
    assert failures_of("right", right) == ("", 1)
    said, _ = failures_of("wrong", right.replace("1.235", "1.236"))
    assert "1.236" in said
    said, _ = failures_of("wrong", right.replace("-1. ", " 1. "))
    assert "Expected" in said
