"""A single step and its tangent-space matrices, compared with finite differences and differentiation of the step."""

import dataclasses
import functools
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_each_close

import rbd_jax as rbd
from rbd_jax import forces


sys.path.append(str(Path(__file__).resolve().parents[1] / "joints"))
from families import FAMILIES
from simulated import moving, tumbler
from test_schemes_on_systems import ORDERS, SYSTEMS, case


DT = 0.01
INERTIA = rbd.Inertia.from_mass_com(1.2, (0.3, 0.0, 0.1), np.diag([0.02, 0.05, 0.04]))


def moved(model, state, change):
    """Returns the state moved on its tangent space."""
    nv = model.nv
    own = None if state.own is None else state.own + change[2 * nv :]
    q = rbd.integrate(model, state.q, change[:nv]) if isinstance(model, rbd.Model) else state.q + change[:nv]
    return rbd.State(q, state.v + change[nv : 2 * nv], own)


def back(model, start, end):
    """Returns the difference of two states on the tangent space."""
    tree = isinstance(model, rbd.Model)
    dq = rbd.difference(model, start.q, end.q) if tree else end.q - start.q
    return jnp.concatenate([dq, end.v - start.v, end.internal - start.internal])


@functools.cache
def compiled(scheme, reference):
    """Returns a function that computes the matrices of a step, and reference values along changes of state and control."""

    def ask(model, state, tau, extra):
        step = functools.partial(rbd.step, model, scheme=scheme, forces=extra, dt=DT)
        end, size = step(state, tau), 2 * model.nv + state.internal.size

        def along(change):
            return back(model, end, step(moved(model, state, change[:size]), tau + change[size:]))

        found = rbd.step_derivatives(model, state, tau, DT, scheme, forces=extra)
        return jnp.concatenate(found, axis=1), reference(along, size + model.nv)

    return jax.jit(ask)


def differentiated(along, size):
    return jax.jacfwd(along)(jnp.zeros(size))


def differences(along, size):
    rows = 1e-5 * jnp.eye(size)
    ahead, behind = jnp.split(jax.vmap(along)(jnp.concatenate([rows, -rows])), 2)
    return (ahead - behind).T / 2e-5


#: Tolerances: differentiation agrees to rounding.
CLOSE = {
    differentiated: lambda found, expected: assert_each_close(found, expected, 1e-9),
    differences: lambda found, expected: np.testing.assert_allclose(
        found, expected, rtol=1e-6, atol=2e-7 * max(1, np.abs(found).max())
    ),
}


def check(model, state, scheme=None, extra=(), seed=0, references=(differences,)):
    tau = jnp.asarray(np.random.default_rng(seed).normal(size=model.nv))
    for reference in references:
        found = compiled(scheme or rbd.SemiImplicitEuler(), reference)(model, state, tau, extra)
        CLOSE[reference](*found)


def start(model):
    return moving(model, 3)


def zeros(size):
    return jnp.asarray(np.zeros(size))


@pytest.mark.parametrize(
    "extra",
    [(), (forces.JointLimit(40.0, 2.0, 0.3),)],
    ids=["joints alone", "stops"],
)
@pytest.mark.slow
def test_matrices_of_the_default_step(extra):
    """Springs, dampers, sliding and sticking friction, on a manifold."""
    model = tumbler()
    friction = np.zeros(model.nv)
    friction[-1], friction[6] = 0.3, 50.0
    model = dataclasses.replace(
        model,
        friction=jnp.asarray(friction),
        stiffness=jnp.asarray(np.asarray(model.stiffness) + 1.5),
        upper=jnp.asarray(np.full(model.nq, 0.2)),
    )
    state = start(model)
    v = np.array(state.v)
    v[6] = 0.0
    check(model, rbd.State(state.q, v), extra=extra)


@pytest.mark.slow
def test_matrices_are_those_of_differentiation():
    check(tumbler(), start(tumbler()), references=(differentiated,))
    model, q, v = case("tree")
    check(model, rbd.State(q, v, zeros(0)), rbd.LieEuler(), references=(differentiated,))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_of_joints(family):
    builder = rbd.ModelBuilder(name=family)
    builder.add_body("arm", joint=rbd.joints.Revolute((0.3, 1.0, 0.0)), inertia=INERTIA, damping=0.2)
    joint = FAMILIES[family]
    along = {} if joint.nv == 0 else {"damping": 0.3, "stiffness": 2.0, "armature": 0.1}
    builder.add_body("body", "arm", joint, rbd.Transform.from_xyz_rpy((0.4, 0.1, 0.0)), INERTIA, **along)
    check(builder.build(), start(builder.build()))


#: Matrices of other schemes and systems take seconds to compile.
EVERY_DAY = [("LieEuler", "tree")]


@pytest.mark.parametrize(
    "name, system",
    [
        pytest.param(name, system, marks=() if (name, system) in EVERY_DAY else pytest.mark.slow)
        for name in ORDERS
        for system in SYSTEMS
    ],
)
def test_every_scheme_on_every_system(name, system):
    """Directions satisfy the constraints: along others, a step projects back."""
    model, q, v = case(system)
    own = rbd.simulate.system_of(model, zeros(model.nv)).own
    everyday = differentiated if system == "loop" else differences
    more = () if system == "loop" or (name, system) in EVERY_DAY else (differentiated,)
    check(model, rbd.State(q, v, own), getattr(rbd, name)(), references=(everyday, *more))


@pytest.mark.slow
def test_a_step_is_a_rollout_of_one():
    model = tumbler()
    state, tau = start(model), jnp.asarray(np.random.default_rng(1).normal(size=model.nv))

    @jax.jit
    def both(state, tau):
        scheme = rbd.RungeKutta4()
        return rbd.step(model, state, tau, DT, scheme), rbd.rollout(
            model, state, tau[None], dt=DT, scheme=scheme
        )

    one, path = both(state, tau)
    assert_each_close(one, path.final, 1e-14)


def test_a_step_that_fails_is_not_a_number():
    model = case("tree")[0]
    state = rbd.State(np.zeros(2), np.zeros(2))
    assert np.isnan(rbd.step(model, state, jnp.asarray(np.full(2, 1e30)), DT).v).all()
    assert np.isfinite(rbd.step(model, state, zeros(2), DT).v).all()


def test_without_a_control_and_what_is_refused(unchecked):
    model = case("tree")[0]
    state = rbd.State(np.zeros(2), np.ones(2))
    assert_each_close(rbd.step(model, state, None, DT), rbd.step(model, state, zeros(2), DT), 0)
    with pytest.raises(
        ValueError,
        match=r"^step: tau has shape \(3,\); for model 'double pendulum' it must be \(nv,\) with nv = 2",
    ):
        rbd.step(model, state, zeros(3), DT)
    with pytest.raises(ValueError, match="^step_derivatives: dt must be positive"):
        rbd.step_derivatives(model, state, None, 0.0)
