"""Helpers of the oracle tests: the robot files, and error measures."""

import sys
import warnings
from pathlib import Path

import jax
import numpy as np

import rbd_jax as rbd


STATES = 10


def folder(*below: str) -> Path | None:
    """Returns a folder of the installed packages without importing them."""
    places = (Path(place, *below) for place in sys.path)
    return next((path for path in places if path.is_dir()), None)


def urdf_files() -> dict[str, Path]:
    """Returns the URDF files of example-robot-data by name, with the folder if two have the same name."""
    root = folder("cmeel.prefix", "share", "example-robot-data", "robots")
    paths = sorted(root.rglob("*.urdf")) if root else []
    names = [path.stem for path in paths]
    return {
        path.stem if names.count(path.stem) == 1 else f"{path.relative_to(root).parts[0]}/{path.stem}": path
        for path in paths
    }


def mjcf_files() -> dict[str, Path]:
    """Returns the MJCF files of mujoco-mjx and brax, by package and path."""
    roots = {"mjx": folder("mujoco", "mjx", "test_data"), "brax": folder("brax", "envs", "assets")}
    return {
        f"{package}/{path.relative_to(root)}": path
        for package, root in roots.items()
        for path in (sorted(root.rglob("*.xml")) if root else ())
    }


def all_mjcf_files() -> dict[str, Path]:
    """Returns these files and those of dm_control, gymnasium and gymnasium-robotics, including incomplete file parts."""
    found = mjcf_files()
    for package, below in (("dm_control", "suite"), ("gymnasium", "envs"), ("gymnasium_robotics", "envs")):
        root = folder(package, below)
        paths = sorted(root.rglob("*.xml")) if root else []
        found |= {f"{package}/{path.relative_to(root)}": path for path in paths}
    return found


def load(path: Path | str, **options) -> rbd.Model:
    """Loads a robot without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rbd.ModelWarning)
        return rbd.load_urdf(path, **options)


def random_states(model: rbd.Model, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Returns q, v, a, tau: each (STATES, ...). Angles are within half a turn, quaternions have any length."""
    random = np.random.default_rng(seed)
    q = random.normal(size=(STATES, model.nq))
    for kind in model.topology.kinds:
        if kind.nq == kind.nv:
            for body in kind.bodies:
                columns = model.topology.joint_q(body)
                columns = columns[columns < model.nq]
                q[:, columns] = random.uniform(-np.pi, np.pi, (STATES, len(columns)))
    return q, *random.normal(size=(3, STATES, model.nv))


def compiled(function, *arguments):
    """Compiles with minimal optimization, because compilation dominates these tests."""
    return jax.jit(function).lower(*arguments).compile()


def relative(ours, theirs) -> float:
    """Returns the norm of the difference relative to the oracle's value, or absolute if that is zero."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    size, error = np.linalg.norm(theirs), np.linalg.norm(ours - theirs)
    return float(error / size) if size > 1e-12 else float(error)


class Worst(dict):
    """The largest error of each quantity. NaN counts as infinite."""

    def compare(self, name: str, ours, theirs) -> None:
        error = relative(ours, theirs)
        self[name] = max(self.get(name, 0.0), np.inf if np.isnan(error) else error)

    def __str__(self) -> str:
        return ", ".join(f"{name} {error:.1e}" for name, error in self.items())


def spread(names, count: int) -> list:
    """Returns `count` evenly spread entries of a sequence, including the first and the last."""
    return [names[i] for i in sorted(set(np.linspace(0, len(names) - 1, count).round().astype(int)))]
