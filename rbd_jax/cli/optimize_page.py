"""The report of an optimization: the motion, its cost, its constraints, and whether it is a minimum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from .._core.figures import as_svg
from .._core.page import Block, Heading, Items, Page, Picture, Table, Text
from ..control import Problem, Solution, Solver
from ..control.appraisal import Appraisal
from ..control.explain import ENDED, explain
from ..control.requirements import Requirement
from ..optimize.outcome import Code
from ..simulate.systems import tree_of
from ..view import optimization as figures


#: Remedies for each result code.
REMEDIES = {
    Code.NOT_CONVERGED: "increase --iterations",
    Code.STALLED: "try another guess, another --solver or softer requirements",
    Code.UNBOUNDED: "add bounds, or a cost on the unbounded quantities",
}

#: Violations up to this size are not reported.
SMALL = 1e-6


def page(
    name: str,
    problem: Problem,
    solver: Solver,
    solution: Solution,
    found: Appraisal,
    history: np.ndarray,
    notes: Sequence[str],
) -> Page:
    """Returns the report.

    Args:
      history: Iterations, costs and violations, one row per solver report.
      notes: Further sentences on how the result was computed.
    """
    code, seconds = Code(int(solution.code)), float(solution.t[-1] - solution.t[0])
    solved = code == Code.CONVERGED
    doubts = doubts_of(problem, solution)
    summary = (
        f"{name}: {'a motion' if solved else 'no solution, but the last motion'} of {tree_of(problem.model).name} of "
        f"{seconds:.4g} s, in {problem.steps} steps, at a cost of {float(solution.cost):.5g}, after {int(solution.iterations)} "
        "iterations."
    )
    blocks = [
        Text(summary, "lead"),
        *(
            [
                Text(
                    "Solved. The optimality conditions, constraints and bounds hold to the tolerance.",
                    "good",
                )
            ]
            if solved
            else [Text("Not solved: do not use this motion.", "bad"), Items(doubts)]
        ),
        *_motion(problem, solution),
        *_costs(found, float(solution.cost)),
        *_kept(found),
        *_curves(problem, solution, found),
        *_minimum(solution, found),
        *_search(solver, solution, history),
        Heading("Settings"),
        Items(_made(problem, notes)),
    ]
    return Page(f"Optimization: {name}", summary, doubts, tuple(blocks))


def ended(solution: Solution) -> str:
    """Returns a sentence on how the search ended."""
    said = _with_remedy(solution, ENDED[Code(int(solution.code))])
    return f"{said[0].upper()}{said[1:]}."


def _with_remedy(solution: Solution, said: str) -> str:
    remedy = REMEDIES.get(Code(int(solution.code)))
    return f"{said}; {remedy}" if remedy else said


def doubts_of(problem: Problem, solution: Solution) -> tuple[str, ...]:
    """Returns the reasons why the result is not a solution; empty for a solution."""
    if Code(int(solution.code)) == Code.CONVERGED:
        return ()
    first, *more = explain(problem, solution, SMALL).split("\n- ")
    return (_with_remedy(solution, first), *more)


def broken(found: Appraisal) -> tuple[str, ...]:
    """Returns descriptions of the violations, largest first."""
    said = found.broken(SMALL)
    if not found.missed <= SMALL:
        said = (*said, f"steps end up to {found.missed:.2g} away from the next states")
    return said


def _drawn(draw: Callable) -> Callable[[], bytes]:
    return lambda: as_svg(draw())


def _motion(problem: Problem, solution: Solution) -> list[Block]:
    if not np.isfinite(np.asarray(solution.q)).all() or tree_of(problem.model).is_planar:
        return []
    draw = partial(figures.motion_figure, problem, solution)
    return [
        Heading("Motion"),
        Picture(_drawn(draw), "Poses of the robot over time, and the paths of its extremities."),
    ]


def _costs(found: Appraisal, total: float) -> list[Block]:
    if not found.costs:
        return [Heading("Cost"), Text("The problem has requirements only.")]
    share = lambda value: f"{100 * value / total:.3g} %" if total else ""
    rows = [(one.name, f"{one.value:.6g}", share(one.value)) for one in found.costs]
    rows += [("total", f"{total:.6g}", "")] * (len(rows) > 1)
    return [Heading("Cost"), Table(("cost", "value", "share"), rows, (1, 2))]


def _kept(found: Appraisal) -> list[Block]:
    heading = Heading("Constraints and bounds")
    if not found.requirements:
        return [heading, Text("The problem has no constraints and no bounds.")]
    rows = [
        (one.name, str(one.values.size), f"{one.violation:.2g}", _at_bounds(one))
        for one in found.requirements
    ]
    said = broken(found)
    return [
        heading,
        Table(("requirement", "components", "largest violation", "at a bound"), rows, (1, 2, 3)),
        *([Text("Violated:"), Items(said)] if said else []),
    ]


def _at_bounds(one: Requirement) -> str:
    """Returns the number of components at a bound; equalities always are."""
    ranged = one.lower < one.upper
    if not ranged.any():
        return "all (equalities)"
    return f"{int(np.sum(one.acting & ranged))} of {int(np.sum(ranged))}"


def _curves(problem: Problem, solution: Solution, found: Appraisal) -> list[Block]:
    said: list[Block] = []
    dotted = "Dotted: bounds, if within range."
    for title, curves in (
        ("Positions", figures.positions(problem, solution)),
        ("Velocities", figures.velocities(problem, solution)),
        ("Controls", figures.controls(problem, solution)),
        ("Constraints along the motion", _along(found)),
    ):
        if not curves:
            continue
        more = len(curves) - figures.PANELS
        note = f" {more} more are not shown." if more > 0 else ""
        draw = partial(figures.curves_figure, curves)
        said += [Heading(title, 3), Picture(_drawn(draw), f"{title}. {dotted}{note}")]
    return [Heading("Over time"), *said]


def _along(found: Appraisal) -> list[figures.Curve]:
    """Returns constraints that hold at more than a few knots, over time."""
    curves = []
    for one in found.requirements:
        if one.name.startswith("constraints") and len(one.at) > 3:
            number = one.name.partition(" ")[0]
            curves += [
                figures.Curve(
                    f"{number} {part}",
                    one.times,
                    one.values[:, i],
                    float(one.lower[:, i].max()),
                    float(one.upper[:, i].min()),
                )
                for i, part in enumerate(one.parts)
            ]
    return curves


def _minimum(solution: Solution, found: Appraisal) -> list[Block]:
    heading, at = Heading("Optimality"), found.optimality
    off = float(solution.stationarity)
    own = f"By the solver's own measure, the derivatives of the Lagrangian differ from zero by at most {off:.2g}."
    if at is None:
        return [
            heading,
            Text(
                f"{own} The states do not follow from the controls step by step, so there is no further analysis."
            ),
        ]
    first = (
        f"First order: with the best-fitting multipliers of the {at.acting} active constraints and bounds, the gradient of "
        f"the cost in the controls is at most {at.gradient:.2g}"
        + (
            f"; to second order the cost can still decrease by {at.gain:.2g}, from {float(solution.cost):.4g}."
            if np.isfinite(at.gain)
            else "."
        )
    )
    if at.curvature is None:
        second = "Second order: the active constraints leave no free direction."
    else:
        least, most = at.curvature
        flat = "flat in some direction, within the accuracy"
        what = "a strict local minimum" if at.minimum else flat if abs(least) <= at.flat else "not a minimum"
        second = (
            "Second order: along all changes of the controls that satisfy the active constraints, the curvature of the "
            f"Lagrangian is between {least:.3g} and {most:.3g}: {what}."
        )
    return [heading, Items((own, first, second))]


def _search(solver: Solver, solution: Solution, history: np.ndarray) -> list[Block]:
    made = f"{int(solution.iterations)} iterations of at most {solver.max_iterations}"
    said = f"{type(solver).__name__}, {made}. {ended(solution)}"
    blocks: list[Block] = [Heading("Search"), Text(said)]
    if len(history) > 1:
        draw = partial(figures.search_figure, *history.T)
        blocks.append(Picture(_drawn(draw), "Cost and violation by iteration."))
    return blocks


def _made(problem: Problem, notes: Sequence[str]) -> list[str]:
    model = tree_of(problem.model)
    return [
        f"Model: {model.name}, {model.nb} bodies, nq = {problem.model.nq}, nv = {problem.model.nv}; controls: "
        f"{', '.join(problem.control_names)}.",
        f"{problem.steps} steps by {type(problem.scheme).__name__}, {problem.dt.dtype}.",
        *notes,
    ]
