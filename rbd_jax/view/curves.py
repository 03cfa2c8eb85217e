"""Plots over time: positions, velocities, torques, energies, contact forces, phase portraits, batches, sensors.

Each function is `(model, trajectory, *, joints=None, sample=0, axes=None)`. Curves with equal units share a panel: angles,
lengths and quaternions have separate panels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np

from .._core.figures import ALARM, COLORS, GREY, dress, new_figure, plain
from .._core.jit import compiled
from ..constraints.closure import ReducedModel
from ..dynamics import Motion
from ..dynamics.energy import energies_of as energies_in
from ..identify.log import UNITS
from ..joints import Joint
from ..model import Model
from ..shapes.shape import Shape
from ..simulate.sensing import sense_along
from ..simulate.systems import Simulated, tree_of
from ..simulate.trajectory import Trajectory
from .pushes import has_pushes
from .recording import Samples, padded


#: Maximum number of curves in a panel without a choice of joints, of panels in a figure, and of panels side by side.
CURVES, PANELS, ACROSS = 8, 12, 3

#: Maximum number of samples whose energy is computed.
SAMPLES = 256

#: The width and the height of a panel, in inches.
PANEL = (4.4, 3.0)

#: The percentiles of a batch at the edges of the bands around its median.
BANDS = ((5, 95), (25, 75))


class Curve(NamedTuple):
    """A quantity over time, and its bounds, infinite without a bound.

    - `steps`: whether each value holds until the next time; then there is one more time than values.
    """

    name: str
    t: np.ndarray
    values: np.ndarray
    lower: float = -np.inf
    upper: float = np.inf
    steps: bool = False
    unit: str = ""


class Column(NamedTuple):
    """An entry of q or of v: its joint, index, label, and the index of its unit in `UNITS`; None for quaternions."""

    joint: str
    place: int
    label: str
    unit: int | None


# Data.


class Run:
    """One sample of a trajectory, in joint coordinates, up to its failure."""

    def __init__(
        self, function: str, model: Simulated, trajectory: Trajectory, joints: Any, sample: SupportsIndex
    ):
        self.function, self.samples = function, Samples(model, trajectory)
        self.model, self.tree = model, tree_of(model)
        if not isinstance(sample, (int, np.integer)) or not 0 <= sample < self.samples.samples:
            count = self.samples.samples
            raise IndexError(
                f"{function}: sample is {sample!r}; there are {count}, counted from 0" if count > 1
                else f"{function}: sample is {sample!r}; there is one, 0"
            )  # fmt: skip
        self.sample, self.joints = int(sample), _joints(function, self.tree, joints)
        self.rows = np.arange(self.samples.shown(self.sample))
        self.t = self.samples.t[self.sample][self.rows]
        self.q, self.v = in_joints(
            model, self.samples.q[self.sample][self.rows], self.samples.v[self.sample][self.rows]
        )

    @property
    def failure(self) -> tuple[float, str] | None:
        """The time and the cause of its failure."""
        text = self.samples.failure(self.sample)
        return None if text is None else (float(self.t[-1]) if len(self.t) else 0.0, text)

    @property
    def span(self) -> tuple[float, float]:
        """The start and the end of the trajectory, including failed rows."""
        t = self.samples.t[self.sample]
        t = t[np.isfinite(t)]
        return (float(t.min()), float(t.max())) if len(t) else (0.0, 1.0)

    def steps(self) -> Trajectory:
        """Returns the trajectory whose steps start in the rows of the sample."""
        return self.samples.steps(self.sample, self.rows)

    def columns(self, of: Literal["q", "v"]) -> list[Column]:
        """Returns the columns of q or of v that belong to the joints."""
        found = q_columns(self.tree) if of == "q" else v_columns(self.tree)
        return found if self.joints is None else [one for one in found if one.joint in self.joints]

    def positions(self) -> list[Curve]:
        tree = self.tree
        lower, upper = np.asarray(tree.lower, float), np.asarray(tree.upper, float)
        return [
            Curve(
                one.label,
                self.t,
                self.q[:, one.place],
                float(lower[one.place]),
                float(upper[one.place]),
                unit=_unit("q", one),
            )
            for one in self.columns("q")
        ]

    def velocities(self) -> list[Curve]:
        return self._of_dofs(self.t, self.v, self.tree.velocity_limit, "v")

    def torques(self) -> list[Curve]:
        """Returns the generalized forces that drive the joints over each step; for reduced models, along their variables."""
        if not len(self.rows) or not self.model.nv:
            return []
        steps = self.steps()
        saves = min(len(self.rows), np.shape(self.samples.trajectory.tau)[-2])
        t = np.append(self.t[:saves], self.span[1] if saves == len(self.t) else self.t[saves])
        if isinstance(self.model, ReducedModel):
            values = np.asarray(steps.tau, float)[:saves]
            return (
                [Curve(f"y[{i}]", t, values[:, i], steps=True, unit="N m or N") for i in range(self.model.nv)]
                if saves
                else []
            )
        values = np.asarray(steps.driving(self.tree), float)[:saves]
        return self._of_dofs(t, values, self.tree.effort_limit, "tau", True) if saves else []

    def _of_dofs(self, t, values, limit, of: str, steps: bool = False) -> list[Curve]:
        limit = np.asarray(limit, float)
        return [
            Curve(
                one.label,
                t,
                values[:, one.place],
                -float(limit[one.place]),
                float(limit[one.place]),
                steps,
                _unit(of, one),
            )
            for one in self.columns("v")
        ]

    def energies(self) -> list[Curve]:
        kinetic, potential = energies_of(self.tree, self.t, self.q, self.v).T
        parts = ("total", kinetic + potential), ("kinetic", kinetic), ("potential", potential)
        return [Curve(name, self.t, values, unit="J") for name, values in parts]

    def contact_forces(self) -> list[Curve]:
        """Returns the normal force between each pair of shapes in contact, summed over its contact points."""
        if not len(self.rows) or not has_pushes(self.model):
            return []
        found = self.steps().contacts(self.tree)
        assert found.force is not None
        push = np.asarray(found.force[..., 0], float)[: len(self.rows)]
        push = np.where(np.isfinite(np.asarray(found.distance))[: len(self.rows)], push, 0.0)
        pair = np.asarray(found.pair)[: len(self.rows)]
        curves = []
        for number, (first, second) in enumerate(found.shapes):
            values = np.sum(np.where(pair == number, push, 0.0), axis=1)
            if self.joints is None or self._touches(first) or self._touches(second):
                curves.append(Curve(f"{first} – {second}", self.t, values, unit="N"))
        return [curve for curve in curves if np.any(curve.values != 0)] or curves[:1]

    def _touches(self, shape: str) -> bool:
        """Returns whether a shape is on the child body of one of the joints."""
        assert self.joints is not None
        bodies = {one.name: one.body for one in self.tree.shapes if isinstance(one, Shape)}
        of = dict(zip(self.tree.body_names, self.tree.joint_names))
        return of.get(bodies[shape]) in self.joints

    def sensors(self) -> list[list[Curve]]:
        """Returns the readings of each sensor."""
        if not len(self.rows) or not isinstance(self.model, Model) or not self.tree.sensors:
            return []
        readings = sense_along(self.tree, self.steps(), dt=_timestep(self.tree, self.t))
        found = []
        for name, values in readings.items():
            rows = np.asarray(values, float)[: len(self.rows)].reshape(len(self.rows), -1)
            labels = [name] if rows.shape[1] == 1 else [f"{name}[{i}]" for i in range(rows.shape[1])]
            found.append([Curve(label, self.t, column) for label, column in zip(labels, rows.T)])
        return found


def in_joints(model: Simulated, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns configurations (n, nq) and velocities (n, nv) of a model or a reduced model in joint coordinates."""
    if not isinstance(model, ReducedModel):
        return np.asarray(q, float), np.asarray(v, float)
    count = len(q)
    if not count:
        return np.zeros((0, model.model.nq)), np.zeros((0, model.model.nv))
    rows = padded(np.arange(count))
    found = _closed(model, jnp.asarray(q[rows], model.dtype), jnp.asarray(v[rows], model.dtype))
    return tuple(np.asarray(x, float)[:count] for x in found)  # pyright: ignore[reportReturnType]


@compiled
def _closed(model: ReducedModel, y, rate):
    def one(y, rate):
        found = model.at(y, rate)
        return found.q, found.v

    return jax.vmap(one)(y, rate)


def energies_of(tree: Model, t: np.ndarray, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Returns kinetic and potential energies of states (n, ...), shape (n, 2)."""
    count = len(t)
    if not count:
        return np.zeros((0, 2))
    rows = padded(np.arange(count))
    return np.asarray(_energies(tree, *(jnp.asarray(x[rows], tree.dtype) for x in (t, q, v))), float)[:count]


@compiled
def _energies(tree: Model, t, q, v):
    return jax.vmap(lambda t, q, v: energies_in(Motion(tree, q, v, t)))(t, q, v)


def _timestep(tree: Model, t: np.ndarray) -> float:
    return float(tree.settings.timestep or (abs(t[-1] - t[0]) / max(len(t) - 1, 1)) or 1e-3)


def q_columns(tree: Model) -> list[Column]:
    """Returns the entries of a configuration, by joint, without mimic joints."""
    found = []
    for body, joint, one in _moving(tree):
        places = np.arange(tree.nq)[tree.q_slice(body)]
        if len(places) == tree.topology.joint_nv[body]:
            units, names = [int(not turns) for turns in _turning(one)], [f"[{i}]" for i in range(len(places))]
            names = names if len(places) > 1 else [""]
        else:
            units, names = _embedded(one, len(places))
        found += [
            Column(joint, int(place), f"{joint}{name}", unit)
            for place, name, unit in zip(places, names, units)
        ]
    return found


def v_columns(tree: Model) -> list[Column]:
    """Returns the degrees of freedom, by joint."""
    found = []
    for body, joint, one in _moving(tree):
        places = np.arange(tree.nv)[tree.v_slice(body)]
        labels = [joint] if len(places) == 1 else [f"{joint}[{i}]" for i in range(len(places))]
        found += [
            Column(joint, int(place), label, int(not turns))
            for place, label, turns in zip(places, labels, _turning(one))
        ]
    return found


def _moving(tree: Model):
    for body, joint in enumerate(tree.joint_names):
        if tree.topology.joint_nv[body] and not tree.topology.is_mimic[body]:
            yield body, joint, tree.joint(body)


@jax.jit
def _subspace(joint: Joint):
    return joint.motion_subspace(joint.neutral())


@jax.jit
def _turning_rates(joint: Joint):
    return jax.jacfwd(lambda q: joint.transform(q).rotation)(joint.neutral())


def _turning(joint) -> list[bool]:
    """Returns for each degree of freedom of a joint whether it is a rotation."""
    subspace = np.asarray(_subspace(joint))
    angular = subspace[: 3 if len(subspace) == 6 else 1]
    return (np.abs(angular).max(axis=0) > 1e-9).tolist()


def _embedded(joint, size: int) -> tuple[list[int | None], list[str]]:
    """Returns units and labels of the entries of a joint's configuration if it has more entries than degrees of freedom."""
    quaternion = set(range(size)[joint.quaternion]) if joint.quaternion is not None else set()
    turned = np.abs(np.asarray(_turning_rates(joint))).reshape(-1, size).max(axis=0) > 1e-9
    units: list[int | None] = [None if i in quaternion else int(not turned[i]) for i in range(size)]
    rest = [i for i in range(size) if i not in quaternion]
    axes = dict(zip(rest, "xyz")) if len(rest) == 3 and not turned[rest].any() else {}
    letters = dict(zip(sorted(quaternion), "wxyz"))
    return units, [
        f" {letters[i]}" if i in letters else f" {axes[i]}" if i in axes else f"[{i}]" for i in range(size)
    ]


def _unit(of: str, column: Column) -> str:
    return "quaternion" if column.unit is None else UNITS[of][column.unit]


def _joints(function: str, tree: Model, joints: Any) -> set[str] | None:
    """Returns the names of joints chosen by name or number; None for all."""
    if joints is None:
        return None
    chosen = [joints] if isinstance(joints, (str, int, np.integer)) else list(joints)
    found = set()
    for joint in chosen:
        if isinstance(joint, (int, np.integer)) and not 0 <= joint < tree.nb:
            raise IndexError(f"{function}: joints names joint {joint}; there are {tree.nb}, counted from 0")
        name = tree.joint_names[joint] if isinstance(joint, (int, np.integer)) else joint
        tree.v_slice(name)  # raises an error with suggestions for an unknown name or a mimic joint
        body = tree.joint_names.index(name) if name in tree.joint_names else tree.body_index(name)
        found.add(tree.joint_names[body])
    return found


# Panels.


class Panel(NamedTuple):
    """A panel of a figure: its title, a function that draws into its axes, and the text to show without a function."""

    title: str
    draw: Callable[[Any], None] | None
    across: str = "t [s]"
    missing: str = "nothing to show"


def drawn(run: Run, panels: Sequence[Panel], axes: Any):
    """Returns a new figure of the panels, or draws them into the given axes, one for each panel."""
    panels = list(panels)[:PANELS]
    if axes is not None:
        given = np.ravel(np.asarray(axes, dtype=object)).tolist()
        if len(given) != len(panels):
            titles = ", ".join(panel.title for panel in panels)
            raise ValueError(
                f"{run.function}: axes is {len(given)} Axes; there are {len(panels)} panels ({titles}): pass one for each, or "
                "choose joints"
            )
        draw_panels(run, panels, given)
        return axes
    across = min(ACROSS, len(panels))
    down = -(-len(panels) // across)
    figure = new_figure(figsize=(PANEL[0] * across, PANEL[1] * down + 0.4), layout="constrained")
    figure.suptitle(heading(run), x=0.01, ha="left", fontsize=12, fontweight="bold")
    draw_panels(run, panels, grid(figure, len(panels), across))
    return figure


def heading(run: Run) -> str:
    many = run.samples.samples
    return plain(run.tree.name) + (f", sample {run.sample} of {many}" if many > 1 else "")


def grid(figure, count: int, across: int) -> list:
    """Returns `count` axes in a figure, row by row."""
    found = figure.subplots(-(-count // across), across, squeeze=False).ravel().tolist()
    for axes in found[count:]:
        axes.set_visible(False)
    return found[:count]


def draw_panels(run: Run, panels: Sequence[Panel], all_axes: Sequence) -> None:
    failure = run.failure
    for panel, axes in zip(panels, all_axes):
        if panel.draw is None:
            axes.text(0.5, 0.5, panel.missing, ha="center", va="center", color=GREY, transform=axes.transAxes)
        else:
            panel.draw(axes)
        over_time = panel.across == "t [s]"
        if over_time:
            low, high = run.span
            axes.set_xlim(low, high if high > low else low + 1e-3)
            if failure is not None:
                axes.axvline(failure[0], color=ALARM, linewidth=1.2, linestyle="--")
        dress(axes, panel.title, panel.across)
        if failure is not None and over_time:
            axes.text(
                0.99, 0.02, failure[1].partition(":")[0], ha="right", va="bottom", fontsize=8, color=ALARM,
                transform=axes.transAxes,
            )  # fmt: skip


def by_unit(run: Run, what: str, curves: Sequence[Curve], missing: str) -> list[Panel]:
    """Returns a panel for each unit; without a choice of joints, it shows the curves that change most."""
    panels = []
    for unit in dict.fromkeys(curve.unit for curve in curves):
        group = [curve for curve in curves if curve.unit == unit]
        shown = group if run.joints is not None else lively(group, CURVES)
        more = f", {len(group) - len(shown)} more not shown" if len(group) > len(shown) else ""
        title = f"orientation [quaternion]{more}" if unit == "quaternion" else f"{what} [{unit}]{more}"
        panels.append(Panel(title, lambda axes, shown=shown: draw_curves(axes, shown)))
    return panels or [Panel(what, None, missing=missing)]


def lively(curves: Sequence[Curve], most: int) -> list[Curve]:
    """Returns the curves that change most, in their original order."""
    ranges = [
        np.ptp(curve.values) if len(curve.values) and np.isfinite(curve.values).all() else 0
        for curve in curves
    ]
    return [curves[i] for i in np.sort(np.argsort(ranges, kind="stable")[::-1][:most])]


def draw_curves(axes, curves: Sequence[Curve]) -> None:
    bounds = bounds_near(curves)
    for number, curve in enumerate(curves):
        draw_curve(axes, curve, color_of(number), plain(curve.name), bounds)


def color_of(number: int) -> str:
    return COLORS[number % len(COLORS)]


def bounds_near(curves: Sequence[Curve]) -> tuple[float, float]:
    """Returns the range within which bounds are drawn; bounds farther away would flatten the curves."""
    values = np.concatenate([curve.values[np.isfinite(curve.values)] for curve in curves] or [np.zeros(0)])
    low, high = values.min(initial=0), values.max(initial=0)
    room = max(high - low, 1e-9)
    return low - room, high + room


def draw_curve(
    axes, curve: Curve, color: str, label: str | None, near: tuple[float, float] | None = None
) -> None:
    """Draws a curve and its bounds; distant bounds are omitted."""
    values = np.where(np.isfinite(curve.values), curve.values, np.nan)
    if curve.steps:
        axes.stairs(values, curve.t, baseline=None, color=color, label=label, linewidth=1.4)
    else:
        axes.plot(curve.t, values, color=color, label=label, linewidth=1.4)
    low, high = near or bounds_near([curve])
    for bound in (curve.lower, curve.upper):
        if np.isfinite(bound) and low <= bound <= high:
            axes.axhline(bound, color=GREY if label is None else color, linewidth=1.1, linestyle=":")


# The plots.


def positions(
    model: Simulated,
    trajectory: Trajectory,
    *,
    joints: Any = None,
    sample: SupportsIndex = 0,
    axes: Any = None,
):
    """Draws the positions of joints over time, with their limits (dotted).

    Args:
      model: The simulated model.
      trajectory: Its trajectory, of one sample or with batch axes.
      joints: Names or numbers of the joints to show; by default those that move most.
      sample: The sample to show, counted over all batch axes.
      axes: Matplotlib axes to draw into, one for each panel; there is a panel for each unit.

    Returns:
      The given axes, or a new matplotlib Figure.

    >>> model = rbd.load("arm7")
    >>> path = rbd.rollout(model, rbd.State(rbd.neutral(model), jnp.ones(model.nv)), dt=0.01, steps=20)
    >>> rbd.plot.positions(model, path, joints=["joint2", "joint4"]).axes[0].get_title(loc="left")
    'position [rad]'
    """
    run = Run("rbd.plot.positions", model, trajectory, joints, sample)
    return drawn(run, by_unit(run, "position", run.positions(), "no joint moves"), axes)


def velocities(
    model: Simulated,
    trajectory: Trajectory,
    *,
    joints: Any = None,
    sample: SupportsIndex = 0,
    axes: Any = None,
):
    """Draws the velocities of joints over time, with their limits (dotted).

    Arguments and result are those of `positions`.

    >>> model = rbd.load("pendulum")
    >>> path = rbd.rollout(model, rbd.State(jnp.ones(1), jnp.zeros(1)), dt=0.01, steps=20)
    >>> rbd.plot.velocities(model, path).axes[0].get_title(loc="left")
    'velocity [rad/s]'
    """
    run = Run("rbd.plot.velocities", model, trajectory, joints, sample)
    return drawn(run, by_unit(run, "velocity", run.velocities(), "no joint moves"), axes)


def torques(
    model: Simulated,
    trajectory: Trajectory,
    *,
    joints: Any = None,
    sample: SupportsIndex = 0,
    axes: Any = None,
):
    """Draws the generalized forces that drive the joints, from `tau` and actuators, with their limits (dotted).

    Arguments and result are those of `positions`. For a `ReducedModel`, the forces act along its variables.

    >>> model = rbd.load("pendulum")
    >>> path = rbd.rollout(model, rbd.State(jnp.ones(1), jnp.zeros(1)), lambda t, state: -state.v, dt=0.01, steps=20)
    >>> rbd.plot.torques(model, path).axes[0].get_title(loc="left")
    'torque [N m]'
    """
    run = Run("rbd.plot.torques", model, trajectory, joints, sample)
    return drawn(run, torque_panels(run), axes)


def torque_panels(run: Run) -> list[Panel]:
    """Returns a panel for torques and one for forces; without a choice of joints, panels with only zeros are omitted."""
    curves = run.torques()
    if run.joints is None:
        acting = {curve.unit for curve in curves if np.any(curve.values != 0)}
        curves = [curve for curve in curves if not acting or curve.unit in acting]
    panels = []
    for unit in dict.fromkeys(curve.unit for curve in curves):
        what = "force" if unit == UNITS["tau"][1] else "torque"
        panels += by_unit(run, what, [curve for curve in curves if curve.unit == unit], "")
    return panels or [Panel("torque", None, missing="nothing drives this model")]


def energies(
    model: Simulated,
    trajectory: Trajectory,
    *,
    joints: Any = None,
    sample: SupportsIndex = 0,
    axes: Any = None,
):
    """Draws the kinetic energy, the potential energy including joint springs, and their sum over time.

    Arguments and result are those of `positions`; energies are those of the complete model for any choice of joints.

    >>> model = rbd.load("pendulum")
    >>> path = rbd.rollout(model, rbd.State(jnp.ones(1), jnp.zeros(1)), dt=0.01, steps=20)
    >>> [line.get_label() for line in rbd.plot.energies(model, path).axes[0].lines]
    ['total', 'kinetic', 'potential']
    """
    run = Run("rbd.plot.energies", model, trajectory, joints, sample)
    return drawn(run, by_unit(run, "energy", run.energies(), "no states"), axes)


def contact_forces(
    model: Simulated,
    trajectory: Trajectory,
    *,
    joints: Any = None,
    sample: SupportsIndex = 0,
    axes: Any = None,
):
    """Draws the normal forces between shapes in contact over time, one curve for each pair.

    Arguments and result are those of `positions`; with `joints`, only contacts of the bodies that these joints carry are shown.

    >>> model = rbd.load("quadruped")
    >>> rbd.plot.contact_forces(model, rbd.rollout(model, rbd.State(rbd.neutral(model), jnp.zeros(model.nv)), dt=1e-3, steps=2))
    <Figure size 440x340 with 1 Axes>
    """
    run = Run("rbd.plot.contact_forces", model, trajectory, joints, sample)
    return drawn(
        run, by_unit(run, "normal force", run.contact_forces(), "no contact acts in this model"), axes
    )


def phase(
    model: Simulated,
    trajectory: Trajectory,
    *,
    joints: Any = None,
    sample: SupportsIndex = 0,
    axes: Any = None,
):
    """Draws phase portraits, velocity over position, of joints with as many position coordinates as degrees of freedom.

    There is one panel for each coordinate; a dot marks the start of the motion. Arguments and result are those of `positions`.

    >>> model = rbd.load("pendulum")
    >>> path = rbd.rollout(model, rbd.State(jnp.ones(1), jnp.zeros(1)), dt=0.01, steps=20)
    >>> rbd.plot.phase(model, path).axes[0].get_title(loc="left")
    'swing'
    """
    run = Run("rbd.plot.phase", model, trajectory, joints, sample)
    pairs = [
        (position, Curve(position.name, run.t, run.v[:, place], unit=UNITS["v"][turned]))
        for position, place, turned in _pairs(run)
    ]
    if run.joints is None:
        kept = lively([position for position, _ in pairs], len(COLORS))
        pairs = [pair for pair in pairs if any(pair[0] is one for one in kept)]

    def draw(axes, position: Curve, velocity: Curve) -> None:
        axes.plot(position.values, velocity.values, color=COLORS[0], linewidth=1.2)
        if len(run.t):
            axes.plot(position.values[:1], velocity.values[:1], "o", color=COLORS[1], markersize=4)
        axes.set_ylabel(f"[{velocity.unit}]", fontsize=9)

    panels = [
        Panel(
            plain(position.name), lambda axes, p=position, v=velocity: draw(axes, p, v), f"[{position.unit}]"
        )
        for position, velocity in pairs
    ]
    return drawn(
        run,
        panels or [Panel("phase", None, "", "no joint has a velocity that is the rate of its position")],
        axes,
    )


def _pairs(run: Run):
    """Yields positions, and the indices and units of the velocities that are their rates."""
    places = {one.label: one for one in run.columns("v")}
    for curve in run.positions():
        if curve.name in places and curve.unit != "quaternion":
            one = places[curve.name]
            if run.tree.joint(run.tree.joint_names.index(one.joint)).flat:
                yield curve, one.place, int(one.unit or 0)


def fan(
    model: Simulated,
    trajectory: Trajectory,
    *,
    of: Literal["position", "velocity"] = "position",
    joints: Any = None,
    sample: SupportsIndex = 0,
    axes: Any = None,
):
    """Draws the spread of a batch: for each coordinate its median, the 25–75 % and 5–95 % bands, and one sample.

    There is one panel for each coordinate; failed samples are omitted after their failure. Other arguments and the result are
    those of `positions`.

    Args:
      model: The simulated model.
      trajectory: Its trajectory, with batch axes.
      of: "position" or "velocity".
      joints: As for `positions`.
      sample: As for `positions`.
      axes: As for `positions`.

    >>> model, key = rbd.load("double_pendulum"), jax.random.key(0)
    >>> states = rbd.State(jax.random.normal(key, (32, 2)), jnp.zeros((32, 2)))
    >>> path = rbd.simulate_batch(model, states, dt=0.01, steps=20)
    >>> len(rbd.plot.fan(model, path).axes)
    2
    """
    if of not in ("position", "velocity"):
        raise ValueError(f"rbd.plot.fan: of is {of!r}; it must be 'position' or 'velocity'")
    run = Run("rbd.plot.fan", model, trajectory, joints, sample)
    samples = run.samples
    count = samples.samples * samples.rows
    states = in_joints(model, samples.q.reshape(count, model.nq), samples.v.reshape(count, model.nv))
    rows = states[of == "velocity"].reshape(samples.samples, samples.rows, -1)
    columns = {one.label: one for one in run.columns("q" if of == "position" else "v")}
    curves = run.positions() if of == "position" else run.velocities()
    if run.joints is None:
        spread = [
            Curve(c.name, c.t, np.nan_to_num(rows[..., columns[c.name].place], posinf=0, neginf=0).ravel())
            for c in curves
        ]
        kept = {curve.name for curve in lively(spread, len(COLORS))}
        curves = [curve for curve in curves if curve.name in kept]
    panels = [
        Panel(
            f"{plain(curve.name)} [{curve.unit}]",
            lambda axes, curve=curve: draw_fan(
                axes, samples.t[run.sample], rows[..., columns[curve.name].place], curve
            ),
        )
        for curve in curves
    ]
    return drawn(run, panels or [Panel(of, None, missing="no joint moves")], axes)


def draw_fan(axes, t: np.ndarray, rows: np.ndarray, curve: Curve | None, color: str = COLORS[0]) -> None:
    """Draws the median of rows (samples, times), bands around it, and a curve on top if one is given."""
    rows = np.where(np.isfinite(rows), rows, np.nan)
    seen = np.isfinite(rows).any(axis=0) & np.isfinite(t)
    edges = [np.zeros(0) if curve is None else curve.values[np.isfinite(curve.values)]]
    if len(rows) > 1 and seen.any():
        for number, band in enumerate(BANDS):
            low, high = np.nanpercentile(rows[:, seen], band, axis=0)
            edges += [np.percentile(low, BANDS[0]), np.percentile(high, BANDS[0])]
            axes.fill_between(
                t[seen],
                low,
                high,
                color=color,
                alpha=(0.18, 0.3)[number],
                linewidth=0,
                label=f"{band[0]}–{band[1]} %",
            )
        axes.plot(t[seen], np.nanmedian(rows[:, seen], axis=0), color=color, linewidth=1.4, label="median")
    if curve is not None:
        draw_curve(axes, curve, COLORS[1], "this sample" if len(rows) > 1 else None)
    edges = np.concatenate(edges)
    if len(edges) and np.ptp(edges) > 0:  # brief outliers of few samples do not set the scale
        room = 0.15 * np.ptp(edges)
        axes.set_ylim(edges.min() - room, edges.max() + room)


def energy_change_panel(run: Run) -> Panel:
    """Returns a panel of the change of energy since the first row: the spread of the batch, and one sample."""
    samples, count = run.samples, run.samples.samples
    some = np.unique(np.append(np.linspace(0, count - 1, min(count, SAMPLES)).astype(int), run.sample))
    rows = len(some) * samples.rows
    states = samples.q[some].reshape(rows, run.model.nq), samples.v[some].reshape(rows, run.model.nv)
    q, v = in_joints(run.model, *states)
    change = energies_of(run.tree, samples.t[some].ravel(), q, v).sum(axis=1).reshape(len(some), samples.rows)
    change = change - change[:, :1]
    own = Curve("", run.t, change[np.searchsorted(some, run.sample)][run.rows])

    def draw(axes) -> None:
        draw_fan(axes, samples.t[run.sample], change, own)
        axes.ticklabel_format(axis="y", scilimits=(-3, 4), useMathText=True)

    of = f" of {len(some)} samples" if len(some) > 1 else ""
    return Panel(f"change of energy{of} [J]", draw)


def sensors(
    model: Simulated,
    trajectory: Trajectory,
    *,
    joints: Any = None,
    sample: SupportsIndex = 0,
    axes: Any = None,
):
    """Draws the sensor readings of a model over time, one panel for each sensor, up to the maximum number of panels.

    Arguments and result are those of `positions`; all sensors are shown for any choice of joints.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.sensors.JointPosition("angle", "elbow"))
    >>> path = rbd.rollout(model, rbd.State(jnp.array([0.5, 1.0]), jnp.zeros(2)), dt=0.01, steps=20)
    >>> rbd.plot.sensors(model, path).axes[0].get_title(loc="left")
    'angle'
    """
    run = Run("rbd.plot.sensors", model, trajectory, joints, sample)
    panels = []
    for curves in run.sensors():
        name = curves[0].name if len(curves) == 1 else curves[0].name.rpartition("[")[0]
        labelled = curves if len(curves) > 1 else [curves[0]._replace(name="")]
        panels.append(Panel(plain(name), lambda axes, shown=labelled: draw_readings(axes, shown)))
    return drawn(run, panels or [Panel("sensors", None, missing="this model has no sensors")], axes)


def draw_readings(axes, curves: Sequence[Curve]) -> None:
    for number, curve in enumerate(curves):
        draw_curve(axes, curve, color_of(number), plain(curve.name) or None)
