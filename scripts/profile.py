"""Profiles the algorithms on one robot: time per sample, compile time, instructions and memory, to detect regressions.

    python scripts/profile.py [ROBOT_OR_FILE] [--batch 1024] [--against FILE] [--save FILE]

`--save` stores the figures, and `--against` compares with stored ones. Instruction counts are reproducible;
times are not.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import rbd_jax as rbd


def algorithms(model):
    """Returns functions of `(q, v, tau)` by name."""
    gradient = jax.grad(lambda *x: jnp.sum(rbd.forward_dynamics(*x)), argnums=(0, 1, 2, 3))
    return {
        "forward kinematics": lambda q, v, tau: rbd.forward_kinematics(model, q),
        "inverse dynamics": lambda q, v, tau: rbd.inverse_dynamics(model, q, v, tau),
        "forward dynamics": lambda q, v, tau: rbd.forward_dynamics(model, q, v, tau),
        "mass matrix": lambda q, v, tau: rbd.mass_matrix(model, q),
        "solve mass matrix": lambda q, v, tau: rbd.solve_mass_matrix(model, q, tau),
        "coriolis matrix": lambda q, v, tau: rbd.coriolis_matrix(model, q, v),
        "centroidal momentum": lambda q, v, tau: rbd.centroidal_momentum_matrix(model, q),
        "derivatives of inverse dynamics": lambda *x: rbd.inverse_dynamics_derivatives(model, *x),
        "derivatives of forward dynamics": lambda *x: rbd.forward_dynamics_derivatives(model, *x),
        "gradient of forward dynamics": lambda *x: gradient(model, *x),
        "a step": lambda q, v, tau: rbd.rollout(model, rbd.State(q, v), tau[None], dt=0.001).final,
    }


def instructions(compiled) -> int:
    """Returns the number of instructions of a compiled function, including those inside loops and fusions."""
    return compiled.as_text().count(" = ")


def profile(function, samples) -> dict[str, float]:
    size = samples[0].shape[0]
    start = time.perf_counter()
    compiled = jax.jit(rbd.batch_map(function)).lower(*samples).compile()
    took = time.perf_counter() - start
    times = []
    for _ in range(8):
        start = time.perf_counter()
        jax.block_until_ready(compiled(*samples))
        times.append(time.perf_counter() - start)
    memory = compiled.memory_analysis().temp_size_in_bytes
    return {
        "µs a sample": 1e6 * float(np.median(times[1:])) / size,
        "compile s": took,
        "instructions": instructions(compiled),
        "temporary KiB": memory / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("robot", nargs="?", default="quadruped")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--float32", action="store_true")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--against", type=Path)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", not options.float32)
    model = rbd.load(options.robot)
    keys = jax.random.split(jax.random.key(0), options.batch)
    q = jax.vmap(lambda key: rbd.random_configuration(model, key))(keys)
    v, tau = jax.random.normal(jax.random.key(1), (2, options.batch, model.nv), model.dtype)
    console = Console()
    before = json.loads(options.against.read_text()) if options.against else {}
    jobs = algorithms(model).items()
    found = {
        name: profile(function, (q, v, tau))
        for name, function in track(jobs, "compiling and running", transient=True, console=console)
    }
    table = Table(
        title=f"{model.name}, {model.nv} degrees of freedom, batch of {options.batch}, {model.dtype}"
    )
    table.add_column("algorithm")
    for column in next(iter(found.values())):
        table.add_column(column, justify="right")
    for name, figures in found.items():
        old = before.get(name, {})
        cells = [
            f"{x:.4g}" + (f" ({x / old[key]:.2f}x)" if old.get(key) else "") for key, x in figures.items()
        ]
        table.add_row(name, *cells)
    console.print(table)
    if options.save:
        options.save.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
