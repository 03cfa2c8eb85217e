"""The runner of the slow sweeps: parts that are fair and always the same, and a run that goes on where another stopped."""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"


@pytest.fixture
def sweep():
    specification = importlib.util.spec_from_file_location("_sweep", SCRIPTS / "_sweep.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_parts_are_fair(sweep):
    """Files stay whole, but the one that is too long; every test is in one part, whatever order they come in."""
    names = [f"{file}::test_{i}" for file in "abcdefg" for i in range(12)]
    durations = {"a": 600.0, "b": 90.0, "c": 80.0, "d": 70.0, "e": 60.0, "f": 50.0}
    chosen = sweep.parts(names, durations, 3)
    assert set(chosen) == set(names) and chosen == sweep.parts(names[::-1], durations, 3)
    for file in "bcdefg":
        assert len({chosen[name] for name in names if name[0] == file}) == 1
    loads = [
        sum(durations.get(name[0], 60) / 12 for name in names if chosen[name] == part) for part in range(3)
    ]
    assert max(loads) < 1.2 * min(loads)
    assert sweep.part_of("2/6") == (2, 6)
    for text in ("6/6", "2", "a/3", "-1/3"):
        with pytest.raises(argparse.ArgumentTypeError, match="is no part"):
            sweep.part_of(text)


TESTS = """
import pytest
from pathlib import Path

def test_sound():
    Path("ran").open("a").write("sound ")

def test_mended():
    Path("ran").open("a").write("mended ")
    assert Path("mended").exists()
"""


def test_what_has_passed_is_not_run_again(tmp_path):
    """A copy of the runner beside two tests, of which one fails at first."""
    for folder in ("scripts", "tests", "rbd_jax"):
        (tmp_path / folder).mkdir()
    (tmp_path / "scripts" / "_sweep.py").write_text((SCRIPTS / "_sweep.py").read_text())
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (tmp_path / "tests" / "test_two.py").write_text(TESTS)

    def run(*options):
        (tmp_path / "ran").write_text("")
        environment = os.environ | {"PYTHONPATH": "scripts"}
        command = [sys.executable, "-m", "pytest", "-p", "_sweep", "tests", *options]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        return done.returncode, (tmp_path / "ran").read_text().split(), done.stdout

    code, ran, said = run("--minutes", "0")
    assert (code, ran) == (0, []) and "2 did not begin" in said
    code, ran, said = run()
    assert (code, ran) == (1, ["sound", "mended"])
    assert "1 passed, 1 failed, 0 skipped" in said and "FAILED  tests/test_two.py::test_mended" in said
    [file] = (tmp_path / ".pytest_cache" / "sweep").glob("*.jsonl")
    assert len([json.loads(line) for line in file.read_text().splitlines() if line]) == 2
    with file.open("a") as results:
        results.write('{"name": "tests/te')  # a run that was killed while it wrote
    (tmp_path / "mended").touch()
    code, ran, said = run()
    assert (code, ran) == (0, ["mended"]) and "2 passed, 0 failed, 0 skipped; 1 had passed" in said
    assert run()[:2] == (0, [])
    assert run("--fresh")[:2] == (0, ["sound", "mended"])
    (tmp_path / "rbd_jax" / "new.py").touch()
    assert run()[:2] == (0, ["sound", "mended"])


def test_what_takes_long_is_there():
    """A test that has another name now would be one of every day again."""
    tests = SCRIPTS.parent / "tests"
    for line in (tests / "long_tests.txt").read_text().splitlines()[1:]:
        file, _, name = line.split(maxsplit=2)[2].partition("::")
        assert f"def {name.partition('[')[0]}(" in (SCRIPTS.parent / file).read_text(), line
