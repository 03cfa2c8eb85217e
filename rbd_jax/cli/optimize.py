"""The command `optimize`: solves a problem of optimal control, and writes the motion and a report.

The output folder is written atomically: see `output`. Progress is saved beside it: see `resume`.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .. import __version__, control
from .._core.errors import suggest
from .._core.page import Page
from ..control import Problem, Solution, Solver
from ..control.appraisal import Appraisal
from ..control.problems import NAMES, Posed
from ..optimize.outcome import Code
from ..simulate.systems import tree_of
from .model import Refused
from .optimize_page import broken, doubts_of, page
from .output import results_folder, written_together
from .problem_file import posed
from .python_file import explained
from .report import error_console, plain_console, plain_table, progress_bars
from .resume import Place, lasting, one_line


#: The output files, in the order of writing.
FILES = "trajectory.npz", "solution.json", "report.md", "report.html"
#: Exit code without a solution.
UNSOLVED = 3


def optimize(arguments) -> int:
    """Solves the problem in double precision, writes the results, and prints a summary."""
    with jax.enable_x64(True):
        return _optimize(arguments)


def _optimize(arguments) -> int:
    console, told = plain_console(), error_console()
    quiet = error_console(quiet=True) if arguments.quiet else told
    given = arguments.problem
    name = given if given in NAMES else Path(given).stem
    folder = results_folder(arguments.out, f"{name}-optimized", FILES, arguments.overwrite)
    place = Place.beside("rbd-jax optimize", folder, arguments.checkpoint_every, arguments.resume)
    one = posed(given, quiet)
    path = None if given in NAMES else Path(given)
    with explained(path):
        solver = _solver(arguments, one)
    options = {"PROBLEM": given, "--solver": arguments.solver}
    if path is not None:
        options[given] = path.read_bytes()
    try:
        with progress_bars(told, arguments.quiet) as progress, explained(path), place.kept(options) as run:
            place.tell(quiet)
            run.save({})  # saves the options, so that runs with other options do not resume
            solution, history = _solved(one, solver, progress, place)
            if int(solution.code) == Code.NOT_FINITE:
                return _told(told, "no solution", doubts_of(one.problem, solution))
            task = progress.add_task("judging", total=1)
            found = control.appraise(one.problem, solution)
            progress.update(task, completed=1)
            notes = [
                f"Problem: {given}. Command: rbd-jax {shlex.join(lasting(arguments.words))} (version {__version__})"
            ]
            text = page(name, one.problem, solver, solution, found, history, notes)
            kept = _earlier_kept(folder, text)
            task = progress.add_task("writing", total=len(FILES))
            done = lambda: progress.advance(task)
            written = (
                []
                if kept
                else _write(folder, arguments.overwrite, name, one.problem, solution, found, text, done)
            )
    except (ValueError, FloatingPointError) as error:
        raise place.refused(one_line(str(error)).removeprefix("control.solve: "), error) from error
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            raise place.refused("out of memory; reduce the number of steps of the problem", error) from error
        raise
    except OSError as error:
        raise place.refused(f"cannot write to {folder}: {error.strerror or error}", error) from error
    if not arguments.quiet:
        console.print(text.summary, highlight=False, markup=False, soft_wrap=True)
        console.print(_table(found, solution))
    code = _told(told, "not solved", text.doubts) if text.doubts else 0
    if kept:
        say(
            told,
            f"{folder} keeps its earlier solution, because the new motion is not a solution",
            style="yellow",
        )
    if not arguments.quiet:
        for path in written:
            say(console, f"wrote {path}")
    return code


def say(console, text: str, **style) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True, **style)


def _told(console, what: str, reasons) -> int:
    """Prints a line for each reason, and returns the exit code without a solution."""
    for line in reasons:
        say(console, f"{what}: {line}", style="bold red")
    return UNSOLVED


# Solution.


def solvers() -> dict[str, type[Solver]]:
    """Returns the library's solvers without required arguments, by their command-line names."""
    found = {}
    for name, kind in vars(control).items():
        if inspect.isclass(kind) and issubclass(kind, Solver) and not inspect.isabstract(kind):
            found[re.sub("(?<=[a-z])(?=[A-Z0-9])", "-", name).lower()] = kind
    return found


def _solver(arguments, one: Posed) -> Solver:
    """Returns the selected solver, or that of the problem."""
    solver = one.solver if one.solver is not None else control.DDP()
    if arguments.solver is not None:
        known = solvers()
        name = arguments.solver.lower().replace("_", "-")
        if name not in known:
            solvers_are = f"The solvers are {', '.join(sorted(known))}"
            raise Refused(
                f"there is no solver {arguments.solver!r}"
                f"{suggest(arguments.solver, known, solvers_are, listed=False)}"
            )
        solver = known[name]()  # pyright: ignore[reportCallIssue]
    return solver if arguments.iterations is None else solver.allowing(arguments.iterations)


def _solved(one: Posed, solver: Solver, progress, place: Place) -> tuple[Solution, np.ndarray]:
    """Returns the solution, and the iterations, costs and violations reported by the solver."""
    task, history = progress.add_task("compiling", total=None), []

    def moved(iterations: int, cost: float, violation: float) -> None:
        history.append((iterations, cost, violation))
        said = f"cost {cost:.5g}" + (f", violation {violation:.1e}" if violation > 0 else "")
        progress.update(task, description=said, total=solver.max_iterations, completed=iterations)

    solution = control.solve(
        one.problem, solver, one.guess, on_iteration=moved, checkpoint=place.file("search")
    )
    made = int(solution.iterations)
    progress.update(task, description="searching", total=max(made, 1), completed=max(made, 1))
    return solution, np.reshape(np.array(history, float), (-1, 3))


# Output.


def _earlier_kept(folder: Path, text: Page) -> bool:
    """Returns whether the folder has a solution and this result is not a solution."""
    if not text.doubts:
        return False
    try:
        return bool(json.loads((folder / "solution.json").read_text(encoding="utf-8"))["solved"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _write(
    folder: Path,
    overwrite: bool,
    name: str,
    problem: Problem,
    solution: Solution,
    found: Appraisal,
    text: Page,
    done: Callable[[], None],
) -> list[Path]:
    """Writes all files together."""

    def write(part: Path) -> tuple[str, ...]:
        np.savez_compressed(part / "trajectory.npz", **trajectory(problem, solution))
        done()
        said = json.dumps(_plain(_summary(name, problem, solution, found)), indent=2, ensure_ascii=False)
        (part / "solution.json").write_text(said + "\n", encoding="utf-8")
        done()
        (part / "report.md").write_text(text.markdown, encoding="utf-8")
        done()
        (part / "report.html").write_text(text.html, encoding="utf-8")
        done()
        return FILES

    return written_together(folder, overwrite, write)


def trajectory(problem: Problem, solution: Solution) -> dict[str, Any]:
    """Returns the motion as arrays by name: a log with the decision variables, feedback gains and names.

    `u` (of actuators) or `tau` has one row for each time; the last row is NaN, because no step begins there. `step_control`
    has the decision variables of each step.
    """
    told = jax.vmap(problem.told)(solution.control)
    driven = {"u": told.u} if problem.told_actuators else {"tau": told.tau}
    saved = {
        name: getattr(solution, name)
        for name in ("t", "q", "v", "own", "control_nodes", "dt", "gains", "costates")
    }
    # The name `control` would mean actuator controls in a log.
    saved["step_control"] = solution.control
    saved |= {name: np.concatenate([x, np.full((1, x.shape[1]), np.nan)]) for name, x in driven.items()}
    saved = {name: np.asarray(value) for name, value in saved.items() if value is not None}
    model = tree_of(problem.model)
    return saved | {
        "robot": np.array(model.name),
        "control_names": np.array(problem.control_names),
        "body_names": np.array(model.body_names),
        "joint_names": np.array(model.joint_names),
    }


def _summary(name: str, problem: Problem, solution: Solution, found: Appraisal) -> dict[str, Any]:
    """Returns the properties of the solution, without the motion."""
    optimality = found.optimality
    return {
        "problem": name,
        "robot": tree_of(problem.model).name,
        "solved": int(solution.code) == Code.CONVERGED,
        "code": Code(int(solution.code)).name,
        "iterations": int(solution.iterations),
        "steps": problem.steps,
        "dt": float(solution.dt),
        "duration": float(solution.t[-1] - solution.t[0]),
        "cost": float(solution.cost),
        "costs": {one.name: one.value for one in found.costs},
        "violation": float(solution.violation),
        "requirements": {
            one.name: {
                "violation": one.violation,
                "numbers": one.values.size,
                "at_bounds": int(np.sum(one.acting)),
            }
            for one in found.requirements
        },
        "broken": list(broken(found)),
        "stationarity": float(solution.stationarity),
        "optimality": None if optimality is None else {**optimality._asdict(), "minimum": optimality.minimum},
    }


def _plain(value: Any) -> Any:
    """Returns a value for JSON, with None in place of non-finite numbers."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _table(found: Appraisal, solution: Solution):
    """Returns a table of costs and violations."""
    from rich.markup import escape

    table = plain_table()
    table.add_column("cost or requirement")
    table.add_column("value", justify="right")
    table.add_column("violation", justify="right")
    for one in found.costs:
        table.add_row(escape(one.name), f"{one.value:.5g}", "")
    for one in found.requirements:
        table.add_row(escape(one.name), "", f"{one.violation:.2g}")
    return table
