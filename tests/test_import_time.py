"""Importing the library costs little beyond importing JAX."""

import os
import subprocess
import sys
from pathlib import Path


ROOT = Path(__file__).resolve().parent.parent

TOTAL = 2.0  # seconds of a processor, for a new process that imports the library
SURPLUS = 0.65  # of what JAX takes is ours: less than half on a quiet machine
FAST = 1.7  # a machine slower than this at importing JAX alone says nothing about the total


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
    seconds("import rbd_jax", tmp_path)
    # Other work on the machine still adds time, by caches and cores that are shared, so the least of several runs is the
    # estimate. The two take turns, so that a busy spell meets both; two are enough on a quiet machine.
    baseline = total = float("inf")
    for turn in range(9):
        baseline = min(baseline, seconds("import jax, equinox", tmp_path))
        total = min(total, seconds("import rbd_jax", tmp_path))
        if turn >= 1 and total - baseline < SURPLUS * baseline and total < TOTAL:
            break
    print(f"import rbd_jax: {total:.2f} s, of which {total - baseline:.2f} s beyond jax and equinox")
    assert total - baseline < SURPLUS * baseline
    assert total < TOTAL or baseline >= FAST
