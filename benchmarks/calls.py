"""Calls without a `jit`, as in a notebook: the first, which compiles, and later ones. Prints a table.

python benchmarks/calls.py [ROBOT]
"""

import statistics
import sys
import time

import jax


jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp

import rbd_jax as rbd
from rbd_jax import _compile


ROUNDS = 50


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


def main(robot: str = "arm7") -> None:
    model = rbd.load(robot)
    print("| call | first | later | compilations |\n|---|--:|--:|--:|")
    for name, call in calls(model).items():
        before, first = _compile.compilations, timed(call)
        later = statistics.median(timed(call) for _ in range(ROUNDS))
        made = _compile.compilations - before
        print(f"| {name} | {first:.2f} s | {1e3 * later:.2f} ms | {made} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
