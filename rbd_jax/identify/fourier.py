"""Periodic motions as Fourier series (Swevers et al., IEEE Trans. Robotics and Automation 13, 1997), and how far they can go.

    q(t) = middle + Σ_k sines_k sin(k ω t) + cosines_k cos(k ω t),    ω = 2π / period.

Such a motion can be repeated for as long as one measures, its velocities and accelerations are known without differences, and
nothing of it is above the last harmonic. And it is bounded by finitely many samples: a trigonometric polynomial p of degree K,
seen at N > 2K times a period apart equally, is nowhere more than `max |p| / cos(π K / N)` of them (Ehlich & Zeller 1964).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import a_model, as_array, configuration, number
from .._core.array import matmul
from .._core.errors import ModelError
from .._core.jit import compiled
from ..dynamics import inverse_dynamics
from ..dynamics.passive import passive_force
from ..model import Model, difference
from .log import SERIES


#: So many samples for each harmonic: `1 / cos(π / SAMPLES)` is 1.005.
SAMPLES = 32


def basis(harmonics: int, count: int) -> np.ndarray:
    """Sines and cosines, and their first and second derivatives by the phase, at `count` phases of a period: (3, count, 2 K)."""
    k = np.arange(1, harmonics + 1)
    phase = 2 * np.pi * np.arange(count)[:, None] / count * k
    sine, cosine = np.sin(phase), np.cos(phase)
    rows = (sine, cosine), (k * cosine, -k * sine), (-(k**2) * sine, -(k**2) * cosine)
    return np.stack([np.concatenate(row, axis=1) for row in rows])


def excess(harmonics: int, count: int) -> float:
    """How many times more a trigonometric polynomial can be anywhere than at `count` equal phases."""
    return float(1 / np.cos(np.pi * harmonics / count))


class PeriodicMotion(eqx.Module):
    """A motion of some joints as Fourier series; all others are at rest. A PyTree, differentiable by all of its numbers.

    - `middle`: the configuration about which it goes, (nq,).
    - `sines`, `cosines`: of each harmonic and each joint that moves, (harmonics, joints).
    - `period`: in s.
    - `joints`: the names of the joints that move, each with one degree of freedom.
    - `q_places`, `v_places`: where they are in q and in v; `nv` is the length of v.

    >>> model = rbd.load("double_pendulum")
    >>> motion = rbd.identify.PeriodicMotion.of(model, ["elbow"], 2.0, sines=[[0.5]], cosines=[[0.0]])
    >>> print(motion.q(0.5), motion.v(jnp.array([0.0, 1.0])))
    [0.  0.5] [[ 0.     1.571]
     [ 0.    -1.571]]
    """

    middle: Float[Array, "nq"]
    sines: Float[Array, "harmonics joints"]
    cosines: Float[Array, "harmonics joints"]
    period: Float[Array, ""]
    joints: tuple[str, ...] = eqx.field(static=True)
    q_places: tuple[int, ...] = eqx.field(static=True)
    v_places: tuple[int, ...] = eqx.field(static=True)
    nv: int = eqx.field(static=True)

    @staticmethod
    def of(model: Model, joints: Sequence[str], period, sines, cosines, middle=None) -> PeriodicMotion:
        """That of some joints of a model, about its reference configuration or another one."""
        owner = "identify.PeriodicMotion.of"
        a_model(owner, model)
        q_places, v_places = places_of(owner, model, joints)
        middle = configuration(owner, model, "middle", model.reference if middle is None else middle)
        given = [
            as_array(owner, name, x, "rows of harmonics")
            for name, x in (("sines", sines), ("cosines", cosines))
        ]
        for name, x in zip(("sines", "cosines"), given):
            if x.ndim != 2 or x.shape != given[0].shape or x.shape[1] != len(joints):
                raise ValueError(
                    f"{owner}: {name} has shape {x.shape}; both have a row for each harmonic and a column for each of the "
                    f"{len(joints)} joints"
                )
        period = number(owner, "period", period, above=0, dtype=middle.dtype)
        sines, cosines = (x.astype(middle.dtype) for x in given)
        return PeriodicMotion(
            middle=middle,
            sines=sines,
            cosines=cosines,
            period=period,
            joints=tuple(joints),
            q_places=q_places,
            v_places=v_places,
            nv=model.nv,
        )

    @staticmethod
    def read(path: str | Path, model: Model) -> PeriodicMotion:
        """That in an `.npz` file that `Excitation.save` has written."""
        try:
            with np.load(path, allow_pickle=False) as data:
                middle, sines, cosines, period, joints = (data[name] for name in SERIES)
        except (KeyError, ValueError) as error:
            raise ModelError(f"identify.PeriodicMotion.read: {path} has no series in it ({error})") from error
        return PeriodicMotion.of(model, [str(name) for name in joints], period, sines, cosines, middle)

    @property
    def harmonics(self) -> int:
        return self.sines.shape[0]

    def q(self, t) -> Float[Array, "*n nq"]:
        """The configuration at a time or at several, in s."""
        off = self._placed(self._series(t, 0), self.q_places, self.middle.shape[0])
        return jnp.broadcast_to(self.middle, off.shape) + off

    def v(self, t) -> Float[Array, "*n nv"]:
        """The velocity."""
        return self._placed(self._series(t, 1), self.v_places, self.nv)

    def a(self, t) -> Float[Array, "*n nv"]:
        """The acceleration."""
        return self._placed(self._series(t, 2), self.v_places, self.nv)

    @compiled
    def along(self, t):
        """Positions, velocities and accelerations, all three."""
        return self.q(t), self.v(t), self.a(t)

    def times(self, rate: float | int, periods: int = 1) -> np.ndarray:
        """Times at so many samples a second: as many as fit into a period, equally, and no end that is the next beginning."""
        count = max(1, round(float(rate) * float(self.period)))
        return np.arange(count * periods) * float(self.period) / count

    def extent(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Bounds of the coordinates, below and above, of the speeds and of the accelerations of the joints that move: they hold
        at all times, and are met to within a percent."""
        count = SAMPLES * self.harmonics
        more = excess(self.harmonics, count)
        series = np.concatenate([np.asarray(self.sines, float), np.asarray(self.cosines, float)])
        omega = 2 * np.pi / float(self.period)
        q, v, a = basis(self.harmonics, count) @ series
        centre, half = (q.max(0) + q.min(0)) / 2, (q.max(0) - q.min(0)) / 2 * more
        middle = np.asarray(self.middle, float)[list(self.q_places)] + centre
        return (
            middle - half,
            middle + half,
            np.abs(v).max(0) * more * omega,
            np.abs(a).max(0) * more * omega**2,
        )

    def shrunk(self, share, home: Float[Array, "nq"]) -> PeriodicMotion:
        """The motion with all ways from a configuration shortened to a share of them; at 0 it is at rest there."""
        return eqx.tree_at(
            lambda motion: (motion.middle, motion.sines, motion.cosines),
            self,
            (home + share * (self.middle - home), share * self.sines, share * self.cosines),
        )

    def policy(self, model: Model, bandwidth: float | int = 20.0):
        """A policy `(t, state) -> tau` for `rbd.rollout` that makes a model move like this: the forces that it takes, and
        more where it is off.

        The error goes like `exp(-bandwidth t)` where the model is the robot, whatever its masses (computed torque).
        """

        def follow(t, state):
            off, slow = difference(model, state.q, self.q(t)), self.v(t) - state.v
            wanted = self.a(t) + bandwidth**2 * off + 2 * bandwidth * slow
            return inverse_dynamics(model, state.q, state.v, wanted) - passive_force(model, state.q, state.v)

        return follow

    def _series(self, t, order: int):
        t = jnp.asarray(t, self.middle.dtype)
        k = jnp.arange(1, self.harmonics + 1, dtype=t.dtype)
        omega = 2 * jnp.pi / self.period * k
        flat = t.reshape(-1, 1) * omega[None]
        # Each derivative is a quarter of a turn ahead.
        sine, cosine = ((jnp.sin, jnp.cos), (jnp.cos, _falling), (_falling, _sunk))[order]
        weights = (omega**order)[:, None]
        found = matmul(sine(flat), weights * self.sines) + matmul(cosine(flat), weights * self.cosines)
        return found.reshape(*t.shape, -1)

    def _placed(self, rows, places, size: int):
        spread = np.zeros((len(places), size))
        spread[np.arange(len(places)), list(places)] = 1
        return matmul(rows.reshape(-1, len(places)), jnp.asarray(spread, rows.dtype)).reshape(
            *rows.shape[:-1], size
        )


def _falling(x):
    return -jnp.sin(x)


def _sunk(x):
    return -jnp.cos(x)


def places_of(owner: str, model: Model, joints: Sequence[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Where joints with one coordinate are in q and in v; others are refused by name."""
    found = []
    for name in joints:
        topology = model.topology
        index = topology.joint_index(name)
        sizes = int(topology.joint_nq[index]), int(topology.joint_nv[index])
        if topology.is_mimic[index]:
            leader = model.joint_names[topology.leaders[index]]
            raise ModelError(f"{owner}: joint {name!r} follows {leader!r}; name that one instead")
        if sizes != (1, 1):
            kind = type(model.joints[topology.kind_of[index][0]]).__name__
            raise ModelError(
                f"{owner}: joint {name!r} is a {kind} with {sizes[1]} degrees of freedom, and series are of joints with one; "
                "name those that are to move by joints=[...], and it stays where it is, or load the model with a fixed base"
            )
        found.append((model.q_slice(name).start, model.v_slice(name).start))
    q_places, v_places = zip(*found) if found else ((), ())
    return tuple(q_places), tuple(v_places)
