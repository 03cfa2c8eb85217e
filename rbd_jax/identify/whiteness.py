"""Whether errors are white: each sample errs in its own way, as standard errors suppose.

Of errors e at even times, with mean zero if the model is right, the autocorrelation at lag k is

    r_k = ⟨e_i e_{i+k}⟩ / ⟨e_i²⟩

over the pairs of samples that are both known. If they are white, n r_k² is about one, and Ljung and Box's statistic

    Q = (n + 2)/n Σ_k P_k r_k²    (P_k pairs at lag k; of samples without gaps this is n (n + 2) Σ r̂_k² / (n - k))

is χ² with as many degrees of freedom as there are lags. Whether that matters says the time that errors last, in samples,

    s = 1 + 2 Σ_{k ≤ M} r_k    (M the least with M ≥ 5 s and M ≥ 5, as Sokal has it)

n samples with such errors say as much as n / s whose errors are white, about what changes more slowly than they do; standard
errors that suppose white errors are too small by √s there. No mean is taken off: what is off throughout is an error that lasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._core.arguments import whole_number
from .log import LogError


#: Errors whose autocorrelation has so little chance, if they are white, are not.
UNLIKELY = 1e-3
#: Errors that last so many samples hardly change standard errors (by a tenth), however sure it is that they do last.
HARDLY = 1.2
#: How many times longer than errors last their autocorrelation is summed (Sokal's window).
WINDOW = 5.0
#: Most lags that are looked at, and most that are added up in Q.
MOST, LAGS = 2000, 20


@dataclass(frozen=True, eq=False)
class Whiteness:
    """What the autocorrelation of errors says.

    - `autocorrelation`: r_0 = 1, r_1, ..., and `spacing`, the time between lags, in s.
    - `samples`: how many errors there are.
    - `statistic`, `lags`, `p`: Ljung and Box's, how many lags are in it, and how likely white errors have a larger one.
    - `lasting`: s, how many samples errors last; 1 where they are white.

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
        """Whether nothing speaks against white errors that would matter."""
        return self.p > UNLIKELY or 1 / HARDLY < self.lasting < HARDLY

    @property
    def effective(self) -> float:
        """How many samples with white errors say as much."""
        return self.samples / self.lasting

    @property
    def narrow(self) -> float:
        """By how much intervals are too narrow, at most about; 1 where errors do not last."""
        return max(1.0, float(np.sqrt(self.lasting)))

    def in_words(self, column: str) -> str:
        """One sentence about the errors of a column.

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
    """Whether errors are white.

    **Arguments**

    - `errors`: at even times, (n,), NaN where there is none; several runs as a list of such, whose ends are not neighbours.
    - `spacing`: the time between neighbours, in s.
    - `lags`: how many lags are tested together; by default 20, or a fifth of the samples if those are fewer.

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
        raise LogError(f"identify.whiteness: there are {count} errors; three or more are needed")
    most = min(MOST, max(len(one) for one in runs) - 1)
    products, pairs = np.zeros(most + 1), np.zeros(most + 1)
    for one, there in zip(runs, known):
        for sums, rows in ((products, np.where(there, one, 0)), (pairs, there.astype(float))):
            found = _correlated(rows, most)
            sums[: len(found)] += found
    pairs = np.round(pairs)
    square = products[0] / pairs[0]
    if not square > 0:
        raise LogError("identify.whiteness: all errors are zero")
    r = np.where(pairs > 0, products / np.maximum(pairs, 1) / square, 0)
    lags = min(LAGS, count // 5) if lags is None else whole_number("identify.whiteness", "lags", lags)
    lags = max(1, min(lags, most))
    statistic = float((count + 2) / count * np.sum(pairs[1 : lags + 1] * r[1 : lags + 1] ** 2))
    # With few pairs an autocorrelation is mostly noise; weighted by their share it is that of a time series without gaps.
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
    """`Σ_i rows[i] rows[i + k]` for k from 0 to `most`, or to as far as there are rows."""
    size = 1 << (2 * len(rows) - 1).bit_length()
    spectrum = np.fft.rfft(rows, size)
    return np.fft.irfft(spectrum * spectrum.conj(), size)[: min(most + 1, len(rows))]
