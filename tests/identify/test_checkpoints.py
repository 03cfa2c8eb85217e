"""Long identification runs that are killed and resumed give the same results, bit for bit, as uninterrupted runs."""

import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from long_runs import RUNS, I, pendulum_log, searches

import rbd_jax as rbd


SCRIPT = Path(__file__).with_name("long_runs.py")


def killed(name, path, save, moment="after"):
    """Runs in a separate process that is killed at a save; returns whether it was killed."""
    paths = os.pathsep.join([str(SCRIPT.parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths}
    found = subprocess.run(
        [sys.executable, SCRIPT, name, path, str(save), moment], env=environment, capture_output=True
    )
    assert found.returncode in (0, -signal.SIGKILL), found.stderr.decode()
    return found.returncode != 0


def assert_same(found, expected):
    """Asserts bitwise equality."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            assert found[name].dtype == value.dtype and found[name].shape == value.shape, name
            assert found[name].tobytes() == value.tobytes(), (name, found[name] - value)
        else:
            assert found[name] == value, name


@pytest.fixture(scope="module")
def undisturbed():
    """Results of uninterrupted runs, computed once each."""
    made = {}

    def found(name):
        if name not in made:
            made[name] = RUNS[name]()
        return made[name]

    return found


@pytest.mark.parametrize(
    ("name", "save", "moment"),
    [
        pytest.param("equations", 5, "after", marks=pytest.mark.slow),
        pytest.param("searches", 8, "before", marks=pytest.mark.slow),
        ("robust", 4, "after"),
    ],
)
def test_a_run_that_was_killed_goes_on_to_the_same_end(tmp_path, undisturbed, name, save, moment):
    path = tmp_path / "run.ckpt"
    assert killed(name, path, save, moment)
    saved = rbd.Checkpoint(path).read().values
    assert not saved.get("settled")
    assert (
        not saved.get("estimate") and len(list(tmp_path.iterdir())) >= 2
    )  # the lock file of the killed process is still there
    assert_same(RUNS[name](path), undisturbed(name))
    assert [file.name for file in tmp_path.iterdir()] == ["run.ckpt"]
    # The run is finished, so nothing is computed or written again.
    written = path.stat().st_mtime_ns
    assert_same(RUNS[name](path), undisturbed(name))
    assert path.stat().st_mtime_ns == written


@pytest.mark.slow
def test_stochastic_gradients_go_on_to_the_same_end(tmp_path, undisturbed, monkeypatch):
    """Moments, random state and noise estimates are restored as well."""
    pytest.importorskip("optax")
    path, rename, left = tmp_path / "run.ckpt", os.replace, [23]

    def interrupted(*names):
        rename(*names)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        RUNS["gradients"](rbd.Checkpoint(path, every=0))
    monkeypatch.undo()
    assert [file.name for file in tmp_path.iterdir()] == ["run.ckpt"]
    assert rbd.Checkpoint(path).read().values["step"] == 23
    assert_same(RUNS["gradients"](path), undisturbed("gradients"))


@pytest.mark.slow
def test_more_turns_go_on_where_it_ended(tmp_path, undisturbed):
    path = tmp_path / "run.ckpt"
    assert not searches(path, turns=2)["rest"][1]
    with pytest.raises(rbd.CheckpointError, match="turns: 2 there, 1 here"):
        searches(path, turns=1)
    assert_same(searches(path), undisturbed("searches"))


def test_more_logs_may_follow(tmp_path, undisturbed):
    path = tmp_path / "run.ckpt"
    RUNS["equations"](path, logs=1)
    assert_same(RUNS["equations"](path), undisturbed("equations"))
    with pytest.raises(rbd.CheckpointError, match="logs: 2 there, 1 here"):
        RUNS["equations"](path, logs=1)


@pytest.mark.slow
def test_another_run_is_refused_and_told_apart(tmp_path):
    """The error comes before any computation, and the file stays unchanged."""
    path = tmp_path / "run.ckpt"
    searches(path, turns=1)
    content = path.read_bytes()
    for changes, told in [
        (
            {"free": [I.masses(), I.damping(), I.armature()]},
            ["free: 2 there, 3 here; 'swing armature' is new"],
        ),
        ({"free": [I.damping()]}, ["free: 2 there, 1 here; 'bob mass' is not here"]),
        ({"free": [I.masses(), I.damping(bounds=(0, 9))]}, [r"kinds\[1\].bounds"]),
        ({"starts": 2}, ["starts: 3 there, 2 here"]),
        ({"robust": False}, ["robust: True there, False here"]),
        ({"seed": 1}, ["logs: 'run 1' is new; 'run 0' is not here", "log", "remove it"]),
    ]:
        with pytest.raises(rbd.CheckpointError) as caught:
            searches(path, turns=1, **changes)
        for line in ["run.ckpt is of another run", *told]:
            assert line.replace("\\", "") in str(caught.value)
    model, log = pendulum_log()
    with pytest.raises(
        rbd.CheckpointError, match="run: 'identify.solve' there, 'identify.Equations.of' here"
    ):
        I.least_squares(model, log, I.masses(), checkpoint=path)
    assert path.read_bytes() == content


def test_a_log_that_was_changed_is_refused(tmp_path):
    path, (model, log) = tmp_path / "run.ckpt", pendulum_log()
    found = I.least_squares(model, [log], I.masses(), checkpoint=path)
    # The pass over the logs does not depend on the estimated parameters or on the estimator.
    again = I.physical_least_squares(model, [log], [I.masses(), I.damping()], checkpoint=path)
    assert found.counts == again.counts == len(log.t)
    log.tau.values[7] += 1e-12
    with pytest.raises(rbd.CheckpointError, match="log 'run 0'.tau.values: others"):
        I.least_squares(model, [log], I.masses(), checkpoint=path)
    with pytest.raises(rbd.CheckpointError, match="logs: number 1 is 'run 0' there, 'run 1' here"):
        I.Equations.of(model, pendulum_log(seed=1)[1], checkpoint=path)


def test_what_cannot_be_saved_on_the_way_is_refused(tmp_path, unchecked):
    optimistix = pytest.importorskip("optimistix")
    path, (model, log) = tmp_path / "run.ckpt", pendulum_log()
    problem = I.Problem(model, log, [I.masses()], I.EquationError())
    with pytest.raises(ValueError, match="one call, with nothing to save on the way"):
        I.solve(problem, optimistix.BFGS(1e-8, 1e-8), checkpoint=path)
    with pytest.raises(ValueError, match="made already"):
        I.least_squares(model, I.Equations.none(model), I.masses(), checkpoint=path)
    with pytest.raises(TypeError, match="identify.solve: checkpoint is 3; it takes the name of a file"):
        I.solve(problem, checkpoint=3)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_ends_no_run(tmp_path, undisturbed, monkeypatch):
    """A full disk causes a warning; the last valid file stays, and the result is unaffected."""
    path, sync, left = tmp_path / "run.ckpt", os.fsync, [5]

    def full(file):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        sync(file)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(
        rbd.CheckpointWarning, match="run.ckpt could not be written .No space left on device.; the one"
    ):
        found = RUNS["equations"](rbd.Checkpoint(path, every=0))
    assert_same(found, undisturbed("equations"))
    monkeypatch.undo()
    assert (
        rbd.Checkpoint(path).read().values["rows"] == 3 * 64
    )  # each save has two syncs: one for the file, one for its folder
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(RUNS["equations"](path), undisturbed("equations"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("equations", 6, 2), ("searches", 2, 2), ("windows", 4, 2), ("gradients", 8, 5)],
)
def test_kills_at_random(tmp_path, undisturbed, name, least, most):
    """Each process is killed repeatedly until it ends, twenty times in all or more."""
    if name == "gradients":
        pytest.importorskip("optax")
    path, random, kills = tmp_path / "run.ckpt", np.random.default_rng(0), 0
    while killed(name, path, random.integers(1, most + 1), random.choice(["before", "after"])):
        kills += 1
    assert kills >= least
    assert_same(RUNS[name](path), undisturbed(name))
