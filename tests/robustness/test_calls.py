"""Public functions reject wrong arguments at entry, with a message that names them."""

import jax
import numpy as np
import pytest

import rbd_jax as rbd


MODEL = rbd.load("double_pendulum")
STATE = rbd.State(*jax.device_put((np.array([0.1, 0.2]), np.zeros(2))))


@pytest.mark.parametrize(
    "key", [None, 3, "x", (), np.zeros(2), np.zeros(3, np.uint32), object, {}, [1, 2]], ids=repr
)
def test_keys(key, unchecked):
    with pytest.raises(ValueError, match="random_configuration: key is .* it takes a key"):
        rbd.random_configuration(MODEL, key)


def test_keys_of_both_kinds_draw_the_same(unchecked):
    with pytest.raises(ValueError, match=r"key has shape \(3,\); it takes one"):
        rbd.random_configuration(MODEL, jax.random.split(jax.random.key(0), 3))
    old = rbd.random_configuration(MODEL, jax.random.PRNGKey(3))
    np.testing.assert_array_equal(old, rbd.random_configuration(MODEL, jax.random.key(3)))


@pytest.mark.parametrize("names", [3, "x", ["a"], 1.5, STATE], ids=str)
def test_new_names(names, unchecked):
    with pytest.raises(TypeError, match="rename: attached is .* it must be {name: new name}"):
        rbd.rename(MODEL, attached=names)


@pytest.mark.parametrize(
    "tolerance", ["x", 2**400, -1.0, 0, float("nan"), [1.0, 2.0], np.array(["a"])], ids=str
)
def test_tolerances(tolerance, unchecked):
    with pytest.raises(ValueError, match="assemble: tolerance"):
        rbd.assemble(MODEL, STATE.q, tolerance=tolerance)


@pytest.mark.parametrize("dt", ["x", 10**400, [[1, 2], [3]], float("inf"), 0, None], ids=str)
def test_steps(dt, unchecked):
    for call in (
        rbd.step,
        rbd.step_derivatives,
        lambda *given, **named: rbd.rollout(*given, steps=2, **named),
    ):
        with pytest.raises(ValueError, match="dt"):
            call(MODEL, STATE, dt=dt)


def test_a_batch_that_is_traced(unchecked):
    states = rbd.State(jax.device_put(np.zeros((2, 2))), jax.device_put(np.zeros((2, 2))))
    final = lambda states: rbd.simulate_batch(MODEL, states, dt=0.01, steps=2).q
    with pytest.raises(
        ValueError, match="simulate_batch: model or states are traced, as within jit, .*rbd.batch_map of"
    ):
        jax.jit(final)(states)


@pytest.mark.parametrize("body", [1.0, float("inf"), None, (), np.zeros(2)], ids=str)
def test_bodies(body, unchecked):
    with pytest.raises(
        ValueError, match="model 'double_pendulum' has no body .*: give a name, or an index from 0"
    ):
        MODEL.body_index(body)
