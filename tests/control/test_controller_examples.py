"""The examples of inverse kinematics and of controllers run and print what they say."""

import inspect

import pytest
from test_examples import failures_of

from rbd_jax import control


FUNCTIONS = (
    "inverse_kinematics",
    "differential_inverse_kinematics",
    "operational_space",
    "whole_body_control",
    "quadratic_program",
)


@pytest.mark.parametrize("name", [*FUNCTIONS, "Task", "PointContact"])
def test_example(name):
    said, count = failures_of(name, inspect.getdoc(getattr(control, name)))
    assert count and not said, said


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_goes_in_and_comes_out_is_told(name):
    docstring = inspect.getdoc(getattr(control, name)) or ""
    assert "**Arguments**" in docstring
