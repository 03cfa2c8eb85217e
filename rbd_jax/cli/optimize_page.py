"""The report of an optimization, for people: the motion, what it costs, what it keeps to, and whether it is a minimum."""

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


#: What may help where a search ended so.
REMEDIES = {
    Code.NOT_CONVERGED: "--iterations allows more",
    Code.STALLED: "another guess, another --solver or softer requirements may help",
    Code.UNBOUNDED: "bounds, or a cost of what is not bounded, give it an end",
}

#: What is broken by no more than this is not told.
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
    """The report.

    - `history`: iterations, costs and violations, a row for each time that they were told.
    - `notes`: what else to say of how it was made, a sentence each.
    """
    code, seconds = Code(int(solution.code)), float(solution.t[-1] - solution.t[0])
    solved = code == Code.CONVERGED
    doubts = doubts_of(problem, solution)
    summary = (
        f"{name}: {'a motion' if solved else 'no solution; the last motion'} of {tree_of(problem.model).name} of "
        f"{seconds:.4g} s, in {problem.steps} steps, at a cost of {float(solution.cost):.5g}, after {int(solution.iterations)} "
        "iterations."
    )
    blocks = [
        Text(summary, "lead"),
        *(
            [
                Text(
                    "Solved. The conditions of a minimum hold to the tolerance, and so do constraints and bounds.",
                    "good",
                )
            ]
            if solved
            else [Text("Not solved: this motion is not to be relied on.", "bad"), Items(doubts)]
        ),
        *_motion(problem, solution),
        *_costs(found, float(solution.cost)),
        *_kept(found),
        *_curves(problem, solution, found),
        *_minimum(solution, found),
        *_search(solver, solution, history),
        Heading("How it was made"),
        Items(_made(problem, notes)),
    ]
    return Page(f"Optimization: {name}", summary, doubts, tuple(blocks))


def ended(solution: Solution) -> str:
    """How the search ended, in a sentence."""
    said = _with_remedy(solution, ENDED[Code(int(solution.code))])
    return f"{said[0].upper()}{said[1:]}."


def _with_remedy(solution: Solution, said: str) -> str:
    remedy = REMEDIES.get(Code(int(solution.code)))
    return f"{said}; {remedy}" if remedy else said


def doubts_of(problem: Problem, solution: Solution) -> tuple[str, ...]:
    """Why it is no solution, each reason in words: none of one."""
    if Code(int(solution.code)) == Code.CONVERGED:
        return ()
    first, *more = explain(problem, solution, SMALL).split("\n- ")
    return (_with_remedy(solution, first), *more)


def broken(found: Appraisal) -> tuple[str, ...]:
    """What is broken, worst first, each in words."""
    said = found.broken(SMALL)
    if not found.missed <= SMALL:
        said = (*said, f"steps miss the next states by up to {found.missed:.2g}")
    return said


def _drawn(draw: Callable) -> Callable[[], bytes]:
    return lambda: as_svg(draw())


def _motion(problem: Problem, solution: Solution) -> list[Block]:
    if not np.isfinite(np.asarray(solution.q)).all() or tree_of(problem.model).is_planar:
        return []
    draw = partial(figures.motion_figure, problem, solution)
    return [
        Heading("The motion"),
        Picture(_drawn(draw), "The robot at some times, and the paths of its extremities."),
    ]


def _costs(found: Appraisal, total: float) -> list[Block]:
    if not found.costs:
        return [Heading("What it costs"), Text("Nothing: the problem has requirements alone.")]
    share = lambda value: f"{100 * value / total:.3g} %" if total else ""
    rows = [(one.name, f"{one.value:.6g}", share(one.value)) for one in found.costs]
    rows += [("in all", f"{total:.6g}", "")] * (len(rows) > 1)
    return [Heading("What it costs"), Table(("cost", "value", "share"), rows, (1, 2))]


def _kept(found: Appraisal) -> list[Block]:
    heading = Heading("What it keeps to")
    if not found.requirements:
        return [heading, Text("The problem has no constraints and no bounds.")]
    rows = [
        (one.name, str(one.values.size), f"{one.violation:.2g}", _at_bounds(one))
        for one in found.requirements
    ]
    said = broken(found)
    return [
        heading,
        Table(("requirement", "numbers", "most that one is broken", "at a bound"), rows, (1, 2, 3)),
        *([Text("Broken:"), Items(said)] if said else []),
    ]


def _at_bounds(one: Requirement) -> str:
    """How many of its numbers are at a bound; equalities always are."""
    ranged = one.lower < one.upper
    if not ranged.any():
        return "all (equalities)"
    return f"{int(np.sum(one.acting & ranged))} of {int(np.sum(ranged))}"


def _curves(problem: Problem, solution: Solution, found: Appraisal) -> list[Block]:
    said: list[Block] = []
    dotted = "Dotted: bounds, where they are not far away."
    for title, curves in (
        ("Positions", figures.positions(problem, solution)),
        ("Velocities", figures.velocities(problem, solution)),
        ("Controls", figures.controls(problem, solution)),
        ("Constraints along the way", _along(found)),
    ):
        if not curves:
            continue
        more = len(curves) - figures.PANELS
        note = f" {more} more are not shown." if more > 0 else ""
        draw = partial(figures.curves_figure, curves)
        said += [Heading(title, 3), Picture(_drawn(draw), f"{title}. {dotted}{note}")]
    return [Heading("Over time"), *said]


def _along(found: Appraisal) -> list[figures.Curve]:
    """Constraints that hold at more than a few knots, over time."""
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
    heading, at = Heading("Whether it is a minimum"), found.optimality
    off = float(solution.stationarity)
    own = f"By the solver's own measure a derivative of the Lagrangian is off zero by {off:.2g} at most."
    if at is None:
        return [
            heading,
            Text(f"{own} The states do not follow from the controls step by step, so no more is said here."),
        ]
    first = (
        f"To first order: with the multipliers that fit best, of the {at.acting} constraints and bounds that act, the slope of "
        f"the cost by a control is {at.gradient:.2g} at most"
        + (
            f"; by second order there is {at.gain:.2g} left to gain, of a cost of {float(solution.cost):.4g}."
            if np.isfinite(at.gain)
            else "."
        )
    )
    if at.curvature is None:
        second = "To second order: what acts leaves nothing to change."
    else:
        least, most = at.curvature
        flat = "flat in some direction, as far as can be told"
        what = "a strict minimum near by" if at.minimum else flat if abs(least) <= at.flat else "no minimum"
        second = (
            "To second order: along all changes of the controls that keep to what acts, the curvature of the Lagrangian is "
            f"between {least:.3g} and {most:.3g}: {what}."
        )
    return [heading, Items((own, first, second))]


def _search(solver: Solver, solution: Solution, history: np.ndarray) -> list[Block]:
    made = f"{int(solution.iterations)} iterations of at most {solver.max_iterations}"
    said = f"{type(solver).__name__}, {made}. {ended(solution)}"
    blocks: list[Block] = [Heading("The search"), Text(said)]
    if len(history) > 1:
        draw = partial(figures.search_figure, *history.T)
        blocks.append(Picture(_drawn(draw), "The cost, and what was broken, by iteration."))
    return blocks


def _made(problem: Problem, notes: Sequence[str]) -> list[str]:
    model = tree_of(problem.model)
    return [
        f"Model: {model.name}, {model.nb} bodies, nq = {problem.model.nq}, nv = {problem.model.nv}; controls: "
        f"{', '.join(problem.control_names)}.",
        f"{problem.steps} steps by {type(problem.scheme).__name__}, {problem.dt.dtype}.",
        *notes,
    ]
