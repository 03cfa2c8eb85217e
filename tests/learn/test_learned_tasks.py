"""Bundled tasks, learned as by users: within the documented time, to the documented performance."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rbd_jax as rbd


pytest.importorskip("optax")
pytestmark = pytest.mark.slow

#: Processor time allowed for a task, including compilation, s: two cores for two minutes, and for fifteen.
ALLOWED = {"cartpole": 240, "quadruped_stand": 1800, "quadruped_trot": 1800}

_made = {}


@pytest.fixture
def learned(request, tmp_path_factory):
    """The episodes with the policy of a task."""
    name = request.param
    if name not in _made:
        out = tmp_path_factory.mktemp("learned") / name
        root, here = Path(__file__).resolve().parents[2], Path(__file__).resolve()
        # As for users: full optimization and an empty compilation cache.
        unwanted = ("XLA_FLAGS", "JAX_COMPILATION_CACHE_DIR")
        env = {key: value for key, value in os.environ.items() if key not in unwanted} | {
            "PYTHONPATH": str(root)
        }
        command = [sys.executable, here.with_name("learning.py"), name, out]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        with np.load(f"{out}.npz") as file:
            _made[name] = {key: file[key] for key in file.files}
        assert _made[name]["seconds"] < ALLOWED[name]
    return _made[name]


def last_second(name, x):
    task = rbd.tasks.load(name)
    return x[:, -round(1 / float(task.dt)) :]


@pytest.mark.parametrize("learned", ["cartpole"], indirect=True)
def test_a_pole_is_swung_up_and_held(learned):
    x, angle = np.moveaxis(learned["q"], -1, 0)
    assert (np.cos(angle[:, 0]) < 0).all()
    upright = np.cos(last_second("cartpole", angle))
    assert upright.min() > 0.95 and not learned["terminated"].any()
    assert np.abs(last_second("cartpole", x)).max() < 1.0
    # The pole is upright within the first half of the episodes.
    assert (np.cos(angle[:, 125:]) > 0.9).mean() > 0.95


@pytest.mark.parametrize("learned", ["quadruped_stand"], indirect=True)
def test_a_quadruped_stands_up(learned):
    height = learned["q"][..., 2] - float(rbd.load("quadruped").reference[2])
    up = _up(learned["q"])
    assert np.median(height[:, 0]) < -0.08  # it lies on its folded legs
    stands = (np.abs(last_second("quadruped_stand", height)) < 0.06).all(1)
    stands &= (last_second("quadruped_stand", up) > 0.95).all(1)
    assert stands.mean() > 0.9
    assert np.median(np.abs(last_second("quadruped_stand", learned["v"][..., 3:6]))) < 0.1


@pytest.mark.parametrize("learned", ["quadruped_trot"], indirect=True)
def test_a_quadruped_trots_as_it_is_told(learned):
    assert learned["terminated"].mean() < 0.1
    whole = ~learned["terminated"].any(1)
    q, v = learned["q"][whole, 100:], learned["v"][whole, 100:]
    told = learned["memory_command"][whole, 0]
    # Along x, y of the trunk and about z, averaged over some seconds.
    moved = np.stack([v[..., 3], v[..., 4], v[..., 2]], -1).mean(1)
    off = np.abs(moved - told)
    assert np.median(off[:, 0]) < 0.15 and np.median(off[:, 1]) < 0.15 and np.median(off[:, 2]) < 0.3
    assert np.corrcoef(moved[:, 0], told[:, 0])[0, 1] > 0.8
    assert (_up(q) > 0.8).all()
    # It trots: diagonal legs swing together, and the two pairs alternate.
    calf = {leg: q[..., 7 + 3 * i + 2] for i, leg in enumerate(("FL", "FR", "RL", "RR"))}
    centered = {leg: x - x.mean(1, keepdims=True) for leg, x in calf.items()}
    together = lambda a, b: np.mean(centered[a] * centered[b]) / (centered[a].std() * centered[b].std())
    assert together("FL", "RR") > 0.3 and together("FR", "RL") > 0.3
    assert together("FL", "FR") < 0 and together("RL", "RR") < 0


def _up(q):
    """Returns the cosine between the trunk's z axis and the world's, from quaternions w, x, y, z."""
    w, x, y, z = np.moveaxis(q[..., 3:7], -1, 0)
    return 1 - 2 * (x**2 + y**2) / (w**2 + x**2 + y**2 + z**2)
