"""Whether velocities are the rates of positions, and accelerations those of velocities, in NumPy alone.

Over windows of a log the sum of what should be the rate, `∫ v dt`, is compared with the change of what it should be the rate
of. Windows are as long as the motion is largest in beside noise, and what does not come out of the noise says nothing: a
joint at rest, or one that moves faster than it is sampled. Where a part fits in another way far better than as it is
meant (other units, signs, columns, frames), that is what it looks like.

Parts are single coordinates; and of what turns in space the three numbers of an angular velocity, of what also slides those
of a linear one, which is turned into the world for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import joints
from ..model import Model


#: What comes out of the noise, as a ratio of mean squares; the least correlation, and the least share of a change that is left
#: over, that tell what something looks like; and of how many standard deviations a share is uncertain.
SIGNIFICANT, ALIKE, APART, SURE = 30.0, 0.95, 0.04, 5.0
#: A step longer than so many usual ones is a gap.
GAP = 3.0
#: The fewest samples that say something.
FEWEST = 10


@dataclass(frozen=True, eq=False)
class Part:
    """Changes from one sample to the next, (n - 1, k), and what should be their rate, (n, k).

    - `columns`: which of v (or a) that is; `entries`: which of q (or v).
    - `otherwise`: what else it could be by mistake: in words, changes and rate.
    """

    label: str
    columns: np.ndarray
    entries: np.ndarray
    changes: np.ndarray
    rate: np.ndarray
    otherwise: tuple[tuple[str, np.ndarray, np.ndarray], ...] = ()


class Fit(NamedTuple):
    """How a rate fits changes: it adds up to `share` times them, give or take `within`; their correlation; what is left over;
    how large the sums are beside the changes; and whether both come out of the noise and have little to do with each other,
    whatever a constant error of the rate adds."""

    share: float
    within: float
    correlation: float
    left: float
    size: float
    strange: bool


def own_joints(model: Model) -> Iterator[tuple[str, Any, np.ndarray, np.ndarray]]:
    """Name, joint, entries of q and of v of each joint that has some: of those in series one by one, and without what
    they are wrapped in."""
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
    """Joints with a quaternion, and where that is in q."""
    for name, joint, entries, _ in own_joints(model):
        if isinstance(joint, joints.Free | joints.Spherical):
            yield name, entries[joint.quaternion]


def parts_of_positions(model: Model, q: np.ndarray, v: np.ndarray) -> Iterator[Part]:
    """Of all joints whose velocity is known to us by their family."""
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
    for i, label in enumerate(labels):
        at = np.array([i])
        yield Part(f"joint {label!r}", at, at, np.diff(v[:, [i]], axis=0), a[:, [i]])


def _turning(label, quaternion, entries, rate, columns, linear) -> Part:
    """Of angular velocity in the body's frame."""
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
    """Rotations of quaternions with the scalar first, of any length."""
    with np.errstate(invalid="ignore", divide="ignore"):
        w, x, y, z = (quaternion / np.linalg.norm(quaternion, axis=1, keepdims=True)).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


def _turns(quaternion: np.ndarray) -> np.ndarray:
    """From each to the next, as a rotation vector in the body's frame, the short way."""
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
    """Changes and the sums of rates over windows of a log, gaps left out."""

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
        whole = self.gaps[window:] == self.gaps[:-window]
        return tuple((x[window:] - x[:-window])[whole] for x in (self.path, self.area))  # pyright: ignore[reportReturnType]

    def window(self) -> int | None:
        """That in which the motion is largest beside the noise; None if it never comes out of it."""
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
        """The mean square that noise has at most in changes of the path: white noise, by its fourth differences, and that of
        numbers that are rounded to lines and often stay on one."""
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
        """The mean square of white noise of which these differences would be."""
        fourth, whole = np.diff(rows, 4, axis=0), self.gaps[4:] == self.gaps[:-4]
        return float(np.mean(np.sum(fourth[whole] ** 2, axis=1))) / 70 if whole.any() else np.inf


def fits(t: np.ndarray, part: Part) -> tuple[Sums, int, Fit] | None:
    """How a part's rate fits; None where it says nothing."""
    if len(t) < FEWEST:
        return None
    sums = Sums(t, part.changes, part.rate)
    window = sums.window()
    return None if window is None else (sums, window, sums.fit(window))


def looks_like(t: np.ndarray, part: Part, own: Fit) -> str | None:
    """As what else a part's rate would fit, and far better."""
    for words, changes, rate in part.otherwise:
        found = fits(t, Part(part.label, part.columns, part.entries, changes, rate))
        if found is not None and own.left > APART and found[2].left < min(0.1, own.left / 5):
            return words
    return None


def rate_of_other(t: np.ndarray, part: Part, parts: list[Part]) -> Part | None:
    """Of which other coordinate a part's rate is the rate."""
    if part.rate.shape[1] != 1:
        return None
    for other in parts:
        if other is part or other.rate.shape[1] != 1:
            continue
        found = fits(t, Part(part.label, part.columns, part.entries, other.changes, part.rate))
        if found is not None and found[2].correlation > ALIKE and 0.7 < found[2].share < 1.4:
            return other
    return None
