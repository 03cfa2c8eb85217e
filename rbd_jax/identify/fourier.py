"""Periodic motions as Fourier series (Swevers et al., IEEE Trans. Robotics and Automation 13, 1997), and their bounds.

    q(t) = middle + Σ_k sines_k sin(k ω t) + cosines_k cos(k ω t),    ω = 2π / period.

Such a motion can be repeated as long as the measurement lasts. Its velocities and accelerations are known without numerical
differentiation, and its spectrum ends at the last harmonic. Finitely many samples bound it: a trigonometric polynomial p of
degree K, sampled at N > 2K equally spaced times of a period, nowhere exceeds `max |p| / cos(π K / N)` over these samples
(Ehlich & Zeller 1964).
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


#: Number of samples per harmonic: `1 / cos(π / SAMPLES)` is 1.005.
SAMPLES = 32


def basis(harmonics: int, count: int) -> np.ndarray:
    """Returns sines and cosines with their first and second phase derivatives at `count` phases: (3, count, 2 K)."""
    k = np.arange(1, harmonics + 1)
    phase = 2 * np.pi * np.arange(count)[:, None] / count * k
    sine, cosine = np.sin(phase), np.cos(phase)
    rows = (sine, cosine), (k * cosine, -k * sine), (-(k**2) * sine, -(k**2) * cosine)
    return np.stack([np.concatenate(row, axis=1) for row in rows])


def excess(harmonics: int, count: int) -> float:
    """Returns the largest ratio of a trigonometric polynomial's maximum to its maximum over `count` equally spaced phases."""
    return float(1 / np.cos(np.pi * harmonics / count))


class PeriodicMotion(eqx.Module):
    """A motion of some joints as Fourier series; all other joints are at rest.

    It is a PyTree and differentiable with respect to all of its numbers.

    - `middle`: the configuration around which it moves, (nq,).
    - `sines`, `cosines`: coefficients of each harmonic and each moving joint, (harmonics, joints).
    - `period`: in s.
    - `joints`: names of the moving joints, each with one degree of freedom.
    - `q_places`, `v_places`: their indices in q and in v.
    - `nv`: the length of v.

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
        """Returns a motion of some joints of a model.

        Args:
          model: The model.
          joints: Names of the moving joints, each with one degree of freedom.
          period: The period in s.
          sines: Sine coefficients, (harmonics, joints).
          cosines: Cosine coefficients, (harmonics, joints).
          middle: The configuration around which the joints move; the reference configuration by default.
        """
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
                    f"{owner}: {name} has shape {x.shape}; sines and cosines must have a row for each harmonic and a column for "
                    f"each of the {len(joints)} joints."
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
        """Returns the motion in an `.npz` file that `Excitation.save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as data:
                middle, sines, cosines, period, joints = (data[name] for name in SERIES)
        except (KeyError, ValueError) as error:
            raise ModelError(f"identify.PeriodicMotion.read: {path} has no series ({error}).") from error
        return PeriodicMotion.of(model, [str(name) for name in joints], period, sines, cosines, middle)

    @property
    def harmonics(self) -> int:
        return self.sines.shape[0]

    def q(self, t) -> Float[Array, "*n nq"]:
        """Returns the configuration at one or several times in s."""
        off = self._placed(self._series(t, 0), self.q_places, self.middle.shape[0])
        return jnp.broadcast_to(self.middle, off.shape) + off

    def v(self, t) -> Float[Array, "*n nv"]:
        """Returns the velocity at one or several times in s."""
        return self._placed(self._series(t, 1), self.v_places, self.nv)

    def a(self, t) -> Float[Array, "*n nv"]:
        """Returns the acceleration at one or several times in s."""
        return self._placed(self._series(t, 2), self.v_places, self.nv)

    @compiled
    def along(self, t):
        """Returns configurations, velocities and accelerations at these times."""
        return self.q(t), self.v(t), self.a(t)

    def times(self, rate: float | int, periods: int = 1) -> np.ndarray:
        """Returns equally spaced times at about this sampling rate, with a whole number of samples per period.

        The end of the last period is not included, since it is the start of the next one.

        Args:
          rate: Sampling rate in Hz.
          periods: Number of periods.
        """
        count = max(1, round(float(rate) * float(self.period)))
        return np.arange(count * periods) * float(self.period) / count

    def extent(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Returns bounds of the moving joints: lower and upper coordinates, speeds and accelerations.

        The bounds hold at all times and are tight to within one percent.
        """
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
        """Returns the motion contracted towards a configuration.

        Args:
          share: Factor of all displacements from `home`; at 0, the motion rests at `home`.
          home: The configuration.
        """
        return eqx.tree_at(
            lambda motion: (motion.middle, motion.sines, motion.cosines),
            self,
            (home + share * (self.middle - home), share * self.sines, share * self.cosines),
        )

    def policy(self, model: Model, bandwidth: float | int = 20.0):
        """Returns a policy `(t, state) -> tau` for `rbd.rollout` that tracks this motion by computed torque.

        If the model matches the robot, the error decays like `exp(-bandwidth t)` for any masses.

        Args:
          model: The model of the robot.
          bandwidth: Decay rate of the error in 1/s.
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
        # Each derivative advances the phase by a quarter of a turn.
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
    """Returns the indices of joints in q and in v; raises an error for joints without exactly one coordinate."""
    found = []
    for name in joints:
        topology = model.topology
        index = topology.joint_index(name)
        sizes = int(topology.joint_nq[index]), int(topology.joint_nv[index])
        if topology.is_mimic[index]:
            leader = model.joint_names[topology.leaders[index]]
            raise ModelError(f"{owner}: joint {name!r} mimics {leader!r}. Pass the mimicked joint instead.")
        if sizes != (1, 1):
            kind = type(model.joints[topology.kind_of[index][0]]).__name__
            raise ModelError(
                f"{owner}: joint {name!r} is a {kind} with {sizes[1]} degrees of freedom, but each joint must have one. Select "
                "the moving joints by joints=[...], or load the model with a fixed base."
            )
        found.append((model.q_slice(name).start, model.v_slice(name).start))
    q_places, v_places = zip(*found) if found else ((), ())
    return tuple(q_places), tuple(v_places)
