"""Importing the library costs little beyond importing JAX."""

import os
import statistics
import subprocess
import sys
from pathlib import Path


ROOT = Path(__file__).resolve().parent.parent

TOTAL = 2.0  # seconds of a processor, for a new process that imports the library
SURPLUS = 0.8  # of what JAX and equinox take; ours is a third to a half, 0.7 beside other work
FAST = 1.2  # a machine slower than this at importing these alone says nothing about the total


#: Prints the processor time up to where the others are imported, and up to where all is: what it waits for is not counted.
TIMED = """
from time import process_time
import jax, equinox
baseline = process_time()
import rbd_jax
print(baseline, process_time())
"""


def seconds(bytecode: Path) -> tuple[float, float]:
    """What a new process takes to import the others, and the library as well.

    Bytecode is kept, in a folder of its own where Python may not write any beside its sources.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if environment.pop("PYTHONDONTWRITEBYTECODE", None) or not os.access(ROOT / "rbd_jax", os.W_OK):
        environment["PYTHONPYCACHEPREFIX"] = str(bytecode)
    command = [sys.executable, "-c", TIMED]
    done = subprocess.run(command, check=True, cwd=ROOT, env=environment, capture_output=True, text=True)
    baseline, total = map(float, done.stdout.split())
    return baseline, total


def test_import_time(tmp_path):
    # The first may have to make bytecode. Other work on the machine adds time, by caches and cores that are shared, and comes and
    # goes. So the two are timed one after the other, and what counts is the middle of their ratios; a few are enough on a quiet
    # machine.
    times = []
    for turn in range(9):
        times.append(seconds(tmp_path))
        surplus = statistics.median(total / baseline - 1 for baseline, total in times)
        if turn >= 2 and surplus < SURPLUS:
            break
    baseline, total = (min(column) for column in zip(*times))
    print(f"import rbd_jax: {total:.2f} s, {surplus:.0%} more than the {baseline:.2f} s of jax and equinox")
    assert surplus < SURPLUS
    assert total < TOTAL or baseline >= FAST
