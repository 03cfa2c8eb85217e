"""The command `train`: trains a policy for a task by gradients through its simulation, and writes a report.

The output folder is written atomically: see `output`. Progress is saved beside it: see `resume`.
"""

from __future__ import annotations

import dataclasses
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import __version__, learn, tasks
from .._core.page import Page
from ..learn import Episode, Evaluation, ShortHorizonActorCritic, Trained
from ..simulate.control import Controls
from ..simulate.systems import tree_of
from ..tasks import NAMES
from ..tasks.task import Task
from .output import results_folder, written_together
from .python_file import defined, explained
from .report import error_console, plain_console, plain_table, progress_bars
from .resume import Place, lasting, one_line
from .train_page import page


#: The output files, in the order of writing.
FILES = "policy.npz", "curve.csv", "trajectory.npz", "report.md", "report.html"
#: Exit code for a policy below the threshold.
NOT_LEARNED = 3
#: Number of evaluation episodes.
EPISODES = 64
#: Length of an evaluation episode in steps, if the task does not limit it.
STEPS = 500

WANTED = {
    "task": (Task, "a rbd.Task"),
    "config": (ShortHorizonActorCritic, "a rbd.learn.ShortHorizonActorCritic"),
    "threshold": ((int, float), "the mean return at which the task counts as solved, a number"),
}


class Posed(NamedTuple):
    """A task and its training configuration; `threshold` is the return at which the task counts as solved, or None."""

    task: Task
    config: ShortHorizonActorCritic
    threshold: float | None


def train(arguments) -> int:
    """Trains, writes the results, and prints a summary."""
    console, told = plain_console(), error_console()
    quiet = error_console(quiet=True) if arguments.quiet else told
    given = arguments.task
    name = given if given in NAMES else Path(given).stem
    folder = results_folder(arguments.out, f"{name}-trained", FILES, arguments.overwrite)
    place = Place.beside("rbd-jax train", folder, arguments.checkpoint_every, arguments.resume)
    path = None if given in NAMES else Path(given)
    one = _posed(arguments, quiet)
    options = {
        "TASK": given,
        "--seed": arguments.seed,
        "--epochs": arguments.epochs,
        "--envs": arguments.envs,
    }
    if path is not None:
        options[given] = path.read_bytes()
    try:
        with progress_bars(told, arguments.quiet) as progress, explained(path), place.kept(options) as run:
            place.tell(quiet)
            run.save({})  # saves the options, so that runs with other options do not resume
            trained = _trained(arguments, one, progress, place)
            task = progress.add_task("playing", total=1)
            steps = one.task.episode_length or STEPS
            of_many, of_one = jax.random.split(jax.random.key(arguments.seed + 1))
            found = learn.evaluate(one.task, trained.policy, of_many, EPISODES, steps=steps)
            episode = learn.play(one.task, trained.policy, of_one, steps=steps)
            progress.update(task, completed=1)
            notes = [
                f"Task: {given}. Command: rbd-jax {shlex.join(lasting(arguments.words))} (version {__version__})"
            ]
            text = page(name, one.task, one.config, one.threshold, trained, found, episode, notes)
            task = progress.add_task("writing", total=len(FILES))
            done = lambda: progress.advance(task)
            written = _write(folder, arguments.overwrite, one.task, trained, episode, text, done)
    except (ValueError, FloatingPointError) as error:
        raise place.refused(one_line(str(error)).removeprefix("learn.train: "), error) from error
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            raise place.refused("out of memory; use fewer --envs", error) from error
        raise
    except OSError as error:
        raise place.refused(f"cannot write to {folder}: {error.strerror or error}", error) from error
    say = lambda where, line, **style: where.print(
        line, highlight=False, markup=False, soft_wrap=True, **style
    )
    if not arguments.quiet:
        say(console, text.summary)
        console.print(_table(found))
    for line in text.doubts:
        say(told, f"not solved: {line}", style="bold red")
    if not arguments.quiet:
        for file in written:
            say(console, f"wrote {file}")
    return NOT_LEARNED if text.doubts else 0


# Training.


def _posed(arguments, console) -> Posed:
    """Returns the task of that name or file and its configuration, with the options applied."""
    given = arguments.task
    if given in NAMES:
        task, (config, threshold) = tasks.load(given), learn.settings_for(given)
    else:
        found = defined(given, "task", NAMES, WANTED, console)
        task, threshold = found["task"], found["threshold"]
        config = ShortHorizonActorCritic() if found["config"] is None else found["config"]
    changed = {"epochs": arguments.epochs, "environments": arguments.envs}
    config = dataclasses.replace(config, **{name: x for name, x in changed.items() if x is not None})
    return Posed(task, config, threshold if arguments.threshold is None else arguments.threshold)


def _trained(arguments, one: Posed, progress, place: Place) -> Trained:
    task = progress.add_task("compiling", total=None)
    end = None if arguments.minutes is None else time.monotonic() + 60 * arguments.minutes

    def moved(epochs: int, told: dict[str, float]) -> bool:
        said = f"reward {told['reward']:.3g}"
        progress.update(task, description=said, total=one.config.epochs, completed=epochs)
        return end is not None and time.monotonic() >= end

    key = jax.random.key(arguments.seed)
    trained = learn.train(one.task, one.config, key=key, on_progress=moved, checkpoint=place.file("training"))
    progress.update(task, description="training", total=trained.epochs, completed=trained.epochs)
    return trained


# Output.


def _write(
    folder: Path,
    overwrite: bool,
    task: Task,
    trained: Trained,
    episode: Episode,
    text: Page,
    done: Callable[[], None],
) -> list[Path]:
    """Writes all files together."""

    def write(part: Path) -> tuple[str, ...]:
        learn.save(part / "policy.npz", trained.policy)
        done()
        names = list(trained.curve)
        rows = np.stack([np.arange(1, trained.epochs + 1), *(trained.curve[name] for name in names)], axis=1)
        np.savetxt(part / "curve.csv", rows, "%.9g", ",", header=",".join(["epoch", *names]), comments="")
        done()
        np.savez_compressed(part / "trajectory.npz", **trajectory(task, episode))
        done()
        (part / "report.md").write_text(text.markdown, encoding="utf-8")
        done()
        (part / "report.html").write_text(text.html, encoding="utf-8")
        done()
        return FILES

    return written_together(folder, overwrite, write)


def trajectory(task: Task, episode: Episode) -> dict[str, Any]:
    """Returns the motion as arrays by name: a log with observations, actions and rewards.

    Values of a step, such as `u` (of actuators) or `tau`, `action`, `reward` and its terms, are in the row of the step's
    beginning. The last row is NaN.
    """
    steps = int(episode.steps)

    @jax.jit
    def until_its_end(episode):
        states = jax.tree.map(lambda x: x[: steps + 1], episode.states)
        actions = episode.actions[:steps]
        before = jax.tree.map(lambda x: x[:steps], states)
        return states, actions, jax.vmap(lambda state, action: _told(task, state, action))(before, actions)

    states, actions, told = until_its_end(episode)
    named = {
        "u" if told.u is not None else "tau": told.u if told.u is not None else told.tau,
        "action": actions,
    }
    gained = {"reward": states.reward} | {f"reward_{name}": x for name, x in states.metrics.items()}
    named |= {name: np.asarray(x)[1:] for name, x in gained.items()}
    filled = lambda x: np.concatenate([np.asarray(x), np.full((1, *x.shape[1:]), np.nan, x.dtype)])
    model, seen = tree_of(task.model), states.observation
    seen = seen if isinstance(seen, dict) else {"": seen}
    return {
        "t": np.arange(steps + 1) * float(task.dt),
        "q": np.asarray(states.state.q),
        "v": np.asarray(states.state.v),
        **{name: filled(x) for name, x in named.items()},
        **{"_".join(["observation", name]).strip("_"): np.asarray(x) for name, x in seen.items()},
        "robot": np.array(model.name),
        "body_names": np.array(model.body_names),
        "joint_names": np.array(model.joint_names),
    }


def _told(task: Task, state, action) -> Controls:
    told = task.controls(task.situation(state), jnp.clip(action, -1, 1))
    return told if isinstance(told, Controls) else Controls(None, told)


def _table(found: Evaluation):
    """Returns a table of the episodes' results."""
    from rich.markup import escape

    table = plain_table()
    for column in ("", "mean", "least", "most"):
        table.add_column(column, justify="right" if column else "left")
    rows = {"return": found.returns, **found.terms, "steps": found.steps}
    for name, values in rows.items():
        values = np.asarray(values, float)
        table.add_row(escape(name), *(f"{x:.4g}" for x in (values.mean(), values.min(), values.max())))
    return table
