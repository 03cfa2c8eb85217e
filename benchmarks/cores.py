"""Speedup of all cores over one core, and the largest speedup that the machine allows.

    python benchmarks/cores.py

Three kinds of programs alternate: one that may use a single core, one that may use all cores, and one single-core program
per core at the same time. The last kind measures the limit of the machine. If two "cores" are two threads of one core, or
share a cache, then unrelated programs slow each other down.

Each row has the time per sample on one core, the time on all cores, the speedup, and the speedup of separate
programs. Linux only.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time


SECONDS = 0.5


def work(robot: str, operation: str, size: int) -> None:
    """Processes a batch repeatedly until an end time read from stdin, and prints the time of one pass."""
    from run import LIBRARIES, ROBOTS, Timed, np

    library = LIBRARIES["rbd_jax"](ROBOTS[robot], np.float64)
    once = Timed(library, ROBOTS[robot], operation, size, np.float64, steps=100).run
    once()
    print("ready", flush=True)
    for line in sys.stdin:
        begin, count = time.perf_counter(), 0
        while not count or time.time() < float(line):
            once()
            count += 1
        print((time.perf_counter() - begin) / count, flush=True)


class Worker:
    """A process that runs on the given cores."""

    def __init__(self, robot: str, operation: str, size: int, cores: set[int]):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--work", robot, operation, str(size)],
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
    """Returns the time of each worker for the batch while all workers run at the same time."""
    end = time.time() + SECONDS
    for worker in workers:
        worker.begin(end)
    return [worker.seconds() for worker in workers]


def row(robot: str, operation: str, size: int, rounds: int) -> str:
    cores = sorted(os.sched_getaffinity(0))
    own = [Worker(robot, operation, size, {core}) for core in cores]
    shared = Worker(robot, operation, size, set(cores))
    alone, everywhere, apart = [], [], []
    for number in range(rounds):
        alone += together([own[number % len(own)]])
        everywhere += together([shared])
        apart.append(1 / sum(1 / seconds for seconds in together(own)))
    for worker in (*own, shared):
        worker.process.kill()
    one, threads, programs = map(statistics.median, (alone, everywhere, apart))
    times = " | ".join(f"{seconds / size * 1e6:.3g}" for seconds in (one, threads))
    return f"| {operation} | {robot} | {size} | {times} | {one / threads:.2f} | {one / programs:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--robots", default="panda 9,go1 18,g1 35")
    parser.add_argument("--operations", default="fd,mass", help="those of run.py; a rollout has 100 steps")
    parser.add_argument("--batches", default="4096,65536")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        robot, operation, size = given.work
        work(robot, operation, int(size))
        return
    print("| operation | robot | batch | one core | all | faster | programs of their own |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for operation in given.operations.split(","):
        for size in map(int, given.batches.split(",")):
            for robot in given.robots.split(","):
                print(row(robot, operation, size, given.rounds), flush=True)


if __name__ == "__main__":
    main()
