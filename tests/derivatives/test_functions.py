"""Derivatives of every other public function of a model and a state, at special states too, are finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from differences import (
    STATES,
    assert_close,
    compiled,
    coupled_model,
    differences,
    entry_names,
    mixed_model,
    points,
    straight_arm,
    weights,
)

import rbd_jax as rbd


#: Each as a function of what `points` has.
FUNCTIONS = {
    "forward_kinematics": lambda m, q, v, x: rbd.forward_kinematics(m, q),
    "body_velocities": lambda m, q, v, x: rbd.body_velocities(m, q, v),
    "body_accelerations": lambda m, q, v, x: rbd.body_accelerations(m, q, v, x["a"], "body"),
    "jacobian": lambda m, q, v, x: rbd.jacobian(m, q, m.nb - 1, jnp.array([0.1, 0.2, 0.3])),
    "jacobian, body": lambda m, q, v, x: rbd.jacobian(m, q, 2, frame="body"),
    "jacobian_derivative": lambda m, q, v, x: rbd.jacobian_derivative(m, q, v, 2, frame="world_aligned"),
    "mass_matrix": lambda m, q, v, x: rbd.mass_matrix(m, q),
    "solve_mass_matrix": lambda m, q, v, x: rbd.solve_mass_matrix(m, q, x["tau"]),
    "bias_force": lambda m, q, v, x: rbd.bias_force(m, q, v, x["f_ext"]),
    "gravity_force": lambda m, q, v, x: rbd.gravity_force(m, q),
    "coriolis_matrix": lambda m, q, v, x: rbd.coriolis_matrix(m, q, v),
    "kinetic_energy": lambda m, q, v, x: rbd.kinetic_energy(m, q, v),
    "potential_energy": lambda m, q, v, x: rbd.potential_energy(m, q),
    "momentum": lambda m, q, v, x: rbd.momentum(m, q, v),
    "center_of_mass": lambda m, q, v, x: rbd.center_of_mass(m, q),
    "center_of_mass_jacobian": lambda m, q, v, x: rbd.center_of_mass_jacobian(m, q),
    "centroidal_momentum_matrix": lambda m, q, v, x: rbd.centroidal_momentum_matrix(m, q),
    "passive_force": lambda m, q, v, x: rbd.passive_force(m, q, v),
    "integrate": lambda m, q, v, x: rbd.integrate(m, q, v),
    "integrate, by nothing": lambda m, q, v, x: rbd.integrate(m, q, 0 * v),
    "difference": lambda m, q, v, x: rbd.difference(m, m.spring_reference, q),
    "difference, of nothing": lambda m, q, v, x: rbd.difference(m, q, q),
    "configuration_rate": lambda m, q, v, x: rbd.configuration_rate(m, q, v),
}

MODELS = {"mixed": mixed_model, "coupled": coupled_model, "straight arm": straight_arm}


def scalars(unravel):
    """One number of each function, stacked."""

    def vector(flat):
        x = unravel(flat)
        numbers = []
        for function in FUNCTIONS.values():
            result = jnp.concatenate(
                [leaf.reshape(-1) for leaf in jax.tree.leaves(function(x["model"], x["q"], x["v"], x))]
            )
            numbers.append(weights(result.size) @ result)
        return jnp.stack(numbers)

    return vector


@pytest.mark.parametrize("name", MODELS)
def test_derivatives_are_finite_differences(name):
    """Reverse mode by every number of model and state; forward mode along one direction."""
    x, unravel = points(MODELS[name]())
    vector = scalars(unravel)
    found = np.asarray(compiled(jax.vmap(jax.jacrev(vector)))(x))
    expected = differences(compiled(jax.vmap(vector)), x)
    names = entry_names(unravel(x[0]))
    for number, function in enumerate(FUNCTIONS):
        try:
            assert_close(found[:, number], expected[:, number], 1e-6, names)
        except AssertionError as error:
            raise AssertionError(f"{function}: {error}") from None
    steps = jnp.where(jnp.isfinite(x), 1.0, 0.0)
    slope = compiled(jax.vmap(lambda x, step: jax.jvp(vector, (x,), (step,))[1]))(x, steps)
    assert_close(slope, np.sum(found * np.asarray(steps)[:, None], axis=2), 1e-11)


def test_difference_at_half_a_turn():
    """Where the shortest way jumps from one side to the other the derivatives are those of one side, and finite."""
    model = mixed_model()
    zero = rbd.neutral(model)
    half = jnp.zeros(model.nv).at[jnp.array([0, 6])].set(jnp.pi)
    q = rbd.integrate(model, zero, half)

    def value(q0, q1):
        return weights(model.nv) @ rbd.difference(model, q0, q1)

    for gradient in compiled(jax.grad(value, argnums=(0, 1)))(zero, q):
        assert np.isfinite(gradient).all()
    assert np.isfinite(compiled(jax.hessian(value, argnums=1))(zero, q)).all()


@pytest.mark.parametrize("state", ["zero, at rest", "half turns"])
def test_rollout(state):
    """A rollout by every number of the model, the initial state and the controls, joints that move by themselves included."""
    x, unravel = points(mixed_model())
    x = x[STATES.index(state)][None]

    def value(flat):
        x = unravel(flat)
        state = rbd.State(x["q"], x["v"])
        controls = jnp.stack([x["tau"], x["a"]])
        final = rbd.rollout(x["model"], state, controls, dt=0.01).final
        return weights(final.q.size) @ final.q + weights(final.v.size) @ final.v

    found = compiled(jax.vmap(jax.grad(value)))(x)
    names = entry_names(unravel(x[0]))
    # The friction at rest has curvature over the step of the differences.
    assert_close(found, differences(compiled(jax.vmap(value)), x), 1e-6, names)
