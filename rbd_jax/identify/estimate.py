"""The result of an estimator: parameter values, their uncertainty, and the unidentifiable directions."""

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
    """Unidentifiable directions of a vector of values.

    - `directions`: changes of the values that do not affect the data, a row each; sparse, each with one value that no other
      row contains.
    - `kept`: indices of the remaining values, as many as there are identifiable combinations.
    - `grouping`: K, such that `K values` is identifiable; a row for each of `kept`.

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
    """Returns the unidentifiable directions spanned by a basis.

    Args:
      basis: Changes in units of `scale`, a row each.
      scale: The unit of each value.
      blocks: Ranges of values; values of the first blocks are eliminated first.
    """
    size = len(scale)
    sparse, pivots = echelon_basis(basis.reshape(-1, size), blocks)
    sparse = np.where(np.abs(sparse) < 1e-6, 0, sparse)
    directions = sparse * scale
    directions = directions / directions[np.arange(len(pivots)), pivots][:, None]
    kept, grouping = left_by(directions, pivots)
    return Unseen(directions[np.argsort(pivots)], kept, grouping)


def ends_first(parameters: Parameters) -> list[range]:
    """Returns the order in which unidentifiable values are eliminated: inertias first, beginning with the last bodies."""
    blocks = []
    for inertial in (True, False):
        for kind, block in zip(parameters.kinds, parameters.blocks):
            if kind.inertial == inertial:
                width = block.shape[1]
                blocks += [range(i, i + width) for i in range(block.start, block.stop, width)][::-1]
    return blocks


def in_words(directions: np.ndarray, names: tuple[str, ...], most: int = 6) -> tuple[str, ...]:
    """Returns a description of each direction: one unidentifiable value, or several that may change together."""
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
    """Estimated values of parameters, with their uncertainty.

    - `parameters`: the estimated parameters; `values` are in their order, with their names and units.
    - `model`: the identified model. `rbd.save_urdf` writes it like any other model.
    - `covariance`: of the values. It is zero along unobservable directions for `least_squares`, which changes nothing
      there, and the prior covariance for `physical_least_squares`. Bounds are ignored, since they are not measurements: a
      value at a bound, and values that correlate with it, are as uncertain as without the bound. Therefore intervals
      contain the true value at least as often as their level, and may extend beyond a bound.
    - `standard_errors`: of each value; infinite for `least_squares` if the value is identifiable only in combination with
      others.
    - `columns`: what was compared, such as "tau elbow".
    - `counts`: number of measurements of each column.
    - `noise`: the standard deviation of each column, given or estimated.
    - `errors`: the root mean square residual of each column.
    - `unobservable`: descriptions of the unidentifiable directions.
    - `base_names`, `base_values`, `base_standard_errors`: the identifiable combinations, each named by the value with which
      others are grouped.
    - `at_bounds`: names of values at a bound that the unconstrained estimate would exceed.
    - `converged`: whether the noise and the values have converged.
    - `compare`: how the model was compared with logs: `EquationError` (also for least squares) or `OutputError`.
    - `unknowns`: the final iterate of a search, with initial states of simulations; None for linear estimators.
    - `states`: number of estimated initial state coordinates.

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
        """Number of identifiable combinations of the values."""
        return len(self.seen.kept)

    @property
    def unobservable(self) -> tuple[str, ...]:
        """Descriptions of the unidentifiable directions."""
        return in_words(self.seen.directions, self.parameters.names)

    @property
    def base_names(self) -> tuple[str, ...]:
        """Names of the identifiable combinations."""
        return tuple(self.parameters.names[i] for i in self.seen.kept)

    @property
    def base_values(self) -> np.ndarray:
        """Values of the identifiable combinations."""
        return self.seen.grouping @ self.values

    @property
    def base_covariance(self) -> np.ndarray:
        """Covariance of the identifiable combinations."""
        return self.seen.grouping @ self.covariance @ self.seen.grouping.T

    @property
    def base_standard_errors(self) -> np.ndarray:
        """Standard errors of the identifiable combinations."""
        return np.sqrt(np.maximum(np.diag(self.base_covariance), 0))

    @property
    def condition_number(self) -> float:
        """Condition number of the identifiable combinations.

        It is the square root of the ratio of the largest to the smallest eigenvalue of the correlation matrix of their
        errors. The value is one if the errors are uncorrelated, and large if some combinations are hardly distinguishable.
        """
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
        """Number of measurements minus identifiable combinations and unknown initial states; at least one."""
        return max(int(self.counts.sum()) - self.rank - self.states, 1)

    def intervals(self, level: float = 0.95) -> np.ndarray:
        """Returns the confidence interval of each value, (n, 2), assuming white noise.

        Args:
          level: Probability that an interval contains the true value.
        """
        return _around(self.values, self.standard_errors, level, self.freedom)

    def base_intervals(self, level: float = 0.95) -> np.ndarray:
        """Returns the confidence interval of each identifiable combination, (rank, 2); see `intervals`."""
        return _around(self.base_values, self.base_standard_errors, level, self.freedom)

    def value(self, name: str) -> float:
        """Returns the value with this name."""
        from .._core.errors import UnknownNameError, suggest

        if name not in self.parameters.names:
            raise UnknownNameError(f"Estimate: there is no {name!r}{suggest(name, self.parameters.names)}")
        return float(self.values[self.parameters.names.index(name)])

    def save(self, path: str | Path) -> None:
        """Writes the estimate with its uncertainty to a file.

        A `.json` file contains names and numbers; an `.npz` file also contains the covariance. Names are those of this
        class. Infinite numbers (unobservable, no bound) are null in `.json`. The file is written atomically.
        `rbd.save_urdf` and `rbd.save_mjcf` write the model.

        Args:
          path: The file; its suffix selects the format.

        Raises:
          ValueError: If the suffix is neither `.json` nor `.npz`.
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
        """Returns a text table of all values with units, standard errors and initial values."""
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
    """Replaces infinite numbers by None, because JSON has no infinity."""
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
        raise ValueError(f"intervals: level must be between 0 and 1, got {level}.")
    half = stdtrit(freedom, 0.5 + level / 2) * errors
    return np.stack([values - half, values + half], axis=1)
