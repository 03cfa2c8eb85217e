"""Acceptance tests of identification.

The robots are an arm in MuJoCo with an unmodeled payload, a floating robot with unmeasured pushes, and an arm with misplaced
joints.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import identify
from rbd_jax.identify import Equations, Log


# An arm with a payload.


@pytest.fixture(scope="module")
def mujoco_arm():
    pytest.importorskip("mujoco")
    import mujoco_arm

    return mujoco_arm


def check_arm(mujoco_arm, seed, everything=False, encoders=False):
    """Errors of held-out torques are within measurement noise, and the payload is identified to 1 %."""
    robot = mujoco_arm.arm(seed)
    thought, slow = robot.thought, mujoco_arm.SLOW
    (log, _), (held, noise) = (mujoco_arm.run(robot, n, encoders=encoders) for n in (seed, 50 + seed))
    equations, held = (Equations.of(thought, one, slow=slow) for one in (log, held))
    found = identify.physical_least_squares(thought, equations, mujoco_arm.FREE)
    # Even the true model has the errors of accelerations from encoders.
    floor = held.errors(robot.true) if encoders else noise
    assert (held.errors(found.model) < 1.05 * floor).all(), held.errors(found.model) / floor
    payload = found.value("link7 mass") - thought.inertias.mass.tolist()[6]
    assert abs(payload / robot.payload - 1) < 0.01
    assert found.model.inertias.is_physical.all() and found.converged
    assert found.rank == 24 and not found.unobservable
    np.testing.assert_allclose(found.model.friction, robot.true.friction, rtol=0.05)
    if not everything:
        return
    # With all bodies estimated, a fixed arm determines its base parameters and both kinds of friction. The rest is reported
    # as unobservable.
    whole = identify.physical_least_squares(thought, equations, mujoco_arm.EVERYTHING)
    errors = held.errors(whole.model) / floor
    assert (errors < (1.07 if encoders else 1.05)).all(), errors
    assert whole.model.inertias.is_physical.all() and whole.converged
    assert whole.rank == rbd.base_parameters(thought).count + 14
    assert len(whole.unobservable) == whole.parameters.size - whole.rank
    assert "link1 mass: not seen at all" in whole.unobservable
    assert any(line.startswith("link7 mass") and "in this proportion" in line for line in whole.unobservable)
    base = whole.seen.grouping @ np.asarray(whole.parameters.values_of(robot.true))
    assert np.sqrt(np.mean(((whole.base_values - base) / whole.base_standard_errors) ** 2)) < 3


@pytest.mark.slow
def test_an_arm_with_a_payload(mujoco_arm):
    check_arm(mujoco_arm, 0)


@pytest.mark.slow
@pytest.mark.parametrize("encoders", [False, True], ids=["all measured", "encoders"])
@pytest.mark.parametrize("seed", range(5))
def test_arms_with_payloads(mujoco_arm, seed, encoders):
    check_arm(mujoco_arm, seed, True, encoders)


# A pushed quadruped.


STEP, STEPS, KEPT = 2e-3, 400, 4


def quadruped():
    """Returns the quadruped with joint damping, and an initial model with other bodies and no damping."""
    robot = rbd.fuse_fixed(rbd.detach(rbd.load("quadruped"), "shape", "actuator", "sensor", "keyframe"))
    roots = jnp.linalg.cholesky(robot.inertias.pseudo_inertia)
    roots = roots @ (jnp.eye(4)[None] + 0.2 * np.random.default_rng(3).normal(size=(13, 4, 4)))
    inertias = rbd.Inertia.from_pseudo_inertia(roots @ jnp.swapaxes(roots, 1, 2))
    true = replace(robot, damping=jnp.concatenate([jnp.zeros(6), jnp.full(12, 0.1)]))
    return true, replace(robot, inertias=inertias, damping=jnp.zeros(18))


def flights(true, seed, count, pushed):
    """Returns logs of jumps in which the legs swing and a push acts on the trunk in a tenth of the samples.

    The leg torques have an error of 1 %, the accelerations of 0.02, and the log has no force on the trunk.
    """
    random, t = np.random.default_rng(seed), np.arange(STEPS) * STEP
    speed = 1.6 * np.pi * np.arange(1, 6)[:, None]
    size = 0.3 * random.normal(size=(count, 1, 5, 12)) / np.arange(1, 6)[:, None]
    wanted = np.sum(size * np.sin(speed * t[:, None, None] + random.uniform(0, 6, (count, 1, 5, 12))), axis=2)
    push = np.zeros((count, STEPS, 6))
    for one in push if pushed else ():
        start = STEPS // 10 * random.integers(1, 9)
        one[start : start + STEPS // 10] = random.normal(size=6) * [5, 5, 5, 40, 40, 40]

    @jax.jit
    @jax.vmap
    def flight(wanted, push):
        def drive(t, state):
            i = jnp.round(t / STEP).astype(int)
            return jnp.concatenate([push[i], 60 * (wanted[i] - state.q[7:]) - state.v[6:]])

        start = rbd.State(rbd.neutral(true).at[7:].set(wanted[0]), jnp.zeros(18))
        path = rbd.rollout(true, start, drive, dt=STEP, steps=STEPS)
        q, v, tau = path.q[:-1:KEPT], path.v[:-1:KEPT], path.tau[::KEPT]
        moved = lambda q, v, tau: rbd.forward_dynamics(true, q, v, tau + rbd.passive_force(true, q, v))
        return q, v, jax.vmap(moved)(q, v, tau), tau

    q, v, a, tau = (np.asarray(x) for x in flight(wanted, push))
    legs = tau[..., 6:]
    legs = legs + 0.01 * np.sqrt(np.mean(legs**2, axis=(0, 1))) * random.normal(size=legs.shape)
    tau = np.concatenate([0 * tau[..., :6], legs], axis=-1)
    a = a + 0.02 * random.normal(size=a.shape)
    return [Log(KEPT * STEP * np.arange(q.shape[1]), *rows) for rows in zip(q, v, a, tau, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
@pytest.mark.parametrize("estimator", [identify.least_squares, identify.physical_least_squares])
def test_a_quadruped_that_is_pushed(estimator, dtype):
    """Robust estimates match the true model on flights without pushes; plain ones are off by many times the noise."""
    true, thought = quadruped()
    logs, held = flights(true, 0, 20, True), Equations.of(true, flights(true, 1, 10, False))
    floor = held.errors(true)
    free = [identify.inertias(), identify.damping("*_hip", "*_thigh", "*_calf")]
    off = {}
    for robust in (False, True):
        found = estimator(rbd.astype(thought, dtype), logs, free, robust=robust)
        off[robust] = held.errors(rbd.astype(found.model, jnp.float64)) / floor
    assert off[True].max() < 1.05 and off[False].max() > 10, off
    assert found.converged and found.rank == rbd.base_parameters(true).count + 12
    base = found.seen.grouping @ np.asarray(found.parameters.values_of(rbd.astype(true, dtype)), float)
    assert np.sqrt(np.mean(((found.base_values - base) / found.base_standard_errors) ** 2)) < 2


# An arm with misplaced joints.


@pytest.mark.slow
@pytest.mark.parametrize("name", ["arm7", "reacher"])
def test_placements_to_a_tenth_of_a_millimetre(name):
    """Placements with errors of 1 mm and 1 mrad, identified from camera data of the hand, are accurate to 0.03 mm.

    Unobservable directions are not compared.
    """
    robot = rbd.fuse_fixed(rbd.detach(rbd.load(name), "shape", "actuator", "sensor", "keyframe"))
    markers = [rbd.Site(f"m{i}", robot.body_names[-1], tuple(0.1 * np.eye(3)[i])) for i in range(3)]
    cameras = [rbd.sensors.FramePosition(f"seen{i}", f"m{i}") for i in range(3)]
    thought = rbd.attach(robot, *markers, *cameras)
    parameters = identify.Parameters(thought, identify.placements(*robot.body_names))
    random = np.random.default_rng(0)
    true = parameters.with_values(1e-3 * jax.device_put(random.normal(size=parameters.size)))

    @jax.jit
    def seen(model, q):
        read = lambda q: rbd.sense(model, rbd.State(q, jnp.zeros(robot.nv)))
        return jax.vmap(lambda q: jnp.stack([read(q)[one.name] for one in cameras]))(q)

    low, high = (np.clip(np.asarray(x), -2.5, 2.5) for x in (robot.lower, robot.upper))
    q, other = (random.uniform(low, high, (count, robot.nq)) for count in (400, 100))
    readings = np.asarray(seen(true, q)) + 3e-5 * random.normal(size=(400, 3, 3))
    log = Log(np.arange(400) / 10, q, sensors={f"seen{i}": readings[:, i] for i in range(3)})
    found = identify.solve(identify.Problem(thought, log, parameters, identify.EquationError()))
    # Positions along and rotations about the joint axes are unobservable and not needed: the hand pose is the same.
    assert found.converged and found.unobservable
    off = lambda model: np.abs(np.asarray(seen(model, other) - seen(true, other))).max()
    assert off(thought) > 1e-3 and off(found.model) < 1e-4, (off(thought), off(found.model))
    base = found.seen.grouping @ np.asarray(parameters.values_of(true))
    assert np.abs(found.base_values - base).max() < 1e-4
