"""Derivatives of all other public functions of a model and a state agree with finite differences, also at special states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from differences import (
    STATES,
    branched_model,
    coupled_model,
    entry_names,
    mixed_model,
    points,
    straight_arm,
    weights,
)
from support import assert_close, differences

import rbd_jax as rbd


#: Each as a function of the entries of `points`.
FUNCTIONS = {
    "forward_kinematics": lambda m, q, v, x: rbd.forward_kinematics(m, q),
    "body_velocities": lambda m, q, v, x: rbd.body_velocities(m, q, v),
    "body_accelerations": lambda m, q, v, x: rbd.body_accelerations(m, q, v, x["a"], "body"),
    "jacobian": lambda m, q, v, x: rbd.jacobian(m, q, m.nb - 1, jnp.array([0.1, 0.2, 0.3])),
    "jacobian, body": lambda m, q, v, x: rbd.jacobian(m, q, 2, frame="body"),
    "jacobian_derivative": lambda m, q, v, x: rbd.jacobian_derivative(m, q, v, 2, frame="world_aligned"),
    "mass_matrix": lambda m, q, v, x: rbd.mass_matrix(m, q),
    "solve_mass_matrix": lambda m, q, v, x: rbd.solve_mass_matrix(m, q, x["tau"]),
    "inertia_force": lambda m, q, v, x: rbd.inertia_force(m, q, x["a"]),
    "handles": lambda m, q, v, x: rbd.dynamics.handles(m, q, v, x["tau"], [0, m.nb - 1], x["f_ext"]).free,
    "bias_force": lambda m, q, v, x: rbd.bias_force(m, q, v, x["f_ext"]),
    "gravity_force": lambda m, q, v, x: rbd.gravity_force(m, q),
    "inverse_dynamics_regressor": lambda m, q, v, x: rbd.inverse_dynamics_regressor(m, q, v, x["a"]),
    "momentum_regressor": lambda m, q, v, x: rbd.momentum_regressor(m, q, v),
    "kinetic_energy_regressor": lambda m, q, v, x: rbd.kinetic_energy_regressor(m, q, v),
    "potential_energy_regressor": lambda m, q, v, x: rbd.potential_energy_regressor(m, q),
    "inverse_operational_inertia": lambda m, q, v, x: rbd.inverse_operational_inertia(m, q, [0, m.nb - 1]),
    "coriolis_matrix": lambda m, q, v, x: rbd.coriolis_matrix(m, q, v),
    "kinetic_energy": lambda m, q, v, x: rbd.kinetic_energy(m, q, v),
    "potential_energy": lambda m, q, v, x: rbd.potential_energy(m, q),
    "momentum": lambda m, q, v, x: rbd.momentum(m, q, v),
    "center_of_mass": lambda m, q, v, x: rbd.center_of_mass(m, q),
    "center_of_mass_jacobian": lambda m, q, v, x: rbd.center_of_mass_jacobian(m, q),
    "centroidal_momentum_matrix": lambda m, q, v, x: rbd.centroidal_momentum_matrix(m, q),
    "locked_inertia": lambda m, q, v, x: rbd.locked_inertia(m, q, jnp.array([0.1, 0.2, 0.3])),
    "centroidal_inertia": lambda m, q, v, x: rbd.centroidal_inertia(m, q),
    "average_velocity": lambda m, q, v, x: rbd.average_velocity(m, q, v),
    "passive_force": lambda m, q, v, x: rbd.passive_force(m, q, v),
    "integrate": lambda m, q, v, x: rbd.integrate(m, q, v),
    "integrate, by nothing": lambda m, q, v, x: rbd.integrate(m, q, 0 * v),
    "difference": lambda m, q, v, x: rbd.difference(m, m.spring_reference, q),
    "difference, of nothing": lambda m, q, v, x: rbd.difference(m, q, q),
    "configuration_rate": lambda m, q, v, x: rbd.configuration_rate(m, q, v),
}


#: Traversals in both directions, and the manifold operations.
EVERY_DAY = ("solve_mass_matrix", "integrate, by nothing", "difference")


def scalars(unravel, names=tuple(FUNCTIONS)):
    """Returns a function of the flat vector of `points`, with one scalar per function."""

    def vector(flat):
        x = unravel(flat)
        numbers = []
        for seed, name in enumerate(names):
            leaves = jax.tree.leaves(FUNCTIONS[name](x["model"], x["q"], x["v"], x))
            entries = jnp.concatenate([leaf.reshape(-1) for leaf in leaves])
            numbers.append(weights(entries.size, seed) @ entries)
        return jnp.stack(numbers)

    return vector


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "model, names",
    [
        pytest.param(branched_model, EVERY_DAY, id="some"),
        *(
            pytest.param(model, tuple(FUNCTIONS), marks=SLOW, id=model.__name__)
            for model in (branched_model, coupled_model, straight_arm)
        ),
    ],
)
def test_gradients_are_finite_differences(model, names):
    """The gradient of the sum of all functions, by every parameter and state variable, in a single compilation.

    Derivatives by the parameters of the model are the book's §5.5.
    """
    x, unravel = points(model())
    total = lambda flat: jnp.sum(scalars(unravel, names)(flat))
    found = jax.jit(jax.vmap(jax.grad(total)))(x)
    expected = differences(jax.jit(jax.vmap(total)), x)
    assert_close(found, expected, 1e-6, names=entry_names(unravel(x[0])), axis=-1)


@pytest.mark.slow
@pytest.mark.parametrize("model", [branched_model, mixed_model, coupled_model, straight_arm])
def test_derivatives_of_each_are_finite_differences(model):
    """Each function by reverse mode; forward mode agrees along a direction."""
    x, unravel = points(model())
    vector, names = scalars(unravel), entry_names(unravel(x[0]))
    found = np.asarray(jax.jit(lambda x: jax.lax.map(jax.jacrev(vector), x))(x))
    expected = differences(jax.jit(jax.vmap(vector)), x)
    for number, function in enumerate(FUNCTIONS):
        try:
            assert_close(found[:, number], expected[:, number], 1e-6, names=names, axis=-1)
        except AssertionError as error:
            raise AssertionError(f"{function}: {error}") from None
    steps = np.where(np.isfinite(x), 1.0, 0.0)
    slope = jax.jit(jax.vmap(lambda x, step: jax.jvp(vector, (x,), (step,))[1]))(x, steps)
    assert_close(slope, np.sum(found * steps[:, None], axis=2), 1e-11, axis=-1)


@pytest.mark.slow
def test_difference_at_half_a_turn():
    """Where the shortest rotation jumps, derivatives are one-sided and finite."""
    model = branched_model()
    zero = rbd.neutral(model)
    half = np.zeros(model.nv)
    half[0] = np.pi
    q = rbd.integrate(model, zero, half)

    def value(q0, q1):
        return weights(model.nv) @ rbd.difference(model, q0, q1)

    for gradient in jax.jit(jax.grad(value, argnums=(0, 1)))(zero, q):
        assert np.isfinite(gradient).all()
    assert np.isfinite(jax.jit(jax.hessian(value, argnums=1))(zero, q)).all()


@pytest.mark.slow
def test_rollout():
    """At rest and half a revolution from it, by every parameter of the model, the initial state and the controls."""
    x, unravel = points(branched_model())
    x = x[[STATES.index("zero, at rest"), STATES.index("half turns")]]

    def value(flat):
        x = unravel(flat)
        state = rbd.State(x["q"], x["v"])
        controls = jnp.stack([x["tau"], x["a"]])
        final = rbd.rollout(x["model"], state, controls, dt=0.01).final
        return weights(final.q.size) @ final.q + weights(final.v.size) @ final.v

    found = jax.jit(jax.vmap(jax.grad(value)))(x)
    assert_close(
        found, differences(jax.jit(jax.vmap(value)), x), 1e-6, names=entry_names(unravel(x[0])), axis=-1
    )
