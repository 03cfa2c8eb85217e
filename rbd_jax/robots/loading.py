"""Loads a robot by its name, or from a file."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from .._core.errors import ModelError, suggest
from ..model import Model
from .all_joints import all_joints
from .arm7 import arm7
from .cartpole import cartpole
from .hopper import hopper
from .humanoid import humanoid
from .pendulum import acrobot, double_pendulum, pendulum
from .quadruped import quadruped
from .reacher import reacher


_BUNDLED = {
    make.__name__: make
    for make in (
        pendulum,
        double_pendulum,
        acrobot,
        cartpole,
        reacher,
        arm7,
        quadruped,
        hopper,
        humanoid,
        all_joints,
    )
}

NAMES = tuple(_BUNDLED)
"""The names of the bundled robots.

>>> print(rbd.robots.NAMES[:3])
('pendulum', 'double_pendulum', 'acrobot')
"""

SUFFIXES = (".urdf", ".xml", ".mjcf", ".sdf")
"""The suffixes of the files that `load` reads.

>>> print(rbd.robots.SUFFIXES)
('.urdf', '.xml', '.mjcf', '.sdf')
"""


def load(name_or_path: str | Path, **options: Any) -> Model:
    """Returns a bundled robot by its name, or the model in a URDF, MJCF or SDF file.

    Args:
      name_or_path: One of `rbd_jax.robots.NAMES`, or the path of a `.urdf`, `.xml`, `.mjcf` or `.sdf` file. The format of an
        `.xml` file follows from its outermost element.
      **options: Options of `load_urdf`, `load_mjcf` or `load_sdf`. A bundled robot has no options.

    Returns:
      The `Model`.

    Raises:
      ModelError: If there is no such robot or file, if the file is faulty, or if an option is unknown.

    >>> rbd.load("double_pendulum")
    double_pendulum: 2 bodies, nq = 2, nv = 2
    └─ upper (shoulder)  Revolute v[0:1], 1 kg
       └─ lower (elbow)  Revolute v[1:2], 1 kg
    """
    if not isinstance(name_or_path, str | Path):
        raise ModelError(
            f"load: got a {type(name_or_path).__name__}; give the name of a bundled robot or a path"
        )
    name, known = str(name_or_path), options_of(name_or_path)
    if name in _BUNDLED:
        if options:
            listed = ", ".join(map(repr, sorted(options)))
            raise ModelError(f"robot {name!r} has no options, got {listed}; options apply to files only")
        return _BUNDLED[name]()
    path = Path(name_or_path)
    read = _loader(path)
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ModelError(f"{name}: {read.__name__} has no option {unknown[0]!r}{suggest(unknown[0], known)}")
    return read(path, **options)


def options_of(name_or_path: str | Path) -> tuple[str, ...]:
    """Returns the names of the options that `load` accepts for a robot.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rbd.save_urdf(rbd.load("arm7"), pathlib.Path(folder, "arm.urdf"))
    ...     print(rbd.robots.options_of(pathlib.Path(folder, "arm.urdf")), rbd.robots.options_of("arm7"))
    ('floating_base', 'lock', 'mimic', 'strict', 'gravity', 'package_dirs', 'limits') ()
    """
    name, path = str(name_or_path), Path(name_or_path)
    if name in _BUNDLED:
        return ()
    if not _exists(path):
        if path.suffix or len(path.parts) > 1:
            raise ModelError(f"{name}: there is no such file or bundled robot{_bundled(name)}")
        raise ModelError(
            f"there is no robot {name!r}{_bundled(name)}. Or pass the path of a file ({_suffixes()})"
        )
    if path.suffix.lower() not in SUFFIXES:
        expand = "; expand xacro first: xacro robot.xacro > robot.urdf" if path.suffix == ".xacro" else ""
        raise ModelError(f"{name}: supported files end in {_suffixes()}{expand}")
    return tuple(inspect.signature(_loader(path)).parameters)[1:]


def _loader(path: Path):
    from ..files.mjcf import load_mjcf
    from ..files.sdf import load_sdf
    from ..files.urdf import load_urdf

    kinds = {".urdf": load_urdf, ".sdf": load_sdf, ".xml": load_mjcf, ".mjcf": load_mjcf}
    if path.suffix.lower() != ".xml":
        return kinds[path.suffix.lower()]
    return {"robot": load_urdf, "sdf": load_sdf}.get(_root(path) or "", load_mjcf)


def _root(path: Path) -> str | None:
    """Returns the tag of a file's outermost element, or None if it cannot be read; the loader reports why."""
    from ..files.limits import Limits, read_file
    from ..files.xml import outermost

    try:
        return outermost(read_file(path, Limits(size=2**40)))  # the loader checks the size
    except (ModelError, OSError, ValueError):
        return None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # names too long, null characters
        return False


def _bundled(name: str) -> str:
    return suggest(name, NAMES, f"The bundled ones are {', '.join(NAMES)}", listed=False)


def _suffixes() -> str:
    return ", ".join(SUFFIXES[:-1]) + f" or {SUFFIXES[-1]}"
