"""Solvers with the host between iterations: reports, and solves that were killed and continue to the same result."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from long_searches import SOLVERS, C, pendulum, search

import rbd_jax as rbd


SCRIPT = Path(__file__).with_name("long_searches.py")
#: The default run includes the solver that compiles fastest.
EACH = [name if name == "ddp" else pytest.param(name, marks=pytest.mark.slow) for name in SOLVERS]


def killed(name, path, save, moment):
    """Runs the solve in a separate process that is killed at a save."""
    paths = os.pathsep.join([str(SCRIPT.parents[2]), os.environ.get("PYTHONPATH", "")])
    found = subprocess.run(
        [sys.executable, SCRIPT, name, path, str(save), moment],
        env=os.environ | {"PYTHONPATH": paths, "JAX_ENABLE_X64": "1"},
        capture_output=True,
    )
    assert found.returncode == -signal.SIGKILL, found.stderr.decode()


def assert_same(found, expected):
    """Checks bitwise equality."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for path, one in jax.tree_util.tree_leaves_with_path(expected):
        other = dict(jax.tree_util.tree_leaves_with_path(found))[path]
        assert other.dtype == one.dtype and other.shape == one.shape, path
        assert np.asarray(other).tobytes() == np.asarray(one).tobytes(), path


@pytest.fixture(scope="module")
def undisturbed():
    """Returns each solver's result and reports without interruptions, computed once."""
    made = {}

    def found(name):
        if name not in made:
            told = []
            made[name] = search(name, on_iteration=lambda *one: told.append(one)), told
        return made[name]

    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
def test_one_that_was_killed_goes_on_to_the_same_end(tmp_path, undisturbed, name):
    path, (expected, told) = tmp_path / "search.ckpt", undisturbed(name)
    killed(name, path, 3, "before" if name == "ddp" else "after")
    saved = rbd.Checkpoint(path).read().values["told"]
    assert 0 < len(saved) < len(told) and np.array_equal(saved, np.array(told)[: len(saved)])
    again = []
    assert_same(search(name, path, lambda *one: again.append(one)), expected)
    assert again == told
    assert [file.name for file in tmp_path.iterdir()] == ["search.ckpt"]
    # The solve is finished: nothing is computed or written any more.
    written = path.stat().st_mtime_ns
    assert_same(search(name, path), expected)
    assert path.stat().st_mtime_ns == written


@pytest.mark.parametrize("name", EACH)
def test_it_is_what_one_program_finds(undisturbed, name):
    """The result equals that of one compiled program up to rounding, since compilers may reorder operations."""
    found, told = undisturbed(name)
    whole = search(name)
    assert int(found.code) == int(whole.code)
    np.testing.assert_allclose(found.control, whole.control, rtol=1e-6, atol=1e-6)
    assert told[-1] == (int(found.iterations), float(found.cost), float(found.violation))
    assert [one[0] for one in told] == sorted(one[0] for one in told)


def test_more_iterations_go_on_where_it_ended(tmp_path, undisturbed):
    path, told = tmp_path / "search.ckpt", []
    short = search("ddp", path, solver=C.DDP(max_iterations=3))
    assert int(short.code) == 1 and int(short.iterations) == 3
    with pytest.raises(rbd.CheckpointError, match="iterations: 3 there, 2 here"):
        search("ddp", path, solver=C.DDP(max_iterations=2))
    assert_same(search("ddp", path, lambda *one: told.append(one)), undisturbed("ddp")[0])
    assert list(dict.fromkeys(told)) == list(dict.fromkeys(undisturbed("ddp")[1]))


def test_another_search_is_refused_and_told_apart(tmp_path):
    path = tmp_path / "search.ckpt"
    search("ddp", path)
    content = path.read_bytes()
    for changes, told in [
        ({"goal": 0.6}, r"problem.constraints\[0\].residual.target"),
        ({"effort": 6.0}, r"problem.bounds.control\[0\]: 'float64\[\] -5.0' there, 'float64\[\] -6.0' here"),
        ({"solver": C.DDP(tolerance=1e-3)}, "solver.tolerance: None there, 0.001 here"),
    ]:
        with pytest.raises(rbd.CheckpointError, match=told):
            search("ddp", path, **changes)
    assert path.read_bytes() == content


def test_where_there_is_no_host_it_is_refused(tmp_path, unchecked):
    problem = pendulum()
    solve = lambda problem: C.solve(problem, checkpoint=tmp_path / "search.ckpt")
    with pytest.raises(ValueError, match="control.solve: on_iteration and checkpoint need a host between"):
        jax.jit(solve)(problem)
    assert not list(tmp_path.iterdir())
    with pytest.raises(TypeError, match="control.solve: checkpoint is 3; it takes the name of a file"):
        C.solve(problem, checkpoint=3)


def test_a_callback_that_fails_loses_nothing(tmp_path, undisturbed):
    """Progress up to the failure has been saved."""
    path = tmp_path / "search.ckpt"

    def fail(iterations, cost, violation):
        if iterations == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search("ddp", rbd.Checkpoint(path, every=0), fail)
    assert rbd.Checkpoint(path).read().values["told"][-1, 0] == 4
    assert_same(search("ddp", path), undisturbed("ddp")[0])
