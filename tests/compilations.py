"""A pytest plugin that counts compilations of tests, and fails everyday tests that compile many single operations.

JAX compiles an operation on arrays outside `jax.jit` for each new shape: 10 to 20 ms for a product of two
vectors. Compute expected values with NumPy, and the tested function in one `jax.jit`. `--compilations` prints
the lines that single operations come from.
"""

import sys
from collections import Counter
from pathlib import Path

import jax
import jax.monitoring
import pytest


ROOT = Path(__file__).resolve().parent.parent
_PROJECT = str(ROOT / "rbd_jax"), str(ROOT / "tests")
_EVENT = "/jax/core/compile/backend_compile_duration"

#: Parts of JAX whose functions compile when they are called with arrays.
_OPERATIONS = tuple(
    str(Path(jax.__file__).parent / "_src" / part)
    for part in (
        "array.py",
        "dtypes.py",
        "image",
        "lax",
        "nn",
        "numpy",
        "ops",
        "prng.py",
        "random",
        "scipy",
        "tree_util.py",
    )
)

#: Single operations that an everyday test may compile. A test that compiles more fails.
BUDGET = 100


class Compilations:
    """Compilations of this process: programs, single operations, and the lines that single operations come from."""

    def __init__(self):
        self.programs = self.operations = self.tests = 0
        self.lines = Counter()
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def _listen(self, event: str, duration: float, **_):
        if event != _EVENT:
            return
        # The stack from the compiler outward: JAX's frames, then the caller's.
        frame, is_operation = sys._getframe(1), False
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith(_PROJECT):
                break
            is_operation |= name.startswith(_OPERATIONS) or frame.f_code.co_name == "apply_primitive"
            frame = frame.f_back
        if not is_operation:
            self.programs += 1
            return
        self.operations += 1
        where = "elsewhere"
        if frame is not None:
            where = f"{Path(frame.f_code.co_filename).relative_to(ROOT)}:{frame.f_lineno}"
        self.lines[where] += 1


counted = Compilations()


def pytest_addoption(parser):
    parser.addoption(
        "--compilations", action="store_true", help="print the lines whose single operations are compiled"
    )


@pytest.fixture(autouse=True)
def _single_operations(request):
    """Fails an everyday test that compiles more single operations than the budget."""
    before, lines = counted.operations, counted.lines.copy()
    yield
    counted.tests += 1
    count = counted.operations - before
    if count > BUDGET and not any(map(request.node.get_closest_marker, ("slow", "sweep"))):
        most = ", ".join(f"{line} ({n})" for line, n in (counted.lines - lines).most_common(5))
        pytest.fail(
            f"compiled {count} single operations, and {BUDGET} are allowed: compute expected values with NumPy, "
            f"and call what is tested within one jax.jit. Most come from {most}",
            pytrace=False,
        )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    output = getattr(session.config, "workeroutput", None)
    if output is not None:  # a process of pytest-xdist
        output["compilations"] = counted.programs, counted.operations, counted.tests, dict(counted.lines)


class _Workers:
    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node, error):
        found = getattr(node, "workeroutput", {}).get("compilations")
        if found:
            programs, operations, tests, lines = found
            counted.programs += programs
            counted.operations += operations
            counted.tests += tests
            counted.lines.update(lines)


def pytest_configure(config):
    config.pluginmanager.register(_Workers())


def pytest_terminal_summary(terminalreporter, config):
    if not counted.tests:
        return
    each = (counted.programs + counted.operations) / counted.tests
    terminalreporter.write_line(
        f"compiled {counted.programs} programs and {counted.operations} single operations, {each:.1f} a test"
    )
    if config.getoption("--compilations"):
        for line, count in counted.lines.most_common(60):
            terminalreporter.write_line(f"{count:6d} {line}")
