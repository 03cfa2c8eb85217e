"""The command line: `python -m rbd_jax simulate ROBOT`, `python -m rbd_jax info ROBOT`.

A wrong argument or file ends with one line on stderr and the exit code 2. What is slow to import is imported once the
arguments are known to be right.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from pathlib import Path


#: At most so many states of a sample are kept, and at most so many numbers of all samples together.
FRAMES, NUMBERS = 100, 64_000_000

#: The stops at the limits of joints that turn and of joints that slide: stiffness and damping (Nm/rad, Nms/rad, or N/m, Ns/m),
#: and over what depth they come in.
STOPS = {"Revolute": (1e4, 1e2, 1e-2), "Prismatic": (1e5, 1e3, 1e-3)}

#: A sample that gains more than this share of the energy in its motion is in error.
GAIN = 0.05

#: Into so many steps are those of samples divided that failed or gained energy, one after the other.
SHORTER = (8, 64)

#: How the samples start: the neutral configuration moved by normal deviates of this size in every degree of freedom (and back
#: into the joint limits), and velocities that are normal deviates of that size (rad or m, rad/s or m/s).
SPREAD, SPEED = 0.2, 0.5


class Refused(Exception):
    """Something that the user asked for cannot be done; the message is one line."""


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(f"{message} (see {self.prog} --help)")


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    try:
        arguments = _parser().parse_args(argv)
        return arguments.run(arguments)
    except Refused as refusal:
        message = " ".join(str(refusal).split())
        print(f"rbd-jax: error: {message}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("rbd-jax: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="rbd-jax", description="Rigid-body dynamics on JAX.")
    parser.add_argument("--version", action="version", version=f"rbd-jax {_version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    robot = _Parser(add_help=False)
    robot.add_argument(
        "robot", metavar="ROBOT", help="a bundled robot (as quadruped), or a .urdf, .xml or .mjcf file"
    )
    robot.add_argument("--floating-base", action="store_true", help="let the root link of a URDF float")

    simulate = commands.add_parser(
        "simulate",
        parents=[robot],
        help="simulate many samples and draw one",
        description=(
            "Simulate samples of a robot without controls: gravity acts, the joints' own damping, friction and "
            "springs, and soft stops at their limits; contacts do not. Each sample starts near the neutral configuration "
            f"(moved by {SPREAD:g} rad or m, one standard deviation) at a random velocity ({SPEED:g} rad/s or "
            "m/s). Samples that fail or gain energy are simulated again in shorter steps. Writes trajectory.npz "
            "and trajectory.png."
        ),
    )
    simulate.add_argument("--batch", metavar="N", type=_count, default=1024, help="samples (default 1024)")
    simulate.add_argument(
        "--seconds", metavar="T", type=_positive, default=1.0, help="simulated time (default 1)"
    )
    simulate.add_argument(
        "--dt", metavar="H", type=_positive, default=0.005, help="time step (default 0.005)"
    )
    simulate.add_argument(
        "--scheme",
        metavar="S",
        default="semi-implicit-euler",
        help="semi-implicit-euler (default), runge-kutta-4, ...",
    )
    simulate.add_argument("--no-limits", action="store_true", help="let joints move beyond their limits")
    simulate.add_argument("--out", metavar="DIR", type=Path, help="where to write (default runs/NAME)")
    simulate.add_argument(
        "--seed", metavar="K", type=_seed, default=0, help="of the random states (default 0)"
    )
    simulate.set_defaults(run=_simulate)

    info = commands.add_parser(
        "info",
        parents=[robot],
        help="show what a model consists of",
        description="Show what a model consists of.",
    )
    info.set_defaults(run=_info)
    return parser


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("rbd_jax")
    except PackageNotFoundError:  # run from a checkout that is not installed
        import rbd_jax

        return getattr(rbd_jax, "__version__", "(not installed)")


def _count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return value


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to {2**32 - 1}")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


# What both commands do.


def _load(arguments, console):
    """The model, with what is suspicious about it in yellow."""
    from . import ModelError, ModelWarning, robots

    options = {"floating_base": True} if arguments.floating_base else {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ModelWarning)
        try:
            model = robots.load(arguments.robot, **options)
        except ModelError as error:
            raise Refused(str(error)) from error
        except (ImportError, OSError) as error:
            raise Refused(f"{arguments.robot}: {error}") from error
    for warning in caught:
        if issubclass(warning.category, ModelWarning):
            first, *rest = str(warning.message).split("; ")
            head, _, fault = first.partition(": ")
            console.print(f"warning: {head}", style="yellow", highlight=False, markup=False, soft_wrap=True)
            for line in (fault, *rest) if fault else rest:
                console.print(f"  - {line}", style="yellow", highlight=False, markup=False, soft_wrap=True)
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return model


def _console():
    from rich.console import Console

    return Console(soft_wrap=False)


def _table(title: str | None = None, header: bool = True):
    from rich import box
    from rich.table import Table

    return Table(title=title, title_justify="left", show_header=header, box=box.SIMPLE_HEAD, pad_edge=False)


# simulate.


def _simulate(arguments) -> int:
    if arguments.seconds < arguments.dt:
        raise Refused(f"--seconds {arguments.seconds:g} is less than one time step, --dt {arguments.dt:g}")
    import jax
    import jax.numpy as jnp
    import numpy as np
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from .parallel import random_states, simulate_batch, xla_note
    from .view import plot_trajectory

    console = _console()
    scheme = _scheme(arguments.scheme)
    loaded = _load(arguments, console)
    folder = _folder(arguments, loaded)
    model, limits = _with_stops(loaded, scheme, arguments.no_limits)
    if note := xla_note():
        console.print(note, style="dim", highlight=False, markup=False, soft_wrap=True)
    steps = max(1, round(arguments.seconds / arguments.dt))
    _check_step(steps, arguments.dt)
    batch, seconds, begin = arguments.batch, {}, time.perf_counter()
    frames = min(FRAMES, max(1, NUMBERS // (batch * (model.nq + model.nv + 1)) - 1))
    columns = TextColumn("{task.description:12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    try:
        with Progress(*columns, console=console) as progress:
            phases = {"now": progress.add_task("compiling", total=None)}

            def advanced(done: int) -> None:
                if done == 0:
                    seconds["compiling"] = time.perf_counter() - begin
                    progress.update(phases["now"], total=1, completed=1)
                    phases["now"] = progress.add_task("simulating", total=steps)
                progress.update(phases["now"], completed=done)

            states = random_states(model, batch, jax.random.key(arguments.seed), SPREAD, SPEED)
            options = {"dt": arguments.dt, "steps": steps, "scheme": scheme, "frames": frames}
            path = simulate_batch(model, states, **options, on_progress=advanced)
            seconds["simulating"] = time.perf_counter() - begin - seconds["compiling"]
            repeated = []
            for substeps in SHORTER:
                rows = np.flatnonzero(_in_error(model, path))
                if not len(rows):
                    break
                task = progress.add_task(f"in {substeps} times", total=steps)
                again = simulate_batch(
                    model,
                    jax.tree.map(lambda x, rows=rows: x[rows], states),
                    **options,
                    substeps=substeps,
                    on_progress=lambda done, task=task: progress.update(task, completed=done),
                )
                path = jax.tree.map(
                    lambda all, new, rows=rows: jnp.asarray(all).at[rows].set(new), path, again
                )
                repeated.append((len(rows), substeps))
            saving = progress.add_task("saving", total=2)
            with np.errstate(over="ignore"):  # of samples that diverge
                saved = {name: np.asarray(getattr(path, name), np.float32) for name in "qv"}
                saved["t"] = np.asarray(path.t[0], np.float32)
            np.savez_compressed(
                folder / "trajectory.npz",
                **saved,  # pyright: ignore[reportArgumentType]
                robot=np.array(model.name),
                dt=np.float32(arguments.dt),
                body_names=np.array(model.body_names),
                joint_names=np.array(model.joint_names),
            )
            progress.advance(saving)
            shown = int(np.argmax(np.isfinite(saved["q"]).all(axis=(1, 2))))
            plot_trajectory(model, path, folder / "trajectory.png", shown)
            progress.advance(saving)
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            raise Refused(f"out of memory with --batch {arguments.batch}; try a smaller one") from error
        raise
    except OSError as error:
        raise Refused(f"cannot write to {folder}: {error.strerror or error}") from error
    console.print(_report(model, path, scheme, steps, arguments.dt, seconds, limits, repeated))
    for name in ("trajectory.npz", "trajectory.png"):
        size = (folder / name).stat().st_size / 1e6
        console.print(f"wrote {folder / name} ({size:.2g} MB)", highlight=False, markup=False, soft_wrap=True)
    return 0


def _check_step(steps: int, dt: float) -> None:
    import jax.numpy as jnp

    if steps > 2**31 - 1 or steps * dt + dt / 2 == steps * dt or jnp.asarray(dt) < jnp.finfo(float).tiny:
        raise Refused(
            f"--dt {dt:g} makes {steps:.3g} steps, which is more than can be told apart; take a larger one"
        )


def _scheme(name: str):
    """The scheme of that name: any of `rbd_jax.simulate` that needs no parameters."""
    import inspect
    import re

    from . import simulate
    from ._errors import suggest

    def dashed(words: str) -> str:
        return re.sub("(?<=[a-z])(?=[A-Z0-9])", "-", words).lower()

    found = {}
    for name_of_kind, kind in vars(simulate).items():
        if inspect.isclass(kind) and issubclass(kind, simulate.Scheme) and not inspect.isabstract(kind):
            needed = [p for p in inspect.signature(kind).parameters.values() if p.default is p.empty]
            if not needed:
                found[dashed(name_of_kind)] = kind
    wanted = name.lower().replace("_", "-")
    by_letters = {key.replace("-", ""): kind for key, kind in found.items()}
    kind = found.get(wanted, by_letters.get(wanted.replace("-", "")))
    if kind is None:
        hint = suggest(name, found)
        hint = "" if "there are" in hint else hint  # that would be some of them
        raise Refused(
            f"there is no scheme {name!r}{hint}. The schemes are {', '.join(map(repr, sorted(found)))}"
        )
    return kind()


def _folder(arguments, model) -> Path:
    """Where to write, made and tried before the work begins."""
    stem = Path(arguments.robot).stem or model.name
    folder = Path("runs") / stem if arguments.out is None else arguments.out
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".trajectory.part"
        probe.touch()
        probe.unlink()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Refused(f"cannot write to {folder}: {reason}; choose another --out") from error
    return folder


def _with_stops(model, scheme, left_out: bool):
    """The model with soft stops at the limits of its joints, and what to say of them."""
    import numpy as np

    from . import add_forces, forces

    topology, limited = (
        model.topology,
        np.isfinite(np.asarray(model.lower)) | np.isfinite(np.asarray(model.upper)),
    )
    joints = {family: [] for family in STOPS}
    for body, name in enumerate(model.joint_names):
        family = type(model.joints[topology.kind_of[body][0]]).__name__
        if family in STOPS and not topology.is_mimic[body] and limited[model.q_slice(name)].any():
            joints[family].append(name)
    count = sum(map(len, joints.values()))
    if not count:
        return model, None
    if left_out:
        return model, "not enforced (--no-limits)"
    if not scheme.stiff:
        return model, f"not enforced: stops are too stiff for {type(scheme).__name__}"
    stops = [forces.JointLimit(*STOPS[family], joints=names) for family, names in joints.items() if names]
    return add_forces(model, *stops), f"soft stops at {count} joint{'s' * (count > 1)}"


def _energies(model, path):
    """Of every sample, relative to the most that its motion had or exchanged: the change of its energy, and how far it ever rose.

    Looked at are 21 times. Of samples that came to no end both are not numbers.
    """
    import numpy as np

    from .parallel import energies_along

    frames = np.unique(np.linspace(0, path.t.shape[1] - 1, 21).astype(int)).tolist()
    with np.errstate(all="ignore"):
        kinetic, potential = np.moveaxis(energies_along(model, path, frames), -1, 0)
        total = kinetic + potential
        scale = np.maximum(kinetic.max(axis=0), np.ptp(potential, axis=0))
        scale = np.maximum(scale, np.finfo(np.float32).tiny)
        risen = (total - np.minimum.accumulate(total, axis=0)).max(axis=0)
        change, risen = (total[-1] - total[0]) / scale, risen / scale
    whole = np.isfinite(total).all(axis=0) & np.isfinite(scale)
    return np.where(whole, change, np.nan), np.where(whole, risen, np.nan)


def _in_error(model, path):
    """The samples that shorter steps may help: those that diverged, and those that gained energy of nothing."""
    import numpy as np

    from .simulate import Result

    code = np.asarray(path.code)
    failed = (code != Result.SUCCESS) & (code != Result.SINGULAR) & (code != Result.CONSTRAINTS_OPEN)
    if model.topology.rheonomic:  # joints that are led do work
        return failed
    return failed | (_energies(model, path)[1] > GAIN)


def _report(model, path, scheme, steps: int, dt: float, seconds: dict[str, float], limits, repeated):
    import jax
    import numpy as np

    from .simulate import Result

    batch, (change, risen) = len(path.q), _energies(model, path)
    table = _table(header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")

    def row(what, value, note="", **style):
        table.add_row(what, value, note, **style)

    device = jax.devices()[0]
    place = device.platform if device.platform == "cpu" else device.device_kind
    rate = batch * steps / seconds["simulating"]
    row("robot", model.name, f"{model.nb} bodies, nq = {model.nq}, nv = {model.nv}")
    row("samples x steps", f"{batch} x {steps}", f"dt = {dt:g} s, {type(scheme).__name__}")
    for count, substeps in repeated:
        row(
            "in shorter steps",
            str(count),
            f"dt = {dt / substeps:.3g} s: samples that failed or gained energy",
        )
    row("simulated time", f"{steps * dt:.6g} s", "each sample")
    row("compiling", f"{seconds['compiling']:.2f} s", "once")
    row(
        "simulating",
        f"{seconds['simulating']:.3g} s",
        f"{place}, {jax.device_count()} device(s), {model.dtype}",
    )
    row("steps per second", f"{rate:,.0f}", f"all samples; {1e6 / rate:.3g} µs a step")
    row("real-time factor", f"{rate * dt:,.4g}", "all samples together")
    row("", f"{rate * dt / batch:,.4g}", "each sample")
    if limits:
        row("joint limits", "", limits)
    _energy_rows(row, model, change, risen, scheme)
    if path.opening is not None:
        row("loops open by", _share(np.max(np.asarray(path.opening))), "at most, of the reach, or rad")
    codes, numbers = np.asarray(path.code), np.asarray(path.failed_step)
    row("completed", str(np.sum(codes == Result.SUCCESS)), "" if codes.any() else "every sample, every step")
    for code in map(Result, np.unique(codes[codes != Result.SUCCESS])):
        when = dt * np.median(numbers[codes == code])
        note = f"half of them by {when:.3g} s: {code.message}"
        row(code.title, str(np.sum(codes == code)), note, style="bold red")
    return table


def _energy_rows(row, model, change, risen, scheme) -> None:
    """What became of the energy: what was dissipated, and what integration added, which nothing does."""
    import numpy as np

    known = np.isfinite(change)
    if not known.any():
        return
    of = "" if known.all() else f" of {known.sum()} samples"
    note = f"median{of}, relative to the energy in motion"
    change, risen = change[known], risen[known]
    if model.topology.rheonomic:
        row("energy change", _share(np.median(change)), f"{note}; joints that are led do work")
        return
    if _loses(model):
        lost = np.maximum(-change, 0)
        row("energy dissipated", _share(np.median(lost)), note)
        row("", _share(np.max(lost)), "largest")
    else:
        row("energy error", _share(np.median(np.abs(change))), f"{note}; nothing dissipates")
        row("", _share(np.max(np.abs(change))), "largest")
    if np.max(risen) > GAIN:
        remedy = "take a smaller --dt" + ("" if _loses(model) else " or --scheme runge-kutta-4")
        note = f"by {np.sum(risen > GAIN)} samples, at most: an error of {type(scheme).__name__}, {remedy}"
        row("energy gained", _share(np.max(risen)), note, style="bold yellow")


def _loses(model) -> bool:
    import numpy as np

    return bool(np.any(np.asarray(model.damping)) or np.any(np.asarray(model.friction)) or model.forces)


def _share(value) -> str:
    return f"{value:.2g}" if abs(value) < 0.01 else f"{100 * value:.3g} %"


# info.


def _info(arguments) -> int:
    import numpy as np

    console = _console()
    model = _load(arguments, console)
    console.print(repr(model), highlight=False, markup=False, soft_wrap=True)
    mass = np.asarray(model.inertias.mass)
    topology = model.topology

    totals = _table(header=False)
    totals.add_column(style="bold")
    totals.add_column()
    totals.add_row(
        "total mass", f"{mass.sum():.6g} kg, {int((mass == 0).sum())} of {model.nb} bodies massless"
    )
    totals.add_row("nq, nv", f"{model.nq}, {model.nv}")
    families = [type(model.joints[kind]).__name__ for kind, _ in topology.kind_of]
    counts = {family: families.count(family) for family in dict.fromkeys(families)}
    totals.add_row("joints", ", ".join(f"{count} {family}" for family, count in counts.items()))
    gravity = ", ".join(f"{x:g}" for x in np.asarray(model.gravity, float))
    totals.add_row("gravity", f"({gravity}) m/s²")
    welded = [name for name, fixed in zip(model.joint_names, topology.fixed) if fixed]
    if welded:
        totals.add_row("fixed joints", _listed(welded))
    console.print(totals)

    if model.nv:
        console.print(_limits(model))
    if len(topology.mimic_joints):
        table = _table("Joints that mimic others")
        for column in ("joint", "is_mimic", "as"):
            table.add_column(column)
        multipliers, offsets = np.asarray(model.mimic_multiplier), np.asarray(model.mimic_offset)
        for body, multiplier, offset in zip(topology.mimic_joints, multipliers, offsets):
            leader = model.joint_names[topology.leaders[body]]
            shift = f" {offset:+.6g}" if offset else ""
            table.add_row(model.joint_names[body], leader, f"{multiplier:.6g} q{shift}")
        console.print(table)
    return 0


def _listed(names: list[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _limits(model):
    """A row for each degree of freedom of each joint; columns that say nothing are left out."""
    import numpy as np

    per_coordinate = {"lower": "lower", "upper": "upper"}
    per_dof = {
        "velocity": "velocity_limit", "effort": "effort_limit", "damping": "damping", "friction": "friction",
        "armature": "armature", "stiffness": "stiffness",
    }  # fmt: skip

    def says(name):
        values = np.asarray(getattr(model, name))
        return bool((np.isfinite(values) & (values != 0)).any())

    columns = {title: name for title, name in (per_coordinate | per_dof).items() if says(name)}
    table = _table("Limits and what acts along the joints")
    table.add_column("joint")
    table.add_column("family", style="dim")
    for title in columns:
        table.add_column(title, justify="right")
    topology = model.topology
    for body in range(model.nb):
        size = topology.joint_nv[body]
        if topology.is_mimic[body] or not size:
            continue
        family = type(model.joints[topology.kind_of[body][0]]).__name__
        flat = topology.joint_nq[body] == size  # else coordinates and degrees of freedom have no common rows
        cells = {}
        for title, name in columns.items():
            values = np.asarray(getattr(model, name))
            if title in per_dof:
                cells[title] = [f"{x:.4g}" for x in values[model.v_slice(body)]]
            else:
                cells[title] = [f"{x:.4g}" for x in values[model.q_slice(body)]] if flat else [""] * size
        rows = list(zip(*cells.values())) if cells else [()] * size
        same = len(set(rows)) == 1
        for i, row in enumerate(rows[:1] if same else rows):
            name = model.joint_names[body]
            table.add_row(name if same else f"{name}[{i}]", family if i == 0 else "", *row)
    return table


if __name__ == "__main__":
    sys.exit(main())
