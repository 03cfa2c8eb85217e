"""Savings of `rbd.specialize`: operations and time of functions of one robot, before and after, in one run.

    python benchmarks/specialize.py [--robots arm7,gu7,quadruped] [--batch 4096] [--rounds 9]
    JAX_ENABLE_X64=0 python benchmarks/specialize.py

All forms run in each round; each figure is the minimum over the rounds.
"""

import argparse
import os
import time

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import rbd_jax as rbd


FUNCTIONS = {
    "inverse dynamics": (rbd.inverse_dynamics, (0, 1, 2)),
    "mass matrix": (rbd.mass_matrix, (0,)),
    "forward dynamics": (rbd.forward_dynamics, (0, 1, 2)),
}


def robot(name: str) -> rbd.Model:
    """Returns a bundled robot, or `gu7`: seven hinges of general geometry in a row."""
    if not name.startswith("gu"):
        return rbd.load(name)
    random = np.random.default_rng(0)
    builder, parent = rbd.ModelBuilder(name=name), "world"
    for i in range(int(name[2:])):
        placement = rbd.Transform.from_xyz_rpy(random.normal(size=3), random.normal(size=3))
        inertia = rbd.Inertia.box(1.0, random.uniform(0.2, 0.4, 3), random.normal(size=3))
        joint = rbd.joints.Revolute(random.normal(size=3))
        parent = builder.add_body(f"link {i}", parent, joint, placement, inertia)
    return builder.build()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--robots", default="arm7,gu7")
    parser.add_argument("--functions", default=",".join(FUNCTIONS))
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    if "JAX_ENABLE_X64" not in os.environ:
        jax.config.update("jax_enable_x64", True)
    precision = "float64" if jax.config.read("jax_enable_x64") else "float32"
    table = Table(title=f"{precision}, batches of {given.batch} on {jax.devices()[0].device_kind}")
    columns = (
        "function",
        "robot",
        "operations",
        "after",
        "batch_map µs",
        "after",
        "ratio",
        "vmap µs",
        "after",
        "ratio",
        "compile s",
    )
    for column in columns:
        table.add_column(column, justify="left" if column in ("function", "robot") else "right")
    for name in given.robots.split(","):
        model = robot(name)
        for function in given.functions.split(","):
            algorithm, which = FUNCTIONS[function]
            table.add_row(function, name, *row(model, algorithm, which, given.batch, given.rounds))
    Console(width=150).print(table)


def row(model: rbd.Model, function, which, batch: int, rounds: int) -> list[str]:
    keys = jax.random.split(jax.random.key(0), batch)
    q = jax.jit(jax.vmap(lambda key: rbd.random_configuration(model, key)))(keys)
    v, a = (jnp.asarray(x, q.dtype) for x in np.random.default_rng(1).normal(size=(2, batch, model.nv)))
    samples = [(q, v, a)[i] for i in which]
    one = [x[0] for x in samples]
    general, special = (lambda *x: function(model, *x)), rbd.specialize(function, model)
    counts = [rbd.count_operations(f, *one) for f in (general, special)]
    forms, compiling = {}, []
    for place, f in enumerate((general, special)):
        for batched in (rbd.batch_map, jax.vmap):
            start = time.perf_counter()
            run = forms[batched, place] = jax.jit(batched(f)).lower(*samples).compile()
            compiling.append(time.perf_counter() - start)
            jax.block_until_ready(run(*samples))
    times = {form: [] for form in forms}
    for _ in range(rounds):
        for form, run in forms.items():
            start = time.perf_counter()
            jax.block_until_ready(run(*samples))
            times[form].append(1e6 * (time.perf_counter() - start) / batch)
    cells = [f"{x.multiplications + x.divisions} + {x.additions}" for x in counts]
    for batched in (rbd.batch_map, jax.vmap):
        before, after = (min(times[batched, place]) for place in (0, 1))
        cells += [f"{before:.3g}", f"{after:.3g}", f"{after / before:.2f}"]
    return [*cells, f"{max(compiling[:2]):.1f}, {max(compiling[2:]):.1f}"]


if __name__ == "__main__":
    main()
