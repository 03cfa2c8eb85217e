"""Whatever the system refuses while something is written: what was there before is there still, and nothing by half."""

import builtins
import errno
import functools
import io
import os
import shutil
import warnings
from pathlib import Path

import jax.numpy as jnp
import pytest

import rbd_jax as rbd


MODEL = rbd.load("double_pendulum")
STATES = rbd.State(jnp.array([[0.1, 0.2], [0.3, 0.4]]), jnp.zeros((2, 2)))


class Faults:
    """The calls by which files below a folder are opened, written and named, of which one fails: that of a number."""

    def __init__(self, monkeypatch, below: Path):
        self.monkeypatch, self.below, self.count, self.fails = monkeypatch, below, 0, None
        for module, name in (
            (builtins, "open"), (io, "open"), (os, "open"), (os, "replace"), (os, "rename"), (os, "mkdir"), (os, "truncate"),
        ):  # fmt: skip
            self._watch(module, name)
        for name in ("fsync", "write"):
            self._watch(os, name, always=True)

    def called(self) -> None:
        self.count += 1
        if self.count == self.fails:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _watch(self, module, name, always=False) -> None:
        true = getattr(module, name)

        opens = name == "open" and module is not os

        def watched(path, *args, **named):
            mode = args[0] if args else named.get("mode", "r")
            ours = always or str(path).startswith(str(self.below))
            if not ours or (opens and not set(mode) & set("wax+")):  # of others, or to read
                return true(path, *args, **named)
            self.called()
            found = true(path, *args, **named)
            return self.written(found) if opens else found

        self.monkeypatch.setattr(module, name, watched)

    def written(self, file):
        """A file of which writes may fail too."""
        faults = self

        class Written:
            def __getattr__(self, name):
                return getattr(file, name)

            def __enter__(self):
                return self

            def __exit__(self, *what):
                file.close()

            def write(self, content):
                faults.called()
                return file.write(content)

        return Written()


def as_urdf(path):
    rbd.save_urdf(MODEL, path)


def as_mjcf(path):
    rbd.save_mjcf(MODEL, path)


@functools.cache
def moved():
    return rbd.rollout(MODEL, rbd.State(STATES.q[0], STATES.v[0]), dt=0.01, steps=3)


def as_page(path):
    rbd.save_html(MODEL, moved(), path)


@pytest.mark.parametrize("written, name", [(as_urdf, "a.urdf"), (as_mjcf, "a.xml"), (as_page, "a.html")])
def test_files(written, name, tmp_path, monkeypatch):
    path = tmp_path / name
    path.write_text("before")
    faults = Faults(monkeypatch, tmp_path)
    number = 0
    while True:
        number += 1
        faults.count, faults.fails = 0, number
        try:
            written(path)
        except OSError as error:
            assert error.errno == errno.ENOSPC and path.read_text() == "before", number
            assert [one.name for one in tmp_path.iterdir()] == [name], number
        else:
            if faults.count < number:  # there are no more
                break
            assert path.read_text() != "before", number  # what cannot be waited for is no failure
            path.write_text("before")
    assert number > 4 and path.read_text() != "before" and [one.name for one in tmp_path.iterdir()] == [name]


def test_batches_on_disk(tmp_path, monkeypatch):
    """What fails at any call goes on to the same bytes."""
    options = {"dt": 0.01, "steps": 4, "frames": 2, "every": 0}
    whole = rbd.parallel.simulate_to_disk(tmp_path / "whole", MODEL, STATES, **options).folder
    expected = {path.name: path.read_bytes() for path in whole.glob("*.npy")}
    place = tmp_path / "place"
    place.mkdir()
    faults = Faults(monkeypatch, place)
    number, failed = 0, 0
    while True:
        number += 1
        faults.count, faults.fails = 0, number
        try:
            with warnings.catch_warnings(action="ignore", category=rbd.CheckpointWarning):
                rbd.parallel.simulate_to_disk(place / "run", MODEL, STATES, **options)
        except (OSError, rbd.CheckpointError):
            failed += 1
            assert not (place / "run").exists(), number
            faults.fails = None
            rbd.parallel.simulate_to_disk(place / "run", MODEL, STATES, **options)
        else:
            if faults.count < number:
                break
        assert {path.name: path.read_bytes() for path in (place / "run").glob("*.npy")} == expected, number
        assert sorted(path.name for path in place.iterdir()) == ["run"], number
        shutil.rmtree(place / "run")
    assert failed > 10
