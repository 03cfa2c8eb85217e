"""Distribution of a batch over XLA's threads in ranges of samples, in LLVM's assembly language.

Each free thread takes the next range: the calling thread, and threads of XLA's pool, which receive a task for this. The caller
waits only for ranges that a thread has started. So there is no deadlock, even if all threads of the pool are waiting callers.
Late threads find no ranges left. The last thread releases the shared data.

The number of ranges depends only on the batch, not on the threads. Sums over samples are therefore reproducible to the last bit.
"""

from __future__ import annotations

import sys
from pathlib import Path
from string import Template

from ..compat import CONTEXT, DESTROY, INTERFACE, SCHEDULE, THREADS


#: Maximum number of ranges, and minimum number of scalars that a range computes. This takes about 50 µs; scheduling a task takes
#: a tenth of that.
MOST, LEAST = 32 if sys.platform != "win32" else 1, 50_000

_TEMPLATE = Template(Path(__file__).with_name("threads.ll").read_text(encoding="utf-8"))


def count(size: int, least: int) -> int:
    """Returns the number of ranges for `size` samples, with at least `least` samples each."""
    return max(min(size // least, MOST), 1)


def in_ranges(lanes: int, least: int) -> str:
    """Returns the function `@shared_out(ptr %call, i64 %size, ptr %failed)`, which computes all samples of a batch in ranges.

    It calls `@samples` for each range, with these arguments and `i64 %number, i64 %from, i64 %until`. Ranges start at multiples
    of `lanes`. `@samples` writes to `%failed` if it cannot allocate memory.
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
