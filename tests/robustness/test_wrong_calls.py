"""Public functions reject any wrong argument with a message of the library."""

import random

import pytest
from wrong_calls import calls, fault_of


CALLS = calls()
#: Number of calls of the everyday test, and their seed.
SOME, SEED = 150, 20


def test_there_are_many():
    assert len({call.name for call in CALLS}) > 80 and len(CALLS) > 8000


def test_some(unchecked):
    assert {
        str(call): fault for call in random.Random(SEED).sample(CALLS, SOME) if (fault := fault_of(call))
    } == {}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_all(unchecked, part):
    assert {str(call): fault for call in CALLS[part::8] if (fault := fault_of(call))} == {}
