"""How much faster are all cores than one, and how much could they be?

    python benchmarks/cores.py

Programs take turns: one that may use a single core, one that may use all, and as many of the first kind at the same time as
there are cores, each on its own. The last is what the machine can do: where two "cores" are two threads of one, or share a
cache, programs that have nothing to do with one another are slower together than alone.

A row: the time of a sample on one core, with all, how much faster that is, and how much faster programs of their own are.
Linux only.
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
    """Work through a batch again and again, until a time that is read, and write how long it took once."""
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
    """A program that works on some cores."""

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
    """How long each takes for the batch, at the same time."""
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
