"""Processes that end themselves by a signal while they save something."""

import os
import signal


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
