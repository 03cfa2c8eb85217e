"""Figures with matplotlib: poses of a robot along its motion, and its curves.

The robot is rendered as in videos. Functions import matplotlib when they draw, and do not touch its global state, so they work
without a display and in any thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, SupportsIndex

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.interpolate import PchipInterpolator

from .._core.figures import ALARM, COLORS, GREY, new_figure, plain
from ..simulate.systems import Simulated, tree_of
from ..simulate.trajectory import Trajectory
from .camera import Camera
from .curves import Panel, Run, by_unit, draw_panels, energy_change_panel, grid, heading, torque_panels
from .film import GHOST, checked_size
from .painter import Painter
from .recording import Poses, Recording
from .scene import branches, scene_of
from .shot import Shot, shot_of


#: Number of poses in the filmstrip, and of path points between two poses.
POSES, FINE = 6, 40

#: Width of a page and height of a row of curves in inches; pixels per inch, and the oversampling of pictures.
WIDTH, ROW, DPI, FINER = 13.0, 2.9, 110, 1.5

#: Minimum and maximum aspect ratio, width by height, of the pictures of a filmstrip.
SHAPES = (0.6, 1.5)


def plot_model(
    model: Simulated,
    q: Float[Array, "*many nq"],
    path: str | Path,
    *,
    size: Sequence[int] = (800, 800),
    camera: Camera | Mapping[str, Any] | None = None,
) -> None:
    """Draws the model in one or several configurations into a PNG, or another picture format by the suffix of `path`.

    Args:
      model: The model.
      q: Configurations; the last one is solid, the others are translucent.
      path: The file.
      size: Width and height in pixels.
      camera: The viewpoint, as in `rbd.save_video`.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     picture = pathlib.Path(folder, "arm.png")
    ...     rbd.view.plot_model(rbd.load("arm7"), jnp.zeros(7), picture, size=(160, 120))
    ...     print(picture.stat().st_size > 1000)
    True
    """
    from PIL import Image

    size = checked_size("plot_model", size)
    rows = np.asarray(q).reshape(-1, np.shape(q)[-1])[::-1]
    count = len(rows)
    still = Trajectory(*(jnp.asarray(x, model.dtype) for x in (
        np.zeros((count, 1)), rows[:, None], np.zeros((count, 1, model.nv)), np.zeros((count, 0, model.nv)))))  # fmt: skip
    recording, scene = Recording(model, still), scene_of(model)
    opacity = (1.0, *(GHOST,) * (count - 1))
    shot = shot_of(
        "plot_model",
        recording,
        scene,
        size,
        samples=range(count),
        opacity=opacity,
        camera=camera,
        follow=False,
    )
    picture = Painter(scene, shot.setting, size).paint(*shot.frame(0))
    Image.fromarray(picture).save(path)


def plot_trajectory(model: Simulated, traj: Trajectory, path: str | Path, sample: SupportsIndex = 0) -> None:
    """Draws the motion of a model into a PNG, or another format by the suffix of `path`: the page of `rbd.plot`.

    Args:
      model: The simulated model.
      traj: Its trajectory, of one sample or a batch.
      path: The file.
      sample: The sample whose motion is shown. The energy is shown for the batch.

    >>> import pathlib, tempfile
    >>> model = rbd.load("pendulum")
    >>> path = rbd.rollout(model, rbd.State(jnp.array([1.0]), jnp.zeros(1)), dt=0.01, steps=100)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     picture = pathlib.Path(folder, "swing.png")
    ...     rbd.view.plot_trajectory(model, path, picture)
    ...     print(picture.stat().st_size > 1000)
    True
    """
    page(model, traj, sample=sample).savefig(path, dpi=DPI)


def page(model: Simulated, trajectory: Trajectory, *, joints: Any = None, sample: SupportsIndex = 0):
    """Draws poses along a motion, and positions, velocities, torques, contact forces and energy over time.

    Args:
      model: The simulated model.
      trajectory: Its trajectory, of one sample or a batch.
      joints: Names or numbers of the joints to show; by default those that move most.
      sample: The sample to show, counted over all batch axes. The energy is shown for the batch.

    Returns:
      A matplotlib Figure; `.savefig("page.png")` writes it.

    >>> model = rbd.load("double_pendulum")
    >>> path = rbd.rollout(model, rbd.State(jnp.array([0.5, 1.0]), jnp.zeros(2)), dt=0.01, steps=20)
    >>> figure = rbd.plot(model, path)
    >>> [axes.get_title(loc="left") for axes in figure.axes[-3:]]
    ['position [rad]', 'velocity [rad/s]', 'change of energy [J]']
    """
    run = Run("rbd.plot", model, trajectory, joints, sample)
    panels = _panels(run)
    across = len(panels) if len(panels) < 4 else 3 if len(panels) in (5, 6, 9) else 4
    down = -(-len(panels) // across)
    strip = (
        None
        if tree_of(model).is_planar or not len(run.rows)
        else Filmstrip(Recording(model, trajectory), run.sample)
    )
    heights = [0.5 + strip.height(WIDTH)] if strip is not None else []
    figure = new_figure(figsize=(WIDTH, sum(heights) + ROW * down + 0.3), layout="constrained")
    parts = np.atleast_1d(
        np.asarray(figure.subfigures(len(heights) + 1, 1, height_ratios=[*heights, ROW * down]))
    )
    parts[0].suptitle(heading(run), x=0.01, ha="left", fontsize=13, fontweight="bold")
    if strip is not None:
        strip.draw(parts[0])
    draw_panels(run, panels, grid(parts[-1], len(panels), across))
    return figure


def _panels(run: Run) -> list[Panel]:
    """Returns the panels that are not trivial."""
    panels = by_unit(run, "position", run.positions(), "no joint moves")
    panels += by_unit(run, "velocity", run.velocities(), "no joint moves")
    if any(np.any(curve.values != 0) for curve in run.torques()):
        panels += torque_panels(run)
    pushes = run.contact_forces()
    if any(np.any(curve.values != 0) for curve in pushes):
        panels += by_unit(run, "normal force", pushes, "")
    return [*panels, energy_change_panel(run)]


# The filmstrip.


def filmstrip_of(model: Simulated, t, q) -> Filmstrip | None:
    """Returns the filmstrip of configurations (n, nq) at times (n,); None for planar models, whose bodies have no shapes."""
    if tree_of(model).is_planar:
        return None
    t, q = np.asarray(t), np.asarray(q)
    rows = (
        jnp.asarray(x, model.dtype) for x in (t, q, np.zeros((len(t), model.nv)), np.zeros((0, model.nv)))
    )
    return Filmstrip(Recording(model, Trajectory(*rows)))


class Filmstrip:
    """The robot at a few times, side by side, with the paths of its extremities between them."""

    def __init__(self, recording: Recording, sample: int = 0):
        self.tree, self.failure = recording.tree, recording.failure(sample)
        self.scene = scene_of(recording.model)
        self.poses = recording.poses(sample, most=max(POSES * FINE, 400))
        self.times = np.unique(np.linspace(self.poses.t[0], self.poses.t[-1], POSES))
        look = lambda size: shot_of("plot", recording, self.scene, size, samples=(sample,), most=400)
        # The aspect ratio follows from a first framing in a square picture.
        self.size = _size(look((400, 400)))
        self.shot = look(self.size).at(self.times)

    def height(self, width: float | int) -> float:
        """Returns the height of the pictures with their labels for a given width, in inches."""
        return width / max(len(self.times), 3) * self.size[1] / self.size[0] + 0.35

    @property
    def legend(self) -> str:
        """A text about paths, ground and camera."""
        spacing = self.shot.setting.spacing
        unit = f"{spacing:g} m" if spacing >= 1 else f"{100 * spacing:g} cm"
        ground = "" if self.shot.setting.ground is None else f"; lines on the ground are {unit} apart"
        moves = "; the camera follows" if self.shot.follows else ""
        return f"colored lines: the paths of the extremities{ground}{moves}"

    def draw(self, figure) -> None:
        """Draws the filmstrip into a figure or subfigure."""
        painter = Painter(self.scene, self.shot.setting, self.size)
        across = max(len(self.times), 3)
        all_axes = figure.subplots(1, across, squeeze=False)[0]
        tips, branch = self._tips()
        for number, axes in enumerate(all_axes):
            axes.set_xticks([])
            axes.set_yticks([])
            for spine in axes.spines.values():
                spine.set_visible(False)
            if number >= len(self.times):
                axes.set_visible(False)
                continue
            eye, placed = self.shot.frame(number)
            width, height = self.size
            axes.imshow(painter.paint(eye, placed), extent=(0, width, height, 0), interpolation="antialiased")
            since = np.linspace(self.times[max(number - 1, 0)], self.times[number], FINE)
            for tip, which in zip(tips, branch):
                seen = eye.on_screen(tip(since) @ self.shot.setting.up.T, self.size)
                axes.plot(*seen.T, color=COLORS[which % len(COLORS)], linewidth=1.0, alpha=0.7)
            axes.set_xlim(0, width)
            axes.set_ylim(height, 0)
            axes.set_xlabel(f"t = {self.times[number]:.3g} s", fontsize=10, color=GREY)
            if self.failure is not None and number == len(self.times) - 1:
                axes.set_xlabel(self.failure.partition(":")[0], fontsize=10, color=ALARM, fontweight="bold")
                for spine in axes.spines.values():
                    spine.set(visible=True, color=ALARM, linewidth=1.5)
        text, color = (self.legend, GREY) if self.failure is None else (plain(self.failure), ALARM)
        figure.text(0.99, 0.985, text, ha="right", va="top", fontsize=9, color=color)

    def _tips(self):
        """Returns the ends of the branches as smooth functions of time, and the numbers of their branches."""
        tree, poses = self.tree, self.poses
        leaves = np.setdiff1d(np.arange(tree.nb), np.asarray(tree.topology.parents))
        mass, com = (
            np.asarray(tree.inertias.mass, float)[leaves],
            np.asarray(tree.inertias.com, float)[leaves],
        )
        ends = np.where((mass > 0)[:, None] & np.isfinite(com), com, 0.0)
        t, first = np.unique(poses.t, return_index=True)
        few = Poses(t, poses.position[first][:, leaves], poses.quaternion[first][:, leaves])
        points = np.einsum("fnij,nj->fni", few.rotation, ends) + few.position
        if len(t) < 2:
            return [], []
        return [PchipInterpolator(t, points[:, i]) for i in range(len(leaves))], branches(tree)[leaves]


def _size(shot: Shot) -> tuple[int, int]:
    """Returns the size of the pictures of a framing in pixels, with the aspect ratio of its content within `SHAPES`."""
    span = np.ptp(shot.corners @ shot.eye.axes[:2].T, axis=0)
    shape = float(np.clip(span[0] / max(span[1], 1e-9), *SHAPES))
    width = round(WIDTH * DPI * FINER / POSES)
    return width, round(width / shape)
