"""Cost of identification, compared with Pinocchio and MuJoCo. Prints Markdown.

    python benchmarks/identify.py                 # the tables of benchmarks/README.md
    python benchmarks/identify.py gradient        # one of them: regression, gradient

- regression: least squares on torques, with this library and with Pinocchio's regressor and NumPy, from the same log.
- gradient: gradient of the simulation error with respect to all ten inertia parameters of the seven bodies of an arm.
  This library uses reverse mode, MuJoCo finite differences. The arm hangs, so that parameter errors do not grow along
  the motion.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path


sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("JAX_ENABLE_X64", "1")

import rbd_jax as rbd  # noqa: I001  (before JAX is used: it sets a compiler option)
import jax
import jax.numpy as jnp
import mujoco
import mujoco.rollout
import numpy as np
import pinocchio
from rbd_jax import identify


ROUNDS, DT, THREADS = 5, 1e-3, 2
#: Step of central differences, in coordinates in which one corresponds to a body's own size.
STEP = 1e-6


def arm() -> rbd.Model:
    """Returns only the seven hinges of `arm7`."""
    return rbd.fuse_fixed(rbd.detach(rbd.load("arm7"), "shape", "actuator", "sensor", "keyframe"))


def hanging_arm() -> rbd.Model:
    """Returns the same arm upside down and without limits."""
    model, none = arm(), jnp.full(7, jnp.inf)
    free = replace(model, velocity_limit=none, effort_limit=none, lower=-none, upper=none)
    return replace(free, gravity=-model.gravity)


def sines(t: np.ndarray, seed: int, size: float, middle=0.0):
    """Returns q, v and a of sums of five sines in each joint."""
    random = np.random.default_rng(seed)
    speed = 0.4 * np.pi * np.arange(1, 6)[:, None]
    size, phase = (
        size * random.normal(size=(5, 7)) / np.arange(1, 6)[:, None],
        random.uniform(0, 6.28, (5, 7)),
    )
    q, v, a = (np.zeros((len(t), 7)) for _ in range(3))
    for w, s, p in zip(speed, size, phase, strict=True):
        angle = w * t[:, None] + p
        q, v, a = q + s * np.sin(angle), v + s * w * np.cos(angle), a - s * w**2 * np.sin(angle)
    return q + middle, v, a


def median(function, rounds: int = ROUNDS) -> float:
    """Returns the median seconds of a call, after a warm-up call."""
    function()
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken))


# Least squares on torques.


def regression() -> None:
    model = replace(arm(), damping=jnp.zeros(7), armature=jnp.zeros(7))
    theirs = pinocchio.buildModelFromXML(rbd.to_urdf(model, strict=False))
    torques = jax.jit(jax.vmap(lambda q, v, a: rbd.inverse_dynamics(model, q, v, a)))
    held = np.arange(2000) / 50, *sines(np.arange(2000) / 50, 1, 0.4)
    parameters = identify.Parameters(model, identify.inertias())
    true = np.asarray(torques(*held[1:]))

    def log(count):
        t = np.arange(count) / 100
        q, v, a = sines(t, 0, 0.4)
        return identify.Log(t, q, v, a, np.asarray(torques(q, v, a)))

    def here(log):
        return identify.least_squares(model, log, parameters)

    def there(log):
        data = theirs.createData()
        rows = [
            np.array(pinocchio.computeJointTorqueRegressor(theirs, data, *sample))
            for sample in zip(log.q.values, log.v.values, log.a.values)
        ]
        return np.linalg.lstsq(np.concatenate(rows), log.tau.values.ravel(), rcond=None)[0]

    def off(values):
        """Returns the largest torque error on another motion, divided by the largest torque."""
        found = parameters.with_values(jnp.asarray(values))
        return (
            np.abs(jax.vmap(lambda *x: rbd.inverse_dynamics(found, *x))(*held[1:]) - true).max()
            / np.abs(true).max()
        )

    print(
        "| samples | rbd_jax | pinocchio + numpy.linalg.lstsq | ours over theirs | error on another motion, ours | theirs |"
    )
    print("|--:|--:|--:|--:|--:|--:|")
    for count in (10_000, 100_000):
        one, rounds = log(count), ROUNDS if count == 10_000 else 2
        a, b = (median(partial(way, one), rounds) for way in (here, there))
        print(
            f"| {count:,} | {a:.2f} s | {b:.2f} s | {a / b:.2f} | {off(here(one).values):.1e} | {off(there(one)):.1e} |",
            flush=True,
        )


# The gradient of the simulation error.


class Motion:
    """A log of the hanging arm under torques, perturbed initial parameters, and the error of a simulated motion."""

    def __init__(self, steps: int):
        self.steps, self.true = steps, hanging_arm()
        q, v, a = sines(np.arange(steps + 1) * DT, 0, 0.3, np.array([0, -0.5, 0, -1.7, 0, 2.2 - np.pi, 0]))
        wanted = lambda q, v, a: rbd.inverse_dynamics(self.true, q, v, a) - rbd.passive_force(self.true, q, v)
        self.tau = jax.jit(jax.vmap(wanted))(q, v, a)[:-1]
        self.start = rbd.State(jnp.asarray(q[0]), jnp.asarray(v[0]))
        random = np.random.default_rng(1)
        noise = 1e-4 * random.normal(size=(steps, 7))
        self.log = jnp.asarray(rbd.rollout(self.true, self.start, self.tau, dt=DT).q[1:] + noise)
        self.parameters = identify.Parameters(self.true, identify.inertias())
        self.x = self.parameters.x_of(self.true) + 3e-3 * random.normal(size=self.parameters.size)

    def loss(self, x, checkpoint=True):
        path = rbd.rollout(self.parameters.model(x), self.start, self.tau, dt=DT, checkpoint=checkpoint)
        return jnp.mean((path.q[1:] - self.log) ** 2)

    def windows(self, x, length=100):
        """Returns the same loss from measured states, in windows: the sum over many short motions."""
        model, count = self.parameters.model(x), self.steps // length
        path = rbd.rollout(self.true, self.start, self.tau, dt=DT)
        starts = jax.lax.stop_gradient((path.q[:-1:length], path.v[:-1:length]))

        def one(q, v, tau, log):
            return jnp.mean((rbd.rollout(model, rbd.State(q, v), tau, dt=DT).q[1:] - log) ** 2)

        parts = (x.reshape(count, length, 7) for x in (self.tau, self.log))
        return jnp.mean(rbd.batch_map(one)(*starts, *parts))

    def forward(self, x):
        """Returns the gradient in forward mode."""
        return jax.vmap(lambda e: jax.jvp(self.loss, (x,), (e,))[1])(jnp.eye(len(x)))


class MujocoMotion:
    """The same motion in MuJoCo: one model for each shift of the parameters, with the same steps."""

    def __init__(self, motion: Motion):
        self.motion = motion
        self.base = self.model(motion.x)
        state, data = mujoco.mjtState.mjSTATE_FULLPHYSICS, mujoco.MjData(self.base)
        data.qpos[:], data.qvel[:] = motion.start.q, motion.start.v
        self.state = np.zeros((1, mujoco.mj_stateSize(self.base, state)))
        mujoco.mj_getState(self.base, data, self.state[0], state)
        self.data = [mujoco.MjData(self.base) for _ in range(THREADS)]
        self.log = np.asarray(motion.log)

    def model(self, x):
        content = rbd.to_mjcf(self.motion.parameters.model(x))
        motors = "".join(f'<motor joint="{name}"/>' for name in self.motion.true.joint_names)
        found = mujoco.MjModel.from_xml_string(
            content.replace("</mujoco>", f"<actuator>{motors}</actuator></mujoco>")
        )
        found.opt.timestep, found.opt.integrator = DT, mujoco.mjtIntegrator.mjINT_EULER
        return found

    def losses(self, models):
        states = np.repeat(self.state, len(models), axis=0)
        ctrl = np.broadcast_to(np.asarray(self.motion.tau), (len(models), *self.motion.tau.shape))
        path, _ = mujoco.rollout.rollout(models, self.data, states, ctrl)
        return np.mean((path[:, :, 1:8] - self.log) ** 2, axis=(1, 2))


def waited(program, x):
    return jax.block_until_ready(program(x))


def compiled(function, x):
    start = time.perf_counter()
    program = jax.jit(function).lower(x).compile()
    return program, time.perf_counter() - start


def gradient() -> None:
    steps = 10_000
    motion = Motion(steps)
    there, x = MujocoMotion(motion), motion.x
    shifts = STEP * np.eye(len(x))
    begin = time.perf_counter()
    above, below = ([there.model(x + sign * shift) for shift in shifts] for sign in (1, -1))
    made = time.perf_counter() - begin

    ours = {
        "reverse mode, checkpoint=True": jax.value_and_grad(motion.loss),
        "reverse mode, every state kept": jax.value_and_grad(lambda x: motion.loss(x, None)),
        "reverse mode, 100 windows of 100 steps": jax.value_and_grad(motion.windows),
        "forward mode, 70 directions": motion.forward,
    }
    rows, found = [], {}
    for name, function in ours.items():
        program, took = compiled(function, x)
        found[name] = program(x)
        rows.append((name, partial(waited, program, x), f"compiles in {took:.0f} s"))
    rows.append(("MuJoCo, 71 motions, one-sided differences", lambda: there.losses([there.base, *above]), ""))
    rows.append(("MuJoCo, 140 motions, central differences", lambda: there.losses([*above, *below]),
                 f"and {made:.1f} s for the models"))  # fmt: skip
    # The runs alternate, so that a busy period of the machine affects all of them.
    times = np.array([[median(run, 1) for _, run, _ in rows] for _ in range(3)])
    seconds = np.median(times, axis=0)
    print("| gradient of 10,000 steps by 70 parameters | seconds | over the first | |\n|---|--:|--:|---|")
    for (name, _, note), taken in zip(rows, seconds):
        print(f"| {name} | {taken:.3f} | {taken / seconds[0]:.1f} | {note} |")

    value, slope = found["reverse mode, checkpoint=True"]
    each = jax.jit(lambda rows: jax.lax.map(motion.loss, rows))
    error = lambda other: np.linalg.norm(other - slope) / np.linalg.norm(slope)
    central = lambda up, down: (np.asarray(up) - np.asarray(down)) / (2 * STEP)
    theirs = central(there.losses(above), there.losses(below))
    print(f"\nloss {float(value):.6g}, there {there.losses([there.base])[0]:.6g}; the gradient is off from "
          f"our own central differences by "
          f"{error(central(each(x + shifts), each(x - shifts))):.1e}, from MuJoCo's by {error(theirs):.1e}, from forward mode by "
          f"{error(found['forward mode, 70 directions']):.1e}")  # fmt: skip

    print(
        "\n| steps | the motion alone | reverse mode adds, every state kept | checkpoint=True | seconds |\n|--:|--:|--:|--:|--:|"
    )
    for steps in (1_000, 10_000, 100_000):
        motion = Motion(steps)
        alone = compiled(motion.loss, motion.x)[0].memory_analysis().temp_size_in_bytes
        cells = []
        for kept in (None, True):
            program, _ = compiled(
                jax.value_and_grad(lambda x, kept=kept, m=motion: m.loss(x, kept)), motion.x
            )
            cells.append((program.memory_analysis().temp_size_in_bytes - alone) / 1024)
        taken = median(partial(waited, program, motion.x), 3)
        print(
            f"| {steps:,} | {alone / 1024:,.0f} KiB | {cells[0]:,.0f} KiB | {cells[1]:,.0f} KiB | {taken:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    tables = {"regression": regression, "gradient": gradient}
    for name in sys.argv[1:] or tables:
        tables[name]()
        print()
