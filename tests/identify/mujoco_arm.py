"""An arm in MuJoCo with an unmodeled payload, and realistic logs of it."""

from dataclasses import replace
from typing import NamedTuple

import jax
import mujoco
import numpy as np

import rbd_jax as rbd
from rbd_jax import identify
from rbd_jax.identify import Log


#: Time step of the simulation, s, and number of steps per sample.
STEP, EVERY = 1e-3, 5
#: Minimum speed for friction estimates, rad/s: reversing joints stick for a while.
SLOW = 0.03
#: Resolution of the encoders: 2²⁰ steps per turn.
COUNT = 2 * np.pi / 2**20
MIDDLE = np.array([0, -0.2, 0, 0.4, 0, -0.3, 0])


class Arm(NamedTuple):
    """The initial model of the arm, the true model, and the simulated model."""

    thought: rbd.Model
    true: rbd.Model
    simulated: mujoco.MjModel
    payload: float


def arm(seed: int) -> Arm:
    """Returns an arm with a payload of 1 to 3 kg at the hand and joint friction, which its initial model lacks."""
    random = np.random.default_rng(1000 + seed)
    thought = rbd.fuse_fixed(rbd.detach(rbd.load("arm7"), "shape", "actuator", "sensor", "keyframe"))
    payload = random.uniform(1, 3)
    held = rbd.Inertia.sphere(payload, 0.08, (*random.uniform(-0.03, 0.03, 2), 0.16))
    free, strong = jax.device_put(np.full(7, np.inf)), np.array([4, 4, 3, 3, 1, 1, 1]) / 4
    parameters = np.array(thought.inertias.parameters)
    parameters[6] += np.asarray(held.parameters)
    true = replace(
        thought,
        inertias=rbd.Inertia.from_parameters(jax.device_put(parameters)),
        damping=jax.device_put(strong * random.uniform(0.6, 1.2, 7)),
        friction=jax.device_put(strong * random.uniform(0.5, 1.2, 7)),
        velocity_limit=free,
        effort_limit=free,
        lower=jax.device_put(np.full(7, -np.inf)),
        upper=free,
    )
    simulated = mujoco.MjModel.from_xml_string(rbd.to_mjcf(true))
    simulated.opt.timestep = STEP
    simulated.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    return Arm(thought, true, simulated, payload)


@jax.jit
def torques(model, q, v, a):
    return jax.vmap(lambda *x: rbd.inverse_dynamics(model, *x) - rbd.passive_force(model, *x[:2]))(q, v, a)


def sines(seed: int, seconds: float):
    """Returns t, q, v and a of sums of five sines in each joint."""
    random, t = np.random.default_rng(seed), np.arange(round(seconds / STEP)) * STEP
    speed = 0.2 * np.pi * np.arange(1, 6)[:, None]
    size = 0.5 * random.normal(size=(5, 7)) / np.arange(1, 6)[:, None]
    phase = random.uniform(0, 2 * np.pi, (5, 7))
    q, v, a = np.tile(MIDDLE, (len(t), 1)), np.zeros((len(t), 7)), np.zeros((len(t), 7))
    for w, s, p in zip(speed, size, phase):
        angle = w * t[:, None] + p
        q, v, a = q + s * np.sin(angle), v + s * w * np.cos(angle), a - s * w**2 * np.sin(angle)
    return t, q, v, a


def run(robot: Arm, seed: int, seconds: float = 20.0, encoders: bool = False) -> tuple[Log, np.ndarray]:
    """Simulates the arm along sums of sines.

    Args:
      robot: The arm.
      seed: Seed of the motion and the noise.
      seconds: Duration.
      encoders: If True, the log has only encoder positions; otherwise the full motion.

    Returns:
      The log, and the torque noise, 1 % of the torques of each joint.
    """
    t, q, v, a = sines(seed, seconds)
    wanted, data, rows = np.asarray(torques(robot.true, q, v, a)), mujoco.MjData(robot.simulated), []
    data.qpos[:], data.qvel[:] = q[0], v[0]
    for i in range(len(t)):
        tau = wanted[i] + 200 * (q[i] - data.qpos) + 20 * (v[i] - data.qvel)
        data.qfrc_applied[:] = tau
        if i % EVERY == 0:
            mujoco.mj_forward(robot.simulated, data)
            rows.append(np.concatenate([data.qpos, data.qvel, data.qacc, tau]))
        mujoco.mj_step(robot.simulated, data)
    q, v, a, tau = np.moveaxis(np.array(rows).reshape(-1, 4, 7), 1, 0)
    noise = 0.01 * np.sqrt(np.mean(tau**2, axis=0))
    noisy = tau + noise * np.random.default_rng(100 + seed).normal(size=tau.shape)
    if encoders:
        return Log(t[::EVERY], COUNT * np.round(q / COUNT), tau=noisy), noise
    return Log(t[::EVERY], q, v, a, noisy), noise


FREE = [identify.inertias("link7"), identify.damping(), identify.coulomb()]
EVERYTHING = [identify.inertias(), identify.damping(), identify.coulomb()]
