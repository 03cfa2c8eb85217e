"""The command `train`: files, output, errors, and resumption after a kill."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from support import refused

import rbd_jax as rbd
from rbd_jax.__main__ import main
from rbd_jax.cli.train import FILES


pytest.importorskip("optax")

HERE = Path(__file__).parent
#: Task files: each is learned in a few seconds, or rejected.
TASKS = {
    "easy": "task, config, threshold = push, SMALL, -1e3",
    "hard": "task, config, threshold = push(), SMALL, 0.0",
    "endless": "task, config = push(episode_length=None), SMALL",
    "nothing": "model = None",
    "kind": "task = push\nconfig = {}",
    "broken": (
        "\nclass Broken(Push):\n    def reward(self, before, action, now):\n        return now.q\n\n"
        "task = Broken(cart(), dt=0.1)"
    ),
    "undefined": (
        "class Undefined(Push):\n    def reward(self, before, action, now):\n        return jnp.log(-1.0 - now.q[0] ** 2)\n\n"
        "task, config = Undefined(cart(), dt=0.1), SMALL"
    ),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The folder with the files, in which `easy` has been learned into a folder of that name."""
    folder = tmp_path_factory.mktemp("train")
    shutil.copy(HERE / "push.py", folder)
    for name, text in TASKS.items():
        (folder / f"{name}.py").write_text(f"from push import *\n{text}\n")
    before = Path.cwd()
    os.chdir(folder)
    jax.devices()  # the command uses all cores unless JAX is initialized: keep the number of the other tests
    try:
        assert main(command("easy", "--out", "easy")) == 0
        yield folder
    finally:
        os.chdir(before)


@pytest.fixture
def folder(results):
    """Makes that folder the current one, without files of other tests."""
    yield results
    for path in results.glob("out*"):
        shutil.rmtree(path)


def command(name, *options):
    return ["train", f"{name}.py", "--quiet", *map(str, options)]


def content(name):
    return {path.name: path.read_bytes() for path in Path(name).iterdir()}


def test_what_is_written(results):
    """The policy equals that of `rbd.learn`, the motion is an episode with it, and the other files report its performance."""
    folder = results / "easy"
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    import push

    task, here = push.push(), push.trained()
    policy = rbd.learn.load(folder / "policy.npz", task)
    for a, b in zip(jax.tree.leaves(policy), jax.tree.leaves(here.policy), strict=True):
        np.testing.assert_array_equal(a, b)
    rows = np.genfromtxt(folder / "curve.csv", delimiter=",", names=True)
    np.testing.assert_array_equal(rows["epoch"], [1, 2, 3, 4, 5, 6])
    np.testing.assert_allclose(rows["reward"], here.curve["reward"], rtol=1e-7)
    with np.load(folder / "trajectory.npz", allow_pickle=False) as saved:
        assert saved["robot"] == "cart" and saved["q"].shape == saved["v"].shape == (len(saved["t"]), 1)
        np.testing.assert_allclose(saved["u"][:-1], 5 * saved["action"][:-1], atol=1e-12)
        np.testing.assert_allclose(saved["observation_place"], saved["q"])
        # Evaluating the task and the policy at each step gives the same.
        for i, seen in enumerate(saved["q"][:-1]):
            action = policy({"place": seen, "speed": saved["v"][i]})
            np.testing.assert_allclose(action, saved["action"][i], atol=1e-9)
        terms = saved["reward_place"] + saved["reward_effort"]
        np.testing.assert_allclose(terms, saved["reward"], atol=1e-12)
    page = (folder / "report.md").read_text(encoding="utf-8")
    for words in (
        "easy: a policy for cart after 6 epochs of 6 x 5 steps",
        "Solved",
        "Command: rbd-jax train easy.py",
    ):
        assert words in page, words
    html = (folder / "report.html").read_text(encoding="utf-8")
    assert (
        html.startswith("<!DOCTYPE html>") and html.rstrip().endswith("</html>") and html.count("<img") == 2
    )


@pytest.mark.slow
def test_what_is_printed_and_not_learned(folder, capsys):
    """Results go to stdout, progress and warnings to stderr. A policy below the threshold is written, with exit code 3."""
    capsys.readouterr()
    assert main(["train", "hard.py", "--out", "out"]) == 3
    out, err = capsys.readouterr()
    assert "hard: a policy for cart after 6 epochs" in out and "return" in out and "effort" in out
    assert "not solved: the mean return of 64 episodes is -" in err and "below the threshold of 0" in err
    for name in FILES:
        assert f"wrote {folder / 'out' / name}" in out.replace("\n", "")
    assert "Not solved." in Path("out", "report.md").read_text() and not Path("out.checkpoint").exists()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("no_such_file", "no_such_file.py: there is no such file"),
        (
            "nothing",
            "nothing.py: it does not define `task`, which must be a rbd.Task, or a function that returns one",
        ),
        ("kind", "kind.py: config is a dict; it must be a rbd.learn.ShortHorizonActorCritic"),
        ("broken", "Broken.reward"),
        pytest.param(
            "undefined",
            "in 30 of the 30 steps of epoch 1 the reward, the observation or the state was not finite",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_told_in_a_line(folder, capsys, unchecked, name, told):
    """Nothing is written."""
    assert told in refused(capsys, *command(name, "--out", "out"))
    assert not list(folder.glob("out*"))


def test_wrong_arguments(folder, capsys):
    line = refused(capsys, "train", "cartpol", "--out", "out")
    assert "there is no task 'cartpol'" in line and "quadruped_trot" in line and ".py" in line
    for option, value in (("--epochs", "0"), ("--envs", "x"), ("--minutes", "-1"), ("--seed", "-1")):
        assert repr(value) in refused(capsys, *command("easy", f"{option}={value}"))
    assert "exists already" in refused(capsys, *command("easy", "--out", "easy"))
    assert not list(folder.glob("out*"))


@pytest.mark.slow
def test_options(folder):
    """Options override epochs and episodes of the file; a task without episode end is played for a limited time."""
    assert main(command("endless", "--epochs", 2, "--envs", 4, "--seed", 3, "--out", "out")) == 0
    assert "after 2 epochs of 4 x 5 steps" in Path("out", "report.md").read_text()
    assert len(np.load("out/trajectory.npz")["t"]) <= 501


#: A command that kills itself by a signal at a save.
KILLED = """if True:
    import sys
    import jax
    from push import killed_at
    from rbd_jax.__main__ import main

    jax.config.update("jax_enable_x64", True)
    save, *sys.argv[1:] = sys.argv[1:]
    killed_at(int(save), "after")
    sys.exit(main())
"""


def started(save, arguments):
    """Starts the command in a separate process that kills itself by SIGKILL at a save."""
    paths = os.pathsep.join([str(HERE.parents[1]), str(HERE), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", KILLED, str(save), *arguments],
        env=os.environ | {"PYTHONPATH": paths, "JAX_NUM_CPU_DEVICES": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.slow
def test_one_that_was_killed_goes_on_to_the_same_files(folder, capsys):
    often = "--checkpoint-every", "0", "--out", "out"
    assert main(command("easy", *often)) == 0
    Path("out").rename("out_undisturbed")
    # The options are saved first, then each epoch.
    assert started(4, command("easy", *often)).wait() == -signal.SIGKILL
    place = Path("out.checkpoint")
    assert {path.name for path in place.glob("*.ckpt")} >= {"training.ckpt"} and not Path("out").exists()
    assert "out.checkpoint has the progress of an earlier run; continue it with --resume" in refused(
        capsys, *command("easy", *often)
    )
    assert "--epochs: None there, 9 here" in refused(
        capsys, *command("easy", *often, "--resume", "--epochs", "9")
    )
    assert main(command("easy", *often, "--resume")) == 0
    assert content("out") == content("out_undisturbed") and not place.exists()


@pytest.mark.slow
def test_killed_at_any_moment_again_and_again(folder):
    """The kills come from another process, while it starts, compiles, learns, saves or writes."""
    options = "--checkpoint-every", "0", "--resume", "--epochs", "400"
    # The second run uses the compilation cache, as later runs do.
    for name in ("out_first", "out_undisturbed"):
        begin = time.monotonic()
        assert started(0, command("easy", *options, "--out", "out")).wait() == 0
        whole = time.monotonic() - begin
        Path("out").rename(name)
    moments, kills = random.Random(0), 0
    for attempt in range(40):
        process = started(0, command("easy", *options, "--out", "out"))
        try:
            # Later attempts have more time, so that one of them completes.
            process.wait((0.2 + 0.05 * attempt + 0.6 * moments.random()) * whole)
        except subprocess.TimeoutExpired:
            process.kill()
            kills += process.wait() == -signal.SIGKILL
        if Path("out").exists():  # completed, or killed just before exiting
            break
    assert process.returncode in (0, -signal.SIGKILL) and kills > 0
    assert content("out") == content("out_undisturbed") and not Path("out.checkpoint").exists()
