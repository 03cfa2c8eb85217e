"""A motion of one or many samples, whose body frames are computed on request."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from .._core.jit import compiled
from ..constraints.closure import ReducedModel
from ..dynamics import forward_kinematics
from ..lie import quaternion
from ..model import Model, at_time, neutral
from ..simulate.result import Result
from ..simulate.systems import Simulated, tree_of
from ..simulate.trajectory import Trajectory
from ..spatial.transform import Transform
from .scene import checked_tree


#: Number of configurations in one call, so that a single compiled program serves any number.
BLOCK = 64


@dataclass(frozen=True)
class Poses:
    """The frames of all bodies in the world over time.

    - `t`: times, (frames,).
    - `position`: (frames, nb, 3); `quaternion`: (frames, nb, 4), scalar first, with signs that make it continuous.
    """

    t: np.ndarray
    position: np.ndarray
    quaternion: np.ndarray

    def at(self, times: np.ndarray) -> Poses:
        """Returns poses at other times, by linear interpolation with normalized quaternions; constant outside."""
        times = np.clip(np.asarray(times, float), self.t[0], self.t[-1])
        row = np.clip(np.searchsorted(self.t, times, side="right") - 1, 0, max(len(self.t) - 2, 0))
        after = np.minimum(row + 1, len(self.t) - 1)
        span = self.t[after] - self.t[row]
        share = np.where(span > 0, (times - self.t[row]) / np.where(span > 0, span, 1), 0)[:, None, None]
        position, turned = (x[row] + share * (x[after] - x[row]) for x in (self.position, self.quaternion))
        return Poses(times, position, turned / np.linalg.norm(turned, axis=-1, keepdims=True))

    @property
    def rotation(self) -> np.ndarray:
        """The rotations of the bodies, (frames, nb, 3, 3)."""
        w, x, y, z = np.moveaxis(self.quaternion, -1, 0)
        rows = [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
        return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


class Samples:
    """A trajectory with any batch axes, whose samples are numbered over all of them.

    Failed samples are shown up to their failure: `shown(sample)` is the number of leading finite rows.
    """

    def __init__(self, model: Simulated, trajectory: Trajectory):
        if not isinstance(model, (Model, ReducedModel)):
            raise TypeError(f"view: model is a {type(model).__name__}; it must be a Model or a ReducedModel")
        if not isinstance(trajectory, Trajectory):
            raise TypeError(
                f"view: trajectory is a {type(trajectory).__name__}; it must be what rollout or simulate_batch returns"
            )
        self.model, self.tree, self.trajectory = model, tree_of(model), trajectory
        q = np.asarray(trajectory.q)
        if q.shape[-1] != model.nq or np.shape(trajectory.v)[-1] != model.nv:
            raise ValueError(
                f"view: trajectory has q of {q.shape[-1]} and v of {np.shape(trajectory.v)[-1]} numbers; model {model.name!r} "
                f"has nq = {model.nq} and nv = {model.nv}: it is of another model"
            )
        self.batch, self.rows = q.shape[:-2], q.shape[-2]
        count = math.prod(self.batch)
        if not self.rows or not count:
            raise ValueError("view: trajectory has no states; there is nothing to show")
        self.q, self.v = (
            q.reshape(count, self.rows, model.nq),
            np.asarray(trajectory.v).reshape(count, self.rows, model.nv),
        )
        self.t = np.broadcast_to(np.asarray(trajectory.t, float), (*self.batch, self.rows)).reshape(
            count, self.rows
        )

    @property
    def samples(self) -> int:
        return len(self.q)

    def shown(self, sample: int = 0) -> int:
        """Returns the number of leading finite rows of a sample."""
        finite = np.isfinite(self.q[sample]).all(axis=-1) & np.isfinite(self.t[sample])
        return self.rows if finite.all() else int(np.argmin(finite))

    def failure(self, sample: int = 0) -> str | None:
        """Returns a description of the failure or warning of a sample; None without one."""
        codes = np.ravel(self.trajectory.code)
        code = int(codes[sample if len(codes) > 1 else 0])  # a single code applies to all samples
        last = self.shown(sample)
        if not code and last == self.rows:
            return None
        what = Result(code).title if code and code in set(Result) else "not finite"
        time = self.t[sample][max(last - 1, 0)]
        return f"failed at t = {time:.3g} s: {what}" if last < self.rows else f"warning: {what}"

    def chosen(self, sample: int = 0, most: int | None = None) -> np.ndarray:
        """Returns the indices of the finite rows of a sample in the order of time; at most `most` of them, evenly spaced."""
        if not 0 <= sample < self.samples:
            raise IndexError(f"view: there is no sample {sample}; there are {self.samples}, counted from 0")
        count = self.shown(sample)
        if not count:
            raise ValueError(f"view: sample {sample} has no finite state; there is nothing to show of it")
        rows = np.arange(count)
        if most is not None and count > most:
            rows = np.unique(np.linspace(0, count - 1, most).astype(int))
        return (
            rows[::-1] if self.t[sample][rows[-1]] < self.t[sample][rows[0]] else rows
        )  # times may decrease

    def path(self, sample: int = 0) -> Trajectory:
        """Returns the finite part of one sample in the order of time, as a trajectory without batch axes."""
        rows = self.chosen(sample)
        return self._rows(sample, rows, np.minimum(rows[:-1], rows[1:]))

    def steps(self, sample: int, rows: np.ndarray) -> Trajectory:
        """Returns the trajectory of the steps that start in some rows of a sample, whose number `padded` increases.

        The last row has the control of the preceding step.
        """
        rows = padded(rows)
        return self._rows(sample, np.append(rows, rows[-1]), np.minimum(rows, max(self.rows - 2, 0)))

    def _rows(self, sample: int, states: np.ndarray, steps: np.ndarray) -> Trajectory:
        """Returns the trajectory with some states of a sample and the controls of some of its steps, zero without controls."""
        path = self.trajectory

        def picked(x, rows):
            if x is None:
                return None
            x = np.asarray(x).reshape(self.samples, *np.shape(x)[len(self.batch) :])[sample]
            return jnp.asarray(x[rows] if len(x) else np.zeros((len(rows), *x.shape[1:])), self.model.dtype)

        t = jnp.asarray(self.t[sample][states], self.model.dtype)
        q, v, own = (picked(x, states) for x in (path.q, path.v, path.own))
        return Trajectory(t, q, v, picked(path.tau, steps), own=own, u=picked(path.u, steps))  # pyright: ignore[reportArgumentType]


class Recording(Samples):
    """The motion of a spatial model from a trajectory or in one configuration, with body frames computed on request."""

    def __init__(self, model: Simulated, trajectory: Trajectory | None = None):
        checked_tree(model)
        if trajectory is None:
            start = np.zeros(model.nq) if isinstance(model, ReducedModel) else np.asarray(neutral(model))
            trajectory = Trajectory(*(jax.device_put(x) for x in (
                np.zeros(1), start[None], np.zeros((1, model.nv)), np.zeros((0, model.nv)))))  # fmt: skip
        super().__init__(model, trajectory)

    def poses(self, sample: int = 0, most: int | None = None) -> Poses:
        """Returns the frames of the bodies in the `chosen` rows of one sample."""
        rows = self.chosen(sample, most)
        t, q = self.t[sample][rows], self.q[sample][rows]
        position, turned = frames_of(self.model, t, q)
        return Poses(t, position, continuous(turned))


def padded(rows: np.ndarray) -> np.ndarray:
    """Returns the rows padded to a power of two by repeating the last one, so that few lengths are compiled."""
    full = max(16, 1 << (len(rows) - 1).bit_length())
    return np.concatenate([rows, np.repeat(rows[-1:], full - len(rows), axis=0)])


def frames_of(model: Simulated, t: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns positions (n, nb, 3) and quaternions (n, nb, 4) of the bodies at times (n,) in configurations (n, nq)."""
    parts = []
    for start in range(0, len(q), BLOCK):
        rows = np.minimum(np.arange(start, start + BLOCK), len(q) - 1)
        parts.append(_frames(model, jnp.asarray(t[rows], model.dtype), jnp.asarray(q[rows], model.dtype)))
    return tuple(np.concatenate(x).astype(float)[: len(q)] for x in zip(*parts))  # pyright: ignore[reportReturnType]


@compiled
def _frames(model: Simulated, t, q):
    def one(t, q):
        if isinstance(model, ReducedModel):
            q = model.closure(q)
        frames: Transform = forward_kinematics(at_time(tree_of(model), t), q)  # pyright: ignore[reportAssignmentType]
        return frames.position, quaternion.from_matrix(frames.rotation)

    return jax.vmap(one)(t, q)


def continuous(quaternions: np.ndarray) -> np.ndarray:
    """Returns the same rotations, with the sign of each quaternion chosen for continuity along axis 0."""
    turned = np.sum(quaternions[1:] * quaternions[:-1], axis=-1, keepdims=True) < 0
    signs = np.cumprod(np.where(turned, -1.0, 1.0), axis=0)
    return np.concatenate([quaternions[:1], signs * quaternions[1:]])
