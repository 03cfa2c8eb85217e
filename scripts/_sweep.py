"""A pytest plugin for long runs: records each result at once, and skips passed tests while the sources are unchanged.

`scripts/test_slow.sh` uses it. Results are lines of a file whose name is a hash of the sources. A stopped run
therefore continues, and any change in the library or the tests starts a new run. A table by folder ends the
run.
"""

import hashlib
import json
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest


ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / ".pytest_cache" / "sweep"
#: Skip reason of tests that did not start.
LATE = "no time was left for it"


def sources():
    """Returns a hash of all files of the library and the tests."""
    digest = hashlib.sha256()
    paths = [ROOT / "pyproject.toml", *(ROOT / "rbd_jax").rglob("*"), *(ROOT / "tests").rglob("*")]
    for path in sorted(p for p in paths if p.is_file() and "__pycache__" not in p.parts):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def shuffled(names, seed):
    """Returns test names in an order that depends only on the seed.

    Tests of a file stay together because they share compiled functions.
    """

    def place(name):
        file = file_of(name)
        return hashlib.sha256(f"{seed} {file}".encode()).hexdigest(), file

    return sorted(names, key=place)


def file_of(nodeid):
    return nodeid.partition("::")[0]


def table(results):
    """Returns lines with tests, failures and seconds of each folder, the longest first."""
    folders = defaultdict(Counter)
    for result in results:
        counts = folders[str(Path(file_of(result["name"])).parent)]
        counts[result["outcome"]] += 1
        counts["seconds"] += result["seconds"]
    rows = sorted(folders.items(), key=lambda row: -row[1]["seconds"])
    rows.append(("all", sum(folders.values(), Counter())))
    lines = [f"{'passed':>8} {'failed':>7} {'skipped':>8} {'seconds':>9}  folder"]
    for folder, counts in rows:
        numbers = (counts["passed"], counts["failed"], counts["skipped"], counts["seconds"])
        lines.append("{:8d} {:7d} {:8d} {:9.1f}  {}".format(*numbers, folder))
    return lines


def pytest_addoption(parser):
    group = parser.getgroup("sweep")
    group.addoption("--seed", type=int, metavar="N", help="run files in an order that depends on this number")
    group.addoption("--fresh", action="store_true", help="run also what has passed already")
    group.addoption(
        "--minutes",
        type=float,
        metavar="M",
        help="no test starts later; the summary counts those that did not",
    )


def pytest_configure(config):
    config.pluginmanager.register(Sweep(config), "sweep")


class Sweep:
    def __init__(self, config):
        self.config = config
        self.known = {}  # the last result of each test, by name
        self.steps = defaultdict(list)  # phases of a test: setup, call, teardown
        minutes = config.getoption("minutes")
        self.end = None if minutes is None else time.monotonic() + 60 * minutes
        self.late = 0  # number of tests that did not start
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
            except ValueError:  # an empty line, or the run was stopped while writing
                continue
            self.known[result["name"]] = result
        self.passed = {name for name, result in self.known.items() if result["outcome"] == "passed"}

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        """All workers skip the same tests: those that had passed when the run started."""
        node.workerinput["sweep_passed"] = sorted(self.passed)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        wanted = [item for item in items if item.nodeid not in self.passed]
        if len(wanted) < len(items):
            config.hook.pytest_deselected(items=[item for item in items if item not in set(wanted)])
            items[:] = wanted
        if (seed := config.getoption("seed")) is not None:
            by_name = {item.nodeid: item for item in items}
            items[:] = [by_name[name] for name in shuffled(by_name, seed)]

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
        # After the teardown, or instead of it if a worker crashed.
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
        # One short write; the leading newline ends a line that a stopped run left incomplete.
        with self.file.open("a") as file:
            file.write(f"\n{json.dumps(result)}\n")

    def pytest_sessionfinish(self, session, exitstatus):
        """Reports success if all tests had already passed."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.passed:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter):
        write, results = terminalreporter.write_line, sorted(self.known.values(), key=lambda r: -r["seconds"])
        by = {x: [r for r in results if r["outcome"] == x] for x in ("passed", "failed", "skipped")}
        terminalreporter.section("results for these sources")
        for line in table(results):
            write(line)
        counts = ", ".join(f"{len(some)} {outcome}" for outcome, some in by.items())
        write(f"{counts}; {len(self.passed)} had passed before. The longest:")
        if self.late:
            write(f"{self.late} did not begin, since the time was up; they are left for the next run.")
        for result in results[:10]:
            write(f"{result['seconds']:8.1f} s  {result['name']}")
        for result in by["failed"]:
            write(f"  FAILED  {result['name']}  ({result['where']})")
