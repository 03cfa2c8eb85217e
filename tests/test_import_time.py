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


def seconds(statement: str, bytecode: Path) -> float:
    """The processor time a new Python process takes to run one statement: what it waits for others is not counted.

    Bytecode is kept in a folder, as it is wherever Python may write beside its sources.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(bytecode)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = os.times()
    subprocess.run([sys.executable, "-c", statement], check=True, cwd=ROOT, env=environment)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def test_import_time(tmp_path):
    # Other work on the machine adds time, by caches and cores that are shared, and comes and goes. So the two take turns, and
    # what counts is the middle of the ratios of neighbours; a few are enough on a quiet machine.
    seconds("import rbd_jax", tmp_path)
    baselines, totals = [], []
    for turn in range(9):
        baselines.append(seconds("import jax, equinox", tmp_path))
        totals.append(seconds("import rbd_jax", tmp_path))
        surplus = statistics.median(total / baseline - 1 for total, baseline in zip(totals, baselines))
        if turn >= 2 and surplus < SURPLUS:
            break
    baseline, total = min(baselines), min(totals)
    print(f"import rbd_jax: {total:.2f} s, {surplus:.0%} more than the {baseline:.2f} s of jax and equinox")
    assert surplus < SURPLUS
    assert total < TOTAL or baseline >= FAST
