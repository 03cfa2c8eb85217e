"""Array access at indices that depend on the sample, by selection among all candidates.

Each access is a chain of selections whose length is the number of candidates. It suits arrays with a few dozen rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jax import lax


if TYPE_CHECKING:
    from .expressions import Scalars


#: Maximum number of selections.
MOST = 200_000

#: The start index of a window along an axis: a known number, or a scalar and its data type.
Start = int | tuple[int, np.dtype]


class Picking:
    """Reads and writes windows of arrays of scalars."""

    def __init__(self, scalars: Scalars):
        self.scalars = scalars

    def read(self, x: np.ndarray, starts: Sequence[Start], sizes: Sequence[int], dtype) -> np.ndarray:
        """Returns a window of an array; a window beyond the array is moved inside."""
        for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            last = x.shape[axis] - size
            window = lambda k, axis=axis, size=size: (slice(None),) * axis + (slice(k, k + size),)
            if isinstance(start, int):
                x = x[window(min(max(start, 0), last))]
            else:
                x = self.case(*start, [x[window(k)] for k in range(last + 1)], dtype)
        return x

    def write(
        self,
        x: np.ndarray,
        update: np.ndarray,
        starts: Sequence[Start],
        dtype,
        inside: bool,
        combine: Callable[[int, int], int] | None = None,
    ) -> np.ndarray:
        """Returns an array with new entries in a window.

        Args:
          x: The array.
          update: The new entries.
          starts: The start index of the window along each axis.
          dtype: The data type.
          inside: If True, a window beyond the array is moved inside. Otherwise it is skipped.
          combine: Combines an old and a new entry; by default the new entry replaces the old one.
        """
        last = [n - size for n, size in zip(x.shape, update.shape, strict=True)]
        found = x.copy()
        for place, truth in self._places(starts, last, inside):
            window = tuple(slice(k, k + size) for k, size in zip(place, update.shape, strict=True))
            before = x[window]
            pairs = zip(before.reshape(-1).tolist(), update.reshape(-1).tolist(), strict=True)
            after = [b if combine is None else combine(a, b) for a, b in pairs]
            now = np.array(after, np.int64).reshape(update.shape)
            found[window] = now if truth is None else self.selected(truth, found[window], now, dtype)
        return found

    def _places(
        self, starts: Sequence[Start], last: Sequence[int], inside: bool
    ) -> Iterator[tuple[tuple[int, ...], int | None]]:
        """Yields each possible start of a window, with a scalar that is true if the window starts there; None if it is known."""
        axes: list[list[tuple[int, int | None]]] = []
        for start, most in zip(starts, last, strict=True):
            if isinstance(start, int):
                if inside:
                    start = min(max(start, 0), most)
                axes.append([(start, None)] if 0 <= start <= most else [])
                continue
            node, kind = start
            own = []
            for k in range(most + 1):
                compare = lax.eq_p
                if inside and k in (0, most):
                    if most == 0:
                        own.append((0, None))
                        continue
                    compare = lax.le_p if k == 0 else lax.ge_p
                own.append((k, self.compared(compare, node, k, kind)))
            axes.append(own)
        for places in itertools.product(*axes):
            truth = None
            for _, own in places:
                if own is not None:
                    truth = own if truth is None else self.scalars.apply(lax.and_p, (), (truth, own), bool)
            yield tuple(k for k, _ in places), truth

    def compared(self, how, node: int, number: int, kind) -> int:
        return self.scalars.apply(how, (), (node, self.scalars.constant(np.asarray(number, kind))), bool)

    def case(self, which: int, kind, cases: Sequence[np.ndarray], dtype) -> np.ndarray:
        """Returns one of several arrays by index. An index below or above the range selects the first or the last array."""
        chosen = cases[0]
        for number, case in enumerate(cases[1:], 1):
            beyond = which if kind == bool else self.compared(lax.ge_p, which, number, kind)
            chosen = self.selected(beyond, chosen, case, dtype)
        return chosen

    def is_case(self, which: int, kind, number: int, count: int) -> int:
        """Returns whether `case` selects the case with a given index among `count` cases."""
        if kind == bool:
            return which if number else self.scalars.apply(lax.not_p, (), (which,), np.dtype(bool))
        how = lax.le_p if number == 0 else lax.ge_p if number == count - 1 else lax.eq_p
        return self.compared(how, which, number, kind)

    def selected(self, truth: int, no: np.ndarray, yes: np.ndarray, dtype) -> np.ndarray:
        """Returns `yes` if a truth value is true, otherwise `no`."""
        pairs = zip(no.reshape(-1).tolist(), yes.reshape(-1).tolist(), strict=True)
        own = [
            a if a == b else self.scalars.apply(lax.select_n_p, (), (truth, a, b), dtype) for a, b in pairs
        ]
        return np.array(own, np.int64).reshape(yes.shape)

    def outside(self, starts: Sequence[Start], last: Sequence[int]) -> int | bool:
        """Returns whether a window starts outside of the valid range, as a scalar or as a known value."""
        found: int | bool = False
        for start, most in zip(starts, last, strict=True):
            if isinstance(start, int):
                if not 0 <= start <= most:
                    return True
                continue
            for how, number in ((lax.lt_p, 0), (lax.gt_p, most)):
                own = self.compared(how, start[0], number, start[1])
                found = own if found is False else self.scalars.apply(lax.or_p, (), (int(found), own), bool)
        return found
