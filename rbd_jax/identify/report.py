"""Reports of identifications: identified values, their reliability, and unidentifiable directions.

The report predicts the logs with the initial and the identified model, analyzes the residuals, and states the conclusions
in words. Reasons not to trust the result (`doubts`) and `remarks` are also available separately from the page.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from .._core.arguments import instance
from .._core.files import whole_file
from .._core.page import Block, Heading, Items, Picture, Table, Text, as_html, as_markdown
from ..model import Model
from . import _report_figures as figures
from .estimate import Estimate
from .kind import Kind
from .log import Log, LogError, LogWarning, as_logs
from .output_error import OutputError
from .prediction import Prediction, predictions
from .tied import Tied
from .validation import CrossValidation, pooled
from .whiteness import Whiteness, whiteness


#: Largest acceptable ratio of errors on held-out data to errors on used data.
GENERALIZES = 2.0
#: A model with larger errors relative to the variation of the measurements explains hardly anything.
EXPLAINS = 0.7
#: Condition number above which some values can hardly be distinguished.
HARDLY = 1000.0
#: Tables with more rows are collapsed in HTML.
LONG = 24
#: Factor by which intervals must be too narrow to cause a remark.
NARROW = 1.5

#: Descriptions of the parameter groups.
WORDS = {
    "Inertias": "the masses, centers of mass and moments of inertia of",
    "Masses": "the masses of",
    "CentersOfMass": "the centers of mass of",
    "Placements": "the joint placements of",
    "Damping": "the viscous damping of",
    "Coulomb": "the Coulomb friction of",
    "Friction": "the friction of",
    "Armature": "the armature (rotor inertia) of",
    "Stiffness": "the spring stiffness of",
    "JointOffsets": "the zero positions of",
}
PLURALS = {"body": "bodies"}


@dataclass(frozen=True, eq=False)
class Report:
    """A report of an identification.

    - `title`: the title.
    - `summary`: a summary in one sentence.
    - `doubts`: reasons not to trust the result, a sentence each; empty if there are no such reasons.
    - `remarks`: additional information.
    - `html`: the page with figures, a single file without network requests.
    - `markdown`: the page without figures.

    >>> model, t = rbd.load("pendulum"), np.arange(300) / 100
    >>> q, v, a = np.sin(t)[:, None], np.cos(t)[:, None], -np.sin(t)[:, None]
    >>> tau = jax.vmap(lambda *x: 1.5 * rbd.inverse_dynamics(model, *x))(q, v, a)
    >>> log = rbd.identify.Log(t, q, v, a, tau + 0.1 * np.random.default_rng(0).normal(size=tau.shape))
    >>> page = rbd.identify.report(rbd.identify.least_squares(model, log, rbd.identify.masses()), log)
    >>> print(page.title, page.doubts, page.html[:15])
    Identification of pendulum () <!DOCTYPE html>
    """

    title: str
    summary: str
    doubts: tuple[str, ...]
    remarks: tuple[str, ...]
    blocks: tuple[Block, ...] = field(repr=False)

    @cached_property
    def html(self) -> str:
        """The page with figures."""
        return as_html(self.title, self.blocks)

    @property
    def markdown(self) -> str:
        """The page without figures."""
        return as_markdown(self.title, self.blocks)

    def save(self, folder: str | Path) -> None:
        """Writes `report.html` and `report.md` into a folder, atomically; creates the folder if necessary."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("report.html", self.html), ("report.md", self.markdown)):
            with whole_file(folder / name) as part:
                part.write_text(text, encoding="utf-8")


@dataclass(frozen=True, eq=False)
class _Column:
    """Results of one column: variation of the measurements, and errors before and after, on used and held-out data."""

    name: str
    unit: str
    count: int
    spread: float
    before: float
    after: float
    white: Whiteness | None
    held_before: float
    held_after: float
    held_spread: float


def report(
    found: Estimate,
    logs: Log | Iterable[Log],
    *,
    held_out: Log | Iterable[Log] = (),
    validation: CrossValidation | None = None,
    warned: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Report:
    """Returns a report of an estimate: identified values, predictions, residuals, unidentifiable directions.

    Args:
      found: The estimate of `least_squares`, `physical_least_squares` or `solve`.
      logs: The logs that were used.
      held_out: Logs that were not used, for predictions.
      validation: The result of `cross_validation`.
      warned: Warnings of the identification to list.
      notes: Additional sentences about the method.

    Raises:
      LogError: If the logs contain no data to compare with the model.

    >>> model, t = rbd.load("pendulum"), np.arange(300) / 100
    >>> q, v, a = np.sin(t)[:, None], np.cos(t)[:, None], -np.sin(t)[:, None]
    >>> tau = jax.vmap(lambda *x: 1.5 * rbd.inverse_dynamics(model, *x))(q, v, a)
    >>> log = rbd.identify.Log(t, q, v, a, tau + 0.1 * np.random.default_rng(0).normal(size=tau.shape))
    >>> page = rbd.identify.report(rbd.identify.least_squares(model, log, rbd.identify.masses()), log)
    >>> print(page.summary)  # page.save("runs/pendulum") writes it
    From 1 run (300 samples in 2.99 s) the masses of 1 body (bob) of pendulum were identified: the joint torques that the model \
predicts are now off by 3.3 % of how they vary (before by 91 %).
    """
    owner = "identify.report"
    instance(owner, "found", found, Estimate, "what identify.least_squares or identify.solve returns")
    used = list(as_logs(owner, logs))
    held = [held_out] if isinstance(held_out, Log) else list(held_out)
    held = list(as_logs(owner, held)) if held else []
    named = _named_apart([*used, *held])
    used, held = named[: len(used)], named[len(used) :]
    before, compare = found.parameters.reference, found.compare
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LogWarning)
        seen = [predictions(model, used, compare) for model in (before, found.model)]
        unseen = [predictions(model, held, compare) if held else () for model in (before, found.model)]
    for one in caught:
        if not issubclass(one.category, LogWarning):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    said = [str(one.message) for one in caught if issubclass(one.category, LogWarning)]
    warned = tuple(dict.fromkeys([*warned, *said]))
    columns = _columns(seen, unseen)
    if not columns:
        raise LogError(f"{owner}: these logs have no measurements that can be compared with the model")
    summary = _summary(found, used, columns)
    bodies = _bodies(found)
    doubts = _doubts(found, columns, validation, bodies, bool(held))
    remarks = _remarks(found, columns, bodies, before)
    blocks = [
        Text(summary, "lead"),
        *_verdict(doubts, remarks),
        *_values(found, bodies),
        *_fit(columns, seen, used, found),
        *_held(columns, unseen, held, validation),
        *_left(columns),
        *_unseen(found),
        *_made(found, used, held, warned, notes),
    ]
    return Report(f"Identification of {before.name}", summary, doubts, remarks, tuple(blocks))


# Content.


def _named_apart(logs: Sequence[Log]) -> list[Log]:
    """Returns the logs with unique names, by numbering duplicates."""
    names = [log.name for log in logs]
    return [
        replace(log, name=f"{log.name} ({names[: i + 1].count(log.name)})")
        if names.count(log.name) > 1
        else log
        for i, log in enumerate(logs)
    ]


def _columns(seen, unseen) -> list[_Column]:
    before, after = seen
    found = []
    for name in dict.fromkeys(one.column for one in after):
        rows = [one for one in after if one.column == name]
        found.append(
            _Column(
                name,
                rows[0].unit,
                sum(len(one.t) for one in rows),
                _spread(rows),
                pooled(before, name),
                pooled(after, name),
                _white(rows),
                pooled(unseen[0], name),
                pooled(unseen[1], name),
                _spread([one for one in unseen[1] if one.column == name]),
            )
        )
    return found


def _spread(rows: Sequence[Prediction]) -> float:
    """Returns the standard deviation of the measurements over all runs."""
    return float(np.std(np.concatenate([one.measured for one in rows]))) if rows else np.nan


def _white(rows: Sequence[Prediction]) -> Whiteness | None:
    """Returns the whiteness of the runs with the sampling rate of the longest one."""
    spacing = max(rows, key=lambda one: len(one.t)).spacing
    runs = [one.even() for one in rows if abs(one.spacing / spacing - 1) < 0.01]
    try:
        return whiteness(runs, spacing)
    except LogError:  # too few errors, or all errors are zero
        return None


def _share(columns: Sequence[_Column], which: str) -> float:
    """Returns the errors relative to the variation of the measurements, over all columns."""
    shares = [getattr(one, which) / one.spread for one in columns if one.spread > 0]
    return float(np.sqrt(np.mean(np.square(shares)))) if shares else np.nan


def _percent(share: float) -> str:
    if not np.isfinite(share):
        return "an unknown fraction"
    return (
        f"{100 * share:.2g} %"
        if share < 0.995
        else f"{100 * share:.0f} %"
        if share < 10
        else f"{share:.0f} times"
    )


def _summary(found: Estimate, logs: Sequence[Log], columns: Sequence[_Column]) -> str:
    seconds = sum(float(log.t[-1] - log.t[0]) for log in logs)
    samples = sum(len(log.t) for log in logs)
    what = _listed([_in_words(kind, found.parameters.reference) for kind in found.parameters.kinds])
    old, new = _percent(_share(columns, "before")), _percent(_share(columns, "after"))
    return (
        f"From {_count(len(logs), 'run')} ({samples:,} samples in {seconds:.3g} s) {what} of {found.model.name} were "
        f"identified: the {_predicted(columns)} that the model predicts are now off by {new} of how they vary "
        f"(before by {old})."
    )


def _predicted(columns: Sequence[_Column]) -> str:
    """Returns a description of the predicted quantities."""
    forces = [one for one in columns if one.name.startswith("tau ")]
    said = (
        ["joint torques" if all(one.unit == "N m" for one in forces) else "joint forces and torques"]
        if forces
        else []
    )
    for channel, words in (("q ", "positions"), ("v ", "velocities")):
        said += [words] * any(one.name.startswith(channel) for one in columns)
    return _listed(
        said + ["readings of sensors"] * any(one.name[:2] not in ("q ", "v ", "ta") for one in columns)
    )


def _in_words(kind: Kind, model: Model) -> str:
    inner = kind.inner if isinstance(kind, Tied) else kind
    things = list(dict.fromkeys(one.name for one in kind.chosen(model)))
    words = WORDS.get(type(inner).__name__)
    if words is None:
        words = "the " + _listed([name for name, *_ in inner.components if name] or ["value"]) + " of"
    some = f" ({', '.join(things)})" if len(things) <= 4 else ""
    tied = ", tied to others," if isinstance(kind, Tied) else ""
    return f"{words} {_count(len(things), inner.of)}{some}{tied}"


def _count(number: int, what: str) -> str:
    return f"{number} {what if number == 1 else PLURALS.get(what, what + 's')}"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


@dataclass(frozen=True)
class _Body:
    """A body before and after identification.

    - `mass`: its mass before and after.
    - `error`: the standard error of its mass.
    - `seen`: whether the data identify its mass separately.
    - `moved`: the displacement of its center of mass.
    - `possible`: whether its inertia is physically consistent, before and after.
    """

    name: str
    mass: tuple[float, float]
    error: float
    seen: bool
    moved: float
    possible: tuple[bool, bool]


def _bodies(found: Estimate) -> list[_Body]:
    """Returns the bodies with estimated inertia parameters."""
    parameters = found.parameters
    chosen = set()
    for kind, block in zip(parameters.kinds, parameters.blocks):
        if kind.of == "body" and {"mass", "com"} & set(kind.sets):
            chosen |= set(map(int, kind.written(block.places)))
    old, new = (one.inertias for one in (parameters.reference, found.model))
    mass, com = (
        np.stack([np.asarray(getattr(x, name), float) for x in (old, new)], axis=1)
        for name in ("mass", "com")
    )
    possible = np.stack([np.asarray(x.is_physical) for x in (old, new)], axis=1)
    errors = dict(zip(parameters.names, map(float, found.standard_errors)))
    sure = {name for name, said in zip(parameters.names, _seen_alone(found)) if said == "yes"}
    return [
        _Body(
            found.model.body_names[i],
            (float(mass[i, 0]), float(mass[i, 1])),
            errors.get(f"{found.model.body_names[i]} mass", np.nan),
            f"{found.model.body_names[i]} mass" in sure,
            float(np.linalg.norm(com[i, 1] - com[i, 0])),
            (bool(possible[i, 0]), bool(possible[i, 1])),
        )
        for i in sorted(chosen)
    ]


def _doubts(found, columns, validation, bodies, held: bool) -> tuple[str, ...]:
    said = []
    if not found.converged:
        said.append(
            f"The search for the values did not converge (it stopped after {found.iterations} iterations): better values "
            "may exist."
        )
    if found.rank == 0:
        said.append(
            "The data contain no information about the parameters: the motion is too small, or no measurement depends on them."
        )
    for one in bodies:
        if not one.possible[1]:
            said.append(
                f"{one.name} has an inertia that no body has (its density would have to be negative somewhere). The data "
                "do not "
                "determine it well: use physical least squares, or move the robot more."
            )
    if not all(np.isfinite(one.after) for one in columns):
        said.append("The identified model cannot be simulated along these runs.")
    elif all(one.after >= EXPLAINS * one.spread for one in columns if one.spread > 0):
        said.append(
            "The identified model explains hardly anything of the measurements. Check units, signs and the order of joints."
        )
    beyond = "the estimate does not hold beyond them. Use more varied motion, or estimate fewer parameters."
    if held:
        pairs = [(one.name, one.unit, one.after, one.held_after) for one in columns]
        if worse := _worse(pairs):
            said.append(f"On held-out runs, {worse}: {beyond}")
        better = [one.name for one in columns if one.held_after > 1.05 * one.held_before]
        if better:
            said.append(
                f"On held-out runs, the initial model predicts {_some(better)} better than the identified one."
            )
    elif validation is not None:
        parts = validation.columns, validation.units, validation.training, validation.held_out
        if worse := _worse(list(zip(*parts))):
            said.append(f"In cross-validation, on held-out data, {worse}: {beyond}")
    return tuple(said)


def _worse(pairs) -> str:
    """Returns a description of the columns with much larger errors on held-out data than on used data."""
    found = [(unseen / max(seen, 1e-300), name, unit, unseen) for name, unit, seen, unseen in pairs
             if unseen > GENERALIZES * seen]  # fmt: skip
    if not found:
        return ""
    ratio, name, unit, error = max(found)
    others = f", and {len(found) - 1} more columns" if len(found) > 1 else ""
    return (
        f"{name} is off by {error:.3g} {unit}, {ratio:.2g} times as much as on the data used{others}".replace(
            "e+0", "e"
        )
    )


def _some(names: Sequence[str], most: int = 3) -> str:
    return (
        _listed(list(names))
        if len(names) <= most
        else f"{', '.join(names[:most])} and {len(names) - most} more"
    )


def _remarks(found, columns, bodies, before) -> tuple[str, ...]:
    said = []
    lost = found.parameters.size - found.rank
    if lost:
        said.append(
            f"For {found.parameters.size} values, the data identify {_count(found.rank, 'combination')}; along {lost} others, "
            "the values keep "
            "their initial or most plausible values."
        )
    if found.condition_number > HARDLY:
        said.append(
            f"Some values can hardly be distinguished (condition number {found.condition_number:.2g}): their errors are "
            "large and "
            "correlated."
        )
    if found.at_bounds:
        said.append(
            f"{_some(found.at_bounds, 6)} ended at a bound, and the data favor values beyond it. Zero friction may be "
            "correct. Otherwise, "
            "the model may lack an effect."
        )
    worst = [
        one for one in columns if one.white is not None and one.white.narrow > NARROW and not one.white.white
    ]
    if worst:
        one = max(worst, key=lambda one: one.white.narrow)
        said.append(
            f"The residuals are not white noise in {_count(len(worst), 'column')}: intervals are too narrow, in "
            f"{one.name} by up to "
            f"{one.white.narrow:.2g} times."
        )
    changed = [one for one in bodies if not one.seen and not 1 / 3 <= one.mass[1] / one.mass[0] <= 3]
    if changed:
        listed = ", ".join(f"{one.name} from {one.mass[0]:.3g} to {one.mass[1]:.3g} kg" for one in changed)
        said.append(f"Masses that the data do not identify separately changed much: {listed}.")
    if not all(np.isfinite(one.before) for one in columns):
        said.append("The initial model cannot be simulated along these runs.")
    return tuple(said)


# The page.


def _verdict(doubts, remarks) -> list[Block]:
    if doubts:
        blocks: list[Block] = [Text("Do not trust these values yet:", "bad"), Items(doubts)]
    else:
        blocks = [Text("No check on this page contradicts the result.", "good")]
    if remarks:
        blocks += [Text("Remarks:"), Items(remarks)]
    return blocks


def _values(found: Estimate, bodies: Sequence[_Body]) -> list[Block]:
    own = found.parameters
    before = np.asarray(own.values_of(own.reference), float)
    intervals, unseen = found.intervals(), _seen_alone(found)
    rows = []
    for i, name in enumerate(own.names):
        error = found.standard_errors[i]
        if name in found.at_bounds:
            interval = "at its bound"
        elif np.isfinite(error):
            interval = f"{_digits(intervals[i, 0], error)} to {_digits(intervals[i, 1], error)}"
        else:
            interval = "unknown"
        rows.append(
            [
                name,
                _digits(before[i], error),
                _digits(found.values[i], error),
                interval,
                own.units[i],
                unseen[i],
            ]
        )
    header = ("", "before", "identified", "95 % interval", "unit", "identifiable")
    long = f"All {len(rows)} values" if len(rows) > LONG else ""
    blocks: list[Block] = [Heading("Identified values")]
    if bodies:
        blocks.append(
            Table(
                (
                    "body",
                    "mass before [kg]",
                    "identified [kg]",
                    "± standard error",
                    "center of mass moved by [m]",
                    "physically consistent",
                ),
                [
                    [
                        one.name,
                        f"{one.mass[0]:.4g}",
                        f"{one.mass[1]:.4g}",
                        f"{one.error:.2g}" if np.isfinite(one.error) else "unknown",
                        f"{one.moved:.3g}" if one.moved > 1e-9 else "0",
                        "yes" if one.possible[1] else "no" + ("" if one.possible[0] else " (nor before)"),
                    ]
                    for one in bodies
                ],
                (1, 2, 3, 4),
            )
        )
    blocks += [
        Table(header, rows, (1, 2, 3), long),
        Picture(
            partial(figures.values, found),
            "Each value with its 95 % interval and its initial value, by unit."
            + (
                f" For units with more than {figures.VALUES} values, only those with the largest relative changes are drawn."
                if max(own.units.count(unit) for unit in own.units) > figures.VALUES
                else ""
            ),
        ),
        Text(
            "A 95 % interval contains the true value in 95 of 100 such experiments, if the structure of the model is correct and "
            "errors are "
            "white (see below). For inertias, mass is in kg; hx, hy, hz are mass times the position of the center of mass; "
            "Ixx ... Izz are moments of inertia about the origin of the body's frame, along its axes. Damping is friction that "
            "grows with speed; Coulomb friction does not depend on speed.",
            "small",
        ),
    ]
    return blocks


def _seen_alone(found: Estimate) -> list[str]:
    """Returns for each value whether the data determine it."""
    directions = found.seen.directions
    said = ["yes"] * found.parameters.size
    for row in directions:
        terms = np.flatnonzero(row)
        for i in terms:
            said[i] = "no" if len(terms) == 1 else "only in combination"
    return said


def _digits(value: float, error: float) -> str:
    """Returns a value as text, to two digits of its error."""
    if not (np.isfinite(error) and error > 0):
        return f"{value:.4g}"
    decimals = int(np.clip(1 - np.floor(np.log10(error)), 0, 12))
    if abs(value) >= 1e6 or (value and decimals > 7):
        return f"{value:.3g}"
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text


def _fit(columns, seen, logs, found) -> list[Block]:
    before, after = seen
    rows = [
        [
            one.name,
            f"{one.count:,}",
            f"{one.spread:.3g}",
            f"{one.before:.3g}" if np.isfinite(one.before) else "cannot be simulated",
            f"{one.after:.3g}",
            one.unit,
            _percent(one.after / one.spread) if one.spread > 0 else "",
        ]
        for one in columns
    ]
    how = (
        "The model is simulated under the measured controls, and the simulation is compared with the measurements."
        if isinstance(found.compare, OutputError)
        else "In each sample, the prediction of the model for the measured motion is compared with the measurement."
    )
    first = logs[0].name
    shown = [one for one in after if one.log == first]
    worst = sorted(
        shown, key=lambda one: -float(np.std(one.errors)) / max(float(np.std(one.measured)), 1e-300)
    )
    kept = {one.column for one in worst[: figures.ROWS]}
    pairs = [(new, old) for new, old in zip(after, before) if new.log == first and new.column in kept]
    by_name = {one.name: one.white for one in columns}
    return [
        Heading("Measurements and predictions"),
        Text(how),
        Table(
            ("", "samples", "variation", "error before", "error now", "unit", "error relative to variation"),
            rows,
            (1, 2, 3, 4, 6),
        ),
        Picture(
            partial(
                figures.over_time,
                [new for new, _ in pairs],
                [old for _, old in pairs],
                [by_name[new.column] for new, _ in pairs],
            ),
            f"Run {first!r}: measurements and predictions over time; errors; and the autocorrelation of the "
            "errors. "
            "Errors are root mean squares, and variations are standard deviations."
            + (
                f" From {len(shown)} columns, the {figures.ROWS} worst are drawn."
                if len(shown) > figures.ROWS
                else ""
            ),
        ),
    ]


def _held(columns, unseen, held, validation) -> list[Block]:
    blocks: list[Block] = [Heading("Held-out data")]
    if held:
        names = _listed([repr(log.name) for log in held])
        rows = [
            [
                one.name,
                f"{one.after:.3g}",
                f"{one.held_after:.3g}",
                f"{one.held_before:.3g}" if np.isfinite(one.held_before) else "cannot be simulated",
                one.unit,
                f"{one.held_after / one.after:.2f}" if one.after > 0 else "",
            ]
            for one in columns
            if np.isfinite(one.held_after)
        ]
        blocks += [
            Text(f"{_count(len(held), 'run')} ({names}) was held out and not used for the estimate."
                 if len(held) == 1 else f"{_count(len(held), 'run')} ({names}) were held out and not used for the estimate."),
            Table(
                ("", "error on data used", "error on data held out", "initial model, held out", "unit", "held out / used"),
                rows,
                (1, 2, 3, 5),
            ),
        ]  # fmt: skip
        some = [one for one in columns if one.spread > 0 and np.isfinite(one.held_after)]
        if some:
            share = lambda which: np.array([getattr(one, which) for one in some])
            blocks.append(
                Picture(
                    partial(
                        figures.held_out,
                        [one.name for one in some],
                        [
                            ("data used", share("after") / share("spread")),
                            ("held out", share("held_after") / np.maximum(share("held_spread"), 1e-300)),
                        ],
                    ),
                    "Errors relative to the measurements. If both are about the same, the estimate holds beyond its data.",
                )
            )
    if validation is not None:
        rows = [
            [name, f"{a:.3g}", f"{b:.3g}", unit, f"{b / a:.2f}" if a > 0 else ""]
            for name, unit, a, b in zip(
                validation.columns, validation.units, validation.training, validation.held_out
            )
        ]
        blocks += [
            Text(
                f"Cross-validation: {len(validation.folds)} times, a part of the data was held out and predicted by an "
                "estimate from "
                f"the rest. The parts were {_listed([repr(name) for name in validation.folds])}."
            ),
            Table(
                ("", "error on data used", "error on data held out", "unit", "held out / used"),
                rows,
                (1, 2, 4),
            ),
        ]
    if not held and validation is None:
        blocks.append(
            Text(
                "No run was held out, so errors are those on the data used for the estimate. Hold out a run to check "
                "whether "
                "the estimate holds beyond its data."
            )
        )
    return blocks


def _left(columns) -> list[Block]:
    rows, said = [], []
    for one in columns:
        if one.white is None:
            continue
        about = one.white
        rows.append(
            [
                one.name,
                f"{about.lasting:.2g}",
                f"{about.lasting * about.spacing:.2g}",
                f"{about.effective:,.0f} of {about.samples:,}",
                f"{about.narrow:.2g}",
                f"{about.p:.2g}" if about.p >= 1e-4 else "< 0.0001",
            ]
        )
        said.append(f"{about.in_words(one.name)}.".replace("errors", "Errors", 1))
    if not rows:
        return []
    return [
        Heading("Whiteness of the residuals"),
        Text(
            "Intervals assume that the errors of different samples are independent (white noise). If errors last, neighboring "
            "samples contain the same information: fewer samples are independent, and intervals are too narrow. "
            "Causes are smoothing, "
            "and effects that the model lacks: other friction, elasticity, cables."
        ),
        Items(said),
        Table(
            (
                "",
                "correlation time [samples]",
                "correlation time [s]",
                "independent samples",
                "intervals too narrow by up to",
                "p (Ljung-Box)",
            ),
            rows,
            (1, 2, 3, 4, 5),
        ),
    ]


def _unseen(found: Estimate) -> list[Block]:
    size, rank = found.parameters.size, found.rank
    blocks: list[Block] = [Heading("Identifiability")]
    if rank == size:
        blocks.append(Text(f"The data identify all {size} values."))
    else:
        blocks.append(
            Text(
                f"For {size} values, the data identify {rank} combinations and do not identify {size - rank}. No method can "
                "determine these "
                "from these data; along them, the values keep their initial or most plausible values. If you need "
                "one of "
                "them, move other joints as well, or measure more."
            )
        )
    if np.isfinite(found.condition_number):
        blocks.append(
            Text(
                f"Condition number of the identifiable combinations: {found.condition_number:.3g} (1 is ideal; in the thousands, "
                "some values can "
                "hardly be distinguished)."
            )
        )
    if found.unobservable:
        blocks += [Heading("Not identifiable", 3), Items([f"{line}." for line in found.unobservable])]
        rows = [
            [name, f"{value:.4g}", f"{error:.2g}", found.parameters.units[i]]
            for name, value, error, i in zip(
                found.base_names, found.base_values, found.base_standard_errors, found.seen.kept
            )
        ]
        blocks += [
            Heading("Identifiable", 3),
            Text("Each combination is named by the value with which others are grouped.", "small"),
            Table(
                ("combination with", "value", "± standard error", "unit"), rows, (1, 2),
                f"All {len(rows)} combinations" if len(rows) > LONG else "",
            ),
        ]  # fmt: skip
    return blocks


def _made(found, logs, held, warned, notes) -> list[Block]:
    rows = [
        [
            log.name,
            "held out" if log in held else "used",
            f"{len(log.t):,}",
            f"{log.t[-1] - log.t[0]:.4g}",
            ", ".join(log.channels),
        ]
        for log in [*logs, *held]
    ]
    noise = ", ".join(f"{name} {x:.3g}" for name, x in zip(found.columns, found.noise))
    said = [
        *notes,
        f"The search took {found.iterations} iterations and "
        + ("converged." if found.converged else "did not converge."),
        f"Noise that weights the columns: {noise}.",
    ]
    blocks: list[Block] = [
        Heading("Method"),
        Table(("run", "", "samples", "seconds", "channels"), rows, (2, 3)),
        Items(said),
    ]
    if warned:
        blocks += [Heading("Warnings", 3), Items(warned)]
    return blocks
