"""Functions as forces in a rollout: `(model, state, t) -> tau`."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd


MODEL = rbd.load("double_pendulum")
START = rbd.State(np.array([0.5, 1.0]), np.array([0.3, -0.2]))


@pytest.mark.parametrize("scheme", ["SemiImplicitEuler", pytest.param("RungeKutta4", marks=pytest.mark.slow)])
def test_functions_are_given_the_time_of_each_evaluation(scheme):
    """The motion equals that under a policy with the same force, up to the order of the scheme."""

    def tau(size, t, state):
        return size * jnp.stack([t**2, 0 * t + 0.1]) - state.v

    run = partial(rbd.rollout, MODEL, START, dt=0.01, steps=20, scheme=getattr(rbd, scheme)(), t0=0.3)

    def end(size):
        return run(forces=(lambda model, state, t: tau(size, t, state),)).final.q

    step = 1e-5
    found, slopes = jax.jit(jax.vmap(lambda x: jax.jvp(end, (x,), (jnp.ones(()),))))(
        np.array([1.0, 1 + step, 1 - step])
    )
    held = run(lambda t, state: tau(1.0, t, state)).final.q
    # A policy holds its force over a step; a function is evaluated in each stage.
    differ = np.abs(np.asarray(found[0] - held)).max()
    assert differ < 1e-12 if scheme == "SemiImplicitEuler" else 1e-6 < differ < 1e-2
    np.testing.assert_allclose(slopes[0], (found[1] - found[2]) / (2 * step), atol=1e-7)


def test_the_old_form_warns_and_works():
    old, new = (lambda model, q, v: -0.2 * v), (lambda model, state, t: -0.2 * state.v)
    run = lambda force: rbd.rollout(MODEL, START, dt=0.01, steps=5, forces=(force,)).final.q
    with pytest.warns(
        DeprecationWarning,
        match=r"rollout: .* \(model, q, v\) is deprecated .* 0.3. Use .* \(model, state, t\)",
    ):
        found = run(old)
    np.testing.assert_array_equal(found, run(new))
