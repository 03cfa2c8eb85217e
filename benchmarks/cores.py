"""How much faster are all cores than one, and how much could they be?

    python benchmarks/cores.py

Programs of their own take turns: one that may use a single core, one that may use all, and as many of the first kind at the
same time as there are cores, each on its own. The last is what the machine can do: where two "cores" are two threads of one, or
share a cache, programs that have nothing to do with one another are slower together than alone.

A row: the time of a sample on one core, with all, how much faster that is, and how much faster programs of their own are.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time

import robots


OPERATIONS = {"fd": "forward dynamics", "mass": "mass matrix", "rollout": "100 steps"}
SECONDS = 0.5


def prepared(robot: str, operation: str, size: int):
    """A function that works through a batch once."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    import rbd_jax as rbd

    known = {**robots.ROBOTS, **robots._of_files()}[robot] if " " in robot else None
    model = (
        rbd.load_urdf(known.text or robots.urdf(known), floating_base=known.floating)
        if known
        else rbd.load(robot)
    )
    keys = jax.random.split(jax.random.key(0), size)
    q = jax.vmap(lambda key: rbd.random_configuration(model, key))(keys)
    v = 0.1 * jax.random.normal(jax.random.key(1), (size, model.nv))
    one = {
        "fd": lambda q, v: rbd.forward_dynamics(model, q, v, v),
        "mass": lambda q, v: rbd.mass_matrix(model, q),
        "rollout": lambda q, v: (
            rbd.rollout(model, rbd.State(q, v), dt=1e-3, steps=100, save_every=100).final.v
        ),
    }[operation]
    function = jax.jit(rbd.batch_map(one))
    once = lambda: jax.block_until_ready(function(q, jnp.asarray(v)))
    once()
    return once


def work(given) -> None:
    """Work through the batch for a while whenever a line is read, and write how long it took once."""
    once = prepared(given.robot, given.operation, given.batch)
    print("ready", flush=True)
    for line in sys.stdin:
        begin, count, end = time.perf_counter(), 0, float(line)
        while time.time() < end:
            once()
            count += 1
        print((time.perf_counter() - begin) / max(count, 1), flush=True)


class Worker:
    """A program that works on some cores."""

    def __init__(self, given, robot: str, operation: str, cores: set[int]):
        command = [
            sys.executable,
            __file__,
            "--work",
            "--robot",
            robot,
            "--operation",
            operation,
            "--batch",
            str(given.batch),
        ]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        assert self._read() == "ready"

    def _read(self) -> str:
        return self.process.stdout.readline().strip()

    def begin(self, end: float) -> None:
        self.process.stdin.write(f"{end}\n")
        self.process.stdin.flush()

    def seconds(self) -> float:
        return float(self._read())


def together(workers: list[Worker]) -> list[float]:
    """How long each takes for the batch, at the same time."""
    end = time.time() + SECONDS
    for worker in workers:
        worker.begin(end)
    return [worker.seconds() for worker in workers]


def row(given, robot: str, operation: str) -> str:
    cores = sorted(os.sched_getaffinity(0))
    own = [Worker(given, robot, operation, {core}) for core in cores]
    shared = Worker(given, robot, operation, set(cores))
    alone, all_of_them, apart = [], [], []
    for number in range(given.rounds):
        alone += together([own[number % len(own)]])
        all_of_them += together([shared])
        apart.append(1 / sum(1 / seconds for seconds in together(own)))
    for worker in (*own, shared):
        worker.process.kill()
    one, threads, programs = map(statistics.median, (alone, all_of_them, apart))
    times = " | ".join(f"{seconds / given.batch * 1e6:.3g}" for seconds in (one, threads))
    return f"| {OPERATIONS[operation]} | {robot} | {times} | {one / threads:.2f} | {one / programs:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--robots", default="arm7,quadruped,humanoid")
    parser.add_argument("--operations", default="fd,mass,rollout")
    parser.add_argument("--batch", type=int, default=65536)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--robot", help=argparse.SUPPRESS)
    parser.add_argument("--operation", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given)
        return
    print(
        "| operation | robot | one core | all | faster | programs of their own |\n|---|---|--:|--:|--:|--:|"
    )
    for operation in given.operations.split(","):
        for robot in given.robots.split(","):
            print(row(given, robot, operation), flush=True)


if __name__ == "__main__":
    main()
