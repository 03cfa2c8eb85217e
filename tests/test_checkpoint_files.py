"""Checkpoint files are written atomically, and checkpoints that cannot be resumed are reported."""

import contextlib
import dataclasses
import errno
import functools
import json
import os
import resource
import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax.checkpoints import differences, fingerprint


VALUES = {
    "turn": 3,
    "loss": float("inf"),
    "name": "Ü",
    "none": None,
    "searches": [
        {"x": np.arange(6.0).reshape(2, 3)[:, ::2], "done": False},
        {"x": np.float32(0.1), "done": True},
    ],
    "arrays": {
        "empty": np.zeros((4, 0)),
        "one": np.array(2.5),
        "truth": np.array([True, False]),
        "complex": np.array([1 + 2j]),
        "half": np.array([1.5, 2.5], ml_dtypes.bfloat16),
        "other end first": np.arange(3, dtype=">i8"),
        "jax": jnp.arange(3, dtype=jnp.int32),
        "nan": np.array([np.nan, -0.0]),
    },
    "large": 2**100,
}


@pytest.fixture
def checkpoint(tmp_path):
    return rbd.Checkpoint(tmp_path / "run.ckpt", every=0)


def save(checkpoint, values=VALUES, **key):
    with checkpoint.run("a run", key) as run:
        run.save(values)


def test_what_is_saved_is_read(checkpoint):
    assert checkpoint.read() is None
    save(checkpoint, rate=0.1)
    key, values = checkpoint.read()
    assert key["run"] == "a run" and key["rate"] == 0.1 and key["jax"] == jax.__version__
    assert values.keys() == VALUES.keys()
    for name in ("turn", "loss", "name", "none", "large"):
        assert values[name] == VALUES[name] and type(values[name]) is type(VALUES[name])
    for name, array in VALUES["arrays"].items():
        found, array = values["arrays"][name], np.asarray(array)
        assert found.shape == array.shape and found.dtype == array.dtype.newbyteorder("="), name
        assert found.tobytes() == array.astype(found.dtype).tobytes() and found.flags.writeable, name
    first, second = values["searches"]
    assert first["x"].tolist() == [[0, 2], [3, 5]] and second == {"x": float(np.float32(0.1)), "done": True}


def test_a_torn_file_is_told_wherever_it_is_torn(checkpoint):
    save(checkpoint)
    whole = checkpoint.path.read_bytes()
    flipped = [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :] for i in range(0, len(whole), 7)]
    for content in [*(whole[:size] for size in range(0, len(whole), 5)), *flipped, whole + b"x", b"\0" * 400]:
        checkpoint.path.write_bytes(content)
        with pytest.raises(
            rbd.CheckpointError, match="run.ckpt is (no checkpoint|damaged).* remove it to begin anew"
        ):
            save(checkpoint)
        assert checkpoint.path.read_bytes() == content
    checkpoint.path.write_bytes(whole)
    assert checkpoint.read().values["turn"] == 3


def test_another_format_is_told(checkpoint, monkeypatch):
    monkeypatch.setattr("rbd_jax.checkpoints.FORMAT", 3)
    save(checkpoint)
    monkeypatch.undo()
    with pytest.raises(rbd.CheckpointError, match="has the format 3, and this version of rbd_jax reads 2"):
        checkpoint.read()


def test_places_where_nothing_can_be(tmp_path, unchecked):
    for path, said in [(tmp_path, "is a folder"), (tmp_path / "no" / "run.ckpt", "there is no folder .*no")]:
        with pytest.raises(rbd.CheckpointError, match=said):
            save(rbd.Checkpoint(path))
    with pytest.raises(TypeError, match="path is None"):
        rbd.Checkpoint(None)
    with pytest.raises(ValueError, match="every"):
        rbd.Checkpoint("run.ckpt", every=-1)


@pytest.mark.parametrize("value", [{1: 2}, object(), np.array(["a"]), np.array([None]), {"array at": 1}])
def test_what_cannot_be_saved_is_named(checkpoint, value):
    with pytest.raises(TypeError, match=r"values\['a'\]\[1\] is a .*can be saved"):
        save(checkpoint, {"a": [1, value]})
    assert not list(checkpoint.path.parent.iterdir())


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_save_that_fails_leaves_the_one_before(checkpoint, monkeypatch, call):
    save(checkpoint, {"turn": 1})

    def fails(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if call != "write":
        monkeypatch.setattr(os, call, fails)
    with file_size_limit(2**20) if call == "write" else contextlib.nullcontext():
        with pytest.warns(
            rbd.CheckpointWarning, match="run.ckpt could not be written .*; the one before is still there"
        ):
            save(checkpoint, {"turn": 2, "large": np.zeros(2**18)})
    monkeypatch.undo()
    assert checkpoint.read().values == {"turn": 1}
    assert [file.name for file in checkpoint.path.parent.iterdir()] == ["run.ckpt"]


@contextlib.contextmanager
def file_size_limit(size):
    """Limits the file size, so that writing more fails after a part is written."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_two_runs_into_one_file(checkpoint):
    with checkpoint.run("a run", {}) as run:
        run.save({"turn": 1})
        with pytest.raises(
            rbd.CheckpointError, match=f"is that of a run under way .process {os.getpid()} on"
        ):
            save(checkpoint)
        run.save({"turn": 2})
    assert checkpoint.read().values == {"turn": 2}
    save(checkpoint)


MAKE = "print(json.dumps(fingerprint(model=rbd.load('quadruped'), f=lambda x: x in {'a', 'b', 'c', 'd'} and (lambda: x))))"


@pytest.mark.slow
def test_a_dead_process_holds_no_lock(checkpoint, capsys):
    """A killed process leaves no partial file, and files of other runs with similar names stay.

    The fingerprint does not depend on the hash seed of the process.
    """
    code = (
        "import json, os, signal, sys, rbd_jax as rbd\nfrom rbd_jax.checkpoints import fingerprint\n"
        f"{MAKE}\nsys.stdout.flush()\n"
        "with rbd.Checkpoint(sys.argv[1]).run('a run', {}) as run:\n"
        "    run.save({'turn': 1})\n"
        "    os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    run.save({'turn': 2})\n"
    )
    environment = os.environ | {"PYTHONHASHSEED": "1", "JAX_ENABLE_X64": "1"}
    found = subprocess.run(
        [sys.executable, "-c", code, checkpoint.path], capture_output=True, env=environment, text=True
    )
    assert found.returncode == -signal.SIGKILL, found.stderr
    others = checkpoint.path.parent / ".run.x.1.part.ckpt"
    others.touch()
    assert len(list(checkpoint.path.parent.iterdir())) == 4
    with checkpoint.run("a run", {}) as run:
        assert run.found == {"turn": 1}
    assert sorted(file.name for file in checkpoint.path.parent.iterdir()) == [others.name, "run.ckpt"]
    exec(compile(MAKE, "here", "exec"), {"json": json, "fingerprint": fingerprint, "rbd": rbd})
    assert json.loads(found.stdout) == json.loads(capsys.readouterr().out)


def test_saving_by_time(tmp_path, monkeypatch):
    clock, made = [0.0], []
    monkeypatch.setattr("rbd_jax.checkpoints.time.monotonic", lambda: clock[0])
    with rbd.Checkpoint(tmp_path / "run.ckpt", every=10).run("a run", {}) as run:
        for clock[0] in range(0, 35, 3):
            run.offer(lambda: made.append(clock[0]) or {"at": clock[0]})
    assert made == [12, 24, 34] or made == [12, 24]
    slow = [20.0]
    monkeypatch.setattr("rbd_jax.checkpoints._write", lambda *_: clock.__setitem__(0, clock[0] + slow[0]))
    made.clear(), clock.__setitem__(0, 0.0)
    with rbd.Checkpoint(tmp_path / "run.ckpt", every=10).run("a run", {}) as run:
        while clock[0] < 1000:
            clock[0] += 1
            run.offer(lambda: made.append(clock[0]) or {"at": clock[0]})
    assert len(made) == 3  # each takes 20 s; saving may take one twentieth of the time


@dataclasses.dataclass
class Thing:
    size: float
    parts: tuple = ()
    rule: object = None


def power(exponent, more=()):
    def rule(x, twice=2):
        return x**exponent * twice

    return rule


def test_what_differs_is_told():
    there = fingerprint(
        thing=Thing(1.0, ("a", "b"), power(2)),
        array=np.arange(9.0),
        small=np.arange(2),
        gone=None,
        same=jax.random.key(1),
    )
    here = fingerprint(
        thing=Thing(2.0, ("b", "c"), power(3)),
        array=np.arange(9.0)[::-1],
        small=np.arange(3),
        new=1,
        same=jax.random.key(1),
    )
    assert differences(there, here) == [
        "thing.size: 1.0 there, 2.0 here",
        "thing.parts: 'c' is new; 'a' is not here",
        "thing.rule.exponent: 2 there, 3 here",
        "array: others",
        "small: 'int64[2] [0, 1]' there, 'int64[3] [0, 1, 2]' here",
        "new: not there",
        "gone: not here",
    ]
    assert not differences(there, there)


def test_functions_are_told_apart_by_what_they_do():
    same = [fingerprint(f=lambda x: x + 1), fingerprint(f=lambda x: x + 1)]
    assert len({str({**one, "f": one["f"].split("#")[1]}) for one in same}) == 1
    (line,) = differences(same[0], fingerprint(f=lambda x: x + 2))
    assert line == "f: does something else"
    parts = fingerprint(f=functools.partial(power(2), twice=3))
    assert parts["f.keywords['twice']"] == 3 and parts["f.exponent"] == 2
    assert differences(fingerprint(f=jax.jit(power(2))), fingerprint(f=jax.jit(power(3)))) == [
        "f.exponent: 2 there, 3 here"
    ]
