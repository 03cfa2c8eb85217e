"""The models of `cases.py` as fixtures: a test of each in turn, those of one model after the other."""

import pytest
from cases import MODELS, POINTED, case_of, each


@pytest.fixture(scope="session", params=each(MODELS))
def case(request):
    """Each of the models."""
    return case_of(request.param)


@pytest.fixture(scope="session", params=each(name for name in MODELS if name != "driven"))
def scleronomic(request):
    """Each of the models that stands still unless its degrees of freedom move."""
    return case_of(request.param)


@pytest.fixture(scope="session", params=each(POINTED))
def pointed(request):
    """Each of the models whose Jacobians are looked at in a point."""
    return case_of(request.param)


@pytest.fixture(scope="session")
def cases():
    """The models by name."""
    return case_of
