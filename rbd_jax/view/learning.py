"""Figures of learning: returns over training, and an episode with the learned policy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np

from .._core.figures import COLORS, GREY, dress, new_figure, plain
from ..control.naming import configuration_names
from ..learn import Episode, Trained
from ..tasks.task import Task
from .curves import Curve, draw_curve, lively
from .plot import filmstrip_of


#: Number of finished episodes in the moving average of returns.
AVERAGED = 64


def plot_learning(trained: Trained, path: str | Path, threshold: float | None = None) -> None:
    """Draws the learning curves of a policy into a PNG, or another format by the suffix of `path`: returns, rewards, gradients.

    Args:
      trained: The result of `rbd.learn.train`.
      path: The file.
      threshold: A return to mark, at which the task counts as solved.

    >>> import pathlib, tempfile
    >>> task = rbd.tasks.load("cartpole")
    >>> small = rbd.learn.ShortHorizonActorCritic(epochs=2, environments=4, horizon=4)
    >>> trained = rbd.learn.train(task, small, key=jax.random.key(0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     picture = pathlib.Path(folder, "learning.png")
    ...     rbd.view.plot_learning(trained, picture)
    ...     print(picture.stat().st_size > 1000)
    True
    """
    learning_figure(trained.curve, threshold).savefig(path, dpi=110)


def learning_figure(curve: Mapping[str, np.ndarray], threshold: float | None = None):
    """Returns a figure of the returns of finished episodes, the mean reward of a step, and the norm of the gradient, by epoch."""
    figure = new_figure(figsize=(13, 3.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    epochs = np.arange(1, len(curve["reward"]) + 1)
    returns, mean = curve["return"], averaged_returns(curve)
    left.plot(epochs, returns, ".", color=COLORS[0], alpha=0.25, markersize=3)
    left.plot(epochs, mean, color=COLORS[0], linewidth=1.6)
    if threshold is not None:
        left.axhline(threshold, color=GREY, linewidth=1.1, linestyle=":")
    dress(left, f"return of episodes, and mean of the last {AVERAGED}", "epoch")
    middle.plot(epochs, curve["reward"], color=COLORS[2], linewidth=1.0)
    dress(middle, "reward of a step, in the mean", "epoch")
    gradient = np.asarray(curve["gradient"])
    right.semilogy(epochs, np.where(gradient > 0, gradient, np.nan), color=COLORS[1], linewidth=0.9)
    dress(right, "length of the gradient", "epoch")
    return figure


def averaged_returns(curve: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns the mean return of the last finished episodes at each epoch; NaN before the first one."""
    counts = np.asarray(curve["episodes"], float)
    sums = np.where(counts > 0, np.nan_to_num(curve["return"]) * counts, 0.0)
    found, first = np.full(len(counts), np.nan), 0
    total, count = 0.0, 0.0
    for epoch, (more, sum_of) in enumerate(zip(counts, sums)):
        total, count = total + sum_of, count + more
        while count - counts[first] >= AVERAGED:
            total, count, first = total - sums[first], count - counts[first], first + 1
        if count:
            found[epoch] = total / count
    return found


def episode_figure(task: Task, episode: Episode):
    """Returns a figure of an episode: the robot, the reward terms, the actions, and the positions that change most."""
    steps = max(int(episode.steps), 1)
    states = jax.tree.map(
        lambda x: np.asarray(x[: steps + 1]), (episode.states.state.q, episode.states.metrics)
    )
    (q, terms), actions = states, np.asarray(episode.actions[:steps], float)
    t = np.arange(steps + 1) * float(task.dt)
    strip = filmstrip_of(task.model, t, q)
    height = 0.0 if strip is None else 0.5 + strip.height(13)
    figure = new_figure(figsize=(13, height + 3.4), layout="constrained")
    rows = [height, 3.4] if strip is not None else [3.4]
    parts = np.atleast_1d(np.asarray(figure.subfigures(len(rows), 1, height_ratios=rows)))
    if strip is not None:
        strip.draw(parts[0])
    terms = terms or {"reward": np.asarray(episode.states.reward[: steps + 1])}
    everywhere = -np.inf, np.inf
    groups = (
        ("reward", [Curve(name, t[1:], np.asarray(x[1:], float), *everywhere) for name, x in terms.items()]),
        ("action", [Curve(str(i), t, x, -1.0, 1.0, steps=True) for i, x in enumerate(actions.T)]),
        (
            "position [rad, m]",
            [
                Curve(n, t, x, *everywhere)
                for n, x in zip(configuration_names(task.model), np.asarray(q, float).T)
            ],
        ),
    )
    for axes, (title, curves) in zip(parts[-1].subplots(1, 3), groups, strict=True):
        shown = lively(curves, len(COLORS))
        for number, one in enumerate(shown):
            draw_curve(axes, one, COLORS[number % len(COLORS)], plain(one.name))
        more = f" ({len(curves) - len(shown)} more not shown)" if len(curves) > len(shown) else ""
        dress(axes, title + more)
    return figure
