"""A report of an identification, for people: what was found, how far to trust it, and what the data do not say.

It reads an estimate, predicts its logs by the model before and after, looks at what is left, and says in words what follows.
Reasons not to trust the result (`doubts`) and what is worth knowing (`remarks`) are kept apart from the page.
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


#: Errors on data that were not seen may be so many times those on data that were.
GENERALIZES = 2.0
#: A model whose errors are this share of what was measured, or more, explains hardly anything.
EXPLAINS = 0.7
#: Values are hardly told apart if the condition number of what is seen is this large.
HARDLY = 1000.0
#: Tables with more rows are folded away in HTML.
LONG = 24
#: Errors last: intervals too narrow by more than this are worth a remark.
NARROW = 1.5

#: What the kinds free, in words.
WORDS = {
    "Inertias": "the masses, centres of mass and moments of inertia of",
    "Masses": "the masses of",
    "CentersOfMass": "the centres of mass of",
    "Placements": "where the joints sit of",
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
    """What is to be said of an identification.

    - `title`, `summary`: what it is about, and all of it in one sentence.
    - `doubts`: reasons not to trust the result, each a sentence; none if there is no reason.
    - `remarks`: what is worth knowing.
    - `html`: the page, one file with its figures, that asks nothing of a network; `markdown`: the same without figures.

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
        return as_html(self.title, self.blocks)

    @property
    def markdown(self) -> str:
        return as_markdown(self.title, self.blocks)

    def save(self, folder: str | Path) -> None:
        """Write `report.html` and `report.md` into a folder, which is made if it is missing; each is whole or absent."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("report.html", self.html), ("report.md", self.markdown)):
            with whole_file(folder / name) as part:
                part.write_text(text, encoding="utf-8")


@dataclass(frozen=True, eq=False)
class _Column:
    """What is known of one column: how much was measured varies, errors before and after, on data used and held out."""

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
    """A report of an estimate: what was found, measured against predicted, residuals, what the data cannot tell.

    **Arguments**

    - `found`: what `least_squares`, `physical_least_squares` or `solve` returned.
    - `logs`: what it was found from.
    - `held_out`: runs that it was not found from, to be predicted.
    - `validation`: what `cross_validation` returned.
    - `warned`: warnings that were raised on the way, to be listed.
    - `notes`: what else to say of how it was made, a sentence each.

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
        raise LogError(f"{owner}: nothing that was measured in these logs can be compared with the model")
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


# What there is to say.


def _named_apart(logs: Sequence[Log]) -> list[Log]:
    """The logs with a number after names that several have."""
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
    """How much what was measured varies: its standard deviation, of all runs together."""
    return float(np.std(np.concatenate([one.measured for one in rows]))) if rows else np.nan


def _white(rows: Sequence[Prediction]) -> Whiteness | None:
    """Of the runs that are sampled as often as the longest."""
    spacing = max(rows, key=lambda one: len(one.t)).spacing
    runs = [one.even() for one in rows if abs(one.spacing / spacing - 1) < 0.01]
    try:
        return whiteness(runs, spacing)
    except LogError:  # too few, or no errors at all
        return None


def _share(columns: Sequence[_Column], which: str) -> float:
    """Errors as a share of what was measured, over all columns."""
    shares = [getattr(one, which) / one.spread for one in columns if one.spread > 0]
    return float(np.sqrt(np.mean(np.square(shares)))) if shares else np.nan


def _percent(share: float) -> str:
    if not np.isfinite(share):
        return "so much that it cannot be told"
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
    """What is predicted, in words."""
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
    """A body as it was and as it came out: its mass and how far off that may be, whether data say it by themselves, and whether
    there can be such a body."""

    name: str
    mass: tuple[float, float]
    error: float
    seen: bool
    moved: float
    possible: tuple[bool, bool]


def _bodies(found: Estimate) -> list[_Body]:
    """The bodies whose inertia was free in some way."""
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
            f"The search for the values did not converge (it stopped after {found.iterations} turns): they are not the "
            "best there are."
        )
    if found.rank == 0:
        said.append(
            "The data say nothing at all of what was free: nothing moved enough, or nothing was measured that depends on it."
        )
    for one in bodies:
        if not one.possible[1]:
            said.append(
                f"{one.name} came out with an inertia that no body has (its mass would have to be negative somewhere). The "
                "data do not "
                "determine it well: keep bodies possible by physical least squares, or move the robot more."
            )
    if not all(np.isfinite(one.after) for one in columns):
        said.append("The identified model cannot be simulated along these runs.")
    elif all(one.after >= EXPLAINS * one.spread for one in columns if one.spread > 0):
        said.append(
            "The identified model explains hardly anything of what was measured. Check units, signs and the order of joints."
        )
    beyond = "what was found does not hold beyond them. More varied motion would help, or less that is free."
    if held:
        pairs = [(one.name, one.unit, one.after, one.held_after) for one in columns]
        if worse := _worse(pairs):
            said.append(f"On runs that were held out {worse}: {beyond}")
        better = [one.name for one in columns if one.held_after > 1.05 * one.held_before]
        if better:
            said.append(
                f"On runs that were held out the model as it was before predicts {_some(better)} better than the identified one."
            )
    elif validation is not None:
        parts = validation.columns, validation.units, validation.training, validation.held_out
        if worse := _worse(list(zip(*parts))):
            said.append(f"In cross-validation, on data that were held out, {worse}: {beyond}")
    return tuple(said)


def _worse(pairs) -> str:
    """Of columns with their units and errors on data used and held out those that are much worse there, in words."""
    found = [(unseen / max(seen, 1e-300), name, unit, unseen) for name, unit, seen, unseen in pairs
             if unseen > GENERALIZES * seen]  # fmt: skip
    if not found:
        return ""
    ratio, name, unit, error = max(found)
    others = f", and {len(found) - 1} more too" if len(found) > 1 else ""
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
            f"Of {found.parameters.size} values the data see {_count(found.rank, 'combination')}; along {lost} others "
            "the values are "
            "what they were before, or what is most plausible."
        )
    if found.condition_number > HARDLY:
        said.append(
            f"Some values can hardly be told apart (condition number {found.condition_number:.2g}): their errors are "
            "large, and "
            "go together."
        )
    if found.at_bounds:
        said.append(
            f"{_some(found.at_bounds, 6)} ended at a bound: the data would go on beyond it. Zero friction may be "
            "right; else "
            "something that is not in the model may be taken for it."
        )
    worst = [
        one for one in columns if one.white is not None and one.white.narrow > NARROW and not one.white.white
    ]
    if worst:
        one = max(worst, key=lambda one: one.white.narrow)
        said.append(
            f"What is left is not white noise in {_count(len(worst), 'column')}: intervals are too narrow, in "
            f"{one.name} by up to "
            f"{one.white.narrow:.2g} times."
        )
    changed = [one for one in bodies if not one.seen and not 1 / 3 <= one.mass[1] / one.mass[0] <= 3]
    if changed:
        listed = ", ".join(f"{one.name} from {one.mass[0]:.3g} to {one.mass[1]:.3g} kg" for one in changed)
        said.append(f"Masses changed much that the data do not see by themselves: {listed}.")
    if not all(np.isfinite(one.before) for one in columns):
        said.append("The model as it was before could not be simulated along these runs.")
    return tuple(said)


# The page.


def _verdict(doubts, remarks) -> list[Block]:
    if doubts:
        blocks: list[Block] = [Text("Do not trust these values yet:", "bad"), Items(doubts)]
    else:
        blocks = [Text("Nothing on this page speaks against the result.", "good")]
    if remarks:
        blocks += [Text("Worth knowing:"), Items(remarks)]
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
            interval = "not known"
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
    header = ("", "before", "identified", "95 % interval", "unit", "seen by the data")
    long = f"All {len(rows)} values" if len(rows) > LONG else ""
    blocks: list[Block] = [Heading("What was found")]
    if bodies:
        blocks.append(
            Table(
                (
                    "body",
                    "mass before [kg]",
                    "identified [kg]",
                    "± standard error",
                    "centre of mass moved by [m]",
                    "can be a body",
                ),
                [
                    [
                        one.name,
                        f"{one.mass[0]:.4g}",
                        f"{one.mass[1]:.4g}",
                        f"{one.error:.2g}" if np.isfinite(one.error) else "not known",
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
            "Each value with its 95 % interval, and what it was before, by unit."
            + (
                f" Of units with more than {figures.VALUES} values those are drawn that have changed most beside their errors."
                if max(own.units.count(unit) for unit in own.units) > figures.VALUES
                else ""
            ),
        ),
        Text(
            "A 95 % interval has the true value in it in 95 of 100 such experiments, if the model's form is right and "
            "errors are "
            "white (see below). Of an inertia, mass is in kg; hx, hy, hz are mass times the place of the centre of mass; "
            "Ixx ... Izz are moments of inertia about the origin of the body's frame, along its axes. Damping is friction that "
            "grows with speed, friction (Coulomb's) that does not.",
            "small",
        ),
    ]
    return blocks


def _seen_alone(found: Estimate) -> list[str]:
    """Of each value whether the data determine it."""
    directions = found.seen.directions
    said = ["yes"] * found.parameters.size
    for row in directions:
        terms = np.flatnonzero(row)
        for i in terms:
            said[i] = "no" if len(terms) == 1 else "only together with others"
    return said


def _digits(value: float, error: float) -> str:
    """A value to two digits of its error."""
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
        "The model is simulated under the measured controls, and what comes out is compared with what was measured."
        if isinstance(found.compare, OutputError)
        else "In each sample the model says what the measured motion takes, and that is compared with what was measured."
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
        Heading("Measured against predicted"),
        Text(how),
        Table(
            ("", "samples", "measured varies by", "error before", "error now", "unit", "error of variation"),
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
            f"Run {first!r}: measured and predicted over time; what is left; and how alike errors are that are some "
            "time apart (their autocorrelation). "
            "Errors and variation are standard deviations or roots of mean squares."
            + (
                f" Of {len(shown)} columns the {figures.ROWS} worst are drawn."
                if len(shown) > figures.ROWS
                else ""
            ),
        ),
    ]


def _held(columns, unseen, held, validation) -> list[Block]:
    blocks: list[Block] = [Heading("On data that it has not seen")]
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
            Text(f"{_count(len(held), 'run')} ({names}) was held out: nothing was found from it."
                 if len(held) == 1 else f"{_count(len(held), 'run')} ({names}) were held out: nothing was found from them."),
            Table(
                ("", "error on data used", "error on data held out", "model before, held out", "unit", "held out / used"),
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
                    "Errors as shares of what was measured. About the same on both: what was found holds beyond its data.",
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
                f"Cross-validation: {len(validation.folds)} times a part of the data was held out, all was found from the "
                "rest, and "
                f"the part predicted. The parts were {_listed([repr(name) for name in validation.folds])}."
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
                "No run was held out, so errors are those on the data from which the values were found. Hold one out to "
                "see whether "
                "they mean anything beyond."
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
        Heading("What is left: is it noise?"),
        Text(
            "Intervals suppose that each sample errs in its own way (white noise). Where errors last, neighbouring samples "
            "repeat one another: there are fewer independent ones, and intervals are too narrow. Smoothing does that, "
            "and so does "
            "what is not in the model: friction of another law, elasticity, cables."
        ),
        Items(said),
        Table(
            (
                "",
                "lasts [samples]",
                "lasts [s]",
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
    blocks: list[Block] = [Heading("What the data can and cannot tell")]
    if rank == size:
        blocks.append(Text(f"The data see all {size} values."))
    else:
        blocks.append(
            Text(
                f"Of {size} values the data see {rank} combinations and do not see {size - rank}. No method can find those "
                "from these "
                "data; along them values stayed where they were, or where bodies are most plausible. It is no fault unless "
                "one of "
                "them is what you want to know: then move other joints too, or measure more."
            )
        )
    if np.isfinite(found.condition_number):
        blocks.append(
            Text(
                f"Condition number of what is seen: {found.condition_number:.3g} (1 would be perfect; in the thousands some "
                "values can "
                "hardly be told apart)."
            )
        )
    if found.unobservable:
        blocks += [Heading("Not seen", 3), Items([f"{line}." for line in found.unobservable])]
        rows = [
            [name, f"{value:.4g}", f"{error:.2g}", found.parameters.units[i]]
            for name, value, error, i in zip(
                found.base_names, found.base_values, found.base_standard_errors, found.seen.kept
            )
        ]
        blocks += [
            Heading("Seen", 3),
            Text("Each combination is called by the value with which others are grouped.", "small"),
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
        f"The search took {found.iterations} turns and "
        + ("converged." if found.converged else "did not converge."),
        f"Noise by which columns were weighted: {noise}.",
    ]
    blocks: list[Block] = [
        Heading("How it was made"),
        Table(("run", "", "samples", "seconds", "channels"), rows, (2, 3)),
        Items(said),
    ]
    if warned:
        blocks += [Heading("Warnings", 3), Items(warned)]
    return blocks
