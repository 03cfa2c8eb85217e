"""Processes that are killed: by a signal of their own during a save, or externally at a random moment."""

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np


def killed_at(save: int, moment: str, number: int = signal.SIGKILL) -> None:
    """Makes this process kill itself at save number `save`, either "before" or "after" the new file is renamed."""
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
    """Runs a command and returns its duration, s."""
    before = time.monotonic()
    subprocess.run(words, env=env, check=True)
    return time.monotonic() - before


def killed_at_moments(
    words: list[str], env: dict[str, str], whole: float, result: Path, kills: int
) -> np.ndarray:
    """Runs a command with --resume until it has a result, killing it up to `kills` times at random moments.

    Args:
      words: The command.
      env: Its environment.
      whole: Duration of an uninterrupted run, s.
      result: The file that the command writes.
      kills: Maximum number of kills.

    Returns:
      The moments of the kills, s, for messages.
    """
    moments = np.random.default_rng().uniform(0.1, 1.0, kills) * whole
    for moment in moments:
        process = subprocess.Popen([*words, "--resume"], env=env)
        try:
            assert process.wait(moment) == 0
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if result.exists():  # it ended, or was killed after writing its result
            return moments
    subprocess.run([*words, "--resume"], env=env, check=True)
    return moments
