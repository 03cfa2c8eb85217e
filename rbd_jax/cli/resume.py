"""Where a run saves what it has reached: a folder of its own, from which `--resume` goes on.

It is beside the folder of the results, or within if others write there, too. Each search has a file there (of an identification
the whole one, and those of cross-validation), and `run.ckpt` has the options and what was told of the logs until then. The
folder is there while the command is at work, and after it has been killed. While a process has it, it is locked.
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


#: The file with the options; the others are of estimates.
OPTIONS = "run.ckpt"
#: What is in such a folder: checkpoints, their locks, and what is left of one that was being written.
OURS = re.compile(r"[\w-]+\.ckpt|\.[\w-]+\.ckpt\.lock|\.[\w-]+\.\d+\.part\.ckpt")


@dataclass(frozen=True)
class Place:
    """A folder of checkpoints.

    - `owner`: the command, for messages.
    - `every`: how long from one save to the next, in s; infinite for a run that is not saved.
    - `resume`: whether to go on from what is there.
    """

    owner: str
    folder: Path
    every: float
    resume: bool

    @staticmethod
    def beside(owner: str, results: Path, every: float, resume: bool) -> Place:
        """That of a run which writes its results to a folder; refused if there is something that is not asked for."""
        return Place._of(owner, results.with_name(f"{results.name}.checkpoint"), every, resume)

    @staticmethod
    def within(owner: str, results: Path, every: float, resume: bool) -> Place:
        """The same where the folder has files of others, too."""
        return Place._of(owner, results / f"{owner.split()[-1]}.checkpoint", every, resume)

    @staticmethod
    def _of(owner: str, folder: Path, every: float, resume: bool) -> Place:
        place = Place(owner, folder, every, resume)
        if resume and not place.saves:
            raise Refused(
                "--resume goes on from what is saved, and with --checkpoint-every never nothing is; leave out one of them"
            )
        place.look()
        return place

    def look(self) -> None:
        there = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        others = sorted(name for name in there if not OURS.fullmatch(name))
        if others or (self.folder.exists() and not self.folder.is_dir()):
            what = f"has other files ({', '.join(others[:3])})" if others else "is a file"
            raise Refused(
                f"{self.folder} {what}, and is where this run would save what it has reached; choose another --out"
            )
        if self.reached and not self.resume:
            raise Refused(
                f"{self.folder} has what an earlier run had reached; --resume goes on from it, and without that folder the run "
                "begins anew"
            )

    @property
    def saves(self) -> bool:
        return math.isfinite(self.every)

    @property
    def reached(self) -> bool:
        """Whether something of an estimate was saved."""
        return any(path.name != OPTIONS for path in self.folder.glob("*.ckpt"))

    def tell(self, console) -> None:
        """Where a run that is resumed goes on from."""
        if self.resume:
            went = (
                f"going on from {self.folder}" if self.reached else "nothing was saved; this is the beginning"
            )
            console.print(went, highlight=False, markup=False)

    def refused(self, message: str, error: BaseException) -> Refused:
        """With what is left of the run, if something is."""
        kept = self.saves and self.reached and not isinstance(error, CheckpointError)
        return Refused(f"{message}. What was reached is in {self.folder} for --resume" if kept else message)

    def file(self, name: str) -> Checkpoint | None:
        """For one estimate."""
        return Checkpoint(self.folder / f"{name}.ckpt", self.every) if self.saves else None

    @contextlib.contextmanager
    def kept(self, options: Mapping[str, Any]) -> Iterator[Run]:
        """Within the block checkpoints may be saved; the folder is removed when it has ended well.

        - `options`: what the run was asked for; others than those of what is there are refused.

        If it fails, what was saved stays. Only what a run that fails at once has saved is of no use: with other data or
        options it would be in their way.
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
                with contextlib.suppress(OSError):  # which another one has, or it is empty
                    self.folder.rmdir()
                raise
            stack.enter_context(clearing_up(self._interrupted))
            self.look()  # again, since now nobody else writes there
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
            return f"the same command with --resume goes on from {self.folder}"
        self._remove()
        return "there is nothing to go on from"


def lasting(words: Sequence[str]) -> list[str]:
    """The words of a command without --resume, however short it was given: with it and without, the result is the same."""
    return [word for word in words if not (len(word) > len("--r") and "--resume".startswith(word))]


#: What messages about checkpoints call arguments, and what these are here.
SPELLED = {
    "Run the same again, or give this one a file of its own; if the old one is of no use any more, remove it": (
        "Run the same again, or choose another --out; if what was saved is of no use any more, remove its folder"
    ),
    "wait for its end, or give this one a file of its own": "wait for its end, or choose another --out",
    "checkpoints need a system with flock, such as Linux or macOS": (
        "checkpoints need a system with flock, such as Linux or macOS; take --checkpoint-every never"
    ),
    "give a place on another one": "choose an --out on another one, or take --checkpoint-every never",
}


def one_line(message: str) -> str:
    """A message about a run in one line, in the words of the command line."""
    message = message.replace(":\n  ", ": ").replace("\n  ", "; ").replace("\n", ". ")
    for theirs, ours in SPELLED.items():
        message = message.replace(theirs, ours)
    return re.sub(r"^rbd-jax \w+: ", "", message)
