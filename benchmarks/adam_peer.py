"""Times of adam, in a separate environment because it needs another version of JAX than this library.

    python -m venv adam && adam/bin/pip install "adam-robotics[jax]"
    JAX_ENABLE_X64=1 adam/bin/python benchmarks/adam_peer.py

Measures forward dynamics and the mass matrix under `jax.vmap`, in float64, with 256 samples, in microseconds
per sample. Prints Markdown.
"""

from __future__ import annotations

import time

import jax
import numpy as np
from peers import Adam
from robots import ROBOTS


SIZE, ROUNDS = 256, 7


def main() -> None:
    print("| operation | robot | adam | compile |\n|---|---|--:|--:|")
    for label, operation, count in (("forward dynamics", "fd", 3), ("mass matrix", "mass", 1)):
        for name in ("arm 9", "quadruped 18", "humanoid 35"):
            library = Adam(ROBOTS[name], np.float64)
            samples = library.samples(ROBOTS[name], SIZE, np.float64)[:count]
            begin = time.perf_counter()
            run = jax.jit(jax.vmap(getattr(library, operation))).lower(*samples).compile()
            compiled = time.perf_counter() - begin
            jax.block_until_ready(run(*samples))
            took = []
            for _ in range(ROUNDS):
                begin = time.perf_counter()
                jax.block_until_ready(run(*samples))
                took.append(time.perf_counter() - begin)
            each = 1e6 * float(np.median(took)) / SIZE
            print(f"| {label} | {name} | {each:.3g} | {compiled:.1f} s |", flush=True)


if __name__ == "__main__":
    main()
