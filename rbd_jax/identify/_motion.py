"""Checks that velocities are the rates of positions, and accelerations those of velocities; NumPy only.

Over windows of a log, the integral of the rate, `∫ v dt`, is compared with the change of the coordinate. The window length
is the one at which the motion is largest relative to the noise. Motion that does not exceed the noise is not judged: a
joint at rest, or a joint that moves faster than the sampling rate. If the data fit a wrong convention (units, signs,
columns, frames) far better than the expected one, the check reports that convention.

A part is a single coordinate, or the three components of an angular or linear velocity. Linear velocities are rotated into
the world frame first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import joints
from ..model import Model


#: Thresholds. SIGNIFICANT: ratio of mean squares above which motion exceeds the noise. ALIKE: correlation above which two
#: signals match. APART: relative residual above which a rate does not fit. SURE: uncertainty of a ratio, in standard
#: deviations.
SIGNIFICANT, ALIKE, APART, SURE = 30.0, 0.95, 0.04, 5.0
#: A time step longer than this multiple of the median is a gap.
GAP = 3.0
#: Minimum number of samples for a check.
FEWEST = 10


@dataclass(frozen=True, eq=False)
class Part:
    """Changes from one sample to the next, (n - 1, k), and their expected rate, (n, k).

    - `label`: the name in messages.
    - `columns`: columns of the rate in v (or a).
    - `entries`: entries of the coordinates in q (or v).
    - `otherwise`: wrong conventions: a description, changes and a rate for each.
    """

    label: str
    columns: np.ndarray
    entries: np.ndarray
    changes: np.ndarray
    rate: np.ndarray
    otherwise: tuple[tuple[str, np.ndarray, np.ndarray], ...] = ()


class Fit(NamedTuple):
    """How well a rate fits changes.

    - `share`, `within`: ratio of the integrated rate to the changes, and its uncertainty.
    - `correlation`: the correlation of both.
    - `left`: the relative residual.
    - `size`: the size of the integrals relative to the changes.
    - `strange`: whether both exceed the noise and are nearly uncorrelated, regardless of a constant bias of the rate.
    """

    share: float
    within: float
    correlation: float
    left: float
    size: float
    strange: bool


def own_joints(model: Model) -> Iterator[tuple[str, Any, np.ndarray, np.ndarray]]:
    """Yields name, joint, and entries in q and in v of each joint with coordinates of its own.

    Composite joints are split into their parts, and wrappers of joints are removed.
    """
    topology = model.topology
    for body, name in enumerate(model.joint_names):
        if not topology.is_mimic[body] and topology.joint_nv[body]:
            places = (np.asarray(side(body)) for side in (topology.joint_q, topology.joint_v))
            yield from _in_series(name, model.joint(body), *places)


def _in_series(name: str, joint: Any, entries: np.ndarray, columns: np.ndarray) -> Iterator:
    while hasattr(joint, "joint"):
        joint = joint.joint
    if joint.flat or not isinstance(joint, joints.Composite):
        yield name, joint, entries, columns
        return
    for one in joint.joints:
        yield from _in_series(name, one, entries[: one.nq], columns[: one.nv])
        entries, columns = entries[one.nq :], columns[one.nv :]


def quaternions(model: Model) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the name of each joint with a quaternion and the entries of the quaternion in q."""
    for name, joint, entries, _ in own_joints(model):
        if isinstance(joint, joints.Free | joints.Spherical):
            yield name, entries[joint.quaternion]


def parts_of_positions(model: Model, q: np.ndarray, v: np.ndarray) -> Iterator[Part]:
    """Yields the parts of all joints whose velocity convention is known from their type."""
    for name, joint, entries, columns in own_joints(model):
        own, rate = q[:, entries], v[:, columns]
        if joint.flat:
            labels = (
                [f"joint {name!r}"]
                if len(columns) == 1
                else [f"joint {name!r}[{i}]" for i in range(len(columns))]
            )
            for i, label in enumerate(labels):
                yield Part(
                    label, columns[i : i + 1], entries[i : i + 1], np.diff(own[:, [i]], axis=0), rate[:, [i]]
                )
        elif isinstance(joint, joints.Planar):
            yield Part(
                f"joint {name!r}[0]", columns[:1], entries[:1], np.diff(own[:, :1], axis=0), rate[:, :1]
            )
            along, (c, s) = np.diff(own[:, 1:], axis=0), (np.cos(own[:, 0]), np.sin(own[:, 0]))
            turned = np.stack([c * rate[:, 1] - s * rate[:, 2], s * rate[:, 1] + c * rate[:, 2]], axis=1)
            other = ("the linear velocity in the world's frame", along, rate[:, 1:])
            yield Part(f"the slides of joint {name!r}", columns[1:], entries[1:], along, turned, (other,))
        elif isinstance(joint, joints.Spherical):
            yield _turning(f"joint {name!r}", own, entries, rate, columns, None)
        elif isinstance(joint, joints.Free):
            yield _turning(f"joint {name!r}", own[:, 3:], entries[3:], rate[:, :3], columns[:3], rate[:, 3:])
            along, frame = np.diff(own[:, :3], axis=0), matrices(own[:, 3:])
            in_world = lambda velocity, frame=frame: np.einsum("nij,nj->ni", frame, velocity)
            others = (
                ("the linear velocity in the world's frame", along, rate[:, 3:]),
                ("the linear velocity in the first three columns", along, in_world(rate[:, :3])),
                (
                    "the linear velocity in the world's frame and in the first three columns",
                    along,
                    rate[:, :3],
                ),
            )
            label = f"the slides of joint {name!r}"
            yield Part(label, columns[3:], entries[:3], along, in_world(rate[:, 3:]), others)


def parts_of_velocities(model: Model, v: np.ndarray, a: np.ndarray, labels: list[str]) -> Iterator[Part]:
    """Yields a part for each degree of freedom, with the acceleration as the rate of the velocity."""
    for i, label in enumerate(labels):
        at = np.array([i])
        yield Part(f"joint {label!r}", at, at, np.diff(v[:, [i]], axis=0), a[:, [i]])


def _turning(label, quaternion, entries, rate, columns, linear) -> Part:
    """Returns the part of an angular velocity in the body frame."""
    changes, frame = _turns(quaternion), matrices(quaternion)
    in_world = np.einsum("nij,nj->ni", frame[:-1], changes)
    others = [
        ("the angular velocity in the world's frame", in_world, rate),
        ("quaternions with the scalar last", _turns(np.roll(quaternion, 1, axis=1)), rate),
    ]
    if linear is not None:
        others.append(("the angular velocity in the last three columns", changes, linear))
    return Part(label, columns, entries, changes, rate, tuple(others))


def matrices(quaternion: np.ndarray) -> np.ndarray:
    """Returns the rotation matrices of quaternions with the scalar first, of any length."""
    with np.errstate(invalid="ignore", divide="ignore"):
        w, x, y, z = (quaternion / np.linalg.norm(quaternion, axis=1, keepdims=True)).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


def _turns(quaternion: np.ndarray) -> np.ndarray:
    """Returns the rotation vector from each sample to the next in the body frame, the short way."""
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = quaternion / np.linalg.norm(quaternion, axis=1, keepdims=True)
    (w0, u0), (w1, u1) = ((rows[:, :1], rows[:, 1:]) for rows in (unit[:-1], unit[1:]))
    w = w0 * w1 + np.sum(u0 * u1, axis=1, keepdims=True)
    u = w0 * u1 - w1 * u0 - np.cross(u0, u1)
    sine = np.linalg.norm(u, axis=1, keepdims=True)
    angle = 2 * np.arctan2(sine, np.abs(w))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(w < 0, -1, 1) * u * np.where(sine > 1e-12, angle / sine, 2.0)


class Sums:
    """Changes and integrated rates over windows of a log, without gaps."""

    def __init__(self, t: np.ndarray, changes: np.ndarray, rate: np.ndarray):
        steps = np.diff(t)
        area = steps[:, None] * (rate[1:] + rate[:-1]) / 2
        known = (
            np.isfinite(changes).all(axis=1)
            & np.isfinite(area).all(axis=1)
            & (steps <= GAP * np.median(steps))
        )
        total = lambda x: np.concatenate(
            [np.zeros((1, x.shape[1])), np.cumsum(np.where(known[:, None], x, 0), axis=0)]
        )
        self.changes, self.rate, self.step = changes, rate, float(np.median(steps))
        self.path, self.area, self.gaps = total(changes), total(area), total(~known[:, None] * 1.0)[:, 0]

    def over(self, window: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the changes and the integrals over all windows of this length without a gap."""
        whole = self.gaps[window:] == self.gaps[:-window]
        return tuple((x[window:] - x[:-window])[whole] for x in (self.path, self.area))  # pyright: ignore[reportReturnType]

    def window(self) -> int | None:
        """Returns the window length with the best signal-to-noise ratio; None if the motion never exceeds the noise."""
        noise, best, found = self._noise(), 0.0, None
        size = 1
        while size <= len(self.path) // 4:
            changes, _ = self.over(size)
            if len(changes) >= FEWEST // 2:
                power = float(np.mean(np.sum(changes**2, axis=1)))
                if power > SIGNIFICANT * noise and power > 0 and power / size > best:
                    best, found = power / size, size
            size *= 2
        return found

    def fit(self, window: int) -> Fit:
        changes, areas = self.over(window)
        square, other, both = np.sum(changes**2), np.sum(areas**2), float(np.sum(changes * areas))
        share, many = both / square, max(len(changes) / window, 1)
        within = float(np.sqrt(np.sum((areas - share * changes) ** 2) / square / many))
        correlation = both / np.sqrt(square * other) if other > 0 else 0.0
        c, r = changes - changes.mean(axis=0), areas - areas.mean(axis=0)
        loud = len(c) * SIGNIFICANT * self._noise() < np.sum(c**2) and len(
            c
        ) * SIGNIFICANT * window * self.step**2 * self._noise_of_rate() < np.sum(r**2)
        strange = loud and many >= 4 and np.sum(c * r) < 0.5 * np.sqrt(np.sum(c**2) * np.sum(r**2))
        left = float(np.sum((areas - changes) ** 2) / square)
        return Fit(share, SURE * within, correlation, left, float(np.sqrt(other / square)), bool(strange))

    def _noise(self) -> float:
        """Returns an upper bound of the mean square of the noise in changes of the path.

        It is the white noise, from fourth differences, plus the quantization noise of values that often repeat.
        """
        rounded = 0.0
        for column in np.abs(self.changes.T):
            column = column[np.isfinite(column)]
            lines = column[column > 0]
            if len(lines) and len(lines) < 0.7 * len(column):
                rounded += float(lines.min()) ** 2 / 6
        return 2 * self._fourth(self.path) + rounded

    def _noise_of_rate(self) -> float:
        return self._fourth(np.where(np.isfinite(self.rate), self.rate, 0))

    def _fourth(self, rows: np.ndarray) -> float:
        """Returns the mean square of white noise with these fourth differences."""
        fourth, whole = np.diff(rows, 4, axis=0), self.gaps[4:] == self.gaps[:-4]
        return float(np.mean(np.sum(fourth[whole] ** 2, axis=1))) / 70 if whole.any() else np.inf


def fits(t: np.ndarray, part: Part) -> tuple[Sums, int, Fit] | None:
    """Returns how well the rate of a part fits; None if the motion is too small to tell."""
    if len(t) < FEWEST:
        return None
    sums = Sums(t, part.changes, part.rate)
    window = sums.window()
    return None if window is None else (sums, window, sums.fit(window))


def looks_like(t: np.ndarray, part: Part, own: Fit) -> str | None:
    """Returns the description of a wrong convention that fits far better than the expected one, or None."""
    for words, changes, rate in part.otherwise:
        found = fits(t, Part(part.label, part.columns, part.entries, changes, rate))
        if found is not None and own.left > APART and found[2].left < min(0.1, own.left / 5):
            return words
    return None


def rate_of_other(t: np.ndarray, part: Part, parts: list[Part]) -> Part | None:
    """Returns the part whose changes this rate fits, if it is another one, or None."""
    if part.rate.shape[1] != 1:
        return None
    for other in parts:
        if other is part or other.rate.shape[1] != 1:
            continue
        found = fits(t, Part(part.label, part.columns, part.entries, other.changes, part.rate))
        if found is not None and found[2].correlation > ALIKE and 0.7 < found[2].share < 1.4:
            return other
    return None
