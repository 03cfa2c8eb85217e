"""Identification as a whole: a robot that floats and is pushed by something that nobody measured."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import identify
from rbd_jax.identify import Equations, Log


STEP, STEPS, KEPT = 2e-3, 400, 4


def quadruped():
    """The quadruped with dampers in its joints, and what it is thought to be: other bodies, and none."""
    robot = rbd.fuse_fixed(rbd.detach(rbd.load("quadruped"), "shape", "actuator", "sensor", "keyframe"))
    roots = jnp.linalg.cholesky(robot.inertias.pseudo_inertia)
    roots = roots @ (jnp.eye(4)[None] + 0.2 * np.random.default_rng(3).normal(size=(13, 4, 4)))
    inertias = rbd.Inertia.from_pseudo_inertia(roots @ jnp.swapaxes(roots, 1, 2))
    true = replace(robot, damping=jnp.concatenate([jnp.zeros(6), jnp.full(12, 0.1)]))
    return true, replace(robot, inertias=inertias, damping=jnp.zeros(18))


def flights(true, seed, count, pushed):
    """Jumps in which the legs swing: torques of the legs to 1 %, accelerations to 0.02, no force on the trunk; but something
    pushes it in a tenth of the samples."""
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
    """Robust estimates are as good as the truth on flights without pushes; plain ones are off by many times the noise."""
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
