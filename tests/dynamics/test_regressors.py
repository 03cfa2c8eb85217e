"""The equations of motion as linear functions of the inertia parameters, and the operational-space inertia."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import assert_close, case_of, compiled

import rbd_jax as rbd


MODELS = pytest.mark.parametrize(
    "name", ["floating", *(pytest.param(x, marks=pytest.mark.slow) for x in ("forest", "coupled", "mixed"))]
)


def regressors(model, q, v, a):
    return {
        "inverse dynamics": rbd.inverse_dynamics_regressor(model, q, v, a),
        "momentum": rbd.momentum_regressor(model, q, v),
        "kinetic energy": rbd.kinetic_energy_regressor(model, q, v),
        "potential energy": rbd.potential_energy_regressor(model, q),
        "mobility": rbd.inverse_operational_inertia(model, q, [model.nb - 1, model.body_names[0]]),
        "jacobians": jnp.concatenate([rbd.jacobian(model, q, body) for body in (model.nb - 1, 0)]),
    }


def values(model, q, v, a):
    """What the regressors are of, without the armature."""
    bare = eqx.tree_at(lambda m: m.armature, model, jnp.zeros_like(model.armature))
    return {
        "inverse dynamics": rbd.inverse_dynamics(bare, q, v, a),
        "momentum": rbd.momentum(model, q, v),
        "kinetic energy": rbd.kinetic_energy(bare, q, v),
        "potential energy": rbd.potential_energy(model, q),
    }


@cache
def observed(name):
    """A model with states, and its regressors there."""
    case = case_of(name)
    states = case.states.q, case.states.v, case.states.a
    return case, states, compiled(regressors)(case.model, *states)


@MODELS
def test_regressors(name):
    """The regressor times the parameters is the value, whatever the parameters."""
    case, states, found = observed(name)
    random = jnp.asarray(np.random.default_rng(0).normal(size=(case.model.nb, 10)))
    other = eqx.tree_at(lambda m: m.inertias, case.model, rbd.Inertia.from_parameters(random))
    for model in (case.model, other):
        parameters = np.asarray(model.inertias.parameters).reshape(-1)
        for what, value in compiled(values)(model, *states).items():
            assert_close(found[what] @ parameters, value)


def test_what_joints_take(key):
    """The regressor of joints times their numbers is armature, damping, friction and springs, and so is its derivative."""
    of_joints = jnp.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [7.0, 8.0]])
    names = ("armature", "damping", "friction", "stiffness")
    model = eqx.tree_at(
        lambda m: [getattr(m, name) for name in names], rbd.load("double_pendulum"), list(of_joints)
    )
    q, v, a = jax.random.normal(key, (3, 2))
    y = rbd.dynamics.joint_regressor(model, q, v, a)
    assert_close(y @ of_joints.reshape(-1), model.armature * a - rbd.passive_force(model, q, v))
    still = jax.jacfwd(lambda v: rbd.dynamics.joint_regressor(model, q, v, a))(jnp.zeros(2))
    assert np.isfinite(still).all()


@MODELS
def test_operational_inertia(name):
    """`Λ⁻¹ = J M⁻¹ Jᵀ`, symmetric and positive, for two bodies at once."""
    case, _, found = observed(name)
    for mass, J, mobility in zip(
        case.seen["mass matrix"], found["jacobians"], found["mobility"], strict=True
    ):
        assert_close(mobility, J @ np.linalg.solve(mass, J.T))
        np.testing.assert_array_equal(mobility, mobility.T)
        assert np.linalg.eigvalsh(mobility).min() > -1e-10


def test_apparent_inertia_of_a_free_body():
    """A lone body's is its own inertia, about the point and in the frame asked for."""
    builder = rbd.ModelBuilder()
    inertia = rbd.Inertia.box(2.0, (0.3, 0.4, 0.5), (0.1, 0.2, -0.1))
    builder.add_body("box", joint=rbd.joints.Free(), inertia=inertia)
    model = builder.build()
    q = rbd.random_configuration(model, jax.random.key(0))
    point = jnp.array([0.1, 0.2, -0.1])

    @jax.jit
    def seen(q):
        apparent = rbd.operational_inertia
        return apparent(model, q, "box", frame="body"), apparent(model, q, "box", point[None], "body")

    own, about = seen(q)
    assert_close(own, inertia.matrix)
    assert_close(about, rbd.Inertia.box(2.0, (0.3, 0.4, 0.5)).matrix)


def test_wrong_points():
    model = rbd.load("arm7")
    with pytest.raises(ValueError, match=r"points has shape \(3,\); k points have shape"):
        rbd.inverse_operational_inertia(model, rbd.neutral(model), 0, jnp.zeros(3))
    with pytest.raises(ValueError, match="2 points for 1 bodies"):
        rbd.inverse_operational_inertia(model, rbd.neutral(model), 0, jnp.zeros((2, 3)))
    with pytest.raises(rbd.UnknownNameError, match=r"bodies\[1\]"):
        rbd.inverse_operational_inertia(model, rbd.neutral(model), [0, "nobody"])
