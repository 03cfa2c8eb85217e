"""The command `simulate`: simulates samples of a robot without controls, and writes states, a picture, a page and a film."""

from __future__ import annotations

import argparse
import inspect
import re
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import rbd_jax

from .. import add_forces, forces, joints
from .._core.errors import suggest
from ..checkpoints import CheckpointError
from ..contact.law import contact_law
from ..model import Model
from ..parallel import random_states, xla_note
from ..parallel.simulation import simulate_batch
from ..simulate.begin import default_scheme
from ..simulate.scheme import Scheme
from ..simulate.trajectory import Trajectory
from ..view import film, plot_trajectory
from ..view.player import save_html
from .energy import in_error
from .model import Refused, load, may_float
from .output import added_together, claimed, shared_folder
from .report import Run, error_console, plain_console, progress_bars, report
from .resume import Place, one_line


#: Exit code if samples are incomplete or unreliable.
DOUBTFUL = 3

#: The output files. The page and the films are optional.
STATES, PICTURE, PAGE, FILMS = (
    "trajectory.npz",
    "trajectory.png",
    "run.html",
    {"mp4": "trajectory.mp4", "gif": "trajectory.gif"},
)
FILES = STATES, PICTURE, PAGE, *FILMS.values()

#: Number of samples in the page.
PLAYED = 16

#: Time step if neither the command nor the robot's file has one, in s.
STEP = 0.005

#: Maximum number of saved states per sample, and of saved numbers of all samples.
FRAMES, NUMBERS = 100, 64_000_000

#: Soft limits of revolute and prismatic joints: stiffness and damping (Nm/rad, Nms/rad, or N/m, Ns/m), and the depth over
#: which they become active.
STOPS = {joints.Revolute: (1e4, 1e2, 1e-2), joints.Prismatic: (1e5, 1e3, 1e-3)}

#: Numbers of substeps for samples that failed or gained energy, tried in this order.
SHORTER = (8, 64)

#: Standard deviations of initial states: of the displacement from the neutral configuration in each degree of freedom
#: (clipped to the joint limits), and of the velocity (rad or m, rad/s or m/s).
SPREAD, SPEED = 0.2, 0.5


def simulate(arguments) -> int:
    """Simulates, writes the states, the picture, and optionally a page and a film, and prints a report."""
    if arguments.dt is not None:  # report invalid steps before slow work
        _steps(arguments.seconds, arguments.dt)
    scheme = None if arguments.scheme is None else _scheme(arguments.scheme)
    if arguments.video == "mp4":
        try:
            film.pyav()
        except ImportError as error:
            raise Refused(f"--video {error}: pip install 'rbd_jax[view]', or --video gif") from error
    console = plain_console(arguments.quiet)
    loaded = load(arguments, console)
    dt = arguments.dt or loaded.settings.timestep or STEP
    steps = _steps(arguments.seconds, dt)
    scheme = default_scheme(loaded) if scheme is None else scheme
    if not loaded.nv:
        remedy = "; with --floating-base its root link floats" if may_float(arguments.robot) else ""
        raise Refused(f"{arguments.robot}: no joint moves, so there is nothing to simulate{remedy}")
    name = Path(arguments.robot).stem or loaded.name
    folder = shared_folder(arguments.out, name, FILES, arguments.overwrite)
    place = Place.within("rbd-jax simulate", folder, arguments.checkpoint_every, arguments.resume)
    model, limits = with_stops(loaded, scheme, arguments.no_limits)
    if note := xla_note():
        console.print(note, style="dim", highlight=False, markup=False, soft_wrap=True)
    if abs(steps * dt - arguments.seconds) > 1e-6 * arguments.seconds:
        told = f"{arguments.seconds:g} s is not a multiple of the time step {dt:g} s; simulating {steps}, {steps * dt:.6g} s"
        console.print(told, highlight=False, markup=False, soft_wrap=True)
    options = {"model": model, "scheme": scheme, "dt": dt, "steps": steps}
    options |= {"--batch": arguments.batch, "--seed": arguments.seed}
    try:
        with (
            progress_bars(console, arguments.quiet) as progress,
            claimed(folder),
            place.kept(options) as saved,
        ):
            place.tell(console)
            saved.save({})  # saves the options, so that runs with other options do not resume
            run = _simulated(model, scheme, dt, steps, arguments.batch, arguments.seed, progress, place)
            write = lambda part: _write(part, model, run.path, dt, arguments, progress)
            written = added_together(folder, FILES, write)
    except CheckpointError as error:
        raise place.refused(one_line(str(error)), error) from error
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            said = f"out of memory with --batch {arguments.batch}; use a smaller one"
            raise place.refused(said, error) from error
        raise
    except OSError as error:
        raise place.refused(f"cannot write to {folder}: {error.strerror or error}", error) from error
    console.print(report(model, scheme, dt, steps, limits, run))
    for file in written:
        size = file.stat().st_size / 1e6
        console.print(f"wrote {file} ({size:.2g} MB)", highlight=False, markup=False, soft_wrap=True)
    doubtful = int(np.count_nonzero(run.path.code))
    if doubtful:
        told = f"{doubtful} of {arguments.batch} samples are unreliable: see the table"
        error_console().print(told, style="bold red", highlight=False, markup=False, soft_wrap=True)
    return DOUBTFUL if doubtful else 0


# Preparation.


def _steps(seconds: float, dt: float) -> int:
    """Returns the number of steps of `dt` in the simulated time."""
    if seconds < dt:
        raise Refused(f"--seconds {seconds:g} is less than one time step, --dt {dt:g}")
    number = seconds / dt
    if (
        number > 2**31 - 1
        or seconds + dt / 2 == seconds
        or np.asarray(dt, jnp.result_type(float)) < jnp.finfo(float).tiny
    ):
        raise Refused(
            f"--dt {dt:g} makes {number:.3g} steps, which exceeds the numerical precision; use a larger one"
        )
    return max(1, round(number))


def _scheme(name: str) -> Scheme:
    """Returns the scheme of that name: any scheme of `rbd_jax` without required parameters."""

    def dashed(words: str) -> str:
        return re.sub("(?<=[a-z])(?=[A-Z0-9])", "-", words).lower()

    found = {}
    for name_of_kind, kind in vars(rbd_jax).items():
        if inspect.isclass(kind) and issubclass(kind, Scheme) and not inspect.isabstract(kind):
            needed = [p for p in inspect.signature(kind).parameters.values() if p.default is p.empty]
            if not needed:
                found[dashed(name_of_kind)] = kind
    wanted = name.lower().replace("_", "-")
    by_letters = {key.replace("-", ""): kind for key, kind in found.items()}
    kind = found.get(wanted, by_letters.get(wanted.replace("-", "")))
    if kind is None:
        schemes_are = f"The schemes are {', '.join(map(repr, sorted(found)))}"
        raise Refused(f"there is no scheme {name!r}{suggest(name, found, schemes_are, listed=False)}")
    return kind()


def with_stops(model: Model, scheme: Scheme, left_out: bool) -> tuple[Model, str | None]:
    """Returns the model with soft joint limits, and a description of them or None."""
    topology = model.topology
    limited = np.isfinite(np.asarray(model.lower)) | np.isfinite(np.asarray(model.upper))
    stopped = {family: [] for family in STOPS}
    for body, name in enumerate(model.joint_names):
        family = type(model.joints[topology.kind_of[body][0]])
        # A mimic joint has no coordinate of its own; the limit applies to its leader.
        if family in STOPS and not topology.is_mimic[body] and limited[model.q_slice(name)].any():
            stopped[family].append(name)
    count = sum(map(len, stopped.values()))
    if not count:
        return model, None
    law = contact_law(model)
    if law is not None and law.limits:
        return model, "limits of the contact model"
    if left_out:
        return model, "not enforced (--no-limits)"
    if not scheme.stiff:
        return model, f"not enforced: soft limits are too stiff for {type(scheme).__name__}"
    stops = [forces.JointLimit(*STOPS[family], joints=names) for family, names in stopped.items() if names]
    return add_forces(model, *stops), f"soft limits at {count} joint{'s' * (count > 1)}"


# Simulation and output.


def _simulated(
    model: Model, scheme: Scheme, dt: float, steps: int, batch: int, seed: int, progress, place: Place
) -> Run:
    """Returns the simulated samples, with samples in error repeated with shorter steps."""
    frames = min(FRAMES, max(1, NUMBERS // (batch * (model.nq + model.nv + 1)) - 1))
    options = {"dt": dt, "steps": steps, "scheme": scheme, "frames": frames}
    resumed = place.reached
    begin, task, compiling = time.perf_counter(), progress.add_task("compiling", total=None), 0.0

    def advanced(done: int) -> None:
        nonlocal task, compiling
        if done == 0:
            compiling = time.perf_counter() - begin
            progress.update(task, total=1, completed=1)
            task = progress.add_task("simulating", total=steps)
        progress.update(task, completed=done)

    states = random_states(model, batch, jax.random.key(seed), SPREAD, SPEED)
    path = simulate_batch(model, states, **options, on_progress=advanced, checkpoint=place.file("all"))
    simulating = time.perf_counter() - begin - compiling
    repeated = []
    for substeps in SHORTER:
        rows = np.flatnonzero(in_error(model, path))
        if not len(rows):
            break
        task = progress.add_task(f"in {substeps} times", total=steps)
        again = simulate_batch(
            model,
            jax.tree.map(lambda x, rows=rows: x[rows], states),
            **options,
            substeps=substeps,
            on_progress=lambda done, task=task: progress.update(task, completed=done),
            checkpoint=place.file(f"in-{substeps}"),
        )
        path = jax.tree.map(lambda all, new, rows=rows: jnp.asarray(all).at[rows].set(new), path, again)
        repeated.append((len(rows), substeps))
    return Run(path, compiling, simulating, tuple(repeated), resumed)


def _write(
    folder: Path, model: Model, path: Trajectory, dt: float, wanted: argparse.Namespace, progress
) -> tuple[str, ...]:
    """Writes the files and returns their names."""
    saving = progress.add_task("saving", total=2)
    with np.errstate(over="ignore"):  # samples that diverge
        saved = {name: np.asarray(getattr(path, name)) for name in "qv"}
        saved["t"] = np.asarray(path.t)[0]
    np.savez_compressed(
        folder / STATES,
        **saved,  # pyright: ignore[reportArgumentType]
        robot=np.array(model.name),
        dt=saved["t"].dtype.type(dt),
        body_names=np.array(model.body_names),
        joint_names=np.array(model.joint_names),
    )
    progress.advance(saving)
    shown = int(np.argmax(np.isfinite(saved["q"]).all(axis=(1, 2))))
    plot_trajectory(model, path, folder / PICTURE, shown)
    progress.advance(saving)
    written = [STATES, PICTURE]
    if wanted.html:
        save_html(model, path, folder / PAGE, sample=shown, samples=range(min(len(saved["q"]), PLAYED)))
        written.append(PAGE)
    if wanted.video is not None:
        filming = progress.add_task("filming", total=None)
        told = lambda done, count: progress.update(filming, total=count, completed=done)
        film.save_video(model, path, folder / FILMS[wanted.video], sample=shown, progress=told)
        written.append(FILMS[wanted.video])
    return tuple(written)
