"""Entries of arrays at places that depend on the sample: of all that it could be, the one is selected.

Each is a chain of selections, as long as there are places: for the few dozen rows that a sample has to choose from.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jax import lax


if TYPE_CHECKING:
    from .expressions import Scalars


#: More selections than these are too many.
MOST = 200_000

#: Where a window begins along an axis: a known number, or a scalar and its type.
Start = int | tuple[int, np.dtype]


class Picking:
    """Reads and writes windows of arrays of scalars."""

    def __init__(self, scalars: Scalars):
        self.scalars = scalars

    def read(self, x: np.ndarray, starts: Sequence[Start], sizes: Sequence[int], dtype) -> np.ndarray:
        """A window; one that would reach beyond the array is moved inside."""
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
        """The array with other entries in a window.

        - `inside`: whether one that would reach beyond it is moved inside, or left out.
        - `combine`: what becomes of an entry and another one; by default that one.
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
        """Each place where a window can begin, and whether it does; None if that is known."""
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
        """One of some arrays, by number; the first or the last one from its number on."""
        chosen = cases[0]
        for number, case in enumerate(cases[1:], 1):
            beyond = which if kind == bool else self.compared(lax.ge_p, which, number, kind)
            chosen = self.selected(beyond, chosen, case, dtype)
        return chosen

    def is_case(self, which: int, kind, number: int, count: int) -> int:
        """Returns whether `case` selects the case with a given number among `count` cases."""
        if kind == bool:
            return which if number else self.scalars.apply(lax.not_p, (), (which,), np.dtype(bool))
        how = lax.le_p if number == 0 else lax.ge_p if number == count - 1 else lax.eq_p
        return self.compared(how, which, number, kind)

    def selected(self, truth: int, no: np.ndarray, yes: np.ndarray, dtype) -> np.ndarray:
        """The second of two arrays if a truth value is true."""
        pairs = zip(no.reshape(-1).tolist(), yes.reshape(-1).tolist(), strict=True)
        own = [
            a if a == b else self.scalars.apply(lax.select_n_p, (), (truth, a, b), dtype) for a, b in pairs
        ]
        return np.array(own, np.int64).reshape(yes.shape)

    def outside(self, starts: Sequence[Start], last: Sequence[int]) -> int | bool:
        """Whether a window begins outside of where it may; a scalar, unless it is known."""
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
