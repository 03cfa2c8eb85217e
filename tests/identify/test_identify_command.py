"""The command `identify`: files, output, errors, and warnings about unreliable results."""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace

import jax
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax.__main__ import main
from rbd_jax.cli.identify import FILES


pytestmark = pytest.mark.usefixtures("without_kernels")


I = rbd.identify
#: Estimators with options that make them fast in these tests.
ESTIMATORS = {
    "auto": [],
    "least-squares": ["--slow", "0.02"],
    "physical": ["--robust"],
    "equation-error": ["--noise", "tau=0.02"],
    "output-error": ["--nodes", "measured", "--window", "0.1", "--turns", "15"],
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Two runs of a pendulum that is heavier than its model and damped, as text and as arrays.

    They contain positions, velocities and torques.
    """
    folder = tmp_path_factory.mktemp("logs")
    model = rbd.load("pendulum")
    heavier = rbd.Inertia.from_parameters(jax.device_put(1.4 * np.asarray(model.inertias.parameters)))
    truth = replace(model, inertias=heavier, damping=jax.device_put(np.array([0.4])))
    torques = jax.jit(
        jax.vmap(lambda q, v, a: rbd.inverse_dynamics(truth, q, v, a) - rbd.passive_force(truth, q, v))
    )
    for seed in (1, 2):
        random, t = np.random.default_rng(seed), np.arange(380) / 100
        speed, size, phase = (
            2 * np.pi * np.array([0.3, 0.7, 1.1]),
            random.uniform(0.3, 0.6, 3),
            random.uniform(0, 6, 3),
        )
        angle = t[:, None] * speed + phase
        q, v, a = (
            np.sum(x, axis=1)[:, None]
            for x in (size * np.sin(angle), size * speed * np.cos(angle), -size * speed**2 * np.sin(angle))
        )
        tau = np.asarray(torques(q, v, a)) + 0.02 * random.normal(size=q.shape)
        rows = np.concatenate([t[:, None], q, v, tau], axis=1)
        np.savetxt(
            folder / f"run{seed}.csv", rows, delimiter=",", header="t,q_swing,v_swing,tau_swing", comments=""
        )
        np.savez(folder / f"run{seed}.npz", t=t, q=q, v=v, tau=tau)
        # As in simulations, with torques held constant between samples.
        start = rbd.State(jax.device_put(q[0]), jax.device_put(v[0]))
        path = rbd.rollout(truth, start, jax.device_put(tau[:200]), dt=0.01)
        np.savez(folder / f"held{seed}.npz", t=path.t, q=path.q, v=path.v, tau=tau[:201])
    return folder


def run(capsys, *arguments):
    code = main(["identify", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize(
    "estimator",
    [name if name != "output-error" else pytest.param(name, marks=pytest.mark.slow) for name in ESTIMATORS],
)
def test_every_estimator_writes_every_file(logs, tmp_path, capsys, estimator):
    """All files contain the true values; progress goes to stderr."""
    folder = tmp_path / "deep" / "out"
    used, held = ("held1.npz", "held2.npz") if estimator == "output-error" else ("run1.csv", "run2.npz")
    code, out, err = run(
        capsys, "pendulum", logs / used, "--held-out", logs / held, "--free", "masses,damping",
        "--estimator", estimator, *ESTIMATORS[estimator], "--out", folder,
    )  # fmt: skip
    assert code == 0, (out, err)
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert sorted(path.name for path in folder.parent.iterdir()) == ["out"]
    for name in FILES:
        assert f"wrote {folder / name}" in out.replace("\n", ""), out
    assert "reading" in err and "reading" not in out and "swing damping" in out

    read = json.loads((folder / "estimate.json").read_text(encoding="utf-8"))
    values = {name: one["value"] for name, one in read["parameters"].items()}
    assert abs(values["bob mass"] - 1.4) < 0.02 and abs(values["swing damping"] - 0.4) < 0.03
    assert read["converged"] and read["parameters"]["bob mass"]["before"] == 1.0
    with np.load(folder / "estimate.npz", allow_pickle=False) as data:
        assert dict(zip(data["names"], data["values"])) == values
    for name in ("model.urdf", "model.xml"):
        model = rbd.load(folder / name)
        np.testing.assert_allclose(float(model.inertias.mass[-1]), values["bob mass"], rtol=1e-12)
        np.testing.assert_allclose(float(model.damping[0]), values["swing damping"], rtol=1e-12)
    page = (folder / "report.md").read_text(encoding="utf-8")
    chosen = "physical" if estimator == "auto" else estimator
    assert f"Estimator: {chosen} (" in page and held[:-4] in page and "held out" in page
    for option in ESTIMATORS[estimator][::2]:
        assert option in page
    html = (folder / "report.html").read_text(encoding="utf-8")
    assert (
        html.startswith("<!DOCTYPE html>") and html.rstrip().endswith("</html>") and html.count("<img") == 3
    )


def test_several_runs_are_cross_validated(logs, tmp_path, capsys):
    """Each run is held out once; a single run is split; `--folds 0` disables this. Runs of the same name stay distinct."""
    (tmp_path / "run1.npz").write_bytes((logs / "run2.npz").read_bytes())
    arguments = ["pendulum", logs / "run1.npz", tmp_path / "run1.npz", "--free", "masses"]
    assert run(capsys, *arguments, "--out", tmp_path / "a")[0] == 0
    page = (tmp_path / "a" / "report.md").read_text(encoding="utf-8")
    assert (
        "Cross-validation: 2 times" in page
        and str(logs / "run1.npz") in page
        and str(tmp_path / "run1.npz") in page
    )
    arguments = ["pendulum", logs / "run1.npz", "--free", "masses", "--estimator", "least-squares"]
    assert run(capsys, *arguments, "--cutoff", 10, "--out", tmp_path / "b")[0] == 0
    assert "Cross-validation: 4 times" in (tmp_path / "b" / "report.md").read_text(encoding="utf-8")
    code, out, err = run(capsys, *arguments, "--folds", 0, "--quiet", "--out", tmp_path / "c")
    assert (code, out, err) == (0, "", "")
    assert "No run was held out" in (tmp_path / "c" / "report.md").read_text(encoding="utf-8")


def test_a_result_that_is_there_is_not_replaced_unasked(logs, tmp_path, capsys):
    """Other files in the way are never replaced, even with --overwrite."""
    folder = tmp_path / "out"
    folder.mkdir()  # an empty folder may be used
    arguments = ["pendulum", logs / "run1.npz", "--free", "masses", "--folds", 0, "--quiet", "--out", folder]
    assert run(capsys, *arguments)[0] == 0
    before = {path: path.read_bytes() for path in folder.iterdir()}
    code, _, err = run(capsys, *arguments)
    assert code == 2 and "exists already" in err and "--overwrite" in err and err.count("\n") == 1
    assert before == {path: path.read_bytes() for path in folder.iterdir()}
    arguments[3] = "damping"
    code, _, err = run(capsys, *arguments, "--overwrite")
    assert code in (0, 3)
    read = json.loads((folder / "estimate.json").read_text(encoding="utf-8"))
    assert list(read["parameters"]) == ["swing damping"]
    (folder / "thesis.tex").write_text("years of work")
    code, _, err = run(capsys, *arguments, "--overwrite")
    assert code == 2 and "has other files (thesis.tex)" in err
    assert (folder / "thesis.tex").read_text() == "years of work"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_what_is_not_to_be_trusted_says_why(logs, tmp_path, capsys):
    """The exit code is 3, and all files are written.

    The cases are an unconverged search, torques of the wrong sign, and an estimate that fails on held-out data.
    """
    code, out, err = run(
        capsys, "pendulum", logs / "run1.npz", "--free", "masses,damping", "--estimator", "equation-error", "--turns", 1,
        "--noise", "tau=0.02", "--out", tmp_path / "a", "--quiet",
    )  # fmt: skip
    assert code == 3 and out == "" and "unreliable: The search for the values did not converge" in err
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == sorted(FILES)
    with np.load(logs / "run1.npz") as data:
        rows = dict(data)
    np.savez(
        tmp_path / "wrong.npz", **(rows | {"tau": np.random.default_rng(0).normal(size=rows["tau"].shape)})
    )
    code, _, err = run(
        capsys, "pendulum", tmp_path / "wrong.npz", "--free", "masses", "--folds", 0, "--out", tmp_path / "b"
    )
    assert code == 3 and "explains hardly anything" in " ".join(err.split())
    page = (tmp_path / "b" / "report.md").read_text(encoding="utf-8")
    assert "**Do not trust these values yet:**" in page and "explains hardly anything" in page


def test_a_format_that_cannot_hold_the_model(logs, tmp_path, capsys, monkeypatch):
    """The failure is reported, and the other format is written."""
    from rbd_jax.cli import identify

    def refuse(model, path):
        raise rbd.ModelError("URDF has no words for this")

    monkeypatch.setitem(identify.MODELS, "model.urdf", refuse)
    arguments = ["pendulum", logs / "run1.npz", "--free", "masses", "--folds", 0, "--out", tmp_path / "out"]
    code, out, err = run(capsys, *arguments)
    assert code == 0 and "model.urdf was not written: URDF has no words for this" in err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(set(FILES) - {"model.urdf"})
    assert "URDF has no words" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")


def broken(folder):
    """Writes files that are not logs; the test has their messages."""
    rows = np.arange(20) / 100
    np.savez(folder / "no_times.npz", q=np.zeros((20, 1)))
    np.savez(folder / "no_forces.npz", t=rows, q=np.sin(rows)[:, None])
    np.savez(folder / "wide.npz", t=rows, q=np.zeros((20, 5)), tau=np.zeros((20, 5)))
    np.savez(folder / "pickled.npz", t=np.array([{}, {}], dtype=object))
    (folder / "garbage.npz").write_bytes(b"PK\x03\x04 this is no archive")
    (folder / "nothing.npz").write_bytes(b"")
    (folder / "nothing.csv").write_text("")
    (folder / "ragged.csv").write_text("t,q_swing,tau_swing\n0,1,2\n0.1,1\n")
    (folder / "log.txt").write_text("1 2 3")
    return folder


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["missing.csv"], "there is no file missing.csv"),
        (["no_times.npz"], "there are no times"),
        (["no_forces.npz", "--estimator", "physical"], "neither tau nor u"),
        (["wide.npz"], "q has 5 columns"),
        (["pickled.npz"], "pickled.npz: 't' holds Python objects"),
        (["garbage.npz"], "garbage.npz: it is no NumPy archive"),
        (["nothing.npz"], "nothing.npz: it is no NumPy archive"),
        (["nothing.csv"], "nothing.csv: the file is empty"),
        (["ragged.csv"], "ragged.csv"),
        (["log.txt"], "is no .npz and no .csv"),
        ([], "required: LOG"),
        (["run1.npz", "--free", "inertia"], "did you mean 'inertias'"),
        (["run1.npz", "--free", "damping:knee"], "is called 'knee'"),
        (["run1.npz", "--free", "masses,inertias"], "both free the mass"),
        (["run1.npz", "--free", "joint_offsets", "--estimator", "least-squares"], "forces are not linear in what"),
        (["run1.npz", "--noise", "tau=1"], "--noise applies to --estimator equation-error and output-error, not to physical"),
        (["run1.npz", "--estimator", "output-error", "--cutoff", "3"], "--cutoff applies to"),
        (["run1.npz", "--window", "3"], "--window applies to --estimator output-error"),
        (["run1.npz", "--estimator", "equation-error", "--noise", "torque=1"], "noise has 'torque'"),
        (["run1.npz", "--noise", "tau"], "is not a name with a positive number"),
        (["run1.npz", "--cutoff", "70"], "between 0 and half the sampling rate"),
        (["run1.npz", "--folds", "1"], "is not 0 or an integer from 2 on"),
        (["run1.npz", "run2.npz", "--folds", "3"], "no cross-validation"),
        (["run1.npz", "--held-out", "run1.npz"], "it is both used and held out"),
        (["run1.npz", "--scale", "u=2"], "has no channel 'u'"),
        (["run1.npz", "--scale", "tau=1000"], "--scale tau=1e-3 and the like change them"),
        (["run1.npz", "--scheme", "magic"], "there is no scheme 'magic'"),
        (["run1.npz", "--estimator", "magic"], "invalid choice: 'magic'"),
        (["run1.npz", "--out", "log.txt"], "it is a file"),
        (["run1.npz", "--out", "."], "it is the current folder"),
        (["run1.npz", "--out", "log.txt/deeper"], "cannot write to"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(logs, tmp_path, capsys, monkeypatch, arguments, said):
    """The error is one line without a traceback, and nothing is written."""
    folder = broken(tmp_path)
    for name in ("run1.npz", "run2.npz"):
        (folder / name).write_bytes((logs / name).read_bytes())
    before = sorted(folder.rglob("*"))
    monkeypatch.chdir(folder)
    given = [*arguments, *([] if "--out" in arguments else ["--out", "out"])]
    given = [*given, *([] if "--free" in given else ["--free", "masses"]), "--quiet"]
    if "--folds" in given and "3" in given:  # a warning only; the run continues
        code, _, err = run(capsys, "pendulum", *[one for one in given if one != "--quiet"])
        assert code == 0 and said in " ".join(err.split())
        return
    code, out, err = run(capsys, "pendulum", *given)
    assert code == 2 and said in err and err.count("\n") == 1 and out == "", err
    assert err.startswith("rbd-jax: error: ")
    assert sorted(folder.rglob("*")) == before


def test_no_robot(logs, tmp_path, capsys):
    code, _, err = run(capsys, "nobody", logs / "run1.npz", "--out", tmp_path / "out")
    assert code == 2 and "nobody" in err and err.count("\n") == 1 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("there", [False, True])
def test_an_end_in_the_middle_leaves_nothing_half(logs, tmp_path, capsys, monkeypatch, there):
    """Earlier results stay, next to a checkpoint for --resume."""
    folder = tmp_path / "out"
    arguments = ["pendulum", logs / "run1.npz", "--free", "masses", "--folds", 0, "--quiet", "--out", folder]
    if there:
        assert run(capsys, *arguments)[0] == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    class Killed(BaseException):
        pass

    def kill(self):
        parts = [path for path in tmp_path.iterdir() if path.name.startswith(".out")]
        assert len(parts) == 1 and (parts[0] / "estimate.npz").exists()
        raise Killed

    monkeypatch.setattr(I.Report, "markdown", property(kill))
    with pytest.raises(Killed):
        run(capsys, *arguments, "--overwrite")
    assert sorted(path.name for path in (tmp_path / "out.checkpoint").iterdir()) == [
        "estimate.ckpt",
        "run.ckpt",
    ]
    shutil.rmtree(tmp_path / "out.checkpoint")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert folder.exists() == there


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.0, 0.05, 0.2])
def test_a_process_that_is_killed(logs, tmp_path, after):
    """After SIGKILL during writing, the results folder is complete or absent."""
    folder = tmp_path / "out"
    command = ["identify", "pendulum", logs / "run1.npz", "--free", "masses", "--folds", "0", "--out", folder]
    process = subprocess.Popen(
        [sys.executable, "-m", "rbd_jax", *map(str, command)], env=os.environ | {"JAX_PLATFORMS": "cpu"}
    )
    until = time.monotonic() + 300
    while not any(tmp_path.glob(".out.*")) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.001)
    time.sleep(after)
    process.kill()
    process.wait()
    assert any(tmp_path.iterdir())
    assert not folder.exists() or sorted(path.name for path in folder.iterdir()) == sorted(FILES)


@pytest.mark.slow
def test_the_example_is_found(tmp_path, capsys):
    """Identifies the payload (2.5 kg) and joint friction of the bundled logs, as set by the script that made them."""
    from pathlib import Path

    examples = Path(I.__file__).parent / "examples"
    code, _, _ = run(
        capsys, "arm7", examples / "arm7_1.npz", "--held-out", examples / "arm7_2.npz", "--free", "inertias:hand,friction",
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert code == 0
    read = json.loads((tmp_path / "out" / "estimate.json").read_text(encoding="utf-8"))
    values = {name: one["value"] for name, one in read["parameters"].items()}
    assert abs(values["hand mass"] - 2.5) < 0.02 and abs(values["hand hx"] - 1.8 * 0.03) < 0.002
    assert abs(values["hand hz"] - (1.8 * 0.12 + 0.7 * 0.04)) < 0.003
    for joint, (viscous, dry) in enumerate(
        zip((1.6, 1.9, 1.3, 1.2, 0.4, 0.35, 0.25), (2.4, 3.1, 1.9, 1.7, 0.6, 0.5, 0.4)), start=1
    ):
        assert abs(values[f"joint{joint} damping"] - viscous) < 0.1 * viscous
        assert abs(values[f"joint{joint} friction"] - dry) < 0.1 * dry
