"""Searches for faults of the library, one job at a time, in processes that can be killed; scripts/soak.sh runs it.

A job is a sequence of numbered cases (`_soak_jobs.py`). A separate process runs the cases and reports the
number of each. If the process is silent for longer than the limit of its job, it is killed and the current case
counts as a fault. A process that dies counts as a fault, too. A seed and the number determine each case:
`--case JOB:NUMBER` runs one again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import _soak_jobs


#: A process restarts at this number of memory mappings. Each compiled kernel adds some, and Linux allows
#: 65,530.
MAPPINGS = 30_000

#: Minimum duration of a job's turn, s. Each turn spends some tens of seconds on imports and compilation.
SHORTEST = 60.0

#: Interval between saves of the progress, s.
SAVED = 10.0


@dataclass
class Tally:
    """The results of a job until now: the next case, and the faults of earlier ones."""

    next: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    faults: dict[int, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/soak.sh", description="Search for faults of the library.")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", help=f"comma-separated jobs of {', '.join(_soak_jobs.JOBS)}")
    parser.add_argument("--out", type=Path, default=Path("runs/soak"))
    parser.add_argument("--resume", action="store_true", help="continue the run in --out")
    parser.add_argument("--case", help="JOB:NUMBER: run only this case, in this process")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.work:
        return work(told.work[0], told.seed, int(told.work[1]), float(told.work[2]))
    if told.case:
        name, _, number = told.case.partition(":")
        if name not in _soak_jobs.JOBS or not number.isdecimal():
            parser.error(
                f"--case must be JOB:NUMBER with a job of {', '.join(_soak_jobs.JOBS)}, got {told.case}"
            )
        fault = _soak_jobs.JOBS[name].prepare(told.seed)(int(number))
        print(fault or "no fault")
        return int(bool(fault))
    names = told.jobs.split(",") if told.jobs else list(_soak_jobs.JOBS)
    for name in names:
        if name not in _soak_jobs.JOBS:
            parser.error(f"--jobs has the unknown job {name}; the jobs are {', '.join(_soak_jobs.JOBS)}")
    return soak(names, 60 * told.minutes, told.seed, told.out, told.resume)


# The worker process.


def work(name: str, seed: int, number: int, seconds: float) -> int:
    """Runs the cases of a job from a number on until the time is over, and reports each on stdout."""
    out = os.fdopen(os.dup(1), "w")  # output of other code must not mix with the reports
    os.dup2(2, 1)
    tell = lambda **what: print(json.dumps(what), file=out, flush=True)
    case = _soak_jobs.JOBS[name].prepare(seed)
    end = time.monotonic() + seconds
    while time.monotonic() < end and mappings() < MAPPINGS:
        tell(begun=number)
        fault = case(number)
        tell(done=number, fault=fault, notes=_soak_jobs.NOTES)
        number += 1
    return 0


def mappings() -> int:
    try:
        return Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:  # only Linux has such a limit
        return 0


# The supervising process.


def soak(names: list[str], seconds: float, seed: int, out: Path, resume: bool) -> int:
    from rbd_jax._core.files import whole_file

    state = out / "state.json"
    tallies = {name: Tally() for name in names}
    if state.exists():
        if not resume:
            print(
                f"error: {out} has a run; pass --resume to continue it or another --out to start a new one.",
                file=sys.stderr,
            )
            return 2
        kept = json.loads(state.read_text())
        if kept["seed"] != seed:
            print(f"error: the run in {out} has the seed {kept['seed']}.", file=sys.stderr)
            return 2
        for name, one in kept["jobs"].items():
            one["faults"] = {int(number): fault for number, fault in one["faults"].items()}
            tallies[name] = Tally(**one)
    tallies = {name: tallies[name] for name in _soak_jobs.JOBS if name in tallies}
    out.mkdir(parents=True, exist_ok=True)
    share = {name: _soak_jobs.JOBS[name].share for name in names}
    spent = lambda: sum(tally.seconds for tally in tallies.values())
    saved = 0.0

    def save(always: bool = False) -> None:
        nonlocal saved
        if always or time.monotonic() > saved + SAVED:
            jobs = {name: asdict(one) for name, one in tallies.items()}
            for path, content in (
                (state, json.dumps({"seed": seed, "jobs": jobs})),
                (out / "report.md", report(tallies, seed)),
            ):
                with whole_file(path) as new:
                    new.write_text(content, encoding="utf-8")
            saved = time.monotonic()

    while spent() < seconds:
        # The job that is furthest behind its share runs next.
        name = min(names, key=lambda name: tallies[name].seconds / share[name])
        tally, fair = tallies[name], seconds * share[name] / sum(share.values())
        turn = max(min(fair - tally.seconds, seconds - spent()), SHORTEST)
        watch(name, tally, seed, turn, out, save)
        save(always=True)
        print(
            f"{spent() / 60:5.1f} min  {name}: {tally.next} cases, {len(tally.faults)} faults, "
            f"the slowest {tally.slowest:.2f} s",
            flush=True,
        )
    print(report(tallies, seed))
    print(f"The report is {out / 'report.md'}")
    return int(any(tally.faults for tally in tallies.values()))


def watch(name: str, tally: Tally, seed: int, seconds: float, out: Path, save: Callable[[], None]) -> None:
    """Runs one turn of a job: processes in sequence until its time is over."""
    job, begin, deaths = _soak_jobs.JOBS[name], time.monotonic(), 0
    while (left := seconds - (time.monotonic() - begin)) > 0:
        words = [sys.executable, __file__, "--seed", str(seed), "--work", name, str(tally.next), str(left)]
        with tempfile.TemporaryDirectory(dir=out) as folder, open(out / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder, start_new_session=True
            )
            before = tally.next
            begun, ended = _followed(job, tally, _lines_of(process), save)
            if ended is not None:
                os.killpg(process.pid, 9)
            code = process.wait()
        if ended is None and code:
            deaths = deaths + 1 if tally.next == before else 1
            if not begun or deaths == 3:
                sys.exit(f"error: the processes of the job {name} die repeatedly, see {out / name}.log")
            ended = f"the process died with {code}, see {name}.log"
        if ended is not None:
            tally.faults[tally.next] = ended
            tally.next += 1
    tally.seconds += time.monotonic() - begin


def _lines_of(process: subprocess.Popen[str]) -> queue.Queue[str]:
    """Returns a queue of the lines that a process prints; an empty line marks the end."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    return lines


def _followed(
    job: _soak_jobs.Job, tally: Tally, lines: queue.Queue[str], save: Callable[[], None]
) -> tuple[bool, str | None]:
    """Reads the reports of a process until it ends or is silent for too long.

    Returns:
      True if the process started a case, and the fault of the last case or None.
    """
    first, begun, limit = True, time.monotonic(), _soak_jobs.START
    while True:
        try:
            line = lines.get(timeout=limit)
        except queue.Empty:
            return not first, f"nothing for {limit:g} s"
        if not line:
            return not first, None
        told = json.loads(line)
        first, limit = False, job.limit
        if "begun" in told:
            begun = time.monotonic()
            continue
        took = time.monotonic() - begun
        tally.next = told["done"] + 1
        tally.notes |= told["notes"]
        tally.slowest = max(tally.slowest, took)
        if told["fault"]:
            tally.faults[told["done"]] = told["fault"]
        save()


def report(tallies: dict[str, Tally], seed: int) -> str:
    """Returns the results as Markdown."""
    import jax

    cases, faults = (sum(count) for count in zip(*((one.next, len(one.faults)) for one in tallies.values())))
    spent = sum(tally.seconds for tally in tallies.values())
    rows = [
        f"| {name} | {_soak_jobs.JOBS[name].what} | {tally.next:,} | {len(tally.faults)} | {tally.seconds / 60:.1f} | "
        f"{tally.slowest:.2f} |"
        for name, tally in tallies.items()
    ]
    notes = [f"- {name}: {note}" for tally in tallies.values() for name, note in tally.notes.items()]
    found = [
        f"- `{name}:{number}`: {fault}"
        for name, tally in tallies.items()
        for number, fault in tally.faults.items()
    ]
    return "\n".join(
        [
            "# Soak tests",
            "",
            "`bash scripts/soak.sh` runs numbered cases of each job in processes, which it kills when a case takes too long. "
            "A fault is an error that the library does not raise itself, a non-finite number, a derivative that differs "
            "from finite differences, a partially written file, or a case that does not end.",
            "",
            f"{cases:,} cases in {spent / 60:.0f} minutes, {faults} faults; seed {seed}. Python {platform.python_version()}, "
            f"jax {jax.__version__}, {os.cpu_count()} cores.",
            "",
            "| job | cases consist of | cases | faults | minutes | slowest case, s |",
            "|---|---|--:|--:|--:|--:|",
            *rows,
            *(["", "Measurements:", "", *notes] if notes else []),
            *(["", "Faults, each run again by `bash scripts/soak.sh --case`:", "", *found] if found else []),
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
