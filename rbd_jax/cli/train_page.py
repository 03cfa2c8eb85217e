"""The report of a training: whether the task is solved, the learning curves, and an episode with the policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from .._core.figures import as_svg
from .._core.page import Block, Heading, Items, Page, Picture, Table, Text
from ..learn import Episode, Evaluation, ShortHorizonActorCritic, Trained
from ..simulate.systems import tree_of
from ..tasks.task import Task
from ..view import learning as figures


#: Fraction of dropped derivatives above which the report warns.
DROPPED = 0.01


def page(
    name: str,
    task: Task,
    config: ShortHorizonActorCritic,
    threshold: float | None,
    trained: Trained,
    found: Evaluation,
    episode: Episode,
    notes: Sequence[str],
) -> Page:
    """Returns the report.

    Args:
      notes: Further sentences on how the policy was trained.
    """
    count, mean = found.returns.size, float(found.mean)
    doubts = _doubts(config, threshold, trained, found)
    summary = (
        f"{name}: a policy for {tree_of(task.model).name} after {trained.epochs} epochs of {config.environments} x "
        f"{config.horizon} steps. In {count} episodes it has a mean return of {mean:.4g}, and at least "
        f"{float(found.returns.min()):.4g}."
    )
    good = (
        "Trained."
        if threshold is None
        else f"Solved: the mean return reaches the threshold of {threshold:.4g}."
    )
    blocks = [
        Text(summary, "lead"),
        *([Text("Not solved.", "bad"), Items(doubts)] if doubts else [Text(good, "good")]),
        Heading("Results"),
        Table(("", "mean", "least", "most"), _rows(found), (1, 2, 3)),
        Text(f"{count} episodes with the deterministic actions of the policy.", "small"),
        Heading("Example episode"),
        Picture(
            lambda: as_svg(figures.episode_figure(task, episode)),
            f"{int(episode.steps)} steps of {float(task.dt):.4g} s: the terms of the reward, the actions, and the positions that "
            "change the most.",
        ),
        Heading("Training"),
        Picture(
            lambda: as_svg(figures.learning_figure(trained.curve, threshold)),
            "Returns of the episodes that ended in an epoch, with exploration; the reward per step; the norm of the gradient. "
            "Dotted: the return at which the task counts as solved.",
        ),
        *_faults(config, trained),
        Heading("Settings"),
        Items(_made(task, config, notes)),
    ]
    return Page(f"Training: {name}", summary, doubts, tuple(blocks))


def _doubts(
    config: ShortHorizonActorCritic, threshold: float | None, trained: Trained, found: Evaluation
) -> tuple[str, ...]:
    mean, doubts = float(found.mean), []
    if not np.isfinite(mean):
        doubts.append("with this policy the reward of a step is not finite")
    elif threshold is not None and mean < threshold:
        left = config.epochs - trained.epochs
        more = f"; {left} of the {config.epochs} epochs remained at the time limit" if left else ""
        doubts.append(
            f"the mean return of {found.returns.size} episodes is {mean:.4g}, below the threshold of {threshold:.4g}{more}"
        )
    dropped = _share(config, trained, "dropped")
    if dropped > DROPPED:
        doubts.append(
            f"in the last quarter of the epochs {100 * dropped:.2g} % of all derivatives were not finite and left out: the "
            "simulation is not differentiable there, or its steps are too long"
        )
    return tuple(doubts)


def _share(config: ShortHorizonActorCritic, trained: Trained, name: str) -> float:
    """Returns the fraction of steps in the last quarter of the epochs."""
    rows = trained.curve[name][-max(trained.epochs // 4, 1) :]
    return float(np.mean(rows)) / (config.environments * config.horizon)


def _rows(found: Evaluation) -> list[tuple[str, ...]]:
    rows = {"return": found.returns, **found.terms, "steps": found.steps}
    numbers = {name: np.asarray(values, float) for name, values in rows.items()}
    said = [(name, *(f"{x:.4g}" for x in (v.mean(), v.min(), v.max()))) for name, v in numbers.items()]
    return [*said, ("terminated early", f"{100 * float(np.mean(found.terminated)):.3g} %", "", "")]


def _faults(config: ShortHorizonActorCritic, trained: Trained) -> list[Block]:
    said = [
        f"{int(trained.curve[name].sum())} {what}"
        for name, what in (
            ("dropped", "derivatives of a step were not finite and left out"),
            ("lost", "steps were not finite; their episodes were ended"),
        )
        if trained.curve[name].sum()
    ]
    steps = trained.epochs * config.environments * config.horizon
    return [Text(f"Of {steps} steps:"), Items(said)] if said else []


def _made(task: Task, config: ShortHorizonActorCritic, notes: Sequence[str]) -> list[str]:
    model = tree_of(task.model)
    options = ", ".join(f"{one.name} {getattr(config, one.name)}" for one in dataclasses.fields(config))
    return [
        f"Model: {model.name}, {model.nb} bodies, nq = {task.model.nq}, nv = {task.model.nv}, {model.dtype}. Actions: "
        f"{task.action_size} numbers, every {float(task.dt):.4g} s in {task.substeps} steps of the simulation.",
        f"{type(config).__name__}: {options}.",
        *notes,
    ]
