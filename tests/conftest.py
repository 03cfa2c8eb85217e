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


pytest_plugins = ["compilations"]

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


#: What a process may hold before its compiled functions are dropped: memory in bytes, and mappings, of which each compiled
#: kernel takes some and Linux grants a process 65,530.
_MEMORY, _MAPPINGS = 3 << 30, 30_000


def _is_crowded() -> bool:
    """Whether compiled functions take much of what the system grants a process."""
    maps, memory = Path("/proc/self/maps"), Path("/proc/self/statm")
    if not maps.exists():
        return True
    resident = int(memory.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident > _MEMORY or maps.read_bytes().count(b"\n") > _MAPPINGS


@pytest.fixture(autouse=True)
def _room_within_a_module(request):
    """A module of slow tests can compile more than a process may hold."""
    yield
    if request.node.get_closest_marker("slow") and _is_crowded():
        jax.clear_caches()


@pytest.fixture(scope="module", autouse=True)
def _room_for_the_next_module():
    """Modules share what they compile, single operations most of all, as long as there is room for it."""
    yield
    if _is_crowded():
        jax.clear_caches()
