"""Importing the library costs little beyond importing JAX."""

import os
import statistics
import subprocess
import sys
from pathlib import Path


ROOT = Path(__file__).resolve().parent.parent

TOTAL = 2.0  # processor seconds of a new process that imports the library
SURPLUS = 0.8  # relative to JAX and equinox; usually a third to a half, 0.7 on a busy machine
FAST = 1.2  # on a machine slower than this at importing only these, the total is not checked


#: Prints the processor time, without waiting, after importing the dependencies and after importing the library.
TIMED = """
from time import process_time
import jax, equinox
baseline = process_time()
import rbd_jax
print(baseline, process_time())
"""


def seconds(bytecode: Path) -> tuple[float, float]:
    """Returns the import times of a new process for the dependencies, and including the library.

    Bytecode is cached, in a separate folder if Python may not write next to its sources.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if environment.pop("PYTHONDONTWRITEBYTECODE", None) or not os.access(ROOT / "rbd_jax", os.W_OK):
        environment["PYTHONPYCACHEPREFIX"] = str(bytecode)
    command = [sys.executable, "-c", TIMED]
    done = subprocess.run(command, check=True, cwd=ROOT, env=environment, capture_output=True, text=True)
    baseline, total = map(float, done.stdout.split())
    return baseline, total


def test_import_time(tmp_path):
    # The first run may have to compile bytecode. Other processes share caches and cores, and add varying
    # amounts of time. Therefore the times are measured in alternation and compared by the median of their
    # ratios; a few runs suffice on a quiet machine.
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
