"""The time step must be positive: other values raise an error if concrete, and give a code if traced."""

import dataclasses

import jax
import numpy as np
import pytest

import rbd_jax as rbd


Result = rbd.Result
START = rbd.State(np.array([0.5, 1.0]), np.array([0.3, -0.2]))

FUNCTIONS = {
    "rollout": lambda dt: rbd.rollout(rbd.load("double_pendulum"), START, dt=dt, steps=2),
    "step": lambda dt: rbd.step(rbd.load("double_pendulum"), START, dt=dt),
    "step_derivatives": lambda dt: rbd.step_derivatives(rbd.load("double_pendulum"), START, dt=dt),
    "simulate_batch": lambda dt: rbd.simulate_batch(
        rbd.load("double_pendulum"), rbd.State(START.q[None], START.v[None]), dt=dt, steps=2
    ),
}


@pytest.mark.parametrize("dt", [0.0, -0.01, np.nan])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_step_that_is_not_positive_is_refused(name, dt):
    with pytest.raises(ValueError, match=f"^{name}: dt"):
        FUNCTIONS[name](dt)


def test_the_message_names_the_remedy():
    with pytest.raises(ValueError, match=r"rollout: dt must be positive, got -0.01. .* with -v$"):
        FUNCTIONS["rollout"](-0.01)


@pytest.mark.parametrize("save_every", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_traced_step_gives_a_code(save_every):
    model = rbd.load("double_pendulum")

    @jax.jit
    @jax.vmap
    def run(dt):
        path = rbd.rollout(model, START, dt=dt, steps=4, save_every=save_every)
        return path.code, path.failed_step, path.q, rbd.step(model, START, dt=dt).q

    code, failed, q, after = map(np.asarray, run(np.array([0.01, -0.01, 0.0])))
    assert code.tolist() == [Result.SUCCESS, Result.STEP_NOT_POSITIVE, Result.STEP_NOT_POSITIVE]
    assert failed.tolist() == [-1, 0, 0]
    assert np.isfinite(q[0]).all() and np.isfinite(q[1:, 0]).all() and np.isnan(q[1:, 1:]).all()
    assert np.isfinite(after[0]).all() and np.isnan(after[1:]).all()


def test_motions_run_backwards_from_the_negated_velocity():
    """This is the remedy in the message, for a conservative motion."""
    model, scheme = rbd.load("double_pendulum"), rbd.RungeKutta4()
    model = dataclasses.replace(model, damping=0 * model.damping)
    there = rbd.rollout(model, START, dt=1e-3, steps=20, scheme=scheme).final
    back = rbd.rollout(model, rbd.State(there.q, -there.v), dt=1e-3, steps=20, scheme=scheme).final
    np.testing.assert_allclose(back.q, START.q, atol=1e-9)
    np.testing.assert_allclose(-back.v, START.v, atol=1e-9)
