"""Functions that act in a rollout: `(model, state, t) -> tau`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd


MODEL = rbd.load("double_pendulum")
START = rbd.State(np.array([0.5, 1.0]), np.array([0.3, -0.2]))


@pytest.mark.parametrize("scheme", ["SemiImplicitEuler", "RungeKutta4"])
def test_functions_are_given_the_time_of_each_evaluation(scheme):
    """A force that depends on time only is the spring whose rest position it moves, also with its gradient."""
    scheme = getattr(rbd, scheme)()

    def end(size, forces):
        return rbd.rollout(
            MODEL, START, dt=0.01, steps=20, scheme=scheme, forces=(forces(size),), t0=0.3
        ).final.q

    by_function = lambda size: lambda model, state, t: size * jnp.array([t**2, 0.1]) - state.v
    tau = lambda t, state: jnp.array([t**2, 0.1]) - state.v
    found = end(1.0, by_function)
    held = rbd.rollout(MODEL, START, tau, dt=0.01, steps=20, scheme=scheme, t0=0.3).final.q
    # A policy holds its force over a step, and a function is evaluated in each stage.
    exact = scheme.__class__.__name__ == "SemiImplicitEuler"
    np.testing.assert_allclose(found, held, atol=1e-12 if exact else 1e-2)
    if not exact:
        assert np.abs(np.asarray(found - held)).max() > 1e-6
    slope = jax.jit(jax.jacfwd(lambda size: end(size, by_function)))(1.0)
    step = 1e-5
    expected = (np.asarray(end(1 + step, by_function)) - np.asarray(end(1 - step, by_function))) / (2 * step)
    np.testing.assert_allclose(slope, expected, atol=1e-7)


def test_the_old_form_warns_and_works():
    old, new = (lambda model, q, v: -0.2 * v), (lambda model, state, t: -0.2 * state.v)
    run = lambda force: rbd.rollout(MODEL, START, dt=0.01, steps=5, forces=(force,)).final.q
    with pytest.warns(
        DeprecationWarning,
        match=r"rollout: .* \(model, q, v\) is deprecated .* 0.3. Use .* \(model, state, t\)",
    ):
        found = run(old)
    np.testing.assert_array_equal(found, run(new))
