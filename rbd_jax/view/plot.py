"""Figures with matplotlib: a robot as a stick figure, and how it moved.

A stick figure joins the origin of each body to that of its parent, and a body at the end of a branch to its centre of
mass; a dot at each centre of mass has the size of a ball of that mass. matplotlib is imported when a figure is drawn,
and none of its global state is touched, so this works without a display and in any thread.
"""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._figures import COLORS, GREY, dress
from ..dynamics import forward_kinematics, mechanical_energy
from ..model import Model, at_time
from ..simulate import Trajectory


#: How many poses the filmstrip shows, how many joints are plotted, and how many samples the energy is worked out for.
POSES, JOINTS, SAMPLES = 6, 5, 256

#: From where stick figures are seen: azimuth and elevation in degrees. x points to the right and a little forward.
VIEW = (-55.0, 16.0)


def plot_model(model: Model, q: Float[Array, "nq"], path: str | Path) -> None:
    """Draw the model in one configuration into a PNG (or whatever the ending of `path` says).

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     picture = pathlib.Path(folder, "arm.png")
    ...     rbd.view.plot_model(rbd.load("arm7"), jnp.zeros(7), picture)
    ...     print(picture.stat().st_size > 1000)
    True
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 6), layout="constrained")
    axes = figure.add_subplot()
    stick = _Stick(model)
    pose = stick.pose(_poses(model, jnp.zeros(1), jnp.asarray(q)[None])[0])
    stick.draw(axes, pose, np.zeros(2), anchored=True)
    _frame(axes, [stick.corners(pose)])
    axes.set_title(f"{model.name}: {model.nb} bodies, {model.nv} degrees of freedom", loc="left", fontsize=11)
    figure.savefig(path, dpi=130)


def plot_trajectory(model: Model, traj: Trajectory, path: str | Path, sample: int = 0) -> None:
    """Draw how the model moved: a filmstrip, some coordinates and velocities, and the energy over time.

    **Arguments**

    - `traj`: of one sample, or of a batch of them along axis 0.
    - `sample`: of a batch, the one whose motion is shown. The energy is shown of the batch.

    >>> import pathlib, tempfile
    >>> model = rbd.load("pendulum")
    >>> path = rbd.rollout(model, rbd.State(jnp.array([1.0]), jnp.zeros(1)), dt=0.01, steps=100)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     picture = pathlib.Path(folder, "swing.png")
    ...     rbd.view.plot_trajectory(model, path, picture)
    ...     print(picture.stat().st_size > 1000)
    True
    """
    from matplotlib.figure import Figure

    t, q, v = (np.asarray(x) for x in (traj.t, traj.q, traj.v))
    if q.ndim == 2:
        t, q, v = t[None], q[None], v[None]
    t = t if t.ndim == 1 else t[sample]

    strip = Filmstrip(model, t, q[sample])
    width, curves = 13.0, 3.4
    height = 0.5 + float(np.clip(width * strip.aspect, 2.0, 5.0))
    figure = Figure(figsize=(width, height + curves), layout="constrained")
    film, lower = np.asarray(figure.subfigures(2, 1, height_ratios=(height, curves)))
    of_batch = f", sample {sample} of {len(q)}" if len(q) > 1 else ""
    film.suptitle(f"{model.name}{of_batch}", x=0.01, ha="left", fontsize=13, fontweight="bold")
    strip.draw(film.add_subplot())
    film.text(0.99, 0.98, strip.legend, ha="right", va="top", fontsize=9, color=GREY)
    left, middle, right = lower.subplots(1, 3)
    _coordinates(left, middle, model, t, q[sample], v[sample])
    _energies(right, model, t, q, v, sample)
    figure.savefig(path, dpi=110)


# The filmstrip.


class _Stick:
    """The lines of a model's stick figure, and a view of them in the plane of the picture."""

    def __init__(self, model: Model):
        self.parents = np.array(model.topology.parents)
        self.mass = np.asarray(model.inertias.mass)
        roots = np.flatnonzero(self.parents < 0).tolist()
        self.floats = any(model.topology.joint_nv[root] == 6 for root in roots)
        self.anchors = {
            root: np.asarray(model.placements.position[root])
            for root in roots
            if model.topology.joint_nv[root] < 6
        }
        self.leaves = np.setdiff1d(np.arange(model.nb), self.parents)
        self.branch = self._branches(model)
        azimuth, elevation = np.radians(VIEW)
        toward = np.array(
            [np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)]
        )
        right = np.array([-np.sin(azimuth), np.cos(azimuth), 0.0])
        self.screen = np.stack([right, np.cross(toward, right)], axis=1)

    def _branches(self, model: Model) -> np.ndarray:
        """A number for each body, equal along a limb: a new one starts where a body has several children."""
        count = np.bincount(self.parents[self.parents >= 0], minlength=model.nb)
        branch, last = np.zeros(model.nb, int), 0
        for body, parent in enumerate(self.parents):
            if parent >= 0 and count[parent] == 1:
                branch[body] = branch[parent]
            elif parent >= 0:
                last += 1
                branch[body] = last
        return branch

    def pose(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Origins and centres of mass (2, nb, 3) as they are seen: two arrays (nb, 2)."""
        return tuple(points @ self.screen)  # pyright: ignore[reportReturnType]

    def corners(self, pose) -> np.ndarray:
        return np.concatenate(pose)

    def tips(self, pose) -> np.ndarray:
        """The ends of the branches."""
        return np.where((self.mass[self.leaves] > 0)[:, None], pose[1][self.leaves], pose[0][self.leaves])

    def draw(self, axes, pose, shift, size=1.0, anchored: bool = False) -> None:
        """Draw a pose; `anchored` with the places in the world where the roots attach."""
        origins, centers = pose[0] + shift, pose[1] + shift
        lines = [(origins[p], origins[b], self.branch[b]) for b, p in enumerate(self.parents) if p >= 0]
        lines += [(origins[b], centers[b], self.branch[b]) for b in self.leaves if self.mass[b] > 0]
        for start, end, branch in lines:
            axes.plot(
                *np.stack([start, end], axis=1),
                color=COLORS[branch % len(COLORS)],
                linewidth=3.2 * size,
                solid_capstyle="round",
                zorder=3,
            )
        for root, place in self.anchors.items() if anchored else ():
            start = place @ self.screen + shift
            axes.plot(
                *np.stack([start, origins[root]], axis=1), color=GREY, linewidth=1.2, linestyle=":", zorder=1
            )
            axes.scatter(*start, s=70 * size, marker="s", color=GREY, linewidths=0, zorder=1)
        axes.scatter(*origins.T, s=10 * size, color="white", edgecolors=GREY, linewidths=0.8, zorder=4)
        total = self.mass.sum()
        area = 260 * size * (self.mass / total if total > 0 else self.mass) ** (2 / 3)
        colors = [COLORS[branch % len(COLORS)] for branch in self.branch]
        axes.scatter(*centers.T, s=area, color=colors, alpha=0.35, linewidths=0, zorder=2)


class Filmstrip:
    """The robot at a few times, side by side, with the paths of its extremities since the one before."""

    def __init__(self, model: Model, t, q):
        self.stick = _Stick(model)
        usable = np.flatnonzero(np.isfinite(q).all(axis=1))
        # As many poses between those drawn as make the paths smooth.
        between = max(1, 120 // (POSES - 1))
        fine = usable[np.unique(np.linspace(0, len(usable) - 1, (POSES - 1) * between + 1).astype(int))]
        self.shown = np.unique(np.linspace(0, len(fine) - 1, min(POSES, len(fine))).astype(int))
        self.times = t[fine]
        points = _poses(model, jnp.asarray(self.times), jnp.asarray(q[fine]))
        mass = self.stick.mass
        center = (points[:, 1] * mass[:, None]).sum(1) / max(mass.sum(), 1e-12)
        size = np.ptp(points[0].reshape(-1, 3), axis=0).max()
        self.follow = self.stick.floats and np.ptp(center, axis=0).max() > 1.2 * size
        if self.follow:
            points = points - center[:, None, None]
        self.poses = [self.stick.pose(pose) for pose in points]
        everything = np.concatenate([self.stick.corners(pose) for pose in self.poses])
        self.low, self.high = everything.min(axis=0), everything.max(axis=0)
        width, height = self.high - self.low
        self.step = max(width + 0.12 * max(width, height), 0.45 * height, 1e-6)

    @property
    def aspect(self) -> float:
        """Height by width."""
        return 1.5 * (self.high - self.low)[1] / (len(self.shown) * self.step)

    @property
    def legend(self) -> str:
        return "thin lines: the paths of the extremities" + (
            "; drawn around the centre of mass" if self.follow else ""
        )

    def draw(self, axes) -> None:
        stick, previous, corners = self.stick, 0, []
        for place, index in enumerate(self.shown):
            shift = np.array([place * self.step, 0.0])
            paths = np.stack([stick.tips(pose) for pose in self.poses[previous : index + 1]]) + shift
            for tip, body in enumerate(stick.leaves):
                color = COLORS[stick.branch[body] % len(COLORS)]
                axes.plot(*paths[:, tip].T, color=color, linewidth=0.9, alpha=0.55, zorder=1)
            stick.draw(axes, self.poses[index], shift, 0.8, anchored=not self.follow)
            corners += [self.low + shift, self.high + shift]
            axes.annotate(
                f"t = {self.times[index]:.3g} s", ((self.low + self.high)[0] / 2 + shift[0], self.low[1]),
                (0, -14), textcoords="offset points", ha="center", va="top", fontsize=10, color=GREY,
            )  # fmt: skip
            previous = index
        _frame(axes, [np.stack(corners)], below=0.12)


def _poses(model: Model, t, q) -> np.ndarray:
    """Origins and centres of mass of all bodies over time: (frames, 2, nb, 3)."""

    def pose(time, q):
        frames = forward_kinematics(at_time(model, time), q)
        return jnp.stack([frames.position, frames.point(model.inertias.com)])

    return np.asarray(jax.jit(jax.vmap(pose))(t, q))


def _frame(axes, corners, below=0.04) -> None:
    """Show all the corners at equal scales, without axes; a bar says how long a length is."""
    points = np.concatenate(corners)
    points = points[np.isfinite(points).all(axis=1)]
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.05 * max(high - low) + 1e-3
    low, high = low - margin, high + margin
    height = high[1] - low[1]
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1] - below * height, high[1])
    axes.set_aspect("equal")
    axes.axis("off")
    # The bar: a round length, about a quarter of the height.
    length = 10.0 ** np.floor(np.log10(max(0.4 * height, 1e-9)))
    length *= max(factor for factor in (1, 2, 4) if factor == 1 or factor * length <= 0.4 * height)
    x, y = low[0], high[1] - length
    axes.plot([x, x], [y, high[1]], color=GREY, linewidth=1.5, solid_capstyle="butt")
    unit = f"{length:g} m" if length >= 1 else f"{100 * length:g} cm"
    axes.annotate(
        unit, (x, y + length / 2), (5, 0), textcoords="offset points", va="center", fontsize=9, color=GREY
    )


# The curves.


def _coordinates(left, right, model: Model, t, q, v) -> None:
    """Coordinates and velocities of the degrees of freedom that move most, each with its name."""
    chosen = _lively(model, q)
    for number, (label, iq, iv) in enumerate(chosen):
        color = COLORS[number % len(COLORS)]
        left.plot(t, q[:, iq], color=color, label=label)
        right.plot(t, v[:, iv], color=color)
    more = model.nv - len(chosen)
    rest = f" ({more} more not shown)" if more > 0 else ""
    dress(left, f"position [rad, m]{rest}")
    dress(right, "velocity [rad/s, m/s]")


def _lively(model: Model, q) -> list[tuple[str, int, int]]:
    """Label and places in q and v of the degrees of freedom with the largest range, of joints whose q and v correspond."""
    candidates: list[tuple[str, int, int]] = []
    topology = model.topology
    for body in range(model.nb):
        if topology.is_mimic[body] or not topology.joint_nv[body]:
            continue
        places, name = model.q_slice(body), model.joint_names[body]
        dofs = model.v_slice(body)
        if topology.joint_nq[body] != topology.joint_nv[body]:
            continue
        for i in range(topology.joint_nv[body]):
            label = name if topology.joint_nv[body] == 1 else f"{name}[{i}]"
            candidates.append((label, places.start + i, dofs.start + i))
    if not candidates and model.nq:
        return [(f"q[{i}]", i, min(i, model.nv - 1)) for i in range(min(3, model.nq))]
    ranges = [np.ptp(q[np.isfinite(q[:, iq]), iq]) for _, iq, _ in candidates]
    best = np.sort(np.argsort(ranges)[::-1][:JOINTS])
    return [candidates[i] for i in best]


def _energies(axes, model: Model, t, q, v, sample: int) -> None:
    """How the energy changes from its first value: of the batch its middle and spread, and the one sample."""
    some = np.unique(np.append(np.linspace(0, len(q) - 1, min(len(q), SAMPLES)).astype(int), sample))

    def energy(t, q, v):
        return jnp.sum(mechanical_energy(at_time(model, t), q, v))

    per_frame = jax.jit(jax.vmap(jax.vmap(energy), in_axes=(None, 0, 0)))
    energies = np.asarray(per_frame(jnp.asarray(t), jnp.asarray(q[some]), jnp.asarray(v[some])), float)
    change = energies - energies[:, :1]
    change[~np.isfinite(change)] = np.nan
    seen = np.isfinite(change).any(axis=0)
    if len(some) > 1 and seen.any():
        t, change = t[seen], change[:, seen]
        low, middle, high = np.nanpercentile(change, (5, 50, 95), axis=0)
        axes.fill_between(
            t, low, high, color=COLORS[0], alpha=0.2, linewidth=0, label=f"5–95 % of {len(some)}"
        )
        axes.plot(t, middle, color=COLORS[0], label="their median")
    axes.plot(t, change[np.searchsorted(some, sample)], color=COLORS[1], linewidth=1.2, label="this sample")
    axes.ticklabel_format(axis="y", scilimits=(-3, 4), useMathText=True)
    dress(axes, "change of energy [J]")
