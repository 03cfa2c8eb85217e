"""`rbd-jax identify`, killed and resumed by `--resume`, writes the same files as uninterrupted, byte for byte."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from rbd_jax.__main__ import main
from rbd_jax.cli.identify import FILES


HERE = Path(__file__).parent
#: A command that kills itself by a signal at a save.
KILLED = """if True:
    import sys
    from rbd_jax.__main__ import main
    from tests.killed import killed_at

    save, number, *sys.argv[1:] = sys.argv[1:]
    killed_at(int(save), "after", int(number))
    sys.exit(main())
"""
#: A pendulum with a velocity limit that the logs exceed, which causes a warning.
ROBOT = """<robot name="pendulum">
  <link name="world"/>
  <link name="bob"><inertial>
    <origin xyz="0 0 -1"/><mass value="1"/>
    <inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/>
  </inertial></link>
  <joint name="swing" type="continuous">
    <parent link="world"/><child link="bob"/><axis xyz="0 1 0"/><limit effort="100" velocity="0.1"/>
  </joint>
</robot>"""
WAYS = {
    "physical": ["run0.npz", "run1.npz", "--free", "masses,damping"],
    "output-error": ["moves.npz", "--free", "masses,damping", "--window", "0.25", "--turns", "4"],
}


def motion(rows, seed):
    """Returns times, positions, velocities and torques of a damped pendulum of 1.3 kg."""
    random, t = np.random.default_rng(seed), np.arange(rows) / 100
    q, v, a = np.sin(3 * t), 3 * np.cos(3 * t), -9 * np.sin(3 * t)
    tau = 1.3 * (1.01 * a + 9.81 * np.sin(q)) + 0.2 * v + 0.01 * random.normal(size=rows)
    return t, *(x[:, None] for x in (q + 1e-4 * random.normal(size=rows), v, tau))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the logs and the robot."""
    folder = tmp_path_factory.mktemp("resume")
    (folder / "pendulum.urdf").write_text(ROBOT)
    for i in range(2):
        t, q, v, tau = motion(101, i)
        np.savez(folder / f"run{i}.npz", t=t, q=q, v=v, tau=tau)
    t, q, _, tau = motion(61, 2)
    np.savez(folder / "moves.npz", t=t, q=q, tau=tau)
    return folder


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    """Makes the folder the current one, without results or checkpoints of earlier tests."""
    monkeypatch.chdir(folder)
    yield
    for name in ("out", "out.checkpoint"):
        shutil.rmtree(name, ignore_errors=True)


def command(way, *more):
    return [
        "identify", "pendulum.urdf", *WAYS[way], "--estimator", way, "--out", "out", "--quiet", "--checkpoint-every", "0", *more
    ]  # fmt: skip


def undisturbed(way):
    """Returns the results folder of an uninterrupted command, made once in the current folder."""
    if not Path(way).exists():
        assert main(command(way)) in (0, 3)
        Path("out").rename(way)
    return Path(way)


def started(*arguments):
    """Starts Python with these arguments in a separate process."""
    paths = os.pathsep.join([str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)], env=os.environ | {"PYTHONPATH": paths}, **pipes
    )


def killed(save, arguments, number=signal.SIGKILL):
    """Runs the command with a signal at a save; returns its stderr output."""
    process = started("-c", KILLED, save, int(number), *arguments)
    said = process.communicate(timeout=300)[1]
    assert process.returncode == (130 if number == signal.SIGINT else -number), said
    return said


def assert_whole(way):
    """Asserts that the results equal those of an uninterrupted run, and that no checkpoint is left."""
    assert sorted(path.name for path in Path("out").iterdir()) == sorted(FILES)
    for name in FILES:
        assert Path("out", name).read_bytes() == (undisturbed(way) / name).read_bytes(), name
    assert not Path("out.checkpoint").exists()


def said_by(capsys, *arguments):
    """Returns the error line of a rejected command."""
    capsys.readouterr()
    assert main([*arguments]) == 2
    out, err = capsys.readouterr()
    assert err.count("\n") == 1 and err.startswith("rbd-jax: error: ") and not out
    return err


@pytest.mark.slow
def test_least_squares_go_on(folder, capsys, monkeypatch):
    """Resumes in the pass over the logs, and in cross-validation without recomputing finished folds."""
    undisturbed("physical")
    killed(3, command("physical"))
    place = Path("out.checkpoint")
    assert {path.name for path in place.glob("*.ckpt")} == {"run.ckpt", "estimate.ckpt"}
    content = {path: path.read_bytes() for path in place.glob("*.ckpt")}

    # A command without --resume keeps the progress.
    assert "out.checkpoint has the progress of an earlier run; continue it with --resume" in said_by(
        capsys, *command("physical")
    )
    others = command("physical", "--resume", "--slow", "0.1")
    others[others.index("masses,damping")] = "masses"
    told = said_by(capsys, *others)
    assert (
        "is of another run: --free: 2 there, 1 here; 'swing damping' is not here; --slow: None there, 0.1 here"
        in told
    )
    assert "choose another --out" in told
    others = ["run0.npz" if word == "run1.npz" else word for word in command("physical", "--resume")]
    others[others.index("run0.npz")] = "run1.npz"
    assert "logs: number 1 is 'run0' there, 'run1' here" in said_by(capsys, *others)
    assert content == {path: path.read_bytes() for path in place.glob("*.ckpt")}

    class Killed(BaseException):
        pass

    rename, written = os.replace, []

    def replace(old, new):
        rename(old, new)
        written.append(Path(new).name)
        if written.count("fold-2.ckpt") == 1 and written[-1] == "fold-2.ckpt":
            raise Killed

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(Killed):
        main(command("physical", "--resume"))
    assert "estimate.ckpt" in written and "fold-1.ckpt" in written
    written[:] = ["fold-2.ckpt"]
    assert main(command("physical", "--resume")) in (0, 3)
    assert not {"estimate.ckpt", "fold-1.ckpt"} & set(written) and written.count("fold-2.ckpt") > 1
    assert_whole("physical")
    page = Path("out", "report.md").read_text(encoding="utf-8")
    assert "resume" not in page
    for i in range(2):  # warnings about logs that were processed before the kill appear as well
        assert f"Log 'run{i}': v of joint 'swing' is mostly" in page


@pytest.mark.slow
def test_searches_go_on(folder):
    undisturbed("output-error")
    killed(4, command("output-error"))
    assert Path("out.checkpoint", "estimate.ckpt").exists() and not Path("out").exists()
    assert main(command("output-error", "--resume")) in (0, 3)
    assert_whole("output-error")


@pytest.mark.slow
def test_an_interrupt_says_how_to_go_on(folder, capsys):
    said = killed(3, command("physical"), signal.SIGINT)
    place = Path("out.checkpoint").resolve()
    assert said == f"rbd-jax: interrupted; run the same command with --resume to continue from {place}\n"
    # The folder is not searched for results, and other files in it stay.
    (place / "notes.txt").write_text("what I saw")
    assert "has other files (notes.txt)" in said_by(capsys, *command("physical", "--resume"))
    assert (place / "notes.txt").exists()


def test_what_an_interrupt_leaves_and_says(tmp_path):
    """It reports saved progress only if there is any."""
    from rbd_jax._core import interrupts
    from rbd_jax.cli.resume import Place

    place = Place.beside("rbd-jax identify", tmp_path / "out", 0.0, False)
    with place.kept({"--slow": 1.0}):
        (interrupted,) = interrupts._left
        (place.folder / "estimate.ckpt").write_text("")
        assert interrupted() == f"run the same command with --resume to continue from {place.folder}"
        (place.folder / "estimate.ckpt").unlink()
        assert interrupted() == "no progress was saved" and not list(tmp_path.iterdir())


def test_where_nothing_was_saved_it_begins(folder, capsys):
    """Scripts can always pass --resume; without --quiet the output reports that nothing was saved."""
    expected = undisturbed("physical")
    arguments = [word for word in command("physical", "--resume") if word != "--quiet"]
    assert main(arguments) in (0, 3)
    assert "no progress was saved; starting from the beginning" in capsys.readouterr().err
    assert {name: Path("out", name).read_bytes() for name in FILES[:2]} == {
        name: (expected / name).read_bytes() for name in FILES[:2]
    }


def test_one_run_at_a_time(folder, capsys):
    """A second run is rejected with and without --resume, and has no effect.

    `--checkpoint-every never` needs no checkpoint folder.
    """
    from rbd_jax.checkpoints import locked

    place = Path("out.checkpoint")
    place.mkdir()
    with locked("test", place / "run.ckpt"):
        assert "run under way" in said_by(capsys, *command("physical"))
        assert place.exists()
        assert main(command("physical", "--checkpoint-every", "never")) in (0, 3)
        assert [path.name for path in place.iterdir()] == [".run.ckpt.lock"]


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "often"])
def test_how_often(folder, capsys, value):
    """--resume conflicts with disabled checkpoints."""
    assert "leave out one of them" in said_by(
        capsys, *command("physical", "--resume", "--checkpoint-every", "never")
    )
    assert "is not a number of seconds" in said_by(capsys, *command("physical", "--checkpoint-every", value))


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_ten_kills_at_any_moment(folder, way):
    """The kill can come in the interpreter, the compiler or while writing; the last process runs to its end."""
    expected = undisturbed(way)
    draw, kills = random.Random(1), 0
    process = started("-m", "rbd_jax", *command(way))
    began = time.monotonic()
    assert process.wait() in (0, 3)
    whole = time.monotonic() - began
    shutil.rmtree("out")
    while kills < 10 and not Path("out").exists():
        process = started("-m", "rbd_jax", *command(way, "--resume"))
        # Usually nothing is saved yet: half of the processes are killed shortly after a save.
        until = time.monotonic() + draw.uniform(0.3, 1.0) * whole
        there = {path: path.stat().st_mtime_ns for path in Path().glob("out.checkpoint/*.ckpt")}
        while time.monotonic() < until and process.poll() is None:
            now = {path: path.stat().st_mtime_ns for path in Path().glob("out.checkpoint/*.ckpt")}
            if kills % 2 and now != there:
                time.sleep(draw.uniform(0, 0.05))
                break
            time.sleep(0.001)
        process.kill()
        process.communicate()
        kills += 1
        assert not Path("out").exists() or sorted(os.listdir("out")) == sorted(FILES)
    if not Path("out").exists():
        assert started("-m", "rbd_jax", *command(way, "--resume")).wait() in (0, 3)
    assert kills >= 5, kills
    # The last process may have been killed just before removing the folder.
    shutil.rmtree("out.checkpoint", ignore_errors=True)
    for name in FILES:
        theirs, ours = (Path(place, name).read_bytes() for place in (expected, "out"))
        assert theirs == ours, name
