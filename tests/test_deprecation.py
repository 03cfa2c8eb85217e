"""Deprecated forms work, and warn at the user's line."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd


MODEL = rbd.add_constraints(
    rbd.load("double_pendulum"),
    rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1)),
)
Q, V = jnp.array([0.5, -1.1]), jnp.array([1.0, 0.0])


def project():
    return rbd.project(MODEL, Q, V)


def function_of_q_and_v():
    state = rbd.State(jnp.zeros(1), jnp.zeros(1))
    return rbd.rollout(rbd.load("pendulum"), state, dt=0.01, steps=1, forces=(lambda model, q, v: -v,))


def order_of_to_maximal():
    model = rbd.load("pendulum")
    return rbd.to_maximal(model, jnp.zeros(1), jnp.zeros(1), rbd.maximal_coordinates(model))


def measured_lanes():
    return rbd.batch_map(lambda x: x, lanes="measured")


def scheme_of_system_and_time():
    class Euler(rbd.Scheme):
        def step(self, system, time, state, memory, dt):
            v = state.v + dt * system.acceleration(time, state)
            return rbd.State(system.move(state.q, dt * v), v, state.internal), memory, rbd.simulate.SUCCESS

    return Euler


def step_of_system_and_time():
    system, state = rbd.simulate.system_of(MODEL, jnp.zeros(2)), rbd.State(Q, V)
    return rbd.LieEuler().step(system, jnp.zeros(()), state, (), jnp.array(0.01))


def residual_of_a_system():
    system = rbd.simulate.system_of(MODEL, jnp.zeros(2))
    return system.residual(jnp.zeros(()), rbd.State(Q, V), jnp.ones(2))


@pytest.mark.parametrize(
    "form",
    [
        project,
        function_of_q_and_v,
        order_of_to_maximal,
        measured_lanes,
        scheme_of_system_and_time,
        step_of_system_and_time,
        residual_of_a_system,
    ],
)
def test_it_warns_once_at_the_users_line(form, unchecked):
    with pytest.warns(
        DeprecationWarning, match=r"is deprecated and will be removed in version \d+\.\d+\. Use .* instead\.$"
    ) as seen:
        form()
    (warning,) = [w for w in seen if issubclass(w.category, DeprecationWarning)]
    assert warning.filename == __file__


def test_old_and_new_forms_agree():
    with pytest.warns(DeprecationWarning):
        q, v = project()
    state = rbd.project(MODEL, rbd.State(Q, V))
    np.testing.assert_array_equal(state.q, q)
    np.testing.assert_array_equal(state.v, v)
    with pytest.raises(TypeError, match=r"project: state must be a State, got .*Pass rbd.State\(q, v\)"):
        rbd.project(MODEL, Q)


def test_old_schemes_and_systems_agree():
    pendulum, state = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.array([1.0]))
    with pytest.warns(DeprecationWarning):
        euler = scheme_of_system_and_time()()
    paths = [
        rbd.rollout(pendulum, state, dt=0.01, steps=3, scheme=scheme)
        for scheme in (euler, rbd.SemiImplicitEuler(passive="explicit"))
    ]
    np.testing.assert_allclose(paths[0].q, paths[1].q, rtol=0, atol=1e-15)

    system = rbd.simulate.system_of(MODEL, jnp.zeros(2))

    @jax.jit
    def pairs(q, v):
        now, span = jnp.zeros(()), jnp.array(0.1)
        here = system.evaluate(now, rbd.State(q, v))
        return [
            (system.residual(now, here.state, v), here.residual(v)),
            (system.mass_matrix(now, q), here.mass_matrix()),
            (system.constraint_velocity(now, q, v), here.constraint_velocity()),
            (system.admissible(now, q, v), here.admissible(v)),
            (system.constraint_gap(now, q, span, lambda: q), here.constraint_gap(span, lambda: q)),
        ]

    with pytest.warns(DeprecationWarning):
        compared = pairs(Q, V)
    for old, new in compared:
        np.testing.assert_array_equal(old, new)
    with pytest.raises(AttributeError, match="TreeSystem.*no attribute 'forse'"):
        _ = system.forse
