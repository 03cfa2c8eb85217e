"""The models of `cases.py` as session fixtures, so that all tests of one model run together."""

import pytest
from cases import MODELS, POINTED, case_of, each


@pytest.fixture(scope="session", params=each(MODELS))
def case(request):
    """Each of the models."""
    return case_of(request.param)


@pytest.fixture(scope="session", params=each(name for name in MODELS if name != "driven"))
def scleronomic(request):
    """Each of the models without driven joints."""
    return case_of(request.param)


@pytest.fixture(scope="session", params=each(POINTED))
def pointed(request):
    """Each of the models whose Jacobians are tested at a point."""
    return case_of(request.param)


@pytest.fixture(scope="session")
def cases():
    """The models by name."""
    return case_of
