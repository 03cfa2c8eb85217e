"""The checkpoint folder of a run, from which `--resume` continues.

It is beside the output folder, or inside it if other files may be there. Each search has a file in it (for an identification
the complete one, and those of the cross-validation). `run.ckpt` has the options and the log warnings so far. The folder
exists while the command runs, and after the command was killed. It is locked while a process uses it.
"""

from __future__ import annotations

import contextlib
import math
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._core.interrupts import clearing_up
from ..checkpoints import Checkpoint, CheckpointError, Run, differences, fingerprint, locked
from .model import Refused


#: The file with the options. All other files are checkpoints of searches.
OPTIONS = "run.ckpt"
#: Files in such a folder: checkpoints, their locks, and incomplete checkpoints.
OURS = re.compile(r"[\w-]+\.ckpt|\.[\w-]+\.ckpt\.lock|\.[\w-]+\.\d+\.part\.ckpt")


@dataclass(frozen=True)
class Place:
    """A checkpoint folder.

    - `owner`: the command, for messages.
    - `every`: interval between saves, in s; infinite for a run that is not saved.
    - `resume`: whether to continue from saved progress.
    """

    owner: str
    folder: Path
    every: float
    resume: bool

    @staticmethod
    def beside(owner: str, results: Path, every: float, resume: bool) -> Place:
        """Returns the folder beside the output folder; refuses unexpected content."""
        return Place._of(owner, results.with_name(f"{results.name}.checkpoint"), every, resume)

    @staticmethod
    def within(owner: str, results: Path, every: float, resume: bool) -> Place:
        """Returns the folder inside an output folder that may have other files."""
        return Place._of(owner, results / f"{owner.split()[-1]}.checkpoint", every, resume)

    @staticmethod
    def _of(owner: str, folder: Path, every: float, resume: bool) -> Place:
        place = Place(owner, folder, every, resume)
        if resume and not place.saves:
            raise Refused(
                "--resume requires saved progress, which --checkpoint-every never disables; leave out one of them"
            )
        place.look()
        return place

    def look(self) -> None:
        there = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        others = sorted(name for name in there if not OURS.fullmatch(name))
        if others or (self.folder.exists() and not self.folder.is_dir()):
            what = f"has other files ({', '.join(others[:3])})" if others else "is a file"
            raise Refused(
                f"{self.folder} {what}, but this run saves its progress there; choose another --out"
            )
        if self.reached and not self.resume:
            raise Refused(
                f"{self.folder} has the progress of an earlier run; continue it with --resume, or remove that folder to start "
                "again"
            )

    @property
    def saves(self) -> bool:
        return math.isfinite(self.every)

    @property
    def reached(self) -> bool:
        """True if the progress of a search was saved."""
        return any(path.name != OPTIONS for path in self.folder.glob("*.ckpt"))

    def tell(self, console) -> None:
        """Prints where a resumed run continues from."""
        if self.resume:
            went = (
                f"continuing from {self.folder}"
                if self.reached
                else "no progress was saved; starting from the beginning"
            )
            console.print(went, highlight=False, markup=False)

    def refused(self, message: str, error: BaseException) -> Refused:
        """Returns the error, with the location of saved progress if there is any."""
        kept = self.saves and self.reached and not isinstance(error, CheckpointError)
        return Refused(f"{message}. The progress is saved in {self.folder} for --resume" if kept else message)

    def file(self, name: str) -> Checkpoint | None:
        """Returns the checkpoint of one search, or None without saving."""
        return Checkpoint(self.folder / f"{name}.ckpt", self.every) if self.saves else None

    @contextlib.contextmanager
    def kept(self, options: Mapping[str, Any]) -> Iterator[Run]:
        """Allows saving of checkpoints within the block; removes the folder at a successful end.

        If the block fails, the checkpoints stay. They are removed only if the run fails at once, because they would prevent
        a run with other data or options.

        Args:
          options: The options of the run. A resumed run must have the same options.
        """
        if not self.saves:
            yield Run(self.owner, None, {})
            return
        began = time.monotonic()
        self.folder.mkdir(exist_ok=True)
        file = Checkpoint(self.folder / OPTIONS)
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locked(self.owner, file.path))
            except CheckpointError:
                with contextlib.suppress(OSError):  # another process may use the folder
                    self.folder.rmdir()
                raise
            stack.enter_context(clearing_up(self._interrupted))
            self.look()  # again, because now the folder is locked
            goes_on = self.reached
            saved = file.read() if goes_on else None
            run = Run(self.owner, file, fingerprint(**options), None if saved is None else saved.values)
            if saved is not None:
                run.refuse(differences(saved.key, run.key))
            try:
                yield run
            except BaseException as error:
                refused = isinstance(error, ValueError | FloatingPointError) and not goes_on
                if not self.reached or (refused and time.monotonic() - began < self.every):
                    self._remove()
                raise
            self._remove()

    def _remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _interrupted(self) -> str:
        if self.reached:
            return f"run the same command with --resume to continue from {self.folder}"
        self._remove()
        return "no progress was saved"


def lasting(words: Sequence[str]) -> list[str]:
    """Returns the words of a command without --resume and its abbreviations, which do not change the result."""
    return [word for word in words if not (len(word) > len("--r") and "--resume".startswith(word))]


#: Words of checkpoint messages, and the corresponding options.
SPELLED = {
    "Run the same again, or give this one another file; if the old file is no longer needed, remove it": (
        "Run the same again, or choose another --out; if the saved progress is no longer needed, remove its folder"
    ),
    "wait for its end, or give this run another file": "wait until it ends, or choose another --out",
    "checkpoints need a system with flock, such as Linux or macOS": (
        "checkpoints need a system with flock, such as Linux or macOS; pass --checkpoint-every never"
    ),
    "give a path on another one": "choose an --out on another one, or pass --checkpoint-every never",
}


def one_line(message: str) -> str:
    """Returns a message about a run in one line, in the words of the command line."""
    message = message.replace(":\n  ", ": ").replace("\n  ", "; ").replace("\n", ". ")
    for theirs, ours in SPELLED.items():
        message = message.replace(theirs, ours)
    return re.sub(r"^rbd-jax \w+: ", "", message)
