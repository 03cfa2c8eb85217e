"""Output of the commands: tables, progress bars, and the report of a simulation."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

import jax
import numpy as np

from .._core.interrupts import clearing_up
from ..contact.law import contact_law
from ..model import Model
from ..simulate.result import Result
from ..simulate.scheme import Scheme
from ..simulate.trajectory import Trajectory
from .energy import GAIN, energies, falls_freely, loses


def plain_console(quiet: bool = False):
    """Returns a console. Imports rich only when needed, because the import takes time."""
    from rich.console import Console

    return Console(soft_wrap=False, quiet=quiet)


def plain_table(title: str | None = None, header: bool = True):
    from rich import box
    from rich.table import Table

    return Table(title=title, title_justify="left", show_header=header, box=box.SIMPLE_HEAD, pad_edge=False)


@dataclass(frozen=True)
class Run:
    """A simulated batch: its trajectory, times in s, and the number of repeated samples with their substeps.

    - `resumed`: whether a part was simulated in an earlier run, so that the time is no measure of speed.
    """

    path: Trajectory
    compiling: float
    simulating: float
    repeated: tuple[tuple[int, int], ...]
    resumed: bool


def report(model: Model, scheme: Scheme, dt: float, steps: int, limits: str | None, run: Run):
    """Returns a table of what was simulated, the speed, and the quality."""
    path = run.path
    batch, (change, risen) = len(path.q), energies(model, path)
    table = plain_table(header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")

    def row(what, value, note="", **style):
        table.add_row(what, value, note, **style)

    device = jax.devices()[0]
    place = device.platform if device.platform == "cpu" else device.device_kind
    rate = batch * steps / run.simulating
    row("robot", model.name, f"{model.nb} bodies, nq = {model.nq}, nv = {model.nv}")
    row("samples x steps", f"{batch} x {steps}", f"dt = {dt:g} s, {type(scheme).__name__}")
    for count, substeps in run.repeated:
        note = f"dt = {dt / substeps:.3g} s: samples that failed or gained energy"
        row("in shorter steps", str(count), note)
    row("simulated time", f"{steps * dt:.6g} s", "each sample")
    row("compiling", f"{run.compiling:.2f} s", "once")
    note = f"{place}, {jax.device_count()} device(s), {model.dtype}"
    row("simulating", f"{run.simulating:.3g} s", note)
    if not run.resumed:
        row("steps per second", f"{rate:,.0f}", f"all samples; {1e6 / rate:.3g} µs per step")
        row("real-time factor", f"{rate * dt:,.4g}", "all samples together")
        row("", f"{rate * dt / batch:,.4g}", "each sample")
    if limits:
        row("joint limits", "", limits)
    _energy_rows(row, model, change, risen, scheme)
    if path.opening is not None:
        row(
            "loops open by",
            _share(np.max(np.asarray(path.opening))),
            "at most, relative to the reach, or in rad",
        )
    codes, numbers = np.asarray(path.code), np.asarray(path.failed_step)
    row("completed", str(np.sum(codes == Result.SUCCESS)), "" if codes.any() else "every sample, every step")
    for code in map(Result, np.unique(codes[codes != Result.SUCCESS])):
        when = dt * np.median(numbers[codes == code])
        note = f"half of them before {when:.3g} s: {code.message}"
        row(code.title, str(np.sum(codes == code)), note, style="bold red")
    return table


def _energy_rows(row, model: Model, change: np.ndarray, risen: np.ndarray, scheme: Scheme) -> None:
    known = np.isfinite(change)
    if not known.any():
        return
    of = "" if known.all() else f" of {known.sum()} samples"
    place = " about the center of mass" if falls_freely(model) else ""
    note = f"median{of}, relative to the energy in motion{place}"
    change, risen = change[known], risen[known]
    if model.topology.rheonomic:
        row("energy change", _share(np.median(change)), f"{note}; kinematically driven joints do work")
        return
    if loses(model):
        lost = np.maximum(-change, 0)
        row("energy dissipated", _share(np.median(lost)), note)
        row("", _share(np.max(lost)), "largest")
    else:
        row("energy error", _share(np.median(np.abs(change))), f"{note}; the model has no dissipation")
        row("", _share(np.max(np.abs(change))), "largest")
    if np.max(risen) > GAIN and contact_law(model) is None:  # compliant contact stores and returns energy
        remedy = "use a smaller --dt" + ("" if loses(model) else " or --scheme runge-kutta-4")
        note = f"by {np.sum(risen > GAIN)} samples, at most: an error of {type(scheme).__name__}, {remedy}"
        row("energy gained", _share(np.max(risen)), note, style="bold yellow")


def _share(value) -> str:
    return f"{value:.2g}" if abs(value) < 0.01 else f"{100 * value:.3g} %"


def error_console(quiet: bool = False):
    """Returns a console on stderr, for warnings and progress."""
    from rich.console import Console

    return Console(stderr=True, soft_wrap=False, quiet=quiet)


@contextlib.contextmanager
def progress_bars(console, quiet: bool = False):
    """Shows progress bars within the block. An interrupt restores the cursor and ends the line."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description:12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()

    def leave() -> None:
        if console.is_terminal and not quiet:
            os.write(2 if console.stderr else 1, b"\x1b[?25h\n")

    with clearing_up(leave), Progress(*columns, console=console, disable=quiet) as progress:
        yield progress
