"""What the linear-quadratic regulator costs, one stage after the other and all at once. Prints Markdown.

    python benchmarks/lqr.py                # horizons of 2⁴ to 2¹⁴ steps
    python benchmarks/lqr.py 12 6           # with so many states and controls

Solved and rolled out, in microseconds a step, on the machine that it runs on, which it names. The recursion makes as many steps
one after the other as the horizon has, the scan twice its logarithm, with several times the work: that is for many cores.
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
    """Steps that neither grow nor shrink much, and costs that are convex."""
    draw = np.random.default_rng(0)
    A = np.linalg.qr(draw.normal(size=(nx, nx)))[0]
    B = draw.normal(size=(nx, nu)) / np.sqrt(nx)
    return rbd.control.LinearQuadratic(
        A, B, c=0.01 * draw.normal(size=nx), Q=np.eye(nx), R=0.1 * np.eye(nu), steps=steps
    )


def timed(function, *args) -> float:
    """Seconds: the median of some rounds."""
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
