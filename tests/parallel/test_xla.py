"""Importing the library sets one compiler option once, unless it is set, disabled or too late."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from rbd_jax.parallel import xla
from rbd_jax.parallel.xla import EMITTERS, OPTION, THRESHOLD, has_emitters


SETTING = f"{OPTION}={THRESHOLD}"
#: If XLA has both emitters, the option for the older ones precedes it.
OLDER = f"--{EMITTERS}=false " if has_emitters() else ""

#: Makes JAX compile something.
SUM = "import jax; assert jax.numpy.ones(3).sum() == 3"

IMPORT = """
import json, os, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    {before}
    import rbd_jax
    import rbd_jax.parallel.xla
    again = [__import__("rbd_jax") for _ in range(2)]
ours = [str(w.message) for w in caught if "rbd_jax" in str(w.message)]
places = [w.filename for w in caught if "rbd_jax" in str(w.message)]
{after}
print(json.dumps([os.environ.get("XLA_FLAGS"), rbd_jax.parallel.xla_note(), ours, places]))
"""


def imported(flags=None, before="", after="", **extra):
    """Returns XLA_FLAGS after an import in a separate process, the note, and the warnings with their locations."""
    unset = ("XLA_FLAGS", "RBD_JAX_XLA_FLAGS")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[2]), "JAX_PLATFORMS": "cpu"} | extra
    if flags is not None:
        environment["XLA_FLAGS"] = flags
    code = IMPORT.format(before=before or "pass", after=after)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def prepared(monkeypatch, flags=None, before="", **extra):
    """Calls the function that the import calls, in this process; with `before`, as if JAX were in use already."""
    for name in ("XLA_FLAGS", "RBD_JAX_XLA_FLAGS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (extra | ({} if flags is None else {"XLA_FLAGS": flags})).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(xla, "_notes", [])
    monkeypatch.setattr(xla, "backend_in_use", lambda: bool(before))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        xla.prepare()
    return os.environ.get("XLA_FLAGS"), xla.xla_note(), [str(one.message) for one in caught]


@pytest.fixture(params=["function", pytest.param("import", marks=pytest.mark.slow)])
def preparation(request, monkeypatch):
    """Returns a function that sets the option, by an import in a separate process or directly."""
    if request.param == "import":
        return lambda *args, **options: imported(*args, **options)[:3]
    return lambda *args, **options: prepared(monkeypatch, *args, **options)


@pytest.mark.parametrize("flags", [None, pytest.param("", marks=pytest.mark.slow)])
def test_set_when_nothing_is(flags):
    """JAX accepts the option: a compiler with an unknown option would report it."""
    found, note, warned, _ = imported(
        flags, after=f"found = os.environ['XLA_FLAGS']; {SUM}; os.environ['XLA_FLAGS'] = found"
    )
    assert found == f"{OLDER}--xla_backend_extra_options={SETTING}"
    assert note.startswith("set XLA_FLAGS") and SETTING in note and not warned


def test_other_flags_stay(preparation):
    found, _, warned = preparation("--xla_cpu_enable_fast_math=false")
    assert found == f"--xla_cpu_enable_fast_math=false {OLDER}--xla_backend_extra_options={SETTING}"
    assert not warned


def test_added_to_other_extra_options(preparation):
    """The compiler reads only the last such flag, so there must be one."""
    flags = "--xla_backend_extra_options=xla_cpu_one=1,xla_cpu_two --xla_cpu_enable_fast_math=false"
    found, note, warned = preparation(flags)
    assert found == f"{flags.replace('xla_cpu_two', f'xla_cpu_two,{SETTING}')} {OLDER}".strip() and not warned
    assert SETTING in note


def test_threshold_of_the_user_is_kept(preparation):
    flags = f"--{EMITTERS}=true " if has_emitters() else ""
    flags += f"--xla_backend_extra_options={OPTION}=512"
    found, note, warned = preparation(flags)
    assert found == flags and "left as XLA_FLAGS has it" in note and not warned


@pytest.mark.parametrize(
    "before", [pytest.param("", marks=pytest.mark.slow), "import jax; jax.numpy.ones(3)"]
)
def test_opting_out(before, preparation):
    found, note, warned = preparation(before=before, RBD_JAX_XLA_FLAGS="0")
    assert found is None and "RBD_JAX_XLA_FLAGS=0" in note and not warned


def test_too_late():
    """If JAX was in use before, a single warning has the remedy and points at the import."""
    found, note, warned, places = imported(before="import jax; jax.numpy.ones(3)")
    assert found is None and "in use before" in note
    assert len(warned) == 1
    assert "Import rbd_jax first" in warned[0] and f"--xla_backend_extra_options={SETTING}" in warned[0]
    assert places == ["<string>"]


@pytest.mark.slow
def test_jax_imported_but_not_used_is_early_enough():
    found, _, warned, _ = imported(before="import jax, jax.numpy")
    assert SETTING in found and not warned


@pytest.mark.parametrize("flags", [None, "--xla_cpu_enable_fast_math=false"])
def test_children_inherit_nothing(flags):
    """After JAX has read the options, the environment is restored."""
    assert imported(flags, after=SUM)[0] == flags
