"""`rbd-jax view`: the display, and one-line errors."""

import socket

import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax.__main__ import main
from rbd_jax.cli.view import read_trajectory


pytest.importorskip("viser")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder with the output of `rbd-jax simulate` for a double pendulum."""
    folder = tmp_path_factory.mktemp("run")
    arguments = ["--batch", "3", "--seconds", "0.05", "--dt", "0.01", "--out", str(folder / "run")]
    assert main(["simulate", "double_pendulum", *arguments]) == 0
    return folder / "run"


@pytest.fixture
def shown(monkeypatch):
    """The viewers of commands; waiting for them returns immediately."""
    viewers = []

    def wait(viewer):
        viewers.append(viewer)
        viewer.stop()

    monkeypatch.setattr(rbd.view.Viewer, "wait", wait)
    return viewers


def refused(capsys, *arguments):
    assert main(["view", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("rbd-jax: error: ") and err.count("\n") == 1
    return err


def test_a_trajectory_is_shown(run, shown, capsys):
    assert (
        main(["view", "double_pendulum", "--trajectory", str(run / "trajectory.npz"), "--sample", "2"]) == 0
    )
    (viewer,) = shown
    assert viewer.url in capsys.readouterr().out
    assert viewer.mode == "motion" and viewer.sample == 2 and viewer.stage.recording.samples == 3
    saved = np.load(run / "trajectory.npz")
    np.testing.assert_allclose(viewer.stage.recording.q, saved["q"])
    assert main(["view", "double_pendulum"]) == 0
    assert shown[1].mode == "pose"


def test_a_trajectory_of_another_robot_is_refused(run, capsys, tmp_path):
    err = refused(capsys, "cartpole", "--trajectory", run / "trajectory.npz")
    assert "of 'double_pendulum', with 2 joints, and not of 'cartpole'" in err and "is not in both" in err
    saved = dict(np.load(run / "trajectory.npz"))
    # Joints are matched by name, also if their number is equal.
    np.savez(tmp_path / "other.npz", **{**saved, "joint_names": np.array(["shoulder", "wrist"])})
    assert "joint 'wrist' is not in both" in refused(
        capsys, "double_pendulum", "--trajectory", tmp_path / "other.npz"
    )
    np.savez(tmp_path / "wide.npz", **{**saved, "q": np.zeros((3, 6, 3))})
    assert "their numbers of coordinates differ" in refused(
        capsys, "double_pendulum", "--trajectory", tmp_path / "wide.npz"
    )


@pytest.mark.parametrize(
    "content, message",
    [(None, "No such file"), (b"nothing", "is not a .npz file"), ({"t": 1}, "has no 'q'")],
)
def test_what_is_no_trajectory_is_refused(content, message, capsys, tmp_path):
    file = tmp_path / "trajectory.npz"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content is not None:
        np.savez(file, **content)
    err = refused(capsys, "pendulum", "--trajectory", file)
    assert message in err and "that rbd-jax simulate wrote" in err


@pytest.mark.slow
def test_ports_hosts_and_samples_that_cannot_be_are_refused(run, capsys, shown):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        err = refused(capsys, "pendulum", "--port", port)
    assert f"port {port} is in use" in err and "--port" in err and "leave --port out" in err
    for port in ("0", "x", "70000"):
        assert "from 1 to 65535" in refused(capsys, "pendulum", "--port", port)
    assert "no.such.host.invalid" in refused(capsys, "pendulum", "--host", "no.such.host.invalid")
    trajectory = ("--trajectory", run / "trajectory.npz")
    assert "no sample 3; there are 3" in refused(capsys, "double_pendulum", *trajectory, "--sample", "3")
    assert "'-1' is not an integer" in refused(capsys, "double_pendulum", *trajectory, "--sample", "-1")
    assert not shown


def test_a_trajectory_without_controls_has_none(run):
    model = rbd.load("double_pendulum")
    path = read_trajectory(run / "trajectory.npz", model)
    assert path.tau.shape == (3, path.q.shape[1] - 1, 2) and not np.asarray(path.tau).any()
    assert path.q.dtype == model.dtype
