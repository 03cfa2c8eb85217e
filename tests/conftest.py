"""Setup of all tests: fast compilation, 64-bit floats, no implicit promotion, shape checks at each call."""

import gc
import os
import shutil
import tempfile
import zlib
from pathlib import Path

from quickly import QUICKLY


# XLA reads this once, before the first array; subprocesses of tests inherit it.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICKLY}".strip()

import jax
import jaxtyping
import pytest
from jaxtyping import install_import_hook


jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# The hook rewrites modules at import, so it comes before the first import of the library. It stays installed to
# check modules imported later, too. The library is imported before any array is created because its import sets
# flags that XLA reads once.
install_import_hook("rbd_jax", "beartype.beartype")

import rbd_jax  # noqa: F401


# Tracing creates millions of small objects, few of them in cycles.
gc.freeze()
gc.set_threshold(100_000, 50, 50)


pytest_plugins = ["compilations"]

_CACHE = "JAX_COMPILATION_CACHE_DIR"


def pytest_configure(config):
    """Sets up the cache of XLA compilations, which all workers and their subprocesses share.

    The cache is the folder that JAX_COMPILATION_CACHE_DIR names, which outlives the run (`scripts/test.sh` sets
    it, but not in CI), or else a temporary folder. Cache keys contain all inputs of the compiler and its
    version, so cached results equal newly compiled ones.
    """
    # The controller, or the only process, creates it; the workers inherit the controller's environment.
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


class _Failures:
    """Prints each failure immediately, so that a run aborted before its summary still reports failures."""

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
    """Disables the type checks of the tests; only the function itself checks its arguments, as for users."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def key(request):
    """Returns a random key specific to the test: the same in every run and on every worker."""
    return jax.random.key(zlib.crc32(request.node.nodeid.encode()))


#: Limits above which compiled functions are dropped: memory in bytes, and memory mappings. Each compiled kernel
#: uses some mappings, and Linux allows a process 65,530.
_MEMORY, _MAPPINGS = 3 << 30, 30_000


def _is_crowded() -> bool:
    """Returns whether compiled functions use a large part of the process limits."""
    maps, memory = Path("/proc/self/maps"), Path("/proc/self/statm")
    if not maps.exists():
        return True
    resident = int(memory.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident > _MEMORY or maps.read_bytes().count(b"\n") > _MAPPINGS


@pytest.fixture(autouse=True)
def _room_within_a_module(request):
    """A module of slow tests can compile more than the limits of a process allow."""
    yield
    if request.node.get_closest_marker("slow") and _is_crowded():
        jax.clear_caches()


@pytest.fixture(scope="module", autouse=True)
def _room_for_the_next_module():
    """Modules share compiled functions, mostly single operations, until the limits are reached."""
    yield
    if _is_crowded():
        jax.clear_caches()
