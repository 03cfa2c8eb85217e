"""The runner of the slow sweeps: a reproducible order, and continuation of a stopped run."""

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


def test_an_order_depends_on_the_seed_alone(sweep):
    """Tests of a file stay together, and the order depends on the seed and not on the input order."""
    names = [f"{file}::test_{i}" for file in "abcdefg" for i in range(3)]
    orders = [sweep.shuffled(names, seed) for seed in range(9)]
    assert all(sorted(order) == names for order in orders) and len({tuple(order) for order in orders}) > 7
    for seed, order in enumerate(orders):
        assert [name[0] for name in order][::3] == [file for file in dict.fromkeys(name[0] for name in order)]
        assert [x[0] for x in sweep.shuffled(names[::-1], seed)] == [x[0] for x in order]


def test_a_table_has_a_row_for_each_folder(sweep):
    results = [
        {"name": "tests/a/test_x.py::test_1", "outcome": "passed", "seconds": 1.0},
        {"name": "tests/a/test_y.py::test_2[c::d]", "outcome": "failed", "seconds": 2.5},
        {"name": "tests/test_z.py::test_3", "outcome": "skipped", "seconds": 0.25},
    ]
    rows = [line.split() for line in sweep.table(results)]
    assert rows[1:] == [
        ["1", "1", "0", "3.5", "tests/a"],
        ["0", "0", "1", "0.2", "tests"],
        ["1", "1", "1", "3.8", "all"],
    ]


TESTS = """
import pytest
from pathlib import Path

def test_sound():
    Path("ran").open("a").write("sound ")

def test_mended():
    Path("ran").open("a").write("mended ")
    assert Path("mended").exists()
"""


@pytest.mark.slow
def test_what_has_passed_is_not_run_again(tmp_path):
    """Runs a copy of the runner with two tests, one of which fails at first."""
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
        results.write('{"name": "tests/te')  # a run that was killed while writing
    (tmp_path / "mended").touch()
    code, ran, said = run()
    assert (code, ran) == (0, ["mended"]) and "2 passed, 0 failed, 0 skipped; 1 had passed" in said
    assert run()[:2] == (0, [])
    assert run("--fresh")[:2] == (0, ["sound", "mended"])
    (tmp_path / "rbd_jax" / "new.py").touch()
    assert run()[:2] == (0, ["sound", "mended"])
