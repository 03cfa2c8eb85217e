"""What the oracle tests share: where the robots are, and how an error is measured."""

import sys
import warnings
from pathlib import Path

import jax
import numpy as np

import rbd_jax as rbd


STATES = 10


def folder(*below: str) -> Path | None:
    """A folder among the installed packages, found without importing any."""
    places = (Path(place, *below) for place in sys.path)
    return next((path for path in places if path.is_dir()), None)


def urdf_files() -> dict[str, Path]:
    """The URDF files of example-robot-data by their names, with the folder where two have the same."""
    root = folder("cmeel.prefix", "share", "example-robot-data", "robots")
    paths = sorted(root.rglob("*.urdf")) if root else []
    names = [path.stem for path in paths]
    return {
        path.stem if names.count(path.stem) == 1 else f"{path.relative_to(root).parts[0]}/{path.stem}": path
        for path in paths
    }


def mjcf_files() -> dict[str, Path]:
    """The MJCF files of mujoco-mjx and brax, by package and path."""
    roots = {"mjx": folder("mujoco", "mjx", "test_data"), "brax": folder("brax", "envs", "assets")}
    return {
        f"{package}/{path.relative_to(root)}": path
        for package, root in roots.items()
        for path in (sorted(root.rglob("*.xml")) if root else ())
    }


def all_mjcf_files() -> dict[str, Path]:
    """Those, and the ones of dm_control, gymnasium and gymnasium-robotics; among them pieces of files that are none alone."""
    found = mjcf_files()
    for package, below in (("dm_control", "suite"), ("gymnasium", "envs"), ("gymnasium_robotics", "envs")):
        root = folder(package, below)
        paths = sorted(root.rglob("*.xml")) if root else []
        found |= {f"{package}/{path.relative_to(root)}": path for path in paths}
    return found


def load(path: Path | str, **options) -> rbd.Model:
    """A robot, its oddities not spoken of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rbd.ModelWarning)
        return rbd.load_urdf(path, **options)


def random_states(model: rbd.Model, seed: int = 0) -> tuple[np.ndarray, ...]:
    """q, v, a, tau: each (STATES, ...). Angles within half a turn, quaternions of any length."""
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
    """`jax.jit` with the least optimization: what takes long here is the compiler."""
    return jax.jit(function).lower(*arguments).compile()


def relative(ours, theirs) -> float:
    """The norm of the difference over that of the oracle's value, or alone where that is zero."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    size, error = np.linalg.norm(theirs), np.linalg.norm(ours - theirs)
    return float(error / size) if size > 1e-12 else float(error)


class Worst(dict):
    """The largest error of each quantity. A NaN counts as infinite."""

    def compare(self, name: str, ours, theirs) -> None:
        error = relative(ours, theirs)
        self[name] = max(self.get(name, 0.0), np.inf if np.isnan(error) else error)

    def __str__(self) -> str:
        return ", ".join(f"{name} {error:.1e}" for name, error in self.items())


def spread(names, count: int) -> list:
    """So many of a sequence, evenly spread, the first and the last among them."""
    return [names[i] for i in sorted(set(np.linspace(0, len(names) - 1, count).round().astype(int)))]
