"""Cross-validation: the accuracy of estimates on held-out data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .._core.arguments import whole_number
from .estimate import Estimate
from .log import Log, LogError, as_logs
from .prediction import Prediction, predictions


#: Number of pieces into which a single run is cut.
PIECES = 4


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Errors on the data used for estimation and on held-out data.

    - `columns`, `units`: what was compared, such as "tau elbow".
    - `training`: the root mean square error on the data used, over all folds.
    - `held_out`: the root mean square error on the held-out data.
    - `folds`: the held-out data of each fold.
    - `by_fold`: errors on the held-out data, (folds, columns), NaN where nothing was measured.
    - `estimates`: the estimates of the folds.

    >>> model, t = rbd.load("pendulum"), np.arange(400) / 100
    >>> q, v, a = np.sin(t)[:, None], np.cos(t)[:, None], -np.sin(t)[:, None]
    >>> tau = jax.vmap(lambda *x: 1.5 * rbd.inverse_dynamics(model, *x))(q, v, a)
    >>> log = rbd.identify.Log(t, q, v, a, tau + 0.1 * np.random.default_rng(0).normal(size=tau.shape))
    >>> found = rbd.identify.cross_validation(lambda logs: rbd.identify.least_squares(model, logs, rbd.identify.masses()), log)
    >>> print(found.columns, found.ratio)
    ('tau swing',) [1.002]
    """

    columns: tuple[str, ...]
    units: tuple[str, ...]
    training: np.ndarray
    held_out: np.ndarray
    folds: tuple[str, ...]
    by_fold: np.ndarray
    estimates: tuple[Estimate, ...]

    @property
    def ratio(self) -> np.ndarray:
        """Ratio of errors on held-out data to errors on used data; about one if the estimate generalizes."""
        return self.held_out / np.maximum(self.training, np.finfo(float).tiny)

    def __repr__(self) -> str:
        listed = ", ".join(
            f"{column} {seen:.3g} -> {unseen:.3g} {unit}"
            for column, unit, seen, unseen in zip(self.columns, self.units, self.training, self.held_out)
        )
        return f"CrossValidation({len(self.folds)} folds; {listed})"


def cross_validation(
    fit: Callable[[Sequence[Log]], Estimate],
    logs: Log | Iterable[Log],
    *,
    folds: int | None = None,
    on_fold: Callable[[int, int], object] | None = None,
) -> CrossValidation:
    """Computes the errors of estimates on held-out data.

    Each fold holds out a part of the data, estimates from the rest, and predicts the held-out part. With several runs,
    whole runs are held out. A single run is cut in time before smoothing, into pieces without common samples. Otherwise, a
    filter would transfer information across the cuts.

    Args:
      fit: Function that computes an estimate from logs, such as `lambda logs: identify.least_squares(model, logs, free)`.
      logs: The runs.
      folds: Number of folds; by default one for each run, or 4 for a single run. With fewer folds than runs, several runs
        are held out together.
      on_fold: Called with the number of finished folds and the total number.

    Returns:
      The errors of all folds.

    Raises:
      LogError: If there are fewer than two folds, more folds than runs, or too few samples.

    >>> model, t = rbd.load("pendulum"), np.arange(400) / 100
    >>> q, v, a = np.sin(t)[:, None], np.cos(t)[:, None], -np.sin(t)[:, None]
    >>> tau = jax.vmap(lambda *x: 1.5 * rbd.inverse_dynamics(model, *x))(q, v, a)
    >>> log = rbd.identify.Log(t, q, v, a, tau + 0.1 * np.random.default_rng(0).normal(size=tau.shape))
    >>> rbd.identify.cross_validation(lambda logs: rbd.identify.least_squares(model, logs, rbd.identify.masses()), log)
    CrossValidation(4 folds; tau swing 0.0995 -> 0.0997 N m)
    """
    owner = "identify.cross_validation"
    given = as_logs(owner, logs)
    usual = len(given) if len(given) > 1 else PIECES
    count = usual if folds is None else whole_number(owner, "folds", folds)
    if count < 2:
        raise LogError(
            f"{owner}: folds is {count}; it must be two or more, so that data remain to estimate from."
        )
    parts = _runs(given, count) if len(given) > 1 else _pieces(given[0], count)
    estimates, seen, unseen = [], [], []
    for done, (held, rest) in enumerate(parts):
        found = fit(rest)
        estimates.append(found)
        seen.append(
            {
                name: (float(error), int(n))
                for name, error, n in zip(found.columns, found.errors, found.counts)
            }
        )
        unseen.append(predictions(found.model, held, found.compare))
        if on_fold is not None:
            on_fold(done + 1, len(parts))
    columns = tuple(dict.fromkeys(one.column for group in unseen for one in group))
    units = {one.column: one.unit for group in unseen for one in group}
    by_fold = np.array([[pooled(group, column) for column in columns] for group in unseen])
    return CrossValidation(
        columns=columns,
        units=tuple(units[column] for column in columns),
        training=np.array(
            [_together([fold[column] for fold in seen if column in fold]) for column in columns]
        ),
        held_out=np.array([pooled([one for group in unseen for one in group], column) for column in columns]),
        folds=tuple(" and ".join(log.name for log in held) for held, _ in parts),
        by_fold=by_fold,
        estimates=tuple(estimates),
    )


def pooled(some: Iterable[Prediction], column: str) -> float:
    """Returns the root mean square of all errors of a column."""
    rows = [one.errors for one in some if one.column == column]
    return float(np.sqrt(np.mean(np.concatenate(rows) ** 2))) if rows else np.nan


def _together(parts: Sequence[tuple[float, int]]) -> float:
    """Combines root mean square errors, weighted by their counts."""
    total = sum(count for _, count in parts)
    return float(np.sqrt(sum(error**2 * count for error, count in parts) / max(total, 1)))


def _runs(logs: Sequence[Log], folds: int) -> list[tuple[list[Log], list[Log]]]:
    """Returns the held-out runs and the remaining runs of each fold."""
    if folds > len(logs):
        raise LogError(
            f"identify.cross_validation: folds is {folds}, but there are {len(logs)} runs. Log.between cuts runs into more."
        )
    return [
        (
            [log for i, log in enumerate(logs) if i % folds == k],
            [log for i, log in enumerate(logs) if i % folds != k],
        )
        for k in range(folds)
    ]


def _pieces(log: Log, folds: int) -> list[tuple[list[Log], list[Log]]]:
    """Returns the held-out piece and the remaining pieces of each fold of one run; each sample is in exactly one piece."""
    if len(log.t) < 2 * folds:
        raise LogError(f"Log {log.name!r}: {len(log.t)} samples are too few to be cut into {folds} pieces")
    cuts = [-np.inf, *log.t[[round(k * len(log.t) / folds) for k in range(1, folds)]], np.inf]
    before = lambda time: np.nextafter(time, -np.inf)

    def part(start, end):
        piece = log.between(start, end)
        return replace(piece, name=f"{log.name}, {piece.t[0]:.4g} to {piece.t[-1]:.4g} s")

    found = []
    for k, (start, end) in enumerate(zip(cuts, cuts[1:])):
        rest = ([part(-np.inf, before(start))] if k else []) + ([part(end, np.inf)] if k < folds - 1 else [])
        found.append(([part(start, before(end) if k < folds - 1 else np.inf)], rest))
    return found
