"""Cost of a step of each integration scheme. Prints Markdown.

    python benchmarks/schemes.py                  # the table of benchmarks/README.md
    python benchmarks/schemes.py Rattle BDF2      # only these rows

Two systems: a free body that carries two others on ball joints (12 degrees of freedom), and a four-bar, a loop
of three hinges closed by a ball joint. Times are microseconds per step of one sample, alone and in a batch of
64 under `vmap`; the minimum over several rounds.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("JAX_ENABLE_X64", "1")

import rbd_jax as rbd  # noqa: I001  (before JAX is used: it sets a compiler option)
import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from rbd_jax import constraints as rc, joints
from rich.console import Console
from rich.progress import track


SCHEMES = (
    rbd.SemiImplicitEuler(),
    rbd.LieEuler(),
    rbd.RKMK2(),
    rbd.RKMK3(),
    rbd.RungeKutta4(),
    rbd.RKMK45(1e-8, 1e-8),
    rbd.Adaptive(diffrax.Dopri8(), 1e-8, 1e-8),
    rbd.CrouchGrossman3(),
    rbd.CommutatorFree2(),
    rbd.CommutatorFree3(),
    rbd.CommutatorFree4(),
    rbd.LinearlyImplicitEuler(),
    rbd.ImplicitMidpoint(),
    rbd.BDF1(),
    rbd.BDF2(),
    rbd.GeneralizedAlpha(0.8),
    rbd.Rattle(),
    rbd.VariationalMidpoint(),
    rbd.EnergyMomentum(),
)
STEPS, DT, BATCH, ROUNDS = 100, 0.005, 64, 7


def carrier():
    """A free body that carries a chain of two bodies on ball joints."""
    builder = rbd.ModelBuilder()
    body = rbd.Inertia.box(1.0, (0.2, 0.3, 0.4), (0.1, 0.2, -0.1))
    place = rbd.Transform.from_xyz_rpy((0.3, 0.0, 0.1))
    builder.add_body("trunk", "world", joints.Free(), inertia=body)
    builder.add_body("upper", "trunk", joints.Spherical(), place, body)
    builder.add_body("fore", "upper", joints.Spherical(), place, body)
    model = builder.build()
    return model, rbd.neutral(model), jnp.sin(1 + jnp.arange(12.0))


def four_bar():
    builder = rbd.ModelBuilder(gravity=(0.0, -9.81, 0.0))
    rod = rbd.Inertia.box(1.0, (1.0, 0.02, 0.02), (0.5, 0.0, 0.0))
    tip = rbd.Transform.from_xyz_rpy((1.0, 0.0, 0.0))
    builder.add_body("crank", "world", joints.Revolute(), inertia=rod)
    builder.add_body("coupler", "crank", joints.Revolute(), tip, rod)
    builder.add_body("follower", "world", joints.Revolute(), tip, rod)
    builder.add_constraint(rc.Connect("coupler", tip.position, "follower", tip.position))
    return builder.build(), jnp.array([1.1, -1.1, 1.1]), jnp.array([1.0, -1.0, 1.0])


class Racer:
    """A scheme's compiled rollouts of one sample and of a batch."""

    def __init__(self, system, scheme):
        model, q, v = system

        def run(q, v):
            return rbd.rollout(model, rbd.State(q, v), dt=DT, steps=STEPS, scheme=scheme, save_every=STEPS)

        start = time.perf_counter()
        self.step = jax.jit(run).lower(q, v).compile(), (q, v)
        self.compile_s = time.perf_counter() - start
        batch = jnp.tile(q, (BATCH, 1)), jnp.tile(v, (BATCH, 1))
        self.batch = jax.jit(jax.vmap(run)).lower(*batch).compile(), batch
        if code := int(self.step[0](q, v).code):
            raise RuntimeError(f"{type(scheme).__name__} failed with code {code}")

    def seconds(self):
        """Returns the seconds per step and sample: alone, and in a batch."""
        taken = []
        for (function, arguments), samples in ((self.step, 1), (self.batch, BATCH)):
            start = time.perf_counter()
            jax.block_until_ready(function(*arguments))
            taken.append((time.perf_counter() - start) / STEPS / samples)
        return taken


def main() -> None:
    systems = {"carrier": carrier(), "four-bar": four_bar()}
    columns = [f"{system}, {what}" for system in systems for what in ("alone", "in a batch", "compile")]
    print("| scheme | " + " | ".join(columns) + " |\n|---" + "|--:" * len(columns) + "|")
    wanted = [scheme for scheme in SCHEMES if type(scheme).__name__ in sys.argv[1:]] or SCHEMES
    for scheme in track(wanted, console=Console(stderr=True)):
        racers = [Racer(system, scheme) for system in systems.values()]
        rounds = np.array([[racer.seconds() for racer in racers] for _ in range(ROUNDS)])
        cells = []
        for racer, times in zip(racers, 1e6 * rounds.min(axis=0), strict=True):
            cells += [*(f"{microseconds:.3g}" for microseconds in times), f"{racer.compile_s:.1f} s"]
        print(f"| {type(scheme).__name__} | " + " | ".join(cells) + " |", flush=True)
        jax.clear_caches()


if __name__ == "__main__":
    main()
