"""The command `optimize`: output, rejected arguments, and reports of problems without a solution."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from support import refused, said_by

import rbd_jax as rbd
from rbd_jax.__main__ import main
from rbd_jax.cli.optimize import FILES
from tests.killed import killed_at_moments, undisturbed


HERE = Path(__file__).parent
#: The common part of the problems, in a separate file.
BASE = """import jax.numpy as jnp
import numpy as np

import rbd_jax as rbd


C = rbd.control
GOAL = np.array([0.5])
REST = rbd.State(jnp.asarray(np.zeros(1)), jnp.asarray(np.zeros(1)))


def make(effort=5.0, **changes):
    given = dict(
        steps=15,
        dt=1 / 15,
        running=[1e-2 * C.Effort()],
        constraints=[C.Constraint(C.Posture(GOAL), at="end"), C.Constraint(C.Velocity(), at="end")],
        bounds=C.Bounds(control=(-effort, effort)),
    )
    return C.Problem(rbd.load("pendulum"), REST, **(given | changes))
"""
#: Problem files: solved, rejected, or without a solution.
PROBLEMS = {
    "solved": "problem = make()",
    "function": "problem, solver = make, C.DDP\n\ndef guess():\n    return C.Guess(jnp.asarray(np.ones((15, 1))))",
    "weak": "problem = make(effort=0.2)",
    "contradiction": "problem = make(constraints=[C.Constraint(C.Posture(s * GOAL), at='end') for s in (1, -1)])",
    "crossing": "\nproblem = make(bounds=C.Bounds(control=(1.0, -1.0)))",
    "nothing": "model = None",
    "kind": "problem = make\nsolver = 3",
    "syntax": "problem = make(",
    "import": "\nimport no_such_module",
    "exit": "raise SystemExit",
    "asked": "def cost(t, state, control):\n    return state.q['swing']\n\nproblem = make(running=[C.Value(cost)])",
    "shape": "problem = make(running=[C.Value(lambda t, state, control: state.q)])",
    "none": "problem = make(running=[C.Value(lambda t, state, control: None)])",
    "undefined": "problem = make(running=[C.Value(lambda t, state, control: jnp.log(state.q[0] - 1))])",
    "wild": "problem = make(bounds=None)\nguess = C.Guess(jnp.full((15, 1), 1e200))",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The directory with the problem files, in which `solved` has been solved into the directory `solved`."""
    folder = tmp_path_factory.mktemp("optimize")
    (folder / "base_of_problems.py").write_text(BASE)
    for name, text in PROBLEMS.items():
        (folder / f"{name}.py").write_text(f"from base_of_problems import *\n{text}\n")
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main(command("solved", "--out", "solved")) == 0
        yield folder
    finally:
        os.chdir(before)


@pytest.fixture
def folder(results):
    """The same directory as the working directory, cleaned after each test."""
    yield results
    for path in (*results.glob("out*"), *results.glob(".out*")):
        shutil.rmtree(path)


def command(name, *options):
    return ["optimize", f"{name}.py", "--quiet", *map(str, options)]


def content(name):
    return {path.name: path.read_bytes() for path in Path(name).iterdir()}


def test_what_is_written(results):
    """The trajectory is a log that other tools can read and a rollout of its controls; the other files appraise it."""
    folder = results / "solved"
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    model = rbd.load("pendulum")
    with np.load(folder / "trajectory.npz", allow_pickle=False) as saved:
        assert saved["q"].shape == saved["v"].shape == saved["tau"].shape == (16, 1) and saved["t"].shape == (
            16,
        )
        assert saved["step_control"].shape == (15, 1) and saved["gains"].shape == (15, 1, 2)
        assert saved["robot"] == "pendulum" and list(saved["control_names"]) == ["swing"]
        np.testing.assert_array_equal(saved["tau"][:-1], saved["step_control"])
        path = rbd.rollout(
            model,
            rbd.State(jnp.asarray(saved["q"][0]), jnp.asarray(saved["v"][0])),
            jnp.asarray(saved["step_control"]),
            dt=float(saved["dt"]),
        )
        np.testing.assert_allclose(path.q, saved["q"], atol=1e-12)
        np.testing.assert_allclose(saved["q"][-1], 0.5, atol=1e-6)
    log = rbd.identify.read_log(folder / "trajectory.npz", model)
    assert len(log.t) == 16 and log.tau.values.shape == (16, 1)

    read = json.loads((folder / "solution.json").read_text(encoding="utf-8"))
    assert (
        read["solved"] and read["code"] == "CONVERGED" and read["robot"] == "pendulum" and not read["broken"]
    )
    assert (
        read["violation"] < 1e-6 and read["optimality"]["minimum"] and read["optimality"]["gradient"] < 1e-5
    )
    np.testing.assert_allclose(sum(read["costs"].values()), read["cost"])
    assert read["requirements"]["constraints[0] (at the end)"]["at_bounds"] == 1
    page = (folder / "report.md").read_text(encoding="utf-8")
    for words in (
        "**Solved.",
        "running[0]: Effort",
        "bounds.control",
        "a strict local minimum",
        "Problem: solved.py",
    ):
        assert words in page, words
    html = (folder / "report.html").read_text(encoding="utf-8")
    # Motion, positions, velocities, controls and convergence.
    assert (
        html.startswith("<!DOCTYPE html>") and html.rstrip().endswith("</html>") and html.count("<img") == 5
    )


def test_what_is_printed(folder, capsys):
    """Results go to stdout, progress to stderr; functions may define the problem, the solver and the guess."""
    capsys.readouterr()
    assert main(["optimize", "function.py", "--out", "out"]) == 0
    out, err = capsys.readouterr()
    assert "a motion of pendulum of 1 s, in 15 steps" in out and "running[0]: Effort" in out
    assert "constraints[1] (at the end)" in out and "searching" in err and "searching" not in out
    for name in FILES:
        assert f"wrote {folder / 'out' / name}" in out.replace("\n", "")
    there, here = (json.loads(Path(x, "solution.json").read_text()) for x in ("solved", "out"))
    np.testing.assert_allclose(here["cost"], there["cost"], rtol=1e-5)
    assert not Path("out.checkpoint").exists()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("no_such_file", "no_such_file.py: there is no such file"),
        ("crossing", "crossing.py:3: control.Bounds: control: lower is 1 and upper is -1: the bounds cross"),
        (
            "nothing",
            "nothing.py: it does not define `problem`, which must be an rbd.control.Problem, or a function that",
        ),
        ("kind", "kind.py: solver is a int; it must be a solver, such as rbd.control.DDP()"),
        ("syntax", "syntax.py:2: SyntaxError: '(' was never closed"),
        ("import", "import.py:3: ModuleNotFoundError: No module named 'no_such_module'"),
        ("exit", "exit.py:2: SystemExit: no message"),
        ("asked", "asked.py:3: TypeError: "),
        ("shape", "control.Value: function returned an array of shape (1,); it must return one number"),
        ("none", "None"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_in_a_line(folder, capsys, unchecked, name, told):
    """The message has the line of the file, if there is one; nothing is written."""
    assert told in refused(capsys, *command(name, "--out", "out"))
    assert not list(folder.glob("out*"))


def test_wrong_arguments(folder, capsys):
    line = refused(capsys, "optimize", "cartpole", "--out", "out")
    assert "there is no problem 'cartpole'" in line and "cartpole_swing_up" in line and ".py" in line
    line = refused(capsys, *command("solved", "--solver", "dpd", "--out", "out"))
    assert "there is no solver 'dpd'" in line and "ddp" in line and "shooting" in line
    assert "'0' is not a positive integer" in refused(capsys, *command("solved", "--iterations", "0"))
    assert "exists already" in refused(capsys, *command("solved", "--out", "solved"))
    assert not list(folder.glob("out*"))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "weak",
            ["a goal is out of reach", "constraints[0] (at the end): Posture is ", "should be 0: off by 0.4"],
        ),
        pytest.param(
            "contradiction",
            ["requirements contradict each other", "constraints[1] (at the end): Posture is 0.5"],
            marks=pytest.mark.slow,
        ),
        pytest.param("undefined", ["not finite", "running[0]: Value is nan"], marks=pytest.mark.slow),
        pytest.param(
            "wild",
            ["the motion is not finite from ", "start from controls that keep it bounded"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_where_there_is_no_solution_it_says_what_is_broken(folder, capsys, name, told):
    """The message states the size and place of violations.

    A motion is written if one exists, but does not replace an existing solution.
    """
    err = said_by(capsys, 3, *command(name, "--out", "out"))
    for words in told:
        assert words in err, err
    assert all(line.startswith(("not solved: ", "no solution: ")) for line in err.splitlines())
    written = name in ("weak", "contradiction")
    assert Path("out").exists() == written and not Path("out.checkpoint").exists()
    if written:
        read = json.loads(Path("out", "solution.json").read_text())
        assert not read["solved"] and read["broken"] and read["violation"] > 0.1
        assert "Not solved: do not use this motion." in Path("out", "report.md").read_text()
    before = content("solved")
    said_by(capsys, 3, *command(name, "--out", "solved", "--overwrite"))
    assert content("solved") == before


@pytest.mark.slow
def test_options_of_the_search(folder, capsys):
    """Another solver, and a limit below the required iterations."""
    err = said_by(capsys, 3, *command("solved", "--iterations", 2, "--out", "out"))
    assert "not converged, the iteration limit was reached: 2 iterations" in err
    assert "increase --iterations" in err
    read = json.loads(Path("out", "solution.json").read_text())
    assert read["code"] == "NOT_CONVERGED" and read["iterations"] == 2
    # A motion that is no solution may be replaced.
    assert main(command("solved", "--solver", "cem", "--iterations", 3, "--out", "out", "--overwrite")) in (
        0,
        3,
    )
    assert "CEM, 3 iterations of at most 3" in Path("out", "report.md").read_text()


#: A command that ends itself by a signal at a save.
KILLED = """if True:
    import sys
    from rbd_jax.__main__ import main
    from tests.killed import killed_at

    save, number, *sys.argv[1:] = sys.argv[1:]
    killed_at(int(save), "after", int(number))
    sys.exit(main())
"""


def killed(save, arguments, number=signal.SIGKILL):
    """Runs the command until a signal at a save, and returns its stderr."""
    paths = os.pathsep.join([str(HERE.parents[1]), str(HERE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(save), str(int(number)), *arguments],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == (130 if number == signal.SIGINT else -number), done.stderr
    return done.stderr


@pytest.mark.slow
def test_one_that_was_killed_goes_on_to_the_same_files(folder, capsys):
    often = "--checkpoint-every", "0", "--out", "out"
    assert main(command("solved", *often)) == 0
    Path("out").rename("out_undisturbed")
    killed(4, command("solved", *often))
    place = Path("out.checkpoint")
    assert {path.name for path in place.glob("*.ckpt")} == {"run.ckpt", "search.ckpt"} and not Path(
        "out"
    ).exists()
    assert "out.checkpoint has the progress of an earlier run; continue it with --resume" in refused(
        capsys, *command("solved", *often)
    )
    # A file that was changed in the meantime counts as another problem.
    text = Path("solved.py").read_text()
    Path("solved.py").write_text(f"{text}\n# as before, but who knows\n")
    assert "is of another run: solved.py: does something else" in refused(
        capsys, *command("solved", *often, "--resume")
    )
    Path("solved.py").write_text(text)
    assert "--solver: None there, 'ddp' here" in refused(
        capsys, *command("solved", *often, "--resume", "--solver", "ddp")
    )
    assert main(command("solved", *often, "--resume")) == 0
    assert content("out") == content("out_undisturbed") and not place.exists()


@pytest.mark.slow
def test_one_that_is_killed_at_any_moment_goes_on_to_the_same_files(folder):
    """The process is killed repeatedly at arbitrary moments: during imports, iterations or writing."""
    words = [sys.executable, "-m", "rbd_jax", *command("solved", "--checkpoint-every", "0", "--out", "out")]
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    }
    whole = undisturbed(words, env)
    Path("out").rename("out_undisturbed")  # the report contains the command line
    moments = killed_at_moments(words, env, whole, Path("out"), 5)
    assert content("out") == content("out_undisturbed"), moments


@pytest.mark.slow
def test_an_interrupt_says_how_to_go_on(folder):
    said = killed(4, command("solved", "--checkpoint-every", "0", "--out", "out"), signal.SIGINT)
    place = Path("out.checkpoint").resolve()
    assert said == f"rbd-jax: interrupted; run the same command with --resume to continue from {place}\n"
    assert main(command("solved", "--checkpoint-every", "0", "--out", "out", "--resume")) == 0
