"""Arguments are also checked inside compiled functions, where their values are known."""

import jax
import jax.numpy as jnp
import pytest

from rbd_jax.control import Bounds, Cost, Posture, Task


KNOWN = jnp.ones(3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Bounds(control=(-2.0, KNOWN)),
        lambda: Cost(Posture(), KNOWN),
        lambda: Task(Posture(), 1.0, rate=KNOWN),
    ],
)
def test_known_numbers_are_taken_within_what_is_compiled(make):
    assert len(jax.jit(lambda x: (x, jax.tree.leaves(make())))(1.0)) == 2
