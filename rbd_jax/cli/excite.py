"""The command `excite`: designs an excitation motion, as files for a controller, and draws it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .. import identify
from ..identify import Excitation
from ..model import Model
from ..view import plot_excitation
from .model import Refused, load, may_float
from .output import added_together, claimed, shared_folder
from .report import plain_console, plain_table, progress_bars


#: The output files, in the order of writing.
FILES = "excitation.csv", "excitation.npz", "excitation.png"
#: Number of listed combinations without --all.
LISTED = 12


def excite(arguments) -> None:
    """Designs the motion, writes and draws it, and prints the expected accuracy of the identification."""
    console = plain_console()
    model = load(arguments, console)
    if not model.nv:
        remedy = "; with --floating-base its root link floats" if may_float(arguments.robot) else ""
        raise Refused(f"{arguments.robot}: no joint moves, so there is nothing to identify{remedy}")
    name = Path(arguments.robot).stem or model.name
    folder = shared_folder(arguments.out, name, FILES, arguments.overwrite)
    options = {
        name: value
        for name in ("seconds", "rate", "harmonics", "margin", "clearance", "starts", "steps", "seed", "speed", "acceleration",
                     "effort", "noise")
        if (value := getattr(arguments, name)) is not None
    }  # fmt: skip
    if arguments.joints is not None:
        options["joints"] = [name.strip() for name in arguments.joints.split(",")]
    if arguments.anywhere:
        options["clearance"] = None
    if arguments.from_reference:
        options["start"] = model.reference
    try:
        with progress_bars(console) as progress, claimed(folder):
            found = _designed(model, arguments.free, options, progress)
            saving = progress.add_task("saving", total=len(FILES))

            def write(part: Path) -> tuple[str, ...]:
                draw = lambda path: plot_excitation(found, path)
                for name, save in zip(FILES, (found.save, found.save, draw), strict=True):
                    save(part / name)
                    progress.advance(saving)
                return FILES

            added_together(folder, FILES, write)
    except ValueError as error:
        raise Refused(_spelled(str(error))) from error
    except OSError as error:
        raise Refused(f"cannot write to {folder}: {error.strerror or error}") from error
    console.print(_summary(found))
    console.print(_joints(found))
    console.print(_combinations(found, arguments.all))
    for line in found.remarks:
        console.print(f"note: {line}", style="yellow", highlight=False, markup=False, soft_wrap=True)
    for name in FILES:
        console.print(f"wrote {folder / name}", highlight=False, markup=False, soft_wrap=True)


def _designed(model: Model, free: list[identify.Kind], options: dict, progress) -> Excitation:
    task = progress.add_task("compiling", total=None)
    started = False

    def advanced(done: int, total: int) -> None:
        nonlocal started
        # The first report precedes the compilation of the search.
        if done and not started:
            started = True
            progress.update(task, description="improving", total=total)
        if started:
            progress.update(task, completed=done)

    return identify.excitation(model, free, **options, on_progress=advanced)


#: Words of library messages, and the corresponding options.
SPELLED = {
    "joints=[...]": "--joints",
    "omit it from joints": "omit it from --joints",
    "from joints": "from --joints",
    "give lower and upper": "give it limits in its file",
    "give a start in which the robot can stand, another effort or clearance": "give another --effort or --clearance",
    "load the model with a fixed base": "omit --floating-base",
    "an rbd.contact.ContactExclusion for shapes that never touch": "exclude shapes that never touch in its file",
}


def _spelled(message: str) -> str:
    """Returns a library message in the words of the command line."""
    message = message.removeprefix("identify.excitation: ").removeprefix("identify.")
    for theirs, ours in SPELLED.items():
        message = message.replace(theirs, ours)
    for name in ("speed", "acceleration", "effort"):
        message = message.replace(f"{name}=...", f"--{name}")
    return message


def _summary(found: Excitation):
    table = plain_table(header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column()
    motion, parameters = found.motion, found.parameters
    table.add_row("robot", found.model.name, f"{len(motion.joints)} joints move")
    period, harmonics = float(motion.period), motion.harmonics
    table.add_row("motion", f"{period:g} s", f"one period, up to {harmonics / period:.3g} Hz")
    lost = parameters.size - len(found.seen.kept)
    table.add_row(
        "free values", str(parameters.size), f"{len(found.seen.kept)} combinations observable, {lost} not"
    )
    table.add_row("gain", f"{found.gain:.3g}", "equivalent number of random motions within the limits")
    table.add_row("condition number", f"{found.condition_number:.3g}", "of the observable combinations")
    if np.isfinite(found.distance):
        table.add_row(
            "least distance", f"{found.distance:.3g} m", f"between shapes, at {found.checked} times"
        )
    return table


def _joints(found: Excitation):
    """Returns a table with each joint's use of its limits."""
    table = plain_table("Ranges of the motion")
    for column in ("joint", "from", "to", "speed", "of", "force", "of", "noise"):
        table.add_column(column, justify="left" if column == "joint" else "right")
    low, high, speed, _ = found.motion.extent()
    places = list(found.motion.v_places)
    tau = np.abs(found.log().channels["tau"].values[:, places]).max(axis=0)
    rows = zip(found.motion.joints, low, high, speed, found.speed, tau, found.effort, found.noise[places])
    for name, *numbers in rows:
        table.add_row(name, *("" if np.isinf(x) else f"{x:.3g}" for x in numbers))
    return table


def _combinations(found: Excitation, everything: bool):
    """Returns a table of the observable combinations, with their expected errors."""
    table = plain_table(f"Expected errors from one period, at {found.rate:g} samples per second")
    for column in ("combination", "model", "± error", "unit"):
        table.add_column(column, justify="right" if column in ("model", "± error") else "left")
    errors, values = found.base_standard_errors, found.base_values
    order = range(len(values)) if everything else range(min(LISTED, len(values)))
    for i in order:
        unit = found.parameters.units[found.seen.kept[i]]
        table.add_row(found.base_names[i], f"{values[i]:.4g}", f"{errors[i]:.2g}", unit)
    more = len(values) - len(order)
    if more:
        table.add_row(f"and {more} more (--all lists them)", "", "", "")
    return table
