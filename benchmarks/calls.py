"""Measures calls of library functions without `jit`, and calls of compiled functions with a single sample.

    python benchmarks/calls.py [ROBOT]

The first table has calls without `jit`, as in a notebook: the first call, which compiles, and later calls. The
second table has calls of compiled functions with one sample, as in a controller: by `jax.jit`, and as a kernel
for a batch of one. Prints both tables.
"""

import statistics
import sys
import time

import jax


jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp

import rbd_jax as rbd
from rbd_jax._core import jit as compiling


ROUNDS = 50
#: Number of calls of functions that take microseconds.
MANY = 2000

#: Functions of one sample. They are called for each robot of the second table.
ONE = {
    "forward dynamics": rbd.forward_dynamics,
    "inverse dynamics": rbd.inverse_dynamics,
    "mass matrix": lambda model, q, v, tau: rbd.mass_matrix(model, q),
    "derivatives of forward dynamics": rbd.forward_dynamics_derivatives,
}
ROBOTS = ("arm7", "quadruped", "humanoid")


def calls(model):
    q, v = rbd.random_configuration(model, jax.random.key(0)), jnp.ones(model.nv)
    state = rbd.State(q, v)
    return {
        "forward_kinematics": lambda: rbd.forward_kinematics(model, q),
        "jacobian": lambda: rbd.jacobian(model, q, model.nb - 1),
        "inverse_dynamics": lambda: rbd.inverse_dynamics(model, q, v, v),
        "forward_dynamics": lambda: rbd.forward_dynamics(model, q, v, v),
        "mass_matrix": lambda: rbd.mass_matrix(model, q),
        "coriolis_matrix": lambda: rbd.coriolis_matrix(model, q, v),
        "forward_dynamics_derivatives": lambda: rbd.forward_dynamics_derivatives(model, q, v, v),
        "kinetic_energy": lambda: rbd.kinetic_energy(model, q, v),
        "center_of_mass": lambda: rbd.center_of_mass(model, q),
        "integrate": lambda: rbd.integrate(model, q, v),
        "step": lambda: rbd.step(model, state, v, 1e-3),
        "step_derivatives": lambda: rbd.step_derivatives(model, state, v, 1e-3),
        "rollout of 500 steps": lambda: rbd.rollout(model, state, dt=1e-3, steps=500),
        "the same, with a policy": lambda: rbd.rollout(model, state, lambda t, s: -s.v, dt=1e-3, steps=500),
    }


def timed(call) -> float:
    begin = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - begin


def of_one_sample(robot: str, name: str) -> str:
    """Returns a line of the second table."""
    model = rbd.load(robot)
    q, v = rbd.random_configuration(model, jax.random.key(0)), jnp.ones(model.nv)

    def function(q, v, tau):
        return ONE[name](model, q, v, tau)

    kernel = rbd.batch_map(function, fused=True)
    forms = (
        jax.jit(function),
        jax.jit(lambda *sample: jax.tree.map(lambda x: x[0], kernel(*(x[None] for x in sample)))),
    )
    firsts = [timed(lambda form=form: form(q, v, v)) for form in forms]
    # The forms alternate because the speed of the machine varies over time.
    rounds = [[timed(lambda form=form: form(q, v, v)) for form in forms] for _ in range(MANY)]
    jit, fused = map(statistics.median, zip(*rounds))
    return f"| {name} | {robot} | {1e6 * jit:.0f} | {1e6 * fused:.0f} | {fused / jit:.2f} | {firsts[0]:.1f} | {firsts[1]:.1f} |"


def main(robot: str = "arm7") -> None:
    model = rbd.load(robot)
    print("| call | first | later | compilations |\n|---|--:|--:|--:|")
    for name, call in calls(model).items():
        before, first = compiling.compilations, timed(call)
        later = statistics.median(timed(call) for _ in range(ROUNDS))
        made = compiling.compilations - before
        print(f"| {name} | {first:.2f} s | {1e3 * later:.2f} ms | {made} |")
    print("\n| one sample | robot | `jax.jit`, µs | kernel, µs | ratio | first call, s | of the kernel, s |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for name in ONE:
        for robot in ROBOTS:
            print(of_one_sample(robot, name), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
