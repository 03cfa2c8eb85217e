"""The equations of motion as linear functions of the inertia parameters, and the operational-space inertia."""

from dataclasses import replace
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import assert_close, case_of, some_states

import rbd_jax as rbd


MODELS = pytest.mark.parametrize(
    "name", ["floating", *(pytest.param(x, marks=pytest.mark.slow) for x in ("forest", "coupled", "mixed"))]
)


def regressors(model, other, q, v, a):
    """Returns the regressors of a model, and the values for each of the inertias in `other`."""
    return {
        "inverse dynamics": rbd.inverse_dynamics_regressor(model, q, v, a),
        "momentum": rbd.momentum_regressor(model, q, v),
        "kinetic energy": rbd.kinetic_energy_regressor(model, q, v),
        "potential energy": rbd.potential_energy_regressor(model, q),
        "mobility": rbd.inverse_operational_inertia(model, q, [model.nb - 1, model.body_names[0]]),
        "jacobians": jnp.concatenate([rbd.jacobian(model, q, body) for body in (model.nb - 1, 0)]),
        "mass matrix": rbd.mass_matrix(model, q),
    }, jax.vmap(lambda inertias: values(replace(model, inertias=inertias), q, v, a))(other)


def values(model, q, v, a):
    """Returns the quantities of the regressors, without armature."""
    bare = replace(model, armature=jnp.zeros_like(model.armature))
    return {
        "inverse dynamics": rbd.inverse_dynamics(bare, q, v, a),
        "momentum": rbd.momentum(model, q, v),
        "kinetic energy": rbd.kinetic_energy(bare, q, v),
        "potential energy": rbd.potential_energy(model, q),
    }


@cache
def observed(name):
    """Returns the model's and random parameters, its regressors in some states, and the values for both."""
    case = case_of(name)
    s = case.states
    random = np.random.default_rng(0).normal(size=(case.model.nb, 10))
    parameters = np.stack([case.model.inertias.parameters, random])
    inertias = rbd.Inertia.from_parameters(jax.device_put(parameters))
    run = jax.jit(jax.vmap(regressors, (None, None, 0, 0, 0)))
    return parameters.reshape(2, -1), *jax.device_get(run(case.model, inertias, s.q, s.v, s.a))


@MODELS
def test_regressors(name):
    """The regressor times the parameters is the value, for any parameters."""
    parameters, found, expected = observed(name)
    for number, own in enumerate(parameters):
        for what, value in expected.items():
            assert_close(found[what] @ own, value[:, number])


def test_what_joints_take():
    """The joint regressor times the joint parameters is armature, damping, friction and springs; its derivative is finite."""
    of_joints = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [7.0, 8.0]])
    names = ("armature", "damping", "friction", "stiffness")
    model = eqx.tree_at(
        lambda m: [getattr(m, name) for name in names],
        rbd.load("double_pendulum"),
        jax.device_put(list(of_joints)),
    )
    q, v, a = np.random.default_rng(1).normal(size=(3, 2))

    @jax.jit
    def run(v, still):
        regressor = lambda v: rbd.dynamics.joint_regressor(model, q, v, a)
        return regressor(v), rbd.passive_force(model, q, v), jax.jacfwd(regressor)(still)

    y, passive, slope = jax.device_get(run(v, np.zeros(2)))
    assert_close(y @ of_joints.reshape(-1), of_joints[0] * a - passive)
    assert np.isfinite(slope).all()


@MODELS
def test_operational_inertia(name):
    """`Λ⁻¹ = J M⁻¹ Jᵀ`, symmetric and positive, for two bodies at once."""
    _, found, _ = observed(name)
    for mass, J, mobility in zip(found["mass matrix"], found["jacobians"], found["mobility"], strict=True):
        assert_close(mobility, J @ np.linalg.solve(mass, J.T))
        np.testing.assert_array_equal(mobility, mobility.T)
        assert np.linalg.eigvalsh(mobility).min() > -1e-10


def test_apparent_inertia_of_a_free_body():
    """For a single body it is the body's inertia, about the requested point and in the requested frame."""
    builder = rbd.ModelBuilder()
    inertia = rbd.Inertia.box(2.0, (0.3, 0.4, 0.5), (0.1, 0.2, -0.1))
    builder.add_body("box", joint=rbd.joints.Free(), inertia=inertia)
    model = builder.build()
    point = np.array([0.1, 0.2, -0.1])

    @jax.jit
    def seen(q):
        apparent = rbd.operational_inertia
        return apparent(model, q, "box", frame="body"), apparent(model, q, "box", point[None], "body")

    own, about = seen(some_states(model).q[0])
    assert_close(own, inertia.matrix)
    assert_close(about, rbd.Inertia.box(2.0, (0.3, 0.4, 0.5)).matrix)


def test_wrong_points():
    model, q = rbd.load("double_pendulum"), np.zeros(2)
    with pytest.raises(ValueError, match=r"points has shape \(3,\); k points have shape"):
        rbd.inverse_operational_inertia(model, q, 0, np.zeros(3))
    with pytest.raises(ValueError, match="2 points for 1 bodies"):
        rbd.inverse_operational_inertia(model, q, 0, np.zeros((2, 3)))
    with pytest.raises(rbd.UnknownNameError, match=r"bodies\[1\]"):
        rbd.inverse_operational_inertia(model, q, [0, "nobody"])
