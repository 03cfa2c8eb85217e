"""Simulation backwards in time: where what acts determines the motion before, and refused where it does not."""

import dataclasses

import jax
import numpy as np
import pytest
from schemes import ORDERS

import rbd_jax as rbd
from rbd_jax import contact, forces, joints


Result = rbd.Result


def arm(*more, **along):
    builder = rbd.ModelBuilder(name="arm")
    rod = rbd.Inertia.from_mass_com(1.2, (0.3, 0.0, 0.1), np.diag([0.02, 0.05, 0.04]))
    builder.add_body("upper", joint=joints.Revolute((0.0, 1.0, 0.0)), inertia=rod, **along)
    tip = rbd.Transform.from_xyz_rpy((0.6, 0.0, 0.0))
    builder.add_body("lower", "upper", joints.Revolute((0.0, 1.0, 0.0)), tip, rod, **along)
    return rbd.attach(builder.build(), *more) if more else builder.build()


START = rbd.State(np.array([0.5, 1.0]), np.array([0.3, -0.2]))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "SemiImplicitEuler" else pytest.mark.slow)
        for name in [*ORDERS, "RKMK45"]
    ],
)
def test_every_scheme_runs_backwards(name):
    """There and back again, by the error of the scheme; with damping, which the way back undoes."""
    model, scheme = arm(damping=0.1), getattr(rbd, name)()

    @jax.jit
    @jax.vmap
    def there_and_back(dt):
        there = rbd.rollout(model, START, dt=dt, steps=20, scheme=scheme)
        back = rbd.rollout(model, there.final, dt=-dt, steps=20, scheme=scheme)
        return there.code + back.code, back.t[-1], back.final.q - START.q

    codes, times, errors = map(np.asarray, there_and_back(np.array([1e-2, 1e-3])))
    assert (codes == 0).all() and np.abs(errors[1]).max() < 2e-3
    assert np.abs(errors[1]).max() < 0.2 * np.abs(errors[0]).max() + 1e-9
    np.testing.assert_allclose(times, [-0.2, -0.02])


def delayed():
    return rbd.actuators.Motor("late", "upper", delay=0.02)


#: What acts, and the scheme; by default that of the model.
IRREVERSIBLE = {
    "contact law": (lambda: arm(contact.Soft()), None, "the contact law"),
    "impacts": (lambda: arm(contact.Hard()), None, "the contact law"),
    "dry friction": (lambda: arm(friction=0.1), None, "SemiImplicitEuler has it"),
    "dry friction, implicit": (
        lambda: arm(friction=0.1), rbd.LinearlyImplicitEuler(), "LinearlyImplicitEuler has it",
    ),
    "bristles": (lambda: rbd.add_forces(arm(), forces.BristleFriction("upper", 0.1)), None, "dry friction"),
    "bearing": (lambda: arm(forces.Bearing("upper", 0.1, 0.05)), None, "dry friction"),
    "delay": (lambda: arm(delayed()), rbd.RungeKutta4(), "actuator 'late'"),
}  # fmt: skip


@pytest.mark.parametrize("name", IRREVERSIBLE)
def test_what_does_not_run_backwards_is_refused(name):
    make, scheme, reason = IRREVERSIBLE[name]
    model = make()
    many = rbd.State(START.q[None], START.v[None])
    for run in (
        lambda: rbd.rollout(model, START, dt=-0.01, steps=2, scheme=scheme),
        lambda: rbd.step(model, START, dt=-0.01, scheme=scheme),
        lambda: rbd.step_derivatives(model, START, dt=-0.01, scheme=scheme),
        lambda: rbd.simulate_batch(model, many, dt=-0.01, steps=2, scheme=scheme),
    ):
        with pytest.raises(ValueError, match=f"dt is -0.01, and with .*{reason}.* time runs forward only"):
            run()


def test_no_step_is_refused_everywhere():
    many = rbd.State(START.q[None], START.v[None])
    for run in (
        lambda: rbd.rollout(arm(), START, dt=0.0, steps=2),
        lambda: rbd.step(arm(), START, dt=0.0),
        lambda: rbd.simulate_batch(arm(), many, dt=0.0, steps=2),
    ):
        with pytest.raises(ValueError, match="dt is zero; a step needs a length"):
            run()


@pytest.mark.parametrize("save_every", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_where_the_step_is_traced_the_code_says_it(save_every):
    """Of a model whose friction is not known either: it is looked at in the run."""
    model = arm()

    @jax.jit
    @jax.vmap
    def run(dt, friction):
        rough = dataclasses.replace(model, friction=friction)
        path = rbd.rollout(rough, START, dt=dt, steps=4, save_every=save_every)
        return path.code, path.failed_step, path.q, rbd.step(rough, START, dt=dt).q

    dt, friction = np.array([0.01, -0.01, 0.01, -0.01]), np.array([0.0, 0.0, 0.1, 0.1])
    code, failed, q, after = map(np.asarray, run(dt, np.repeat(friction[:, None], 2, axis=1)))
    assert code.tolist() == [Result.SUCCESS] * 3 + [Result.IRREVERSIBLE]
    assert failed.tolist() == [-1, -1, -1, 0]
    assert np.isfinite(q[:3]).all() and np.isfinite(q[3, 0]).all() and np.isnan(q[3, 1:]).all()
    assert np.isfinite(after[:3]).all() and np.isnan(after[3]).all()


def test_smooth_friction_runs_backwards():
    """Explicit schemes take dry friction as a smooth force, which the way back undoes."""
    model = arm(friction=0.1)
    there = rbd.rollout(model, START, dt=1e-3, steps=20, scheme=rbd.RungeKutta4())
    back = rbd.rollout(model, there.final, dt=-1e-3, steps=20, scheme=rbd.RungeKutta4())
    assert back.code == Result.SUCCESS
    np.testing.assert_allclose(back.final.q, START.q, atol=1e-9)
