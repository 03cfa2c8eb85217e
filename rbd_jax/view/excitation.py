"""The figure of an excitation motion: positions, velocities and forces of each joint, between their limits."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .._core.figures import COLORS, GREY, dress, new_figure
from ..identify import Excitation


#: Number of times of the period that are drawn.
TIMES = 600


def plot_excitation(excitation: Excitation, path: str | Path) -> None:
    """Draws one period of a motion from `rbd.identify.excitation` into a PNG, or another format by the suffix of `path`.

    Each joint is scaled to its limits, -1 and 1, so that joints of all sizes are visible. A quantity without a limit is scaled to
    its largest value.

    Args:
      excitation: The result of `rbd.identify.excitation`.
      path: The file.

    >>> import pathlib, tempfile
    >>> free = rbd.identify.masses()
    >>> found = rbd.identify.excitation(rbd.load("pendulum"), free, seconds=2.0, effort=20.0, speed=4.0, starts=1, steps=20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     picture = pathlib.Path(folder, "motion.png")
    ...     rbd.view.plot_excitation(found, picture)
    ...     print(picture.stat().st_size > 1000)
    True
    """
    motion = excitation.motion
    log = excitation.log(TIMES / float(motion.period))
    q, v, tau = (log.channels[name].values for name in ("q", "v", "tau"))
    q, (v, tau) = q[:, list(motion.q_places)], (x[:, list(motion.v_places)] for x in (v, tau))
    centre, half = (excitation.low + excitation.high) / 2, (excitation.high - excitation.low) / 2
    panels = (
        ("position, between its limits", (q - centre) / half, np.ones(len(motion.joints), bool)),
        ("velocity, of its limit", *_of_limit(v, excitation.speed)),
        ("generalized force, of its limit", *_of_limit(tau, excitation.effort)),
    )
    figure = new_figure(figsize=(13, 4.2), layout="constrained")
    figure.suptitle(f"{excitation.model.name}: {excitation.gain:.3g} times a random motion", x=0.01, ha="left",
                    fontsize=13, fontweight="bold")  # fmt: skip
    for number, (axes, (title, rows, limited)) in enumerate(zip(figure.subplots(1, 3), panels)):
        for end in (-1, 1) if limited.any() else ():
            axes.axhline(end, color=GREY, linewidth=1.2, linestyle=":")
        for joint, name in enumerate(motion.joints):
            label = name if number == 0 else None
            style = "-" if limited[joint] else "--"
            axes.plot(
                log.t, rows[:, joint], style, color=COLORS[joint % len(COLORS)], label=label, linewidth=1.2
            )
        free = "" if limited.all() else "; dashed without, of the largest"
        dress(axes, title + free)
    figure.savefig(path, dpi=110)


def _of_limit(rows: np.ndarray, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns rows relative to their limits, or to their largest value without a limit, and a mask of the limited columns."""
    limited = np.isfinite(limit)
    largest = np.maximum(np.abs(rows).max(axis=0), 1e-12)
    return rows / np.where(limited, limit, largest), limited
