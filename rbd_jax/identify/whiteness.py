"""Tests whether errors are white, i.e. independent from sample to sample, as standard errors assume.

For errors e at equally spaced times, with zero mean if the model is correct, the autocorrelation at lag k is

    r_k = ⟨e_i e_{i+k}⟩ / ⟨e_i²⟩

over all pairs of known samples. For white errors, n r_k² is about one, and the Ljung-Box statistic

    Q = (n + 2)/n Σ_k P_k r_k²    (P_k pairs at lag k; without gaps, this is n (n + 2) Σ r̂_k² / (n - k))

is χ² distributed, with one degree of freedom per lag. The practical effect depends on the correlation time in samples,

    s = 1 + 2 Σ_{k ≤ M} r_k    (M the least with M ≥ 5 s and M ≥ 5, Sokal's window)

For quantities that change more slowly than the errors, n samples contain as much information as n / s samples with white
errors. Standard errors that assume white errors are then too small by √s. The mean is not subtracted: a constant error
counts as correlated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._core.arguments import whole_number
from .log import LogError


#: Errors are not white if the p-value is below this threshold.
UNLIKELY = 1e-3
#: Correlation times below this value hardly affect standard errors (by a tenth), however significant the correlation is.
HARDLY = 1.2
#: The autocorrelation is summed over this multiple of the correlation time (Sokal's window).
WINDOW = 5.0
#: Maximum number of lags of the autocorrelation, and default number of lags in Q.
MOST, LAGS = 2000, 20


@dataclass(frozen=True, eq=False)
class Whiteness:
    """The autocorrelation of errors, and a test for whiteness.

    - `autocorrelation`: r_0 = 1, r_1, ...
    - `spacing`: the time between lags, in s.
    - `samples`: number of errors.
    - `statistic`, `lags`, `p`: the Ljung-Box statistic, its number of lags, and its p-value.
    - `lasting`: the correlation time s in samples; 1 for white errors.

    >>> walk = np.cumsum(np.random.default_rng(1).normal(size=4000))
    >>> found = rbd.identify.whiteness(walk, 0.01)
    >>> print(found.white, found.lasting > 10)
    False True
    """

    autocorrelation: np.ndarray
    spacing: float
    samples: int
    statistic: float
    lags: int
    p: float
    lasting: float

    @property
    def white(self) -> bool:
        """True if the errors are white, or if their correlation is too short to matter."""
        return self.p > UNLIKELY or 1 / HARDLY < self.lasting < HARDLY

    @property
    def effective(self) -> float:
        """Number of samples with white errors that contain the same information."""
        return self.samples / self.lasting

    @property
    def narrow(self) -> float:
        """Approximate upper bound of the factor by which intervals are too narrow; 1 for white errors."""
        return max(1.0, float(np.sqrt(self.lasting)))

    def in_words(self, column: str) -> str:
        """Returns a sentence about the errors of a column.

        >>> random = np.random.default_rng(0).normal(size=20_000)
        >>> lasting = np.convolve(random, np.ones(9) / 9)
        >>> print(rbd.identify.whiteness(lasting, 0.005).in_words("tau elbow"))
        errors of tau elbow last about 0.045 s (9 samples): its intervals are too narrow, by up to 3
        """
        if self.white:
            return f"errors of {column} are white: each sample errs in its own way"
        if self.lasting < 1:
            return f"errors of {column} alternate from sample to sample: its intervals are, if anything, too wide"
        return (
            f"errors of {column} last about {self.lasting * self.spacing:.2g} s ({self.lasting:.2g} samples): "
            f"its intervals are too narrow, by up to {self.narrow:.2g}"
        )


def whiteness(
    errors: np.ndarray | Sequence[np.ndarray], spacing: float | int, *, lags: int | None = None
) -> Whiteness:
    """Tests errors for whiteness and computes their correlation time.

    Args:
      errors: Errors at equally spaced times, (n,), NaN where missing; or a list of such arrays for several runs.
      spacing: Time between neighboring samples, in s.
      lags: Number of lags in the test; by default 20, or a fifth of the samples if that is less.

    Returns:
      The autocorrelation, the test and the correlation time.

    Raises:
      LogError: If there are fewer than three errors, or all errors are zero.

    >>> white = np.random.default_rng(1).normal(size=4000)
    >>> found = rbd.identify.whiteness(white, 0.01)
    >>> found.white, round(found.lasting, 1)
    (True, 1.0)
    """
    from scipy.special import chdtrc

    runs = [np.asarray(one, float).reshape(-1) for one in _as_runs(errors)]
    known = [np.isfinite(one) for one in runs]
    count = int(sum(one.sum() for one in known))
    if count < 3:
        raise LogError(f"identify.whiteness: there are {count} errors; three or more are required.")
    most = min(MOST, max(len(one) for one in runs) - 1)
    products, pairs = np.zeros(most + 1), np.zeros(most + 1)
    for one, there in zip(runs, known):
        for sums, rows in ((products, np.where(there, one, 0)), (pairs, there.astype(float))):
            found = _correlated(rows, most)
            sums[: len(found)] += found
    pairs = np.round(pairs)
    square = products[0] / pairs[0]
    if not square > 0:
        raise LogError("identify.whiteness: all errors are zero.")
    r = np.where(pairs > 0, products / np.maximum(pairs, 1) / square, 0)
    lags = min(LAGS, count // 5) if lags is None else whole_number("identify.whiteness", "lags", lags)
    lags = max(1, min(lags, most))
    statistic = float((count + 2) / count * np.sum(pairs[1 : lags + 1] * r[1 : lags + 1] ** 2))
    # With few pairs, an autocorrelation is mostly noise; weighted by the fraction of pairs, it is that of a time series
    # without gaps.
    sums = 1 + 2 * np.cumsum(r[1:] * pairs[1:] / count)
    enough = np.flatnonzero(np.arange(1, most + 1) >= WINDOW * np.maximum(sums, 1))
    lasting = float(sums[enough[0]] if len(enough) else sums[-1])
    return Whiteness(
        autocorrelation=r,
        spacing=float(spacing),
        samples=count,
        statistic=statistic,
        lags=lags,
        p=float(chdtrc(lags, statistic)),
        lasting=min(max(lasting, 1 / count), float(count)),
    )


def _as_runs(errors) -> list:
    if isinstance(errors, np.ndarray):
        return [errors]
    given = list(errors)
    return given if given and np.ndim(given[0]) else [given]


def _correlated(rows: np.ndarray, most: int) -> np.ndarray:
    """Returns `Σ_i rows[i] rows[i + k]` for k from 0 to `most`, at most to the number of rows."""
    size = 1 << (2 * len(rows) - 1).bit_length()
    spectrum = np.fft.rfft(rows, size)
    return np.fft.irfft(spectrum * spectrum.conj(), size)[: min(most + 1, len(rows))]
