"""What the examples of this room print is what their docstrings say."""

import inspect

import pytest
from test_examples import failures_of

import rbd_jax as rbd
from rbd_jax import tasks


WITH_EXAMPLES = [
    getattr(tasks, name)
    for name in tasks.__all__
    if inspect.isfunction(getattr(tasks, name)) and name not in tasks.NAMES
]


@pytest.mark.parametrize("thing", [rbd.Task, *WITH_EXAMPLES], ids=lambda thing: thing.__name__)
def test_example(thing, unchecked):
    if thing is tasks.to_gymnasium:
        pytest.importorskip("gymnasium")
    said, count = failures_of(thing.__name__, inspect.getdoc(thing))
    assert count and not said, said
