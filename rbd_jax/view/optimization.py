"""Figures of an optimized motion: the robot, and positions, velocities and controls between their bounds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .._core.figures import COLORS, dress, new_figure, plain
from ..control import Problem, Solution
from ..control.naming import configuration_names, dof_names
from ..simulate.systems import tree_of
from .curves import Curve, draw_curve, lively
from .plot import Filmstrip, filmstrip_of


#: Maximum number of panels of one kind, and of panels side by side.
PANELS, ACROSS = 12, 3


def plot_solution(problem: Problem, solution: Solution, path: str | Path) -> None:
    """Draws a solution of `rbd.control.solve` into a PNG, or another format by the suffix of `path`.

    The figure shows poses along the motion, and positions, velocities and controls over time between the bounds of the
    problem. It contains the joints and controls that change most.

    Args:
      problem: The problem.
      solution: Its solution.
      path: The file.

    >>> import pathlib, tempfile
    >>> start = rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> costs = dict(running=[1e-2 * rbd.control.Effort()], terminal=[10.0 * rbd.control.Posture(jnp.array([1.0]))])
    >>> problem = rbd.control.Problem(rbd.load("pendulum"), start, steps=50, dt=0.02, **costs)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     picture = pathlib.Path(folder, "solution.png")
    ...     rbd.view.plot_solution(problem, rbd.control.solve(problem), picture)
    ...     print(picture.stat().st_size > 1000)
    True
    """
    strip = filmstrip(problem, solution)
    width, curves = 13.0, 3.4
    height = 0.0 if strip is None else 0.5 + strip.height(width)
    figure = new_figure(figsize=(width, height + curves), layout="constrained")
    rows = [height, curves] if strip is not None else [curves]
    parts = np.atleast_1d(np.asarray(figure.subfigures(len(rows), 1, height_ratios=rows)))
    if strip is not None:
        strip.draw(parts[0])
    title = f"{tree_of(problem.model).name}: {float(solution.t[-1]):.3g} s at a cost of {float(solution.cost):.4g}"
    parts[0].suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
    groups = (
        ("position [rad, m]", positions(problem, solution)),
        ("velocity [rad/s, m/s]", velocities(problem, solution)),
        ("control", controls(problem, solution)),
    )
    for axes, (title, group) in zip(parts[-1].subplots(1, 3), groups, strict=True):
        shown = lively(group, len(COLORS))
        for number, curve in enumerate(shown):
            draw_curve(axes, curve, COLORS[number % len(COLORS)], plain(curve.name))
        more = f" ({len(group) - len(shown)} more not shown)" if len(group) > len(shown) else ""
        dress(axes, title + more)
    figure.savefig(path, dpi=110)


def motion_figure(problem: Problem, solution: Solution):
    """Returns a figure of poses along the motion; None for planar models and models without bodies."""
    strip = filmstrip(problem, solution)
    if strip is None:
        return None
    figure = new_figure(figsize=(13, 0.5 + strip.height(13)), layout="constrained")
    strip.draw(figure)
    return figure


def curves_figure(curves: Sequence[Curve]):
    """Returns a figure with a panel for each curve and its bounds, up to the maximum number of panels."""
    shown = curves[:PANELS]
    across = min(ACROSS, len(shown))
    down = -(-len(shown) // across)
    figure = new_figure(figsize=(13, 0.3 + 2.2 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False)
    for panel in panels.flat[len(shown) :]:
        panel.set_visible(False)
    for number, (panel, curve) in enumerate(zip(panels.flat, shown)):
        draw_curve(panel, curve, COLORS[0], None)
        dress(panel, plain(curve.name), "t [s]" if number >= len(shown) - across else "")
    return figure


def search_figure(iterations: np.ndarray, cost: np.ndarray, violation: np.ndarray):
    """Returns a figure of the cost and the constraint violation by iteration."""
    figure = new_figure(figsize=(13, 3.0), layout="constrained")
    broken = np.where(np.isfinite(violation) & (violation > 0), violation, np.nan)
    left, right = figure.subplots(1, 2)
    left.plot(iterations, np.where(np.isfinite(cost), cost, np.nan), color=COLORS[0], linewidth=1.4)
    dress(left, "cost", "iteration")
    if np.isfinite(broken).any():
        right.semilogy(iterations, broken, color=COLORS[1], linewidth=1.4)
    dress(right, "largest violation of constraints and bounds", "iteration")
    return figure


# Data.


def filmstrip(problem: Problem, solution: Solution) -> Filmstrip | None:
    """Returns a filmstrip of the robot at some times of the motion."""
    return filmstrip_of(problem.model, solution.t, solution.q)


def positions(problem: Problem, solution: Solution) -> list[Curve]:
    """Returns the configuration over time, with the bounds of the problem."""
    return _of_state(configuration_names(problem.model), solution.t, solution.q, problem.bounds.q)


def velocities(problem: Problem, solution: Solution) -> list[Curve]:
    """Returns the velocity over time, with the bounds of the problem."""
    return _of_state(dof_names(problem.model), solution.t, solution.v, problem.bounds.v)


def controls(problem: Problem, solution: Solution) -> list[Curve]:
    """Returns the controls over time, with the bounds of the problem."""
    t = np.asarray(solution.t, float)
    found = _of_state(problem.control_names, t, solution.control, problem.bounds.control)
    return [curve._replace(steps=True) for curve in found]


def _of_state(names: Sequence[str], t, values, bounds) -> list[Curve]:
    t, values = np.asarray(t, float), np.asarray(values, float)
    pair = (-np.inf, np.inf) if bounds is None else bounds
    lower, upper = (np.broadcast_to(np.asarray(side, float), values.shape[1:]) for side in pair)
    return [Curve(name, t, values[:, i], float(lower[i]), float(upper[i])) for i, name in enumerate(names)]
