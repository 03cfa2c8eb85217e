"""A batch in ranges of samples that the threads of XLA work off, in LLVM's language.

Whoever is free takes the next range: the thread that was called, and those of the pool that XLA has for what it computes, which
are asked to help. The caller waits only for ranges that somebody has begun. So it never waits for a thread that is not free,
were all of the pool themselves callers that wait. Who comes late finds nothing to do; what they share is let go by the last of
them.

How many ranges there are depends on the batch alone and not on the threads, and so do sums over samples, to the last bit.
"""

from __future__ import annotations

import sys
from pathlib import Path
from string import Template

from ..compat import CONTEXT, DESTROY, INTERFACE, SCHEDULE, THREADS


#: As many ranges as there may be, and how many scalars at least are worked out in one, which takes some 50 µs: to ask a thread
#: takes a tenth of that.
MOST, LEAST = 32 if sys.platform != "win32" else 1, 50_000

_TEMPLATE = Template(Path(__file__).with_name("threads.ll").read_text(encoding="utf-8"))


def count(size: int, least: int) -> int:
    """Into how many ranges so many samples come, of at least so many each."""
    return max(min(size // least, MOST), 1)


def in_ranges(lanes: int, least: int) -> str:
    """The function `@shared_out(ptr %call, i64 %size, ptr %failed)`, which has all samples of a batch worked out in ranges.

    Each is a call of `@samples` with these and `i64 %number, i64 %from, i64 %until`, and begins at a multiple of `lanes`. It
    writes to `%failed` if it has no memory.
    """
    alone = """
define internal void @shared_out(ptr %call, i64 %size, ptr %failed) {
  call void @samples(ptr %call, i64 %size, ptr %failed, i64 0, i64 0, i64 %size)
  ret void
}"""
    if MOST == 1:
        return alone
    return _TEMPLATE.substitute(
        lanes=lanes, lanes_1=lanes - 1, least=least, MOST=MOST,
        CONTEXT=CONTEXT, DESTROY=DESTROY, INTERFACE=INTERFACE, SCHEDULE=SCHEDULE, THREADS=THREADS,
    )  # fmt: skip
