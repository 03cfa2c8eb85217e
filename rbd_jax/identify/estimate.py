"""What an estimator returns: values, how far they are to be trusted, and what the data do not say, in words."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._core.files import whole_file
from ..dynamics.equivalence import echelon_basis, left_by
from ..model import Model
from .comparison import Comparison
from .parameters import Parameters


class Unseen(NamedTuple):
    """What the equations do not depend on, in a vector of values.

    - `directions`: changes of the values that no force shows, a row each; sparse, each with one value that no other row has.
    - `kept`: the values that are not those: as many as can be seen.
    - `grouping`: K, whose `K values` can be seen, a row for each of `kept`.

    >>> model, t = rbd.load("double_pendulum"), np.arange(300) / 100
    >>> q, v, a = [np.stack([x, 0 * x], axis=1) for x in (np.sin(t), np.cos(t), -np.sin(t))]  # the elbow does not move
    >>> tau = jax.vmap(lambda *x: rbd.inverse_dynamics(model, *x))(q, v, a)
    >>> found = rbd.identify.least_squares(model, rbd.identify.Log(t, q, v, a, tau), rbd.identify.damping())
    >>> print(found.seen.kept, found.unobservable)
    (0,) ('elbow damping: not seen at all',)
    """

    directions: np.ndarray
    kept: tuple[int, ...]
    grouping: np.ndarray


def unseen(basis: np.ndarray, scale: np.ndarray, blocks: list[range]) -> Unseen:
    """Of a basis of changes in units of `scale`, a row each; values of the first blocks are eliminated first."""
    size = len(scale)
    sparse, pivots = echelon_basis(basis.reshape(-1, size), blocks)
    sparse = np.where(np.abs(sparse) < 1e-6, 0, sparse)
    directions = sparse * scale
    directions = directions / directions[np.arange(len(pivots)), pivots][:, None]
    kept, grouping = left_by(directions, pivots)
    return Unseen(directions[np.argsort(pivots)], kept, grouping)


def ends_first(parameters: Parameters) -> list[range]:
    """In which order values are told from others where they cannot be: inertias first, those of the last bodies first."""
    blocks = []
    for inertial in (True, False):
        for kind, block in zip(parameters.kinds, parameters.blocks):
            if kind.inertial == inertial:
                width = block.shape[1]
                blocks += [range(i, i + width) for i in range(block.start, block.stop, width)][::-1]
    return blocks


def in_words(directions: np.ndarray, names: tuple[str, ...], most: int = 6) -> tuple[str, ...]:
    """Each direction in words: one value that is not seen, or several that may change together."""
    said = []
    for row in directions:
        terms = np.flatnonzero(row)
        if len(terms) == 1:
            said.append(f"{names[terms[0]]}: not seen at all")
            continue
        terms = terms[np.argsort(-np.abs(row[terms]), kind="stable")]
        first = row[terms] / np.abs(row[terms]).max()
        listed = ", ".join(f"{names[i]} {value:+.3g}" for i, value in zip(terms[:most], first[:most]))
        more = f" and {len(terms) - most} more" if len(terms) > most else ""
        said.append(f"{listed}{more}: changes in this proportion are not seen")
    return tuple(said)


@dataclass(frozen=True, eq=False)
class Estimate:
    """Values of free parameters, with what is known of their errors.

    - `parameters`: what was free; `values` are in its order, names and units.
    - `model`: the identified model. It is a model as any: `rbd.save_urdf` writes it.
    - `covariance`: of the values. Along what the data do not see it is zero for `least_squares`, which changes nothing
      there, and what was known beforehand for `physical_least_squares`. Bounds are not in it, since they are no measurements: a
      value at a bound, and what goes with it, is as uncertain as it would be without. So intervals have the truth at least as
      often as they say, and may reach beyond a bound.
    - `standard_errors`: of each value; infinite where it cannot be told from others, for `least_squares`.
    - `columns`: what was compared, as "tau elbow", and `counts`, how many numbers of each.
    - `noise`: the standard deviation of each column, as it was given or found.
    - `errors`: what is left of each: the root of the mean square.
    - `unobservable`: in words, what the data do not see.
    - `base_names`, `base_values`, `base_standard_errors`: the combinations that they do see, each by the value with which
      others are grouped.
    - `at_bounds`: the names of values that are at a bound, where the estimate would go on.
    - `converged`: whether the noise and the values have settled.
    - `compare`: how the model was compared with logs: `EquationError` (least squares, too) or `OutputError`, as it was.
    - `unknowns`: where a search has ended, with first states of simulations; None of linear estimators.
    - `states`: how many numbers of first states were found beside the values.

    >>> model, t = rbd.load("pendulum"), np.arange(300) / 100
    >>> q, v, a = np.sin(t)[:, None], np.cos(t)[:, None], -np.sin(t)[:, None]
    >>> tau = jax.vmap(lambda *x: 1.5 * rbd.inverse_dynamics(model, *x))(q, v, a)
    >>> log = rbd.identify.Log(t, q, v, a, tau + 0.1 * np.random.default_rng(0).normal(size=tau.shape))
    >>> found = rbd.identify.least_squares(model, log, rbd.identify.masses())
    >>> print(found.values, found.standard_errors, found.model.inertias.mass)
    [1.5] [0.001] [1.5]
    """

    parameters: Parameters
    model: Model
    values: np.ndarray
    covariance: np.ndarray
    standard_errors: np.ndarray
    columns: tuple[str, ...]
    counts: np.ndarray
    noise: np.ndarray
    errors: np.ndarray
    seen: Unseen
    at_bounds: tuple[str, ...] = field(default=())
    iterations: int = 0
    converged: bool = True
    compare: Comparison | None = None
    unknowns: Any = None
    states: int = 0

    @property
    def rank(self) -> int:
        """How many combinations of the values the data see."""
        return len(self.seen.kept)

    @property
    def unobservable(self) -> tuple[str, ...]:
        """What the data do not see, in words."""
        return in_words(self.seen.directions, self.parameters.names)

    @property
    def base_names(self) -> tuple[str, ...]:
        return tuple(self.parameters.names[i] for i in self.seen.kept)

    @property
    def base_values(self) -> np.ndarray:
        return self.seen.grouping @ self.values

    @property
    def base_covariance(self) -> np.ndarray:
        return self.seen.grouping @ self.covariance @ self.seen.grouping.T

    @property
    def base_standard_errors(self) -> np.ndarray:
        return np.sqrt(np.maximum(np.diag(self.base_covariance), 0))

    @property
    def condition_number(self) -> float:
        """How unevenly the combinations that are seen are seen: the root of the ratio of the largest and the smallest eigenvalue
        of the correlations of their errors. One where all are told apart; large where some hardly are."""
        errors = self.base_standard_errors
        certain = (errors > 0) & np.isfinite(errors)
        if not certain.any():
            return np.nan
        correlations = (
            self.base_covariance[np.ix_(certain, certain)]
            / np.outer(errors, errors)[np.ix_(certain, certain)]
        )
        sizes = np.linalg.eigvalsh(correlations)
        return float(np.sqrt(sizes[-1] / max(sizes[0], np.finfo(float).eps * sizes[-1])))

    @property
    def freedom(self) -> int:
        """How many more numbers were compared than there are seen combinations and unknown states."""
        return max(int(self.counts.sum()) - self.rank - self.states, 1)

    def intervals(self, level: float = 0.95) -> np.ndarray:
        """Of each value the ends of the interval that has the truth in so many of all cases, (n, 2), if the noise is white."""
        return _around(self.values, self.standard_errors, level, self.freedom)

    def base_intervals(self, level: float = 0.95) -> np.ndarray:
        """The same of the combinations that are seen."""
        return _around(self.base_values, self.base_standard_errors, level, self.freedom)

    def value(self, name: str) -> float:
        """One value by its name."""
        from .._core.errors import UnknownNameError, suggest

        if name not in self.parameters.names:
            raise UnknownNameError(f"Estimate: there is no {name!r}{suggest(name, self.parameters.names)}")
        return float(self.values[self.parameters.names.index(name)])

    def save(self, path: str | Path) -> None:
        """Write the values with all that is known of them: `.json`, with names beside numbers, or `.npz`, with the covariance.

        Names are those of this class; what is infinite (not seen, no bound) is null in `.json`. The file is there as a whole
        or not at all. The model is written by `rbd.save_urdf` or `rbd.save_mjcf`.
        """
        path = Path(path)
        if path.suffix not in (".json", ".npz"):
            raise ValueError(f"Estimate.save: {path.name!r} ends in neither .json nor .npz")
        own, intervals = self.parameters, self.intervals()
        before = np.asarray(own.values_of(own.reference), float)
        with whole_file(path) as part:
            if path.suffix == ".json":
                rows = zip(own.names, own.units, before, self.values, self.standard_errors, intervals)
                content = {
                    "model": own.reference.name,
                    "parameters": {
                        name: {"unit": unit, "before": old, "value": new, "standard_error": error, "interval": list(ends)}
                        for name, unit, old, new, error, ends in rows
                    },
                    "base_parameters": {
                        name: {"value": value, "standard_error": error}
                        for name, value, error in zip(self.base_names, self.base_values, self.base_standard_errors)
                    },
                    "columns": {
                        name: {"count": int(count), "noise": noise, "error": error}
                        for name, count, noise, error in zip(self.columns, self.counts, self.noise, self.errors)
                    },
                    "rank": self.rank,
                    "condition_number": self.condition_number,
                    "unobservable": list(self.unobservable),
                    "at_bounds": list(self.at_bounds),
                    "iterations": self.iterations,
                    "converged": bool(self.converged),
                }  # fmt: skip
                part.write_text(
                    json.dumps(_finite(content), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
                )
                return
            np.savez_compressed(
                part,  # pyright: ignore[reportArgumentType]
                names=np.array(own.names), units=np.array(own.units), before=before, values=self.values,
                standard_errors=self.standard_errors, intervals=intervals, covariance=self.covariance,
                columns=np.array(self.columns), counts=self.counts, noise=self.noise, errors=self.errors,
                unseen_directions=self.seen.directions, kept=np.array(self.seen.kept, int), grouping=self.seen.grouping,
                at_bounds=np.array(self.at_bounds, dtype=str), iterations=self.iterations, converged=bool(self.converged),
            )  # fmt: skip

    def table(self) -> str:
        """All values with units, standard errors and what they were, as text."""
        before = np.asarray(self.parameters.values_of(self.parameters.reference), float)
        width = max(map(len, self.parameters.names), default=0)
        lines = [f"{'':{width}}  {'before':>11}  {'estimate':>11}  {'± error':>10}  unit"]
        for name, old, new, error, unit in zip(
            self.parameters.names, before, self.values, self.standard_errors, self.parameters.units
        ):
            said = f"{error:10.3g}" if np.isfinite(error) else "  not seen"
            lines.append(f"{name:{width}}  {old:11.5g}  {new:11.5g}  {said}  {unit}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        left = ", ".join(f"{x:.3g}" for x in self.errors)
        lost = self.parameters.size - self.rank
        return (
            f"Estimate({self.parameters.size} values of {self.parameters.reference.name!r}, {self.rank} combinations seen"
            f"{f', {lost} not (see unobservable)' if lost else ''}; errors {left}"
            f"{'' if self.converged else '; not converged'})"
        )


def _finite(content):
    """As JSON has it, which knows no infinity."""
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_finite(value) for value in content]
    if isinstance(content, float | np.floating):
        return float(content) if np.isfinite(content) else None
    return content


def _around(values, errors, level, freedom):
    from scipy.special import stdtrit

    if not 0 < level < 1:
        raise ValueError(f"level is {level}; it is between 0 and 1")
    half = stdtrit(freedom, 0.5 + level / 2) * errors
    return np.stack([values - half, values + half], axis=1)
