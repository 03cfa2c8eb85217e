"""The schemes: their orders on a manifold that is not flat, and energy over long times."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simulated import compiled, energy, moving, pendulum, same, tumbler

import rbd_jax as rbd


SPAN, STEPS = 0.32, 4


def final_states(model, state, scheme, halvings):
    """The state after `SPAN`, by steps halved once, twice, and so on: the compiled function takes `STEPS` at a time."""
    advance = compiled(lambda state, dt: rbd.rollout(model, state, dt=dt, steps=STEPS, scheme=scheme).final)
    finals = []
    for halving in halvings:
        end = state
        for _ in range(2**halving):
            end = advance(end, SPAN / STEPS / 2**halving)
        finals.append(end)
    return finals


def distance(model, a, b):
    return np.linalg.norm(np.concatenate([rbd.difference(model, a.q, b.q), a.v - b.v]))


def test_orders():
    """Halving the step divides the error by 2 with the semi-implicit Euler scheme, by 16 with Runge–Kutta's."""
    model = tumbler()
    state = moving(model)
    *rough, exact = final_states(model, state, rbd.RungeKutta4(), (2, 3, 4, 7))
    errors = np.array([distance(model, end, exact) for end in rough])
    assert errors[-1] < 1e-5
    np.testing.assert_allclose(np.log2(errors[:-1] / errors[1:]), 4, atol=0.3)
    rough = final_states(model, state, rbd.SemiImplicitEuler(), (4, 5, 6))
    errors = np.array([distance(model, end, exact) for end in rough])
    np.testing.assert_allclose(np.log2(errors[:-1] / errors[1:]), 1, atol=0.15)


@pytest.mark.parametrize("scheme", [rbd.SemiImplicitEuler(), rbd.RungeKutta4()])
def test_quaternions_stay_of_unit_length(scheme):
    model = tumbler()
    path = compiled(lambda state: rbd.rollout(model, state, dt=0.01, steps=200, scheme=scheme))(moving(model))
    assert np.abs(np.linalg.norm(path.q[:, 3:7], axis=1) - 1).max() < 1e-14


def test_free_flight_is_exact():
    """A body thrown without gravity, turning about a principal axis: the scheme follows it to the last digit."""
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_body("ball", joint=rbd.joints.Free(), inertia=rbd.Inertia.sphere(1.0, 0.3))
    model = builder.build()
    v = jnp.array([0.0, 0.0, 2.0, 0.0, 0.0, 0.7])
    path = rbd.rollout(model, rbd.State(rbd.neutral(model), v), dt=0.1, steps=50)
    same(path.v, np.broadcast_to(v, (51, 6)))
    same(path.final.q, jnp.array([0, 0, 3.5, np.cos(5), 0, 0, np.sin(5)]))


def test_energy_of_the_semi_implicit_scheme_does_not_drift():
    """Over 20000 steps the error of a pendulum's energy stays in the band it has from the start."""
    model = pendulum(1)
    state = rbd.State(jnp.array([0.5]), jnp.zeros(1))

    def energies(state):
        path = rbd.rollout(model, state, dt=0.01, steps=20000)
        return jax.vmap(lambda q, v: energy(model, rbd.State(q, v)))(path.q, path.v)

    error = np.asarray(jax.jit(energies)(state)) - float(energy(model, state))
    start, end = error[:4000], error[-4000:]
    swing = float(energy(model, state) - energy(model, rbd.State(0 * state.q, state.v)))
    assert np.abs(error).max() < 0.1 * swing
    assert abs(end.mean() - start.mean()) < 0.1 * np.ptp(start)


def test_energy_of_the_semi_implicit_scheme_is_kept_to_first_order():
    """Where the mass matrix changes, as in a double pendulum, the error at a time is proportional to the step."""
    model = pendulum(2)
    state = rbd.State(jnp.array([0.5, 0.5]), jnp.zeros(2))
    before = float(energy(model, state))
    errors = [float(energy(model, end)) - before for end in final_states(model, state, None, (5, 6, 7))]
    np.testing.assert_allclose(np.log2(np.array(errors[:-1]) / errors[1:]), 1, atol=0.15)
