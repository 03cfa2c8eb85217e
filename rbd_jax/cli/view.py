"""The command `view`: shows a robot, and optionally a trajectory, in the browser."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from .._core.interrupts import clearing_up
from ..model import Model
from ..simulate.trajectory import Trajectory
from ..view import view as shown
from .model import Refused, load, told
from .report import plain_console


def view(arguments) -> None:
    """Shows the robot until the command is interrupted."""
    console = plain_console()
    model = load(arguments, console)
    trajectory = None if arguments.trajectory is None else read_trajectory(arguments.trajectory, model)
    try:
        with told(console):
            viewer = shown(
                model, trajectory, arguments.port, host=arguments.host, sample=arguments.sample or 0
            )
    except (ImportError, IndexError, OSError, ValueError) as error:
        raise Refused(_spelled(str(error))) from error
    console.print("Press Ctrl-C to stop", style="dim", highlight=False)
    with clearing_up(lambda: "the viewer stopped"):
        viewer.wait()


def read_trajectory(file: Path, model: Model) -> Trajectory:
    """Returns a trajectory that `rbd-jax simulate` wrote. The names of its joints must be those of the model."""
    wanted = "it must be a trajectory.npz that rbd-jax simulate wrote"
    try:
        if file.exists() and not zipfile.is_zipfile(file):
            raise ValueError("it is not a .npz file")
        with np.load(file) as saved:
            found = {name: saved[name] for name in saved.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        reason = getattr(error, "strerror", None) or error
        raise Refused(f"--trajectory {file}: cannot be read ({reason}); {wanted}") from error
    if missing := [name for name in ("t", "q", "v", "joint_names") if name not in found]:
        raise Refused(f"--trajectory {file}: has no {missing[0]!r}; {wanted}")
    theirs, ours = list(map(str, found["joint_names"])), list(model.joint_names)
    t, q, v = (found[name] for name in "tqv")
    if theirs != ours or q.shape[-1:] != (model.nq,) or v.shape[-1:] != (model.nv,):
        whose = f" of {str(found['robot'])!r}" if "robot" in found else ""
        other = [name for name in theirs if name not in ours] or [name for name in ours if name not in theirs]
        which = f"joint {other[0]!r} is not in both" if other else "their numbers of coordinates differ"
        raise Refused(
            f"--trajectory {file}: it is{whose}, with {len(theirs)} joints, and not of {model.name!r}, with {len(ours)}: {which}"
        )
    tau = np.zeros((*q.shape[:-2], q.shape[-2] - 1, model.nv), q.dtype)
    t = np.broadcast_to(t, q.shape[:-1])
    return Trajectory(*(jnp.asarray(x, model.dtype) for x in (t, q, v, tau)))


def _spelled(message: str) -> str:
    """Returns a library message in the words of the command line."""
    message = re.sub(r"port=(\d+), or leave port out", r"--port \1, or leave --port out", message)
    return message.removeprefix("rbd.view: ").removeprefix("view: ")
