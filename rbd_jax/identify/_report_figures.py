"""The figures of a report, as SVG. matplotlib is imported on first use, and its global state stays unchanged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._core.figures import COLORS, GREY, as_svg, dress, new_figure, plain
from .estimate import Estimate
from .prediction import Prediction
from .whiteness import Whiteness


#: Number of segments of a drawn curve. Each shows the lowest and the highest value, so that peaks remain visible.
PLACES = 400
#: Maximum number of rows of a figure, and of values per unit.
ROWS, VALUES = 12, 36


def over_time(
    after: Sequence[Prediction], before: Sequence[Prediction], white: Sequence[Whiteness | None]
) -> bytes:
    """Draws a row for each column of one log: measured and predicted values, errors, and their autocorrelation."""
    count = len(after)
    figure = new_figure(figsize=(13, 0.5 + 2.0 * count), layout="constrained")
    rows = figure.subplots(count, 3, squeeze=False, width_ratios=(2.2, 1.6, 1.1))
    for (left, middle, right), new, old, about in zip(rows, after, before, white):
        first, last = new is after[0], new is after[-1]
        if np.isfinite(old.errors).all():
            _line(left, old.t, old.predicted, COLORS[4], "model before", linewidth=0.9)
        _line(left, new.t, new.measured, GREY, "measured", linewidth=1.6, alpha=0.7)
        _line(left, new.t, new.predicted, COLORS[0], "identified model", linewidth=0.9)
        dress(left, f"{plain(new.column)} [{new.unit}]", "t [s]" if last else "")
        _line(middle, new.t, new.errors, COLORS[1], None, linewidth=0.7)
        middle.axhline(0, color=GREY, linewidth=0.8)
        dress(middle, f"error: predicted minus measured [{new.unit}]", "t [s]" if last else "")
        if about is None:
            right.set_visible(False)
        else:
            _autocorrelation(right, about, "lag [s]" if last else "")
        for axes in () if first else (left, right):
            if (key := axes.get_legend()) is not None:
                key.remove()
    return as_svg(figure)


def _autocorrelation(axes, about: Whiteness, across: str) -> None:
    lags = int(np.clip(4 * about.lasting, 30, len(about.autocorrelation) - 1))
    r = about.autocorrelation[: lags + 1]
    t = np.arange(lags + 1) * about.spacing
    band = 1.96 / np.sqrt(about.samples)
    axes.axhspan(-band, band, color=COLORS[2], alpha=0.2, linewidth=0, label="95 % of white errors")
    axes.fill_between(t, 0, r, color=COLORS[0], alpha=0.35, linewidth=0)
    axes.plot(t, r, color=COLORS[0], linewidth=1.0)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_ylim(min(-0.25, r.min() - 0.05), 1.1)
    dress(axes, "autocorrelation of the errors", across)


def values(found: Estimate, most: int = VALUES) -> bytes:
    """Draws the estimate of each value with its interval and the initial value, a panel for each unit."""
    own = found.parameters
    before = np.asarray(own.values_of(own.reference), float)
    ends = found.intervals()
    units = list(dict.fromkeys(own.units))
    groups = []
    for unit in units:
        rows = np.flatnonzero([u == unit for u in own.units])
        if len(rows) > most:  # those with the largest change relative to their standard errors
            moved = np.abs(found.values - before)[rows] / np.maximum(found.standard_errors[rows], 1e-300)
            rows = np.sort(rows[np.argsort(-moved, kind="stable")[:most]])
        groups.append(rows)
    across = min(3, len(units))
    down = -(-len(units) // across)
    heights = [
        0.9 + 0.2 * max(len(groups[i]) for i in range(row * across, min((row + 1) * across, len(units))))
        for row in range(down)
    ]
    figure = new_figure(figsize=(13, sum(heights)), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False, height_ratios=heights)
    for panel in panels.flat[len(units) :]:
        panel.set_visible(False)
    for number, (panel, unit, rows) in enumerate(zip(panels.flat, units, groups)):
        place = np.arange(len(rows))[::-1]
        seen = np.isfinite(found.standard_errors[rows])
        panel.plot(
            before[rows], place, "o", markerfacecolor="none", color=COLORS[4], markersize=5, label="before"
        )
        some = rows[seen]
        panel.hlines(place[seen], ends[some, 0], ends[some, 1], color=COLORS[0], linewidth=2.2, alpha=0.6)
        panel.plot(
            found.values[some],
            place[seen],
            "o",
            color=COLORS[0],
            markersize=3.5,
            label="identified, 95 % interval",
        )
        if not seen.all():
            lost = rows[~seen]
            panel.plot(
                found.values[lost], place[~seen], "x", color=GREY, markersize=5, label="not determined"
            )
        panel.set_yticks(place, [plain(own.names[i]) for i in rows])
        panel.set_ylim(-0.7, len(rows) - 0.3)
        panel.set_title(f"[{unit}]" if unit else "[no unit]", loc="left", fontsize=10)
        panel.tick_params(labelsize=8)
        panel.grid(alpha=0.25, linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
        if number == 0:
            handles, labels = panel.get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside upper left", ncols=3, fontsize=8, frameon=False)
    return as_svg(figure)


def held_out(columns: Sequence[str], shares: Sequence[tuple[str, np.ndarray]]) -> bytes:
    """Draws the errors of each column relative to the measurements, a bar for each data set."""
    figure = new_figure(figsize=(9, 0.9 + 0.22 * len(columns) * (len(shares) + 1)), layout="constrained")
    axes = figure.subplots()
    place, width = np.arange(len(columns))[::-1].astype(float), 0.8 / len(shares)
    for i, (name, share) in enumerate(shares):
        axes.barh(place + 0.4 - (i + 0.5) * width, 100 * share, 0.9 * width, color=COLORS[i], label=name)
    axes.set_yticks(place, [plain(name) for name in columns])
    figure.legend(loc="outside upper left", ncols=len(shares), fontsize=8, frameon=False)
    axes.set_xlabel("error, % of what was measured", fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.25, linewidth=0.6, axis="x")
    axes.spines[["top", "right"]].set_visible(False)
    return as_svg(figure)


def _line(axes, t: np.ndarray, rows: np.ndarray, color: str, label: str | None, **style) -> None:
    """Draws a curve of lowest and highest values of segments, with breaks where measurements are missing."""
    if len(t) > 2 * PLACES:
        starts = np.linspace(0, len(t), PLACES + 1).astype(int)[:-1]
        low, high = np.minimum.reduceat(rows, starts), np.maximum.reduceat(rows, starts)
        middle = t[starts]
        t, rows = np.repeat(middle, 2), np.stack([low, high], axis=1).reshape(-1)
    if len(t) > 2:
        gaps = np.flatnonzero(np.diff(t) > 5 * np.median(np.diff(t)[np.diff(t) > 0])) + 1
        t, rows = np.insert(t, gaps, np.nan), np.insert(rows, gaps, np.nan)
    axes.plot(t, rows, color=color, label=label, **style)
