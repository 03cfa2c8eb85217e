"""Batches simulated into files, limited only by the disk; and reading these files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from jaxtyping import Float, Int

from .._core.array import from_numpy, zeros
from .._core.files import whole_file
from ..checkpoints import Checkpoint, CheckpointError, Run
from ..constraints import Stabilization
from ..simulate import Acting, Simulated
from ..simulate.scheme import Scheme
from ..simulate.state import State
from ..simulate.trajectory import Trajectory
from .simulation import Simulation


#: The checkpoint in the folder, which identifies the simulation and stays with the finished files.
RUN = "run.ckpt"
#: The name of a file that a process leaves when it is killed during a write.
LEFT = re.compile(r"\.\w+\.\d+\.part\.npy")


@dataclass(frozen=True, eq=False)
class StoredTrajectory:
    """A batch of trajectories in files, as NumPy arrays that are read on access.

    - `folder`: The folder. It has a file NAME.npy for each of the arrays, with states stored by rows: (rows, batch, ...).
    - `t`: (rows,). `q`, `v`, `own`: (batch, rows, ...), as in a `Trajectory`; `own` is `None` without force states.
    - `code`, `failed_step`, `opening`: (batch,); the last is `None` without constraints.

    Some of the samples, `stored[3]` or `stored[10:20]`, are a `Trajectory` in memory; `stored[:, ::100]` selects rows as well.

    >>> import pathlib, tempfile
    >>> model = rbd.load("double_pendulum")
    >>> states = rbd.parallel.random_states(model, 20, jax.random.key(0), spread=0.1, speed=0.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stored = rbd.parallel.simulate_to_disk(pathlib.Path(folder, "run"), model, states, dt=0.01, steps=100, frames=50)
    ...     print(len(stored), stored.q.shape, stored[3].q.shape, stored[10:12, ::5].q.shape)
    20 (20, 51, 2) (51, 2) (2, 11, 2)
    """

    folder: Path
    t: Float[np.ndarray, "rows"]
    q: Float[np.ndarray, "batch rows nq"]
    v: Float[np.ndarray, "batch rows nv"]
    own: Float[np.ndarray, "batch rows own"] | None
    code: Int[np.ndarray, "batch"]
    failed_step: Int[np.ndarray, "batch"]
    opening: Float[np.ndarray, "batch"] | None

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.code)

    def __getitem__(self, which) -> Trajectory:
        """Reads some samples, and optionally some of their rows, into memory. `tau` is zero, as in `simulate_batch`."""
        samples, rows = which if isinstance(which, tuple) else (which, slice(None))
        if isinstance(rows, int | np.integer):
            raise TypeError("StoredTrajectory: rows are a slice: stored[samples, 100:101]")
        read = lambda x: from_numpy(np.array(x[samples])[..., rows, :])
        one = lambda x: from_numpy(np.array(x[samples]))
        q, v, own = read(self.q), read(self.v), None if self.own is None else read(self.own)
        opening = None if self.opening is None else one(self.opening)
        t = from_numpy(np.broadcast_to(self.t[rows], q.shape[:-1]))
        tau = zeros((*q.shape[:-2], max(q.shape[-2] - 1, 0), v.shape[-1]), q.dtype)
        return Trajectory(t, q, v, tau, one(self.code), one(self.failed_step), own=own, opening=opening)

    def __repr__(self) -> str:
        batch, rows, _ = self.q.shape
        failed = int(np.count_nonzero(self.code))
        told = f", {failed} failed" if failed else ""
        return f"StoredTrajectory({str(self.folder)!r}: {batch} samples of {rows} rows{told}, {self.q.dtype})"


def simulate_to_disk(
    folder: str | os.PathLike,
    model: Simulated,
    states: State,
    *,
    dt: float | None = None,
    steps: int,
    scheme: Scheme | None = None,
    frames: int = 100,
    forces: Sequence[Acting] = (),
    stabilization: Stabilization | Literal["auto"] | None = "auto",
    substeps: int = 1,
    on_progress: Callable[[int], Any] | None = None,
    every: float | int = 30.0,
) -> StoredTrajectory:
    """Runs `simulate_batch` into a folder of files, with one row of all samples in memory at a time.

    During the run the files and the saved progress are in FOLDER.part; `folder` exists once everything is complete. After an
    interruption, the same call resumes with bitwise identical results. If the run was finished, the call returns the existing
    files. Files of another call raise an error.

    Args:
      folder: The folder of the trajectory.
      model: The model.
      states: The initial states, with a leading axis of samples.
      dt: As for `simulate_batch`, as are all other arguments that are not listed here.
      every: The time between saves, in s; 0 for a save after each row.

    >>> import pathlib, tempfile
    >>> model = rbd.load("pendulum")
    >>> states = rbd.State(jnp.array([[0.1], [0.2]]), jnp.zeros((2, 1)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stored = rbd.parallel.simulate_to_disk(pathlib.Path(folder, "run"), model, states, dt=0.01, steps=1000)
    ...     print(stored.q.shape, sorted(path.name for path in stored.folder.iterdir()))
    (2, 101, 1) ['code.npy', 'failed_step.npy', 'q.npy', 'run.ckpt', 't.npy', 'v.npy']
    """
    owner = "parallel.simulate_to_disk"
    made = Simulation(owner, model, states, dt, steps, frames, substeps, scheme, forces, stabilization)
    whole = Path(folder)
    part = whole.with_name(f"{whole.name}.part")
    if whole.exists() or whole.is_symlink():
        if not (whole / RUN).is_file():
            raise FileExistsError(
                f"{owner}: {whole} is there already, and is no trajectory; name another folder"
            )
        with Checkpoint(whole / RUN).run(owner, made.key):  # raises an error for another run
            return open_trajectory(whole)
    others = _others(part)
    if others:
        raise FileExistsError(
            f"{owner}: {part} has other files ({', '.join(others[:3])}), and is where this would write; name another folder"
        )
    part.mkdir(parents=True, exist_ok=True)
    try:
        with Checkpoint(part / RUN, every).run(owner, made.key) as run:
            for path in part.iterdir():
                if LEFT.fullmatch(path.name):
                    path.unlink()
            _simulated_into(part, made, run, on_progress)
        os.rename(part, whole)
    except OSError as error:
        raise OSError(
            error.errno,
            f"{owner}: {error.strerror or error}. The same call resumes from the saved progress",
            str(part),
        ) from error
    return open_trajectory(whole)


def _simulated_into(part: Path, made: Simulation, run: Run, on_progress) -> None:
    """Writes all files of a folder."""
    shape = len(made.row_steps), len(made.states.q)
    states = {name: getattr(made.states, name) for name in ("q", "v", "own")}
    files = {
        name: (part / f"{name}.npy", (*shape, *x.shape[1:]), x.dtype)
        for name, x in states.items()
        if x is not None
    }
    rows = _OnDisk(files, anew=run.found is None)
    try:
        end = made.run(rows, run, on_progress)
        missing = end.missing(made.row_steps)
        for sample in np.flatnonzero(missing.any(axis=1)).tolist():
            rows.lose(sample, missing[sample])
        rows.saved()
    finally:
        rows.close()
    told = {"t": made.times, "code": end.code, "failed_step": end.failed_step, "opening": end.opening}
    for name, x in told.items():
        if x is not None:
            with whole_file(part / f"{name}.npy") as file:
                np.save(file, x)


def open_trajectory(folder: str | os.PathLike) -> StoredTrajectory:
    """Opens the files that `simulate_to_disk` has written to a folder. Data is read on access.

    >>> import pathlib, tempfile
    >>> model = rbd.load("pendulum")
    >>> states = rbd.State(jnp.array([[0.1], [0.2]]), jnp.zeros((2, 1)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = pathlib.Path(folder, "run")
    ...     _ = rbd.parallel.simulate_to_disk(place, model, states, dt=0.01, steps=100)
    ...     print(rbd.parallel.open_trajectory(place)[1].final.q.shape)
    (1,)
    """
    owner, folder = "parallel.open_trajectory", Path(folder)
    if not (folder / RUN).is_file():
        left = folder.with_name(f"{folder.name}.part").is_dir()
        why = (
            "an unfinished one is beside it; the same call of simulate_to_disk resumes it"
            if left
            else ("a folder that parallel.simulate_to_disk has made is one")
        )
        raise FileNotFoundError(f"{owner}: {folder} is no trajectory; {why}")

    def read(name: str, needed: bool = True) -> Any:
        path = folder / f"{name}.npy"
        if not needed and not path.exists():
            return None
        try:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{owner}: {path} cannot be read ({error}); simulate again") from error

    own = read("own", needed=False)
    return StoredTrajectory(
        folder,
        read("t"),
        read("q").swapaxes(0, 1),
        read("v").swapaxes(0, 1),
        None if own is None else own.swapaxes(0, 1),
        read("code"),
        read("failed_step"),
        read("opening", needed=False),
    )


class _OnDisk:
    """Rows in preallocated files.

    Rows are written, not memory-mapped, so that a full disk raises an error instead of ending the process.
    """

    def __init__(self, files: Mapping[str, tuple[Path, tuple[int, ...], Any]], anew: bool):
        self.files: dict[str, BinaryIO] = {}
        self.begin: dict[str, int] = {}
        self.shapes = {name: (shape, np.dtype(dtype)) for name, (_, shape, dtype) in files.items()}
        for name, (path, shape, dtype) in files.items():
            file = self.files[name] = open(path, "w+b" if anew else "r+b")
            head = {
                "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
                "fortran_order": False,
                "shape": shape,
            }
            np.lib.format.write_array_header_2_0(file, head)
            self.begin[name] = file.tell()
            file.truncate(self.begin[name] + int(np.prod(shape)) * np.dtype(dtype).itemsize)

    def put(self, number: int, state: State) -> None:
        for name, file in self.files.items():
            row = np.ascontiguousarray(getattr(state, name))
            file.seek(self.begin[name] + number * row.nbytes)
            file.write(row.data)

    def saved(self) -> Mapping[str, Any]:
        for file in self.files.values():
            file.flush()
            os.fsync(file.fileno())
        return {}

    def restored(self, saved: Mapping[str, Any]) -> None:
        """Does nothing, since the rows are in the files."""

    def lose(self, sample: int, missing: np.ndarray) -> None:
        """Sets some rows of a sample to NaN."""
        for name, file in self.files.items():
            (_, batch, *rest), dtype = self.shapes[name]
            one = np.full(rest, np.nan, dtype)
            for row in np.flatnonzero(missing).tolist():
                file.seek(self.begin[name] + (row * batch + sample) * one.nbytes)
                file.write(one.data)

    def close(self) -> None:
        for file in self.files.values():
            file.close()


def _others(part: Path) -> list[str]:
    """Returns the files in the folder that do not belong to this function."""
    ours = {f"{name}.npy" for name in ("t", "q", "v", "own", "code", "failed_step", "opening")}
    there = [path.name for path in part.iterdir()] if part.is_dir() else []
    checkpoint = re.compile(r"\.?run\..*")
    return sorted(
        name for name in there if not (name in ours or checkpoint.fullmatch(name) or LEFT.fullmatch(name))
    )
