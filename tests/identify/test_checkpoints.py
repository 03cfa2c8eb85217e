"""Long runs of identification that are killed and go on find the same numbers, bit for bit, as those that nobody disturbs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from long_runs import RUNS

import rbd_jax as rbd


SCRIPT = Path(__file__).with_name("long_runs.py")


def killed(name, path, save, moment="after"):
    """The run in a process of its own, which is killed at a save; if it gets that far."""
    paths = os.pathsep.join([str(SCRIPT.parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths}
    found = subprocess.run(
        [sys.executable, SCRIPT, name, path, str(save), moment], env=environment, capture_output=True
    )
    assert found.returncode in (0, -signal.SIGKILL), found.stderr.decode()
    return found.returncode != 0


def assert_same(found, expected):
    """To the last bit."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            assert found[name].dtype == value.dtype and found[name].shape == value.shape, name
            assert found[name].tobytes() == value.tobytes(), (name, found[name] - value)
        else:
            assert found[name] == value, name


@pytest.fixture(scope="module")
def undisturbed():
    """What each run finds if it is left alone; each is made once."""
    made = {}

    def found(name):
        if name not in made:
            made[name] = RUNS[name]()
        return made[name]

    return found


@pytest.mark.parametrize(
    ("name", "save", "moment"),
    [("equations", 5, "after"), ("searches", 3, "before"), ("gradients", 23, "after")],
)
def test_a_run_that_was_killed_goes_on_to_the_same_end(tmp_path, undisturbed, name, save, moment):
    if name == "gradients":
        pytest.importorskip("optax")
    path = tmp_path / "run.ckpt"
    assert killed(name, path, save, moment)
    saved = rbd.Checkpoint(path).read().values
    assert (
        not saved.get("estimate") and len(list(tmp_path.iterdir())) >= 2
    )  # the lock of the dead is still there
    assert_same(RUNS[name](path), undisturbed(name))
    assert [file.name for file in tmp_path.iterdir()] == ["run.ckpt"]
    # Now it is finished, and nothing is computed or written any more.
    written = path.stat().st_mtime_ns
    assert_same(RUNS[name](path), undisturbed(name))
    assert path.stat().st_mtime_ns == written
