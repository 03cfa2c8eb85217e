"""Forward dynamics by divide and conquer and by the articulated-body algorithm: depth and time. Prints Markdown.

    python benchmarks/divide_and_conquer.py            # the table of benchmarks/README.md
    python benchmarks/divide_and_conquer.py 10 100     # only these numbers of bodies

The systems are chains and random trees of hinges, with one sample and with a batch. Both algorithms alternate
in every round, and the ratio is the median of the ratios of consecutive runs. Depth is the number of sequential
steps: of `contraction` for divide and conquer, and of the tree for the articulated-body algorithm.
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
import numpy as np
from rbd_jax.model.contraction import contraction


SIZES, BATCH, ROUNDS = (10, 30, 100, 300, 1000), 64, 9


def tree(parents) -> rbd.Model:
    random, builder = np.random.default_rng(0), rbd.ModelBuilder()
    for i, parent in enumerate(parents):
        placement = rbd.Transform.from_xyz_rpy(random.uniform(-0.3, 0.3, 3), random.normal(size=3))
        inertia = rbd.Inertia.box(
            random.uniform(0.5, 2.0), random.uniform(0.1, 0.4, 3), random.uniform(-0.2, 0.2, 3)
        )
        above = f"link {parent}" if parent >= 0 else "world"
        builder.add_body(f"link {i}", above, rbd.joints.Revolute(random.normal(size=3)), placement, inertia)
    return builder.build()


SHAPES = {
    "chain": lambda n: list(range(-1, n - 1)),
    "random tree": lambda n: [-1] + [int(np.random.default_rng(i).integers(0, i)) for i in range(1, n)],
}


def timed(call) -> float:
    start = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - start


def row(shape: str, n: int) -> str:
    parents = SHAPES[shape](n)
    model = tree(parents)
    keys = jax.random.split(jax.random.key(0), 3)
    q, v, tau = (jax.random.normal(key, (BATCH, n)) for key in keys)
    cells = []
    for batch in (1, BATCH):
        calls, compiled = [], []
        for function in (rbd.forward_dynamics, rbd.forward_dynamics_by_assembly):
            if batch == 1:
                of, given = lambda *x, f=function: f(model, *x), (q[0], v[0], tau[0])
            else:
                of, given = rbd.batch_map(lambda *x, f=function: f(model, *x)), (q, v, tau)
            start = time.perf_counter()
            program = jax.jit(of).lower(*given).compile()
            compiled.append(time.perf_counter() - start)
            calls.append(lambda program=program, given=given: program(*given))
            timed(calls[-1])
        first, second = np.array([[timed(call) for call in calls] for _ in range(ROUNDS)]).T
        scale = 1e6 / batch
        cells += [
            f"{scale * np.median(first):.3g}",
            f"{scale * np.median(second):.3g}",
            f"{np.median(second / first):.1f}",
        ]
        if batch == 1:
            a, b = (np.asarray(call()) for call in calls)
            error, seconds = np.abs(a - b).max() / np.abs(a).max(), compiled
    depth = f"{2 * len(model.topology.tree.levels)} | {2 * len(contraction(parents))}"
    compile_cell = f"{seconds[0]:.1f} s | {seconds[1]:.1f} s"
    return f"| {shape} | {n} | {depth} | {' | '.join(cells)} | {compile_cell} | {error:.0e} |"


def main(sizes) -> None:
    print("| tree | bodies | depth, links | assembly | one sample, µs | assembly | ratio "
          f"| batch of {BATCH}, µs each | assembly | ratio | compile | assembly | difference |")  # fmt: skip
    print("|---|" + "--:|" * 12)
    for shape in SHAPES:
        for n in sizes:
            print(row(shape, n), flush=True)
            jax.clear_caches()


if __name__ == "__main__":
    main([int(x) for x in sys.argv[1:]] or SIZES)
