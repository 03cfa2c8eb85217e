"""Receding-horizon control: rate of replanning and compile time. Prints Markdown.

    python benchmarks/receding_horizon.py                      # the table of benchmarks/README.md
    JAX_ENABLE_X64=1 python benchmarks/receding_horizon.py     # in double precision

The hand of a seven-joint arm follows a circle; a cartpole swings its pole up and balances it. `controller.step`
is called as by a robot, once per step, and replans in each step. The time is that of the whole call from
Python. Compilations are counted.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path


sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import rbd_jax as rbd  # noqa: I001  (before JAX is used: it sets a compiler option)
import jax
import jax.numpy as jnp
import numpy as np
from rbd_jax._core import jit as compiling
from rbd_jax.control import (
    CEM,
    DDP,
    MPPI,
    Along,
    Bounds,
    Effort,
    Function,
    Position,
    Posture,
    Problem,
    RecedingHorizon,
    Velocity,
)


CALLS = 200


def circle(steps: int = 25, dt: float = 0.02) -> Problem:
    """The hand of an arm on a circle, with a horizon of half a second."""
    arm = rbd.load("arm7")
    home = jnp.array([0.0, 0.6, 0.0, 1.2, 0.0, 0.6, 0.0])
    center = rbd.forward_kinematics(arm, home).position[arm.body_index("tool")]
    t = jnp.arange(CALLS + steps + 1.0) * dt
    radius, angle = 0.12 * jnp.minimum(t / 0.5, 1), 2 * jnp.pi * t / 2.5
    around = jnp.stack([0 * t, radius * jnp.sin(angle), radius * (jnp.cos(angle) - 1)], axis=1)
    running = [
        1e2 * Along(Position("tool", center + around)),
        1e-5 * Effort(),
        1e-2 * Velocity(),
        1e-2 * Posture(home),
    ]
    bounds = Bounds.of(arm, q=False, v=False)
    return Problem(arm, rbd.State(home, jnp.zeros(7)), steps=steps, dt=dt, running=running, bounds=bounds)


def swing(steps: int = 40, dt: float = 0.04) -> Problem:
    """A cartpole that starts with its pole hanging down."""
    model = rbd.load("cartpole")
    upright = Function(
        lambda t, state, control: jnp.stack(
            [2 * jnp.sin(state.q[1] / 2), 0.5 * state.q[0], 0.2 * state.v[1], 0.1 * state.v[0]]
        )
    )
    hanging = rbd.State(jnp.array([0.0, jnp.pi]), jnp.zeros(2))
    bounds = Bounds.of(model, q=False, v=False)
    running = [1e-3 * Effort(), 10 * upright]
    return Problem(
        model, hanging, steps=steps, dt=dt, running=running, terminal=[20 * upright], bounds=bounds
    )


CASES = {
    "arm, 7 joints; 25 steps of 20 ms": (
        circle,
        {
            "DDP, 1 iteration": DDP(max_iterations=1),
            "DDP, 3 iterations": DDP(max_iterations=3),
            "MPPI, 256 samples of 6 knots, 1 iteration": MPPI(
                samples=256, max_iterations=1, knots=6, spread=3.0
            ),
        },
    ),
    "cartpole; 40 steps of 40 ms": (
        swing,
        {
            "DDP, 3 iterations": DDP(max_iterations=3),
            "MPPI, 256 samples of 10 knots, 3 iterations": MPPI(
                samples=256, max_iterations=3, knots=10, spread=2.0
            ),
            "CEM, 256 samples of 10 knots, 3 iterations": CEM(
                samples=256, max_iterations=3, knots=10, spread=2.0
            ),
        },
    ),
}


def measured(problem: Problem, solver) -> tuple[float, np.ndarray, int]:
    """Returns the seconds to the first control, milliseconds of each later control, and the compilations during these."""
    controller, state = RecedingHorizon(problem, solver), problem.state
    begin = time.perf_counter()
    memory = controller.start(state)
    told, memory = jax.block_until_ready(controller.step(memory, 0.0, state))
    first = time.perf_counter() - begin
    dt = float(problem.dt)
    state = rbd.step(problem.model, state, told, dt)
    ready, took = compiling.compilations, []
    for call in range(1, CALLS):
        begin = time.perf_counter()
        told, memory = jax.block_until_ready(controller.step(memory, call * dt, state))
        took.append(time.perf_counter() - begin)
        state = rbd.step(problem.model, state, told, dt)
    assert int(memory.failures) == 0
    return first, np.array(took) * 1e3, compiling.compilations - ready


def main() -> None:
    precision = "float64" if jax.config.jax_enable_x64 else "float32"
    print(f"{precision}, {jax.default_backend()}, {CALLS - 1} calls, milliseconds.\n")
    print(
        "| problem | solver | shortest | median | 99 of 100 | Hz | compiled in between | to the first control |"
    )
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    for name, (make, solvers) in CASES.items():
        for solver_name, solver in solvers.items():
            first, took, compiled = measured(make(), solver)
            middle, late = np.median(took), np.percentile(took, 99)
            figures = f"{took.min():.2f} | {middle:.2f} | {late:.2f} | {1e3 / middle:.0f} | {compiled}"
            print(f"| {name} | {solver_name} | {figures} | {first:.1f} s |", flush=True)


if __name__ == "__main__":
    main()
