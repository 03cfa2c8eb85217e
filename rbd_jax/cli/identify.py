"""The command `identify`: identifies parameters of a robot from logs, and writes the identified model and a report.

The output folder is written atomically: the files are written to a temporary folder beside `--out`, which is renamed at the
end. Progress is saved in another folder: see `resume`.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import shlex
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .. import (
    Checkpoint,
    ModelError,
    ModelWarning,
    __version__,
    identify as library,
    save_mjcf,
    save_urdf,
)
from ..identify import Estimate, Log, LogError, LogWarning, Parameters
from ..model import Model
from .model import Refused, load, may_float
from .output import results_folder, written_together
from .report import error_console, plain_console, plain_table, progress_bars
from .resume import Place, lasting, one_line
from .simulate import _scheme


#: The output files, in the order of writing. A model that a format cannot express is left out with a note.
FILES = "estimate.npz", "estimate.json", "report.md", "report.html", "model.urdf", "model.xml"
MODELS = {"model.urdf": save_urdf, "model.xml": save_mjcf}

#: The estimators, and the estimators that each option applies to.
LINEAR, SIMULATED = ("least-squares", "physical"), ("output-error",)
NONLINEAR = ("equation-error", *SIMULATED)
ESTIMATORS = ("auto", *LINEAR, *NONLINEAR)
FOR = {
    "cutoff": (*LINEAR, "equation-error"),
    "slow": (*LINEAR, "equation-error"),
    "noise": NONLINEAR,
    "starts": NONLINEAR,
    "turns": NONLINEAR,
    "window": SIMULATED,
    "nodes": SIMULATED,
    "scheme": SIMULATED,
    "dt": SIMULATED,
}
#: Number of parts for cross-validation with fast estimators.
FOLDS = 4
#: Number of listed values without --all.
LISTED = 24
#: Interval between saves of the progress, in s.
EVERY = 30.0
#: Arguments that do not affect results, and arguments whose changes the checkpoints check themselves (`--turns` may
#: increase).
TELLING = "all", "quiet", "overwrite", "resume", "checkpoint_every", "out", "words", "run"
CONTENT = "robot", "logs", "turns"
#: Exit code for an unreliable result.
DOUBTFUL = 3


def identify(arguments) -> int:
    """Identifies in double precision, writes the results, and prints a summary."""
    with jax.enable_x64(True):
        return _identify(arguments)


def _identify(arguments) -> int:
    console, told = plain_console(), error_console()
    quiet = error_console(quiet=True) if arguments.quiet else told
    scheme = None if arguments.scheme is None else _scheme(arguments.scheme)
    folder = results_folder(
        arguments.out, f"{Path(arguments.robot).stem}-identified", FILES, arguments.overwrite
    )
    place = Place.beside("rbd-jax identify", folder, arguments.checkpoint_every, arguments.resume)
    model = load(arguments, quiet)
    if not model.nv:
        remedy = "; with --floating-base its root link floats" if may_float(arguments.robot) else ""
        raise Refused(f"{arguments.robot}: no joint moves, so there is nothing to identify{remedy}")
    try:
        with progress_bars(told, arguments.quiet) as progress, _warnings(on_more := []) as warned:
            task = progress.add_task("reading", total=len(arguments.logs) + len(arguments.held_out))
            read = lambda paths: [
                _read(path, model, arguments, lambda: progress.advance(task)) for path in paths
            ]
            used, held = read(arguments.logs), read(arguments.held_out)
            used, held = _named_apart([used, held], [arguments.logs, arguments.held_out])
            if arguments.make_physical:
                model = library.made_physical(model)
            parameters = Parameters(model, arguments.free)
            way = _way(arguments, parameters, used, scheme)
            with place.kept(_options(arguments, way, parameters)) as run:
                place.tell(quiet)
                warned.extend(run.found["warned"] if run.found else [])
                # Save the warnings of logs before any progress that follows from these logs.
                on_more.append(lambda: run.save({"warned": warned}))
                on_more[0]()
                found = way.fit(used, progress, place.file("estimate"))
                on_more.clear()
                validation = _validation(way, used, progress, warned, place)
                task = progress.add_task("writing", total=len(FILES))
                lost = _lost(found.model)
                page = library.report(
                    found, used, held_out=held, validation=validation, warned=_distinct(warned),
                    notes=[*way.notes, *lost.values()],
                )  # fmt: skip
                done = lambda: progress.advance(task)
                written = _write(folder, arguments.overwrite, found, page, lost, done)
    except (ValueError, ModelError, FloatingPointError) as error:
        raise place.refused(_spelled(str(error)), error) from error
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            raise place.refused("out of memory; pass fewer or shorter logs", error) from error
        raise
    except OSError as error:
        raise place.refused(f"cannot write to {folder}: {error.strerror or error}", error) from error
    say = lambda text, **style: told.print(text, highlight=False, markup=False, soft_wrap=True, **style)
    if not arguments.quiet:
        for line in _distinct(warned):
            say(f"warning: {line}", style="yellow")
        console.print(page.summary, highlight=False, markup=False, soft_wrap=True)
        console.print(_table(found, arguments.all))
        for line in page.remarks:
            console.print(f"note: {line}", highlight=False, markup=False, soft_wrap=True)
    for line in page.doubts:
        say(f"unreliable: {line}", style="bold red")
    if not arguments.quiet:
        for line in lost.values():
            say(f"note: {line}", style="yellow")
        for path in written:
            console.print(f"wrote {path}", highlight=False, markup=False, soft_wrap=True)
    return DOUBTFUL if page.doubts else 0


# Input.


@contextlib.contextmanager
def _warnings(on_more: Sequence[Callable[[], object]]) -> Iterator[list[str]]:
    """Collects log and model warnings within the block; other warnings are issued at its end.

    Args:
      on_more: Functions to call after each new warning.
    """
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LogWarning)
        warnings.simplefilter("always", ModelWarning)
        # Collected as they occur, so that they can be read within the block.
        show = warnings.showwarning

        def gather(message, category, *rest, **more):
            if issubclass(category, LogWarning | ModelWarning):
                messages.append(str(message))
                for call in on_more:
                    call()
            else:
                show(message, category, *rest, **more)

        warnings.showwarning = gather
        yield messages
    for one in caught:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def _distinct(messages: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(messages))


def _read(path: Path, model: Model, arguments, done: Callable[[], None]) -> Log:
    """Returns a log in the units of the library."""
    try:
        log = library.read_log(path, model)
    except LogError:
        raise
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__
        raise Refused(f"{path}: cannot be read as a log: {reason}") from error
    if arguments.scale:
        log = log.scaled(**arguments.scale)
    done()
    return log


def _named_apart(groups: Sequence[Sequence[Log]], paths: Sequence[Sequence[Path]]) -> list[list[Log]]:
    """Returns the logs, named by path where file names repeat. No file may be both used and held out."""
    for path in paths[1]:
        if any(path.resolve() == other.resolve() for other in paths[0]):
            raise Refused(f"{path}: it is both used and held out; hold out another run")
    names = [log.name for group in groups for log in group]
    return [
        [replace(log, name=str(path)) if names.count(log.name) > 1 else log for log, path in zip(group, own)]
        for group, own in zip(groups, paths)
    ]


# Estimation.


@dataclass(frozen=True)
class _Way:
    """How values are estimated.

    - `estimate`: function of logs, a progress callback and a checkpoint: `estimate(logs, on_turn, checkpoint)`.
    - `folds`: number of parts for cross-validation; 0 for none.
    - `notes`: sentences for the report.
    """

    name: str
    estimate: Callable[[Sequence[Log], Callable[..., Any] | None, Checkpoint | None], Estimate]
    folds: int
    notes: tuple[str, ...]

    def fit(self, logs: Sequence[Log], progress, checkpoint: Checkpoint | None) -> Estimate:
        task = progress.add_task("estimating", total=None)

        def turned(turn: int, loss: float) -> None:
            progress.update(task, description=f"turn {turn}", completed=turn)

        found = self.estimate(logs, turned, checkpoint)
        progress.update(task, description="estimating", total=1, completed=1)
        return found


def _way(arguments, parameters: Parameters, logs: Sequence[Log], scheme) -> _Way:
    """Returns the selected or the applicable estimator, with its options."""
    name, reason = arguments.estimator, "as requested"
    if name == "auto":
        name, reason = _fitting(parameters, logs)
    for option, fitting in FOR.items():
        if getattr(arguments, option) is not None and name not in fitting:
            chosen = "" if arguments.estimator != "auto" else f", which was chosen because {reason}"
            raise Refused(
                f"--{option} applies to --estimator {' and '.join(fitting)}, not to {name}{chosen}; omit it, or "
                "choose another"
            )
    if name in LINEAR:
        estimate = _by_least_squares(arguments, parameters, physical=name == "physical")
    else:
        estimate = _by_search(arguments, parameters, simulated=name in SIMULATED, scheme=scheme)
    folds = arguments.folds
    if folds is None:
        whole = arguments.held_out or name not in LINEAR
        folds = 0 if whole else FOLDS if len(logs) == 1 else len(logs)
    options = [
        f"--{key.replace('_', '-')} {getattr(arguments, key)}"
        for key in FOR
        if getattr(arguments, key) is not None
    ]
    options += ["--robust"] * arguments.robust + ["--make-physical"] * arguments.make_physical
    notes = (
        f"Estimator: {name} ({reason}){', with ' + ', '.join(options) if options else ''}.",
        f"Model: {arguments.robot}. Command: rbd-jax {shlex.join(lasting(arguments.words))} (version {__version__})",
    )
    return _Way(name, estimate, folds, notes)


def _options(arguments, way: _Way, parameters: Parameters) -> dict[str, Any]:
    """Returns the options of a run, by name."""
    given = {name: value for name, value in vars(arguments).items() if name not in (*TELLING, *CONTENT)}
    given |= {"free": parameters.names, "estimator": way.name, "folds": way.folds}
    given["held_out"] = [str(path) for path in arguments.held_out]
    return {f"--{name.replace('_', '-')}": value for name, value in given.items()}


def _fitting(parameters: Parameters, logs: Sequence[Log]) -> tuple[str, str]:
    """Returns the estimator for the parameters and the measured channels, and the reason."""
    driven = all(log.tau is not None or log.u is not None for log in logs)
    touching = any(kind.of == "shape" for kind in parameters.kinds)
    if parameters.linear and driven:
        return (
            "physical",
            "forces were measured and are linear in the estimated parameters, and inertias stay physically consistent",
        )
    if touching:
        return "output-error", "contact parameters are observable only in simulations"
    if driven:
        return "equation-error", "forces were measured, and are nonlinear in the estimated parameters"
    if any(log.sensors for log in logs) and not parameters.linear:
        return "equation-error", "no forces were measured; sensors are compared"
    return "output-error", "no forces were measured, so motions are simulated"


def _by_least_squares(arguments, parameters: Parameters, physical: bool):
    estimator = library.physical_least_squares if physical else library.least_squares
    options = {"cutoff": arguments.cutoff, "slow": arguments.slow or 0.0}

    def estimate(logs, on_turn, checkpoint) -> Estimate:
        if arguments.robust:  # which requires all samples
            return estimator(
                parameters.reference, logs, parameters, robust=True, checkpoint=checkpoint, **options
            )
        equations = library.Equations.of(parameters.reference, logs, checkpoint=checkpoint, **options)
        return estimator(parameters.reference, equations, parameters)

    return estimate


def _by_search(arguments, parameters: Parameters, simulated: bool, scheme):
    if simulated:
        compare = library.OutputError(
            arguments.window or 0.5, arguments.nodes or "joined", scheme=scheme, dt=arguments.dt
        )
    else:
        compare = library.EquationError(cutoff=arguments.cutoff, slow=arguments.slow or 0.0)

    def estimate(logs, on_turn, checkpoint) -> Estimate:
        problem = library.Problem(
            parameters.reference, logs, parameters, compare, noise=arguments.noise, robust=arguments.robust
        )
        return library.solve(
            problem,
            starts=arguments.starts or 1,
            turns=arguments.turns or 100,
            on_turn=on_turn,
            checkpoint=checkpoint,
        )

    return estimate


def _validation(way: _Way, logs: Sequence[Log], progress, warned: list[str], place: Place):
    """Returns the cross-validation, if requested; insufficient data cause a warning."""
    if not way.folds:
        return None
    task = progress.add_task("cross-validation", total=way.folds)
    before, fold = len(warned), itertools.count(1)
    try:
        return library.cross_validation(
            lambda some: way.estimate(some, None, place.file(f"fold-{next(fold)}")), logs, folds=way.folds,
            on_fold=lambda done, total: progress.update(task, completed=done, total=total),
        )  # fmt: skip
    except LogError as error:
        warned.append(f"no cross-validation: {error}")
        return None
    finally:
        # Parts of the logs repeat the warnings of the complete logs.
        warned[before:] = [line for line in warned[before:] if line.startswith("no cross-validation")]


# Output.


def _lost(model: Model) -> dict[str, str]:
    """Returns, for each format that cannot express the model, a note on what is left out."""
    import tempfile

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, save in MODELS.items():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", ModelWarning)
                try:
                    save(model, Path(folder, name))
                except ModelError as error:
                    found[name] = f"{name} was not written: {' '.join(str(error).split())}"
                    continue
            said = [str(one.message) for one in caught if issubclass(one.category, ModelWarning)]
            if said:
                found[name] = f"{name}: {' '.join(' '.join(said).split())}"
    return found


def _write(
    folder: Path, overwrite: bool, found: Estimate, page, lost: dict[str, str], done: Callable[[], None]
) -> list[Path]:
    """Writes all files together."""

    def write(part: Path) -> list[str]:
        there = []
        for name in FILES:
            if name.startswith("estimate"):
                found.save(part / name)
            elif name.startswith("report"):
                text = page.html if name.endswith("html") else page.markdown
                (part / name).write_text(text, encoding="utf-8")
            elif "was not written" not in lost.get(name, ""):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ModelWarning)
                    MODELS[name](found.model, part / name)
            done()
            if (part / name).exists():
                there.append(name)
        return there

    return written_together(folder, overwrite, write)


def _table(found: Estimate, everything: bool):
    own = found.parameters
    before = np.asarray(own.values_of(own.reference), float)
    table = plain_table()
    for column in ("", "before", "identified", "± error", "unit"):
        table.add_column(column, justify="right" if column in ("before", "identified", "± error") else "left")
    order = range(own.size if everything else min(own.size, LISTED))
    from rich.markup import escape

    for i in order:
        error = found.standard_errors[i]
        said = f"{error:.2g}" if np.isfinite(error) else "unobservable"
        table.add_row(escape(own.names[i]), f"{before[i]:.4g}", f"{found.values[i]:.4g}", said, own.units[i])
    if own.size > len(order):
        table.add_row(f"and {own.size - len(order)} more (--all lists them)", "", "", "", "")
    return table


#: Words of library messages, and the corresponding options.
SPELLED = {
    "Take identify.made_physical(model)": "--make-physical changes them",
    "log.scaled(tau=1e-3) and the like change them": "--scale tau=1e-3 and the like change them",
    "take shorter steps (OutputError(dt=...)), another scheme": "take a smaller --dt, another --scheme",
    "or Log.from_mapping": "or use rbd.identify in Python",
    "make a Log of its arrays, ": "write one of these, ",
}


def _spelled(message: str) -> str:
    """Returns a library message in the words of the command line."""
    message = one_line(message)
    for theirs, ours in SPELLED.items():
        message = message.replace(theirs, ours)
    message = re.sub(r"log\.scaled\((\w+)=np\.pi / 180\)", r"--scale \1=0.017453292519943295", message)
    message = re.sub(r"log\.scaled\((\w+)=([\de.+-]+)\)", r"--scale \1=\2", message)
    return re.sub(r"^identify\.\w+(\.\w+)?: ", "", message)
