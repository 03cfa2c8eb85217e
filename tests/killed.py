"""Processes that are killed: by themselves while they save something, or at any moment by somebody else."""

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np


def killed_at(save: int, moment: str, number: int = signal.SIGKILL) -> None:
    """From now on this process ends at so many saves, "before" the new file has its name or "after"."""
    rename, left = os.replace, [save]

    def replace(*names):
        left[0] -= 1
        if not left[0] and moment == "before":
            os.kill(os.getpid(), number)
        rename(*names)
        if not left[0]:
            os.kill(os.getpid(), number)

    os.replace = replace


def undisturbed(words: list[str], env: dict[str, str]) -> float:
    """Run a command; how long that takes, s."""
    before = time.monotonic()
    subprocess.run(words, env=env, check=True)
    return time.monotonic() - before


def killed_at_moments(
    words: list[str], env: dict[str, str], whole: float, result: Path, kills: int
) -> np.ndarray:
    """Run a command with --resume until its result is there, killed up to so many times at moments that nobody chose.

    - `whole`: how long it takes undisturbed. **Returns** the moments, for messages.
    """
    moments = np.random.default_rng().uniform(0.1, 1.0, kills) * whole
    for moment in moments:
        process = subprocess.Popen([*words, "--resume"], env=env)
        try:
            assert process.wait(moment) == 0
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if result.exists():  # it has ended, or was killed when it had done all but to end
            return moments
    subprocess.run([*words, "--resume"], env=env, check=True)
    return moments
