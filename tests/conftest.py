"""What every test runs under: a compiler in a hurry, 64-bit floats, no implicit promotion, shapes checked at each call."""

import gc
import os
import shutil
import tempfile
import zlib
from pathlib import Path

from quickly import QUICKLY


# XLA reads this once, before the first array; the processes that tests start inherit it.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICKLY}".strip()

import jax
import jaxtyping
import pytest
from jaxtyping import install_import_hook


jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# The hook rewrites modules as they are imported, so it comes before the first import of the library. It stays
# installed: modules that are only imported later are checked too. The library comes before any array is made, since
# its import sets flags that XLA reads once.
install_import_hook("rbd_jax", "beartype.beartype")

import rbd_jax  # noqa: F401


# Tracing makes millions of small objects, few of them in cycles.
gc.freeze()
gc.set_threshold(100_000, 50, 50)


_CACHE = "JAX_COMPILATION_CACHE_DIR"


def pytest_configure(config):
    """The cache of what XLA compiled: what one worker compiled, the others and their subprocesses load.

    It is the folder that JAX_COMPILATION_CACHE_DIR names, which outlives the run (`scripts/test.sh` names one, but not
    in CI), or else a fresh one. Either way it is asked with all that the compiler is given, its version included: what
    comes from it is what would have been compiled.
    """
    # The controller, or the only process, makes it; the workers inherit the controller's environment.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Failures(config))
        if not os.environ.get(_CACHE):
            folder = tempfile.mkdtemp(prefix="rbd_jax_compiled_")
            config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
            os.environ[_CACHE] = folder
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    jax.config.update("jax_compilation_cache_dir", os.environ[_CACHE])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


#: Tests that take long, as `scripts/test.sh --durations=0 --durations-min=4` prints them, of which the longest are slow ones.
_LONG = Path(__file__).with_name("long_tests.txt")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """What is in that table is marked as slow, beside what is marked where it stands."""
    long = {line.split(maxsplit=2)[2] for line in _LONG.read_text().splitlines() if line and line[0] != "#"}
    for item in items:
        if item.nodeid in long:
            item.add_marker(pytest.mark.slow)


class _Failures:
    """Names what failed as soon as it failed: of a run that is ended before its summary, dots would be all."""

    def __init__(self, config):
        self.config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report):
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = getattr(crash, "message", str(report.longrepr)).splitlines()[0]
            reporter = self.config.pluginmanager.get_plugin("terminalreporter")
            reporter.write_line(f"\nFAILED {report.nodeid} ({report.when}): {reason}")


@pytest.fixture
def unchecked():
    """As for users, whose types nobody checks but the function itself."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def key(request):
    """A random key of the test's own: the same in every run and on every worker, another for another test."""
    return jax.random.key(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture(autouse=True)
def _room_for_what_is_compiled(request):
    """Each compiled kernel takes some of the 65,530 mappings that Linux grants a process, and without them XLA ends it. A module
    of slow tests can take more."""
    yield
    maps = Path("/proc/self/maps")
    if request.node.get_closest_marker("slow") and maps.exists() and maps.read_bytes().count(b"\n") > 30_000:
        jax.clear_caches()


@pytest.fixture(scope="module", autouse=True)
def _forget_what_was_compiled():
    """The functions of a module of tests are not called by the next one; kept, they would add up to gigabytes."""
    yield
    jax.clear_caches()
