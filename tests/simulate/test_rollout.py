"""Rollouts: times, controls, forces, and stored states."""

import operator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simulated import BELOW, HINGE, ROD, energy, moving, pendulum
from support import assert_each_close

import rbd_jax as rbd


DT = 0.01


EXPLICIT = rbd.SemiImplicitEuler(passive="explicit")


def simulated(model, controls=None, **options):
    """Returns a rollout from a moving state. Tests with the same structure share the compilation."""
    return rbd.rollout(model, moving(model), controls, dt=DT, **options)


def wobbler():
    """A ball joint that carries a hinge, both with passive forces."""
    builder = rbd.ModelBuilder(gravity=(0.3, -0.2, -9.81), name="wobbler")
    builder.add_body("arm", "world", rbd.joints.Spherical(), inertia=ROD, damping=0.1, stiffness=0.5)
    builder.add_body(
        "wheel", "arm", rbd.joints.Revolute((1.0, 0.0, 0.0)), BELOW, ROD, damping=0.1, friction=0.2
    )
    return builder.build()


def some_controls(model, steps):
    return jnp.asarray(np.random.default_rng(1).normal(size=(steps, model.nv)))


def test_first_state_and_shapes():
    model = wobbler()
    path = jax.tree.map(np.asarray, simulated(model, some_controls(model, 4), scheme=EXPLICIT))
    assert path.t.shape == (5,) and path.q.shape == (5, model.nq)
    assert path.v.shape == (5, model.nv) and path.tau.shape == (4, model.nv)
    assert_each_close(path.t, DT * np.arange(5))
    assert_each_close(rbd.State(path.q[0], path.v[0]), moving(model), 0)
    assert_each_close(path.tau, some_controls(model, 4), 0)
    assert_each_close(path.final, rbd.State(path.q[4], path.v[4]), 0)


def test_steps_are_those_of_the_scheme():
    """Four explicit steps with passive forces; test_resistance tests implicit ones."""
    model, state = wobbler(), moving(wobbler())
    controls = some_controls(model, 4)
    path = simulated(model, controls, scheme=EXPLICIT)

    @jax.jit
    def step(state, tau):
        acting = tau + rbd.passive_force(model, state.q, state.v)
        v = state.v + DT * rbd.forward_dynamics(model, state.q, state.v, acting)
        return rbd.State(rbd.integrate(model, state.q, DT * v), v)

    for tau in np.asarray(controls):
        state = step(state, tau)
    assert_each_close(path.final, state)


@pytest.mark.parametrize(
    "every",
    [
        pytest.param(1, marks=pytest.mark.slow),
        pytest.param(2, marks=pytest.mark.slow),
        3,
        pytest.param(6, marks=pytest.mark.slow),
    ],
)
def test_save_every_keeps_every_so_manieth_state(every):
    model = pendulum()
    full, thin = (simulated(model, some_controls(model, 6), save_every=n) for n in (1, every))
    for name in ("t", "q", "v", "tau"):
        assert_each_close(getattr(thin, name), np.asarray(getattr(full, name))[::every])
    assert thin.code == full.code == 0 and thin.failed_step == full.failed_step == -1


@pytest.mark.parametrize(
    "scheme", [rbd.SemiImplicitEuler(), pytest.param(rbd.RungeKutta4(), marks=pytest.mark.slow)]
)
def test_policy_is_asked_at_the_start_of_each_step(scheme):
    """A policy of time or state gives the same as an array with its values."""
    model = pendulum()
    table = some_controls(model, 6)
    array = simulated(model, table, scheme=scheme)
    policy = simulated(model, lambda t, state: table[jnp.round(t / DT).astype(int)], steps=6, scheme=scheme)
    assert_each_close(policy, array)
    feedback = simulated(model, lambda t, state: -2 * state.v, steps=6, scheme=scheme)
    assert_each_close(feedback.tau, -2 * np.asarray(feedback.v)[:-1], 0)
    assert_each_close(simulated(model, feedback.tau, scheme=scheme), feedback)


def test_no_controls_are_zeros():
    model = pendulum()
    assert_each_close(simulated(model, steps=6), simulated(model, jnp.asarray(np.zeros((6, model.nv)))), 0)


def test_forces_act_within_the_step():
    """A user force is evaluated at every stage: damping as a user force equals joint damping."""
    damped, free = pendulum(1, damping=0.3), pendulum(1)
    forces = (lambda model, state, t: -0.2 * state.v, lambda model, state, t: -0.1 * state.v)
    scheme = rbd.RungeKutta4()
    assert_each_close(
        simulated(free, steps=5, forces=forces, scheme=scheme), simulated(damped, steps=5, scheme=scheme)
    )


def test_passive_forces_dissipate():
    """Damping and friction dissipate energy at every step, and the pendulum comes to rest."""
    model = pendulum(damping=0.8, friction=0.1)
    path = simulated(model, steps=1000, scheme=rbd.RungeKutta4())
    energies = jax.jit(jax.vmap(lambda q, v: energy(model, rbd.State(q, v))))(path.q, path.v)
    assert np.all(np.diff(energies) < 1e-6) and energies[-1] < energies[0] - 1
    assert np.abs(path.v)[-1].max() < 0.2


def _led_along_x():
    return rbd.joints.Driven(rbd.joints.Prismatic((1.0, 0.0, 0.0)), lambda time: jnp.sin(time)[None])


def driven_arm():
    """Returns a rod on a hinge with prescribed motion, the sine of time."""
    builder = rbd.ModelBuilder(name="driven arm")
    builder.add_body("moving_body", "world", _led_along_x())
    builder.add_body("rod", "moving_body", HINGE, inertia=ROD)
    return builder.build()


@pytest.mark.slow
def test_time_moves_the_driven_joints():
    """Two rollouts, the second starting at the final state and time of the first, equal a single one."""
    model, scheme = driven_arm(), rbd.RungeKutta4()
    whole = simulated(model, steps=6, scheme=scheme, t0=0.3)
    first = simulated(model, steps=3, scheme=scheme, t0=0.3)
    then = rbd.rollout(model, first.final, dt=DT, steps=3, scheme=scheme, t0=0.3 + 3 * DT)
    assert_each_close(whole.t, 0.3 + DT * np.arange(7))
    assert_each_close(then.final, whole.final)
    late = rbd.rollout(model, first.final, dt=DT, steps=3, scheme=scheme)
    assert np.abs(late.final.v - whole.final.v).max() > 1e-4


@pytest.mark.parametrize("within_jit", [pytest.param(True, marks=pytest.mark.slow), False])
def test_progress_is_shown_and_changes_nothing(within_jit, capfd):
    model, state = pendulum(1), moving(pendulum(1))

    def run(state):
        return rbd.rollout(model, state, dt=DT, steps=120, save_every=2, progress=True)

    path = (jax.jit(run) if within_jit else run)(state)
    jax.block_until_ready(path)
    jax.effects_barrier()
    shown = capfd.readouterr().out
    assert "simulating" in shown and "120/120" in shown
    assert_each_close(path, rbd.rollout(model, state, dt=DT, steps=120, save_every=2), 0)


def test_batches_of_states_and_of_models():
    """Rollouts under `vmap` over states and over models equal the individual ones."""
    model = pendulum()
    change = lambda gravity: eqx.tree_at(lambda m: m.gravity, model, jnp.asarray(gravity))
    models = [change(share * np.asarray(model.gravity)) for share in (0.5, 1.0, 1.5)]
    states = [moving(model, seed) for seed in range(3)]

    def run(model, state):
        return rbd.rollout(model, state, some_controls(model, 6), dt=DT)

    batch = jax.tree.map(lambda *x: np.stack(x), *zip(models, states))
    together = jax.tree.map(np.asarray, jax.jit(jax.vmap(run))(*batch))
    for i in range(3):
        assert_each_close(jax.tree.map(operator.itemgetter(i), together), run(models[i], states[i]))


def test_single_precision_stays_single():
    model = rbd.astype(pendulum(1), jnp.float32)
    state = rbd.State(np.full(1, 0.3, np.float32), np.ones(1, np.float32))
    path = rbd.rollout(model, state, jnp.asarray(np.zeros((3, 1), np.float32)), dt=DT)
    assert {x.dtype for x in (path.t, path.q, path.v, path.tau)} == {jnp.dtype("float32")}
