"""Errors for packages of an extra that are not installed name the package and the extra."""

import sys

import jax.numpy as jnp
import pytest

import rbd_jax as rbd
from rbd_jax import cli


PENDULUM, START = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
MATPLOTLIB = r"matplotlib is not installed, which plots need: pip install 'rbd_jax\[cli\]'"


@pytest.mark.parametrize("package", ["rich", "matplotlib"])
def test_commands(package, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, package, None)
    assert cli.main(["info", "pendulum"]) == 2
    told = capsys.readouterr()
    assert told.err == (
        f"rbd-jax: error: {package} is not installed, which the commands need: pip install 'rbd_jax[cli]'\n"
    )
    assert told.out == ""


def test_plots(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    path = rbd.rollout(PENDULUM, START, dt=0.01, steps=3)
    with pytest.raises(ImportError, match=MATPLOTLIB):
        rbd.plot(PENDULUM, path)


def test_progress_bars(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with pytest.raises(ImportError, match=r"rich is not installed, which progress bars need"):
        rbd.rollout(PENDULUM, START, dt=0.01, steps=3, progress=True)
