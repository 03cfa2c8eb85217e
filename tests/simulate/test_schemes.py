"""Integration schemes: published values, exact cases, and long-term energy."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from schemes import EXPLICIT, scheme
from simulated import SPIN, energy, floating_pair, heavy_top, moving, pendulum, tumbler
from support import assert_each_close

import rbd_jax as rbd
from rbd_jax.lie import quaternion


#: The center of mass of the fast heavy top after 1 s and 2 s (Dormand–Prince 8, 3e-14).
TOP_AT = {
    1: [0.173343964098, 0.640088592070, -0.748490791134],
    2: [-0.150416822746, -0.724165591637, -0.673022269560],
}


@jax.jit
def center(model, q):
    return rbd.forward_kinematics(model, q).point(jnp.array([0.0, 1.0, 0.0]))[-1]


def top_errors(name, *steps):
    """Returns the errors of the center of mass after 1 s for these numbers of steps, and the paths."""
    model = heavy_top()
    run = jax.jit(lambda s, dt: rbd.rollout(model, s, dt=dt, steps=100, scheme=scheme(name)))
    errors, paths = [], []
    for number in steps:
        path, rows = run(SPIN, 1 / number), []
        for _ in range(number // 100):
            rows.append(path)
            path = run(path.final, 1 / number)
        q, v = (np.concatenate([np.asarray(getattr(p, name))[1:] for p in rows]) for name in "qv")
        paths.append((q, v))
        errors.append(np.linalg.norm(center(model, q[-1]) - np.array(TOP_AT[1])))
    return errors, paths


@pytest.mark.parametrize(
    "name, errors",
    [
        pytest.param("RungeKutta4", [2.145e-3, 1.344e-4], marks=pytest.mark.slow),
        ("CommutatorFree4", [2.167e-3, 1.370e-4]),
        pytest.param("Rattle", [3.479e-2, 8.727e-3], marks=pytest.mark.slow),
    ],
)
def test_errors_of_the_heavy_top(name, errors):
    """Errors of the center of mass after 1 s in 500 and 1000 steps match an independent implementation to three digits."""
    np.testing.assert_allclose(top_errors(name, 500, 1000)[0], errors, rtol=1e-3)


def test_one_step_of_a_free_rotating_body():
    """Exudyn's test of explicit schemes in rotation vectors: one step of fourth order and one of first order."""
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    inertia = rbd.Inertia.from_mass_com(1.0, (0.0, 0.0, 0.0), np.diag([5.2988, 1.1775, 4.3568]))
    builder.add_body("body", joint=rbd.joints.Spherical(), inertia=inertia)
    model = builder.build()

    @functools.partial(jax.jit, static_argnums=1)
    def stepped(dt, name):
        start = jnp.array([1.0, 2.0, 3.0])
        state = rbd.State(quaternion.exp(start), 2 * start)
        end = rbd.rollout(model, state, dt=dt, steps=1, scheme=scheme(name)).final
        return quaternion.log(end.q), end.v

    expected = {
        ("RungeKutta4", 1e-3): (
            [1.002014565846977, 2.003988840119048, 3.00600076350742],
            [1.985608117600764, 3.990428541317109, 6.007531319827856],
        ),
        ("SemiImplicitEuler", 1e-4): (
            [1.000200290826077, 2.000399777080365, 3.000600015346463],
            [1.998559990941345, 3.99904, 6.000756757253030],
        ),
    }
    for (name, dt), (turn, v) in expected.items():
        short, speed = map(np.asarray, stepped(dt, name))
        # The reference vector exceeds half a turn by one full turn.
        assert_each_close(short * (1 - 2 * np.pi / np.linalg.norm(short)), np.array(turn), 1e-14)
        assert_each_close(speed, np.array(v), 1e-14)


def test_a_thrown_spinning_box():
    """Sueda's reference implementation, testRigid: 401 steps of the semi-implicit scheme (eqs. 1.21, 1.22, 1.28, 1.29)."""
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, -98.0))
    builder.add_body("box", joint=rbd.joints.Free(), inertia=rbd.Inertia.box(10.0, (10.0, 1.0, 1.0)))
    model = builder.build()
    state = rbd.State(rbd.neutral(model), np.array([0.0, 3.0, 0.0, 0.0, 0.0, 90.0]))
    end = jax.jit(lambda s: rbd.rollout(model, s, dt=5e-3, steps=401).final)(state)
    assert_each_close(np.asarray(end.q)[:3], np.array([-2.87614193, 0, -15.8746829]), 1e-8)
    assert_each_close(end.v, np.array([0, 3, 0, -31.21030997, 0, -102.18433018]), 1e-8)


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=() if x == "LieEuler" else pytest.mark.slow) for x in EXPLICIT]
)
def test_a_constant_twist_is_exact(name):
    """A ball that spins and flies along its axis has a constant twist: one screw motion, exact for any step."""
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_body("ball", joint=rbd.joints.Free(), inertia=rbd.Inertia.sphere(1.0, 0.3))
    model = builder.build()
    twist = np.array([0.4, -0.8, 1.2, 0.1, -0.2, 0.3])

    @jax.jit
    def run(twist):
        q = rbd.integrate(model, rbd.neutral(model), jnp.array([0.3, 0.2, -0.5, 1.0, 2.0, 3.0]))
        path = rbd.rollout(model, rbd.State(q, twist), dt=0.35, steps=10, scheme=scheme(name))
        there = rbd.integrate(model, q, 3.5 * twist)
        return path.v, rbd.difference(model, there, path.final.q)

    v, off = run(twist)
    assert_each_close(v, np.broadcast_to(twist, (11, 6)))
    assert_each_close(off, np.zeros(6), 1e-13)


@pytest.mark.parametrize("name", ["SemiImplicitEuler", pytest.param("RungeKutta4", marks=pytest.mark.slow)])
def test_quaternions_stay_of_unit_length(name):
    model = heavy_top()
    path = rbd.rollout(model, moving(model), dt=0.01, steps=200, scheme=scheme(name))
    assert np.abs(np.linalg.norm(np.asarray(path.q), axis=1) - 1).max() < 1e-14


def test_energy_of_the_semi_implicit_scheme_does_not_drift():
    """Over 20000 steps the energy error of a pendulum stays in its initial band."""
    model = pendulum(1)
    state = rbd.State(np.array([0.5]), np.zeros(1))

    @jax.jit
    def energies(state):
        path = rbd.rollout(model, state, dt=0.01, steps=20000)
        q, v = (jnp.concatenate([0 * x[:1], x]) for x in (path.q, path.v))
        return jax.vmap(lambda q, v: energy(model, rbd.State(q, v)))(q, v)

    lowest, first, *_ = found = np.asarray(energies(state))
    error = found[1:] - first
    start, end = error[:4000], error[-4000:]
    swing = first - lowest
    assert np.abs(error).max() < 0.1 * swing
    assert abs(end.mean() - start.mean()) < 0.1 * np.ptp(start)


@pytest.mark.slow
def test_one_step_of_the_midpoint_variational_scheme():
    """trep's single step of a pendulum with a torque, which trep applies at the start of the step."""
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, -9.8))
    bob = rbd.Inertia.from_mass_com(1.0, (0.0, 0.0, -1.0), np.zeros((3, 3)))
    builder.add_body("bob", joint=rbd.joints.Revolute((0.0, 1.0, 0.0)), inertia=bob)
    model = builder.build()
    impulse = 0.5 * 0.1 * 0.8
    state = rbd.State(np.array([0.2]), np.array([0.5 + impulse]))
    controls = jnp.asarray(np.array([[0.8]]))
    end = rbd.rollout(model, state, controls, dt=0.1, scheme=scheme("VariationalMidpoint")).final
    assert_each_close(end.q, [0.247136194155572], 1e-13)
    assert_each_close(end.v, [0.362723883111432 + impulse], 1e-13)


def invariants(model, q, v):
    pi = rbd.momentum(model, q, v)
    return jnp.concatenate([energy(model, rbd.State(q, v))[None], pi])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Rattle", "VariationalMidpoint"])
@pytest.mark.parametrize("steps", [10**4, 10**5])
def test_invariants_of_variational_schemes(name, steps):
    """The top's momentum about the vertical is exact to rounding, and its energy stays in a fixed band."""
    model = heavy_top()

    @jax.jit
    def run(state):
        path = rbd.rollout(model, state, dt=1e-3, steps=steps, save_every=10, scheme=scheme(name))
        return jax.vmap(lambda q, v: invariants(model, q, v))(path.q, path.v)

    seen = np.asarray(run(SPIN))
    np.testing.assert_allclose(seen[:, 3], seen[0, 3], rtol=1e-11)
    error, quarter = seen[:, 0] - seen[0, 0], len(seen) // 4
    assert np.abs(error).max() < 0.5
    assert abs(error[-quarter:].mean() - error[:quarter].mean()) < 0.1 * np.ptp(error[:quarter])


@pytest.mark.slow
def test_energy_and_momentum_of_a_double_pendulum_are_kept():
    """Without gravity, with the energy-momentum scheme and long steps; the momentum is about the world hinge."""
    model = pendulum(gravity=0.0)

    @jax.jit
    def run(state):
        path = rbd.rollout(model, state, dt=0.05, steps=100, scheme=scheme("EnergyMomentum"))
        return path, jax.vmap(lambda q, v: invariants(model, q, v)[jnp.array([0, 2])])(path.q, path.v)

    path, seen = run(moving(model))
    assert_each_close(seen, np.broadcast_to(seen[0], seen.shape), 1e-11)
    assert np.abs(path.q[-1] - path.q[0]).max() > 0.3 and path.code == 0


@pytest.mark.slow
def test_energy_and_momentum_are_kept():
    """A floating pair of bodies, by the energy-momentum scheme with long steps; and energy alone in gravity."""
    model, state = floating_pair(), moving(floating_pair())
    path = jax.jit(lambda s: rbd.rollout(model, s, dt=0.05, steps=100, scheme=scheme("EnergyMomentum")))(
        state
    )
    seen = jax.vmap(lambda q, v: invariants(model, q, v))(path.q, path.v)
    assert_each_close(seen, np.broadcast_to(seen[0], seen.shape), 1e-11)
    assert np.abs(path.q[-1] - path.q[0]).max() > 0.3 and path.code == 0


@pytest.mark.slow
def test_energy_with_springs_in_gravity():
    """The energy with gravity and joint springs; dampers decrease it. Steps are short enough for the averages."""
    model = tumbler()
    free = eqx.tree_at(lambda m: (m.damping, m.friction), model, (0 * model.damping, 0 * model.friction))

    def total(model, path):
        springs = lambda q: (
            0.5 * jnp.sum(model.stiffness * rbd.difference(model, model.spring_reference, q) ** 2)
        )
        return jax.vmap(lambda q, v: energy(model, rbd.State(q, v)) + springs(q))(path.q, path.v)

    run = jax.jit(lambda m, s: rbd.rollout(m, s, dt=0.01, steps=100, scheme=scheme("EnergyMomentum")))
    kept = total(free, run(free, moving(free)))
    assert_each_close(kept, np.broadcast_to(kept[0], kept.shape), 1e-11)
    assert np.all(np.diff(total(model, run(model, moving(model)))) < 1e-12)


def test_energy_momentum_refuses_joints_that_move_by_themselves():
    model = heavy_top(lambda time: jnp.sin(time)[None])
    with pytest.raises(ValueError, match="EnergyMomentum: model 'top' has prescribed joints"):
        rbd.rollout(model, SPIN, dt=0.01, steps=1, scheme=scheme("EnergyMomentum"))
