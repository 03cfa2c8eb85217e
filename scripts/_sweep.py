"""A pytest plugin for long sweeps: what has passed is written down at once, and not run again while the sources stay as they are.

`scripts/test_slow.sh` uses it. Each result is a line in a file that is named after what the sources hold, so that a run which
was stopped goes on where it was, and a change anywhere in the library or the tests starts anew.
"""

import argparse
import hashlib
import json
import time
from collections import defaultdict
from pathlib import Path

import pytest


ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / ".pytest_cache" / "sweep"
#: Seconds of each file of slow tests, one a line, from a run with --record.
DURATIONS = ROOT / "tests" / "slow_durations.txt"
#: Why a test was left out.
LATE = "no time was left for it"
#: For a file that the table does not have yet.
UNKNOWN = 60.0


def sources():
    """A name for what is tested: all files of the library and the tests."""
    digest = hashlib.sha256()
    paths = [ROOT / "pyproject.toml", *(ROOT / "rbd_jax").rglob("*"), *(ROOT / "tests").rglob("*")]
    for path in sorted(p for p in paths if p.is_file() and "__pycache__" not in p.parts and p != DURATIONS):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def parts(names, durations, count):
    """The number of the part of each test, by names: the longest files first, each to the part that is the shortest so far.

    A file stays whole, since its tests share what they compile; but one that is longer than half a part is dealt out.
    """
    files = defaultdict(list)
    for name in sorted(names):
        files[file_of(name)].append(name)
    seconds = {file: durations.get(file, UNKNOWN) for file in files}
    long = sum(seconds.values()) / (2 * count)
    pieces = []
    for file, tests in files.items():
        own = [[test] for test in tests] if seconds[file] > long else [tests]
        pieces += [(seconds[file] / len(own), piece) for piece in own]
    loads, chosen = [0.0] * count, {}
    for duration, tests in sorted(pieces, key=lambda piece: (-piece[0], piece[1])):
        part = loads.index(min(loads))
        loads[part] += duration
        chosen |= dict.fromkeys(tests, part)
    return chosen


def part_of(text):
    """`2/6`: the number of a part, from 0, and of how many."""
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and int(number) < int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is no part: 2/6 is the third of six, counted from 0")
    return int(number), int(count)


def recorded_durations():
    if not DURATIONS.exists():
        return {}
    rows = (line.split() for line in DURATIONS.read_text().splitlines() if line and line[0] != "#")
    return {file: float(seconds) for seconds, file in rows}


def file_of(nodeid):
    return nodeid.partition("::")[0]


def pytest_addoption(parser):
    group = parser.getgroup("sweep")
    group.addoption("--part", type=part_of, metavar="K/N", help="of the tests, about equally long; K from 0")
    group.addoption("--fresh", action="store_true", help="run also what has passed already")
    group.addoption("--record", action="store_true", help="write tests/slow_durations.txt")
    group.addoption(
        "--minutes", type=float, metavar="M", help="no test begins later; the summary says how many did not"
    )


def pytest_configure(config):
    config.pluginmanager.register(Sweep(config), "sweep")


class Sweep:
    def __init__(self, config):
        self.config = config
        self.known = {}  # the last result of each test, by its name
        self.steps = defaultdict(list)  # of a test: set-up, call, clearing up
        minutes = config.getoption("minutes")
        self.end = None if minutes is None else time.monotonic() + 60 * minutes
        self.late = 0  # tests that did not begin
        self.worker = getattr(config, "workerinput", None)
        if self.worker is not None:
            self.passed = set(self.worker["sweep_passed"])
            return
        self.file = RESULTS / f"{sources()}.jsonl"
        if config.getoption("fresh"):
            self.file.unlink(missing_ok=True)
        for line in self.file.read_text().splitlines() if self.file.exists() else ():
            try:
                result = json.loads(line)
            except ValueError:  # an empty line, or the run was stopped while it wrote
                continue
            self.known[result["name"]] = result
        self.passed = {name for name, result in self.known.items() if result["outcome"] == "passed"}

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        """All workers leave out the same tests: those that had passed when the run began."""
        node.workerinput["sweep_passed"] = sorted(self.passed)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        part, wanted = config.getoption("part"), items
        if part is not None:
            number, count = part
            chosen = parts([item.nodeid for item in items], recorded_durations(), count)
            wanted = [item for item in wanted if chosen[item.nodeid] == number]
        wanted = [item for item in wanted if item.nodeid not in self.passed]
        if len(wanted) < len(items):
            config.hook.pytest_deselected(items=[item for item in items if item not in set(wanted)])
            items[:] = wanted

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        if self.end is not None and time.monotonic() > self.end:
            pytest.skip(LATE)

    def pytest_runtest_logreport(self, report):
        if self.worker is not None:
            return
        self.steps[report.nodeid].append(report)
        if report.when in ("setup", "call"):
            return
        # After its clearing up, or in place of it where a worker crashed.
        steps = self.steps.pop(report.nodeid)
        if any(step.skipped and LATE in str(step.longrepr) for step in steps):
            self.late += 1
            return
        outcomes = {step.outcome for step in steps}
        result = {
            "name": report.nodeid,
            "outcome": next((x for x in ("failed", "skipped") if x in outcomes), "passed"),
            "seconds": round(sum(step.duration for step in steps), 2),
            "where": f"{report.location[0]}:{(report.location[1] or 0) + 1}",
        }
        self.known[report.nodeid] = result
        RESULTS.mkdir(parents=True, exist_ok=True)
        with self.file.open("a") as file:  # one short write, after what a stopped run may have left of a line
            file.write(f"\n{json.dumps(result)}\n")

    def pytest_sessionfinish(self, session, exitstatus):
        """Nothing left to run is what was wanted."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.passed:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter):
        write, results = terminalreporter.write_line, sorted(self.known.values(), key=lambda r: -r["seconds"])
        by = {x: [r for r in results if r["outcome"] == x] for x in ("passed", "failed", "skipped")}
        total = sum(result["seconds"] for result in results)
        terminalreporter.section("slow sweeps of these sources")
        counts = ", ".join(f"{len(some)} {outcome}" for outcome, some in by.items())
        write(
            f"{counts}; {len(self.passed)} had passed before. {total / 60:.1f} minutes in all; the longest:"
        )
        if self.late:
            write(f"{self.late} did not begin, since the time was up; they are left for the next run.")
        for result in results[:10]:
            write(f"{result['seconds']:8.1f} s  {result['name']}")
        for result in by["failed"]:
            write(f"  FAILED  {result['name']}  ({result['where']})")
        if self.config.getoption("record") and self.config.getoption("part") is None:
            record(results)


def record(results):
    seconds = defaultdict(float, recorded_durations())
    seconds.update(dict.fromkeys({file_of(result["name"]) for result in results}, 0.0))
    for result in results:
        seconds[file_of(result["name"])] += result["seconds"]
    head = "# Seconds of the slow tests of each file: `bash scripts/test_slow.sh --record` writes them.\n"
    DURATIONS.write_text(head + "".join(f"{seconds[file]:7.1f} {file}\n" for file in sorted(seconds)))
