"""Docstrings of inverse kinematics and controllers document arguments and results."""

import inspect

import pytest

from rbd_jax import control


FUNCTIONS = (
    "inverse_kinematics",
    "differential_inverse_kinematics",
    "operational_space",
    "whole_body_control",
    "quadratic_program",
)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_goes_in_and_comes_out_is_told(name):
    docstring = inspect.getdoc(getattr(control, name)) or ""
    assert "Args:" in docstring
