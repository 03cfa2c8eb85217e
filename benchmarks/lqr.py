"""Cost of the linear-quadratic regulator as a sequential recursion and as a parallel scan. Prints Markdown.

    python benchmarks/lqr.py                # horizons of 2⁴ to 2¹⁴ steps
    python benchmarks/lqr.py 12 6           # with 12 states and 6 controls

Measures solution and rollout in microseconds per step; the output names the machine. The recursion takes one
sequential step per step of the horizon. The scan takes twice the logarithm of the horizon, with several times
the work: it needs many cores.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("JAX_ENABLE_X64", "1")

import rbd_jax as rbd  # noqa: I001  (before JAX is used: it sets a compiler option)
import jax
import jax.numpy as jnp
import numpy as np


ROUNDS = 7


def random_problem(steps: int, nx: int, nu: int):
    """Returns a problem with convex costs whose dynamics neither grow nor shrink much."""
    draw = np.random.default_rng(0)
    A = np.linalg.qr(draw.normal(size=(nx, nx)))[0]
    B = draw.normal(size=(nx, nu)) / np.sqrt(nx)
    return rbd.control.LinearQuadratic(
        A, B, c=0.01 * draw.normal(size=nx), Q=np.eye(nx), R=0.1 * np.eye(nu), steps=steps
    )


def timed(function, *args) -> float:
    """Returns the median seconds of a call."""
    jax.block_until_ready(function(*args))
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        jax.block_until_ready(function(*args))
        rounds.append(time.perf_counter() - start)
    return float(np.median(rounds))


def main() -> None:
    nx, nu = (int(one) for one in sys.argv[1:3]) if len(sys.argv) > 2 else (8, 3)
    device = jax.devices()[0]
    print(f"{nx} states, {nu} controls, {device.device_kind}, {os.cpu_count()} cores: µs a step\n")
    print("| steps | recursion | associative scan |")
    print("|---|---|---|")
    start = jnp.ones(nx)
    for power in range(4, 15, 2):
        problem, row = random_problem(2**power, nx, nu), [f"{2**power}"]
        for parallel in (False, True):

            def solved(problem, start, parallel=parallel):
                policy = rbd.control.lqr(problem, parallel=parallel)
                return rbd.control.lqr_rollout(problem, policy, start, parallel=parallel)

            row.append(f"{1e6 * timed(jax.jit(solved), problem, start) / 2**power:.2f}")
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
