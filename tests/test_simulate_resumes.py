"""`rbd-jax simulate` after a kill, interrupt or error: resuming writes the same files without data loss."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import refused

import rbd_jax as rbd
from rbd_jax.__main__ import main
from tests import killed


ROOT = Path(__file__).resolve().parents[1]
WORDS = [
    "simulate",
    "double_pendulum",
    "--batch",
    "6",
    "--seconds",
    "0.5",
    "--quiet",
    "--checkpoint-every",
    "0",
]
#: The command, which kills itself by a signal at a save.
KILLED = """if True:
    import signal, sys
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where tests were started with it ignored
    from rbd_jax.__main__ import main
    from tests.killed import killed_at

    save, number, *sys.argv[1:] = sys.argv[1:]
    killed_at(int(save), "after", int(number))
    sys.exit(main())
"""


def environment():
    """Returns the environment of a separate process with the same precision, so that the results are the same."""
    return os.environ | {"PYTHONPATH": str(ROOT), "JAX_ENABLE_X64": "1"}


def killed_at_a_save(save, words, number=signal.SIGKILL):
    """Runs the command with a signal at a save; returns its stderr output."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(save), str(int(number)), *words],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == (130 if number == signal.SIGINT else -number), done.stderr
    return done.stderr


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulate") / "whole"
    assert main([*WORDS, "--out", str(folder)]) == 0
    files = content(folder)
    assert sorted(files) == ["trajectory.npz", "trajectory.png"]
    return files


@pytest.mark.slow
def test_one_that_was_killed_goes_on_to_the_same_bytes(undisturbed, tmp_path, capsys):
    words = [*WORDS, "--out", str(tmp_path)]
    said = killed_at_a_save(20, words, signal.SIGINT)
    place = tmp_path / "simulate.checkpoint"
    assert said == f"rbd-jax: interrupted; run the same command with --resume to continue from {place}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["simulate.checkpoint"]
    assert "has the progress of an earlier run; continue it with --resume" in refused(capsys, *words)
    assert "--seed: 0 there, 1 here" in refused(capsys, *words, "--resume", "--seed", "1")
    # Partial folders of killed processes are removed, those of running processes stay.
    for number in (2**22 + 1, os.getppid()):
        (tmp_path / f".{number}.{os.uname().nodename}.part").mkdir()
    assert main([*words, "--resume"]) == 0
    (tmp_path / f".{os.getppid()}.{os.uname().nodename}.part").rmdir()
    assert content(tmp_path) == undisturbed
    assert "trajectory.npz, trajectory.png already" in refused(capsys, *words, "--resume")
    assert content(tmp_path) == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_one_that_is_killed_at_any_moment_goes_on_to_the_same_bytes(undisturbed, tmp_path, seed):
    """The kill comes during imports, compilation, between saves or while writing."""
    words = [sys.executable, "-m", "rbd_jax", *WORDS, "--out"]
    whole = killed.undisturbed([*words, str(tmp_path / "timed")], environment())
    result = tmp_path / "trajectory.png"
    moments = killed.killed_at_moments([*words, str(tmp_path)], environment(), whole, result, 4)
    timed = {path.name: path.read_bytes() for path in (tmp_path / "timed").iterdir()}
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert found == timed == undisturbed, moments


def test_steps_that_do_not_make_up_the_time_are_told(tmp_path, capsys):
    out = "--out", str(tmp_path)
    # The same number of samples and steps as in `test_command_line.py`, so that nothing else is compiled.
    assert main(["simulate", "pendulum", "--batch", "3", "--seconds", "0.22", "--dt", "0.03", *out]) == 0
    told = "0.22 s is not a multiple of the time step 0.03 s; simulating 7, 0.21 s"
    assert told in capsys.readouterr().out
    with np.load(tmp_path / "trajectory.npz") as saved:  # in the precision of the run
        assert saved["q"].dtype == rbd.load("pendulum").dtype and saved["t"][-1] == pytest.approx(0.21)


@pytest.mark.slow
def test_samples_that_fail_are_told_by_the_exit_code(tmp_path, capsys):
    """Two hinges on one axis with no mass between them: forward dynamics is singular for torques on the first one."""
    path = tmp_path / "coaxial.urdf"
    link = '<link name="{}"/>'.format
    joint = '<joint name="{0}-{1}" type="continuous"><parent link="{0}"/><child link="{1}"/><axis xyz="0 0 1"/></joint>'.format
    heavy = (
        '<link name="end"><inertial><mass value="1"/>'
        '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    )
    parts = link("base"), link("mid"), heavy, joint("base", "mid"), joint("mid", "end")
    path.write_text(f'<robot name="coaxial">{"".join(parts)}</robot>')
    words = [
        "simulate",
        str(path),
        "--batch",
        "2",
        "--seconds",
        "0.02",
        "--quiet",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main(words) == 3
    out, err = capsys.readouterr()
    assert not out and "2 of 2 samples are unreliable" in err
    assert (tmp_path / "out" / "trajectory.npz").exists()
