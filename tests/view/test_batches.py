"""Every display of a motion supports every shape of batch, also one sample in a batch of one."""

import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest
from recorded import swaying

import rbd_jax as rbd
from rbd_jax.view.recording import Recording


BATCHES = [(), (1,), (1, 1), (2,), (2, 3)]
WAYS = {
    "page": lambda model, path, to: path.show(model).html,
    "file": lambda model, path, to: rbd.save_html(model, path, to / "run.html"),
    "film": lambda model, path, to: rbd.save_video(
        model, path, to / "run.gif", size=(64, 48), fps=5, progress=False
    ),
    "viewer": lambda model, path, to: rbd.view(model, path).stop(),
    "positions": lambda model, path, to: plt.close(rbd.plot.positions(model, path)),
    "energies": lambda model, path, to: plt.close(rbd.plot.energies(model, path)),
    "phase": lambda model, path, to: plt.close(rbd.plot.phase(model, path)),
}


@pytest.fixture(scope="module")
def arm():
    return rbd.load("double_pendulum")


@pytest.fixture(scope="module", params=BATCHES, ids=str)
def path(request, arm):
    return swaying(arm, rows=11, batch=request.param)


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_of_any_shape_is_shown(way, arm, path, tmp_path, capsys):
    WAYS[way](arm, path, tmp_path)


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_the_last_sample_says_how_it_went(batch, arm):
    path = swaying(arm, rows=11, batch=batch)
    recording = Recording(arm, path)
    last = recording.samples - 1
    assert recording.failure(last) is None
    codes = np.array(path.code)
    codes.flat[last] = int(rbd.Result.CONSTRAINTS_OPEN)
    failed = rbd.Trajectory(path.t, path.q, path.v, path.tau, jax.device_put(codes), path.failed_step)
    said = Recording(arm, failed).failure(last)
    assert said == f"warning: {rbd.Result.CONSTRAINTS_OPEN.title}"
