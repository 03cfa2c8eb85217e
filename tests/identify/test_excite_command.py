"""The command `excite`: files, output and errors."""

import re

import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax.__main__ import main


pytestmark = pytest.mark.usefixtures("without_kernels")


#: Options that make runs fast.
LITTLE = [
    "--seconds",
    "3",
    "--harmonics",
    "2",
    "--rate",
    "50",
    "--starts",
    "2",
    "--steps",
    "25",
    "--effort",
    "40",
]


def run(capsys, *arguments):
    code = main(["excite", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_excite(tmp_path, capsys):
    """Writes files that logs are read from, a picture and a table; existing files are not replaced."""
    folder = tmp_path / "a" / "b"
    arguments = ["double_pendulum", *LITTLE, "--free", "inertias:lower,damping", "--from-reference", "--speed", 3,
                 "--noise", "0.1", "--out", folder]  # fmt: skip
    code, out, err = run(capsys, *arguments)
    assert code == 0, err
    for expected in ("gain", "condition number", "combinations observable", "shoulder", "excitation.npz"):
        assert expected in out
    assert re.search(r"lower Iyy +1\.0\d+ +\d", out) and "note: joint 'elbow' has no limits of its own" in out
    model = rbd.load("double_pendulum")
    for name in ("excitation.csv", "excitation.npz"):
        log = rbd.identify.read_log(folder / name, model)
        q, v, tau = (log.channels[channel].values for channel in ("q", "v", "tau"))
        assert q.shape == v.shape == tau.shape == (150, 2)
        assert np.abs(tau).max() < 40 and 2 < np.abs(v).max() < 3
        np.testing.assert_allclose(q[0], model.reference, atol=1e-6)
        np.testing.assert_allclose(v[0], 0, atol=1e-6)
    assert rbd.identify.PeriodicMotion.read(folder / "excitation.npz", model).joints == ("shoulder", "elbow")
    picture = (folder / "excitation.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n" and len(picture) > 20_000
    assert sorted(path.name for path in folder.iterdir()) == [
        "excitation.csv",
        "excitation.npz",
        "excitation.png",
    ]

    (folder / "excitation.csv").unlink()
    before = (folder / "excitation.npz").stat().st_mtime_ns
    code, _, err = run(capsys, *arguments)
    assert code == 2 and "has excitation.npz, excitation.png already" in err and "--overwrite" in err
    assert (folder / "excitation.npz").stat().st_mtime_ns == before
    assert run(capsys, *arguments, "--overwrite", "--all")[0] == 0
    assert (folder / "excitation.csv").exists()


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["double_pendulum", "--free", "inertia"], "argument --free: there is no parameter group 'inertia'"),
        (["double_pendulum", "--free", "inertias:low"], "is called 'low'; did you mean 'lower'?"),
        (["double_pendulum", "--free", "joint_offsets"], "forces are not linear in what identify.JointOffsets estimates"),
        (["double_pendulum", "--joints", "knee"], "'knee'"),
        (["double_pendulum", "--harmonics", "1"], "two or more"),
        (["double_pendulum", "--seconds", "0"], "not a positive number"),
        (["double_pendulum", "--margin", "2"], "margin is 2.0"),
        (["quadruped"], "by --joints"),
        (["pendulum", "--effort", "1", "--from-reference", "--seed", "-1"], "not an integer"),
        (["nobody"], "nobody"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(tmp_path, capsys, arguments, said):
    """The error is one line, and nothing is written."""
    code, _, err = run(capsys, *arguments, "--out", tmp_path / "out")
    assert code == 2 and said in err and err.count("\n") == 1, err
    assert not list(tmp_path.rglob("excitation*"))
