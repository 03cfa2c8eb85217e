"""The examples of the package run and print what they say."""

import inspect

import pytest
from test_examples import failures_of

from rbd_jax import identify


WITH_EXAMPLES = [
    name for name in identify.__all__ if ">>>" in (inspect.getdoc(getattr(identify, name)) or "")
]


def test_what_people_call_has_an_example():
    assert {"Parameters", "Log", "read_log", "check_log", "with_rates", "least_squares"} <= set(WITH_EXAMPLES)
    assert {"physical_least_squares", "made_physical", "torque_regressor", "best_cutoff"} <= set(
        WITH_EXAMPLES
    )
    assert {"report", "predictions", "cross_validation", "whiteness"} <= set(WITH_EXAMPLES)


#: Those that take more than ten seconds.
LONG = ("hmc", "laplace")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in WITH_EXAMPLES]
)
def test_example(name):
    said, count = failures_of(name, inspect.getdoc(getattr(identify, name)))
    assert count and not said, said
