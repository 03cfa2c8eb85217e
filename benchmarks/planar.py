"""The same planar mechanism as a planar system and as a spatial one: time and difference. Prints Markdown.

    python benchmarks/planar.py                        # the table of benchmarks/README.md
    JAX_ENABLE_X64=0 python benchmarks/planar.py       # in single precision

The mechanisms are arms of hinges with a slide in the middle, and a tree whose bodies carry up to three others.
Both systems alternate in every round. Times are the minima over the rounds, because other work of the machine
only adds to them.
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


BATCH, ROUNDS = 1024, 201


def mechanism(parents) -> rbd.Model:
    """Returns bodies with general inertias in the x-y plane, also offset along z."""
    random, builder = np.random.default_rng(0), rbd.ModelBuilder(gravity=(0.0, -9.81, 0.0))
    for i, parent in enumerate(parents):
        place, angle = random.uniform(-0.3, 0.3, 3), random.uniform(-np.pi, np.pi)
        inertia = rbd.Inertia.box(
            random.uniform(0.5, 2.0), random.uniform(0.1, 0.4, 3), random.uniform(-0.2, 0.2, 3)
        )
        joint = rbd.joints.Prismatic((1, 0, 0)) if i == len(parents) // 2 else rbd.joints.Revolute((0, 0, 1))
        above = f"link {parent}" if parent >= 0 else "world"
        placement = rbd.Transform.from_xyz_rpy(place, (0.0, 0.0, angle))
        builder.add_body(f"link {i}", above, joint, placement, inertia)
    return builder.build()


MECHANISMS = {
    "arm, 6": list(range(-1, 5)),
    "arm, 12": list(range(-1, 11)),
    "tree, 13": [-1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 6, 7],
}

OPERATIONS = {
    "inverse dynamics": rbd.inverse_dynamics,
    "mass matrix": lambda model, q, v, a: rbd.mass_matrix(model, q),
    "forward dynamics": rbd.forward_dynamics,
}


def timed(call) -> float:
    start = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - start


def row(name: str, operation: str) -> str:
    model, function = mechanism(MECHANISMS[name]), OPERATIONS[operation]
    given = [jax.random.normal(key, (BATCH, model.nv)) for key in jax.random.split(jax.random.key(0), 3)]
    calls = []
    for one in (model, rbd.planar(model)):
        program = jax.jit(rbd.batch_map(lambda *x, one=one: function(one, *x))).lower(*given).compile()
        calls.append(lambda program=program: program(*given))
        timed(calls[-1])
    space, plane = np.min([[timed(call) for call in calls] for _ in range(ROUNDS)], axis=0)
    a, b = (np.asarray(call()) for call in calls)
    error = np.abs(a - b).max() / np.abs(a).max()
    times = " | ".join(f"{1e6 / BATCH * x:.3g}" for x in (plane, space))
    return f"| {operation} | {name} | {times} | {plane / space:.2f} | {error:.0e} |"


def main() -> None:
    print("| | mechanism | planar, µs a sample | spatial | planar over spatial | difference |")
    print("|---|---|" + "--:|" * 4)
    for operation in OPERATIONS:
        for name in MECHANISMS:
            print(row(name, operation), flush=True)


if __name__ == "__main__":
    main()
