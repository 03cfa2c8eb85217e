"""A progress bar for compiled code."""

import jax

from .._core.errors import missing_package


def progress_bar(steps: int):
    """Returns a function of the number of completed steps, for use inside `jit`; it draws about fifty times in total."""
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        raise missing_package("rich", "progress bars") from None

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    every = max(1, steps // 50)
    bars: list[tuple] = []

    def draw(done):
        done = int(done)
        if not bars:
            bar = Progress(*columns)
            bar.start()
            bars.append((bar, bar.add_task("simulating", total=steps)))
        bar, task = bars[0]
        bar.update(task, completed=done)
        if done >= steps:
            bar.stop()
            bars.clear()

    def advance(done):
        due = (done % every == 0) | (done == steps)
        jax.lax.cond(due, lambda: jax.debug.callback(draw, done), lambda: None)

    return advance
