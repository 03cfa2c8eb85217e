"""The equations of motion of logs, linear in what joints and bodies are made of, condensed into triangles.

In each sample, `τ = Y θ` with θ of `linear_numbers`: inertia parameters, armature, damping, friction, stiffness. Of all
samples the triangular factors of `[Y, τ]` are kept, one for each degree of freedom, and no more: they answer every
question of least squares about these samples, with any weights of the degrees of freedom and any choice of what is free.
They are made piece by piece in double precision, so that memory does not grow with the log, and the normal equations,
which lose half of the digits, are not formed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import a_model, whole_number
from .._core.array import by_numpy
from .._core.errors import ModelError
from .._core.jit import compiled
from ..checkpoints import Checkpoint, Run, differences, fingerprint, running
from ..dynamics import Motion, inverse_dynamics_regressor
from ..dynamics.passive import joint_regressor
from ..forces.actuators import Actuator
from ..forces.actuators.drive import actuators_of
from ..forces.carried import carried_forces
from ..model import Model
from ..model.attachments import without
from ..parallel.batch import batch_map, whole
from ..spatial.inertia import Inertia
from ._triangles import condensed
from .log import Log, LogError, as_logs
from .sanity import check_log
from .smoothing import with_rates


#: The most samples that are looked at together.
CHUNK = 4096


def linear_numbers(model: Model) -> Float[Array, "parameters"]:
    """θ: the inertia parameters of all bodies, then armature, damping, friction and stiffness of all degrees of freedom.

    >>> print(rbd.identify.linear_numbers(rbd.load("pendulum")))
    [ 1.     0.     0.    -1.     1.001  0.     1.001  0.     0.     0.001
      0.     0.     0.     0.   ]
    """
    own = model.armature, model.damping, model.friction, model.stiffness
    row = lambda xp, inertias, *own: xp.concatenate([inertias.reshape(-1), *own])
    return by_numpy(row, model.inertias.parameters, *own)


def with_linear_numbers(model: Model, numbers: Float[Array, "parameters"]) -> Model:
    """The model with these.

    >>> model = rbd.load("pendulum")
    >>> numbers = rbd.identify.linear_numbers(model)
    >>> print(rbd.identify.with_linear_numbers(model, 2 * numbers).inertias.mass)
    [2.]
    """
    inertial = numbers[: 10 * model.nb].reshape(-1, 10)
    armature, damping, friction, stiffness = numbers[10 * model.nb :].reshape(4, model.nv)
    return replace(
        model,
        inertias=Inertia.from_parameters(inertial),
        armature=armature,
        damping=damping,
        friction=friction,
        stiffness=stiffness,
    )


def torque_regressor(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    a: Float[Array, "nv"],
    *,
    coulomb: bool = False,
) -> Float[Array, "nv parameters"]:
    """Y with `Y θ = inverse_dynamics(model, q, v, a) - passive_force(model, q, v)`, θ = `linear_numbers(model)`.

    - `coulomb`: friction by Coulomb's law itself, the sign of v, and not smoothed at rest as `passive_force` has it.

    >>> model, q, v, a = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0]), jnp.ones(2)
    >>> print(rbd.identify.torque_regressor(model, q, v, a) @ rbd.identify.linear_numbers(model))
    [18.084 13.169]
    """
    joints = joint_regressor(model, q, v, a)
    if coulomb:
        nv, sign = model.nv, jnp.eye(model.nv, dtype=v.dtype) * jnp.sign(v)[:, None]
        joints = jnp.concatenate([joints[:, : 2 * nv], sign, joints[:, 3 * nv :]], axis=1)
    return jnp.concatenate([inverse_dynamics_regressor(model, q, v, a), joints], axis=1)


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples of motions with the forces that made them: (n, nq), (n, nv), ...; NaN in tau where it is not known.

    >>> one = rbd.identify.Samples(np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 2)), np.array([[np.nan, 1.0]]))
    >>> print(one.tau)
    [[nan  1.]]
    """

    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    tau: np.ndarray

    def __len__(self) -> int:
        return len(self.q)


def samples_of(model: Model, log: Log, cutoff: float | int | None = None, slow: float | int = 0.0) -> Samples:
    """The samples of a log whose motion is known in full, and the generalized forces in them.

    - `cutoff`: of the smoothing where velocities or accelerations are missing, in Hz: see `with_rates`.
    - `slow`: forces at degrees of freedom that are slower than this are taken as not known.

    Those are `tau` and what the actuators do under `u`, less what the model's force elements do, which stay as they are.

    >>> model, t = rbd.load("pendulum"), np.arange(300) / 100
    >>> q, v, a = np.sin(t)[:, None], np.cos(t)[:, None], -np.sin(t)[:, None]
    >>> samples = rbd.identify.samples_of(model, rbd.identify.Log(t, q, v, a, np.zeros((300, 1))))
    >>> print(samples.q.shape, samples.tau.shape)
    (300, 1) (300, 1)
    """
    check_log(model, log)
    log = as_arrived(model, log)
    if log.tau is None and log.u is None:
        raise LogError(f"Log {log.name!r} has neither tau nor u; what drove the robot has to be known")
    known = with_rates(model, log, cutoff)
    q, v, a = known.q.values, known.v.values, known.a.values
    whole = ~(np.isnan(q).any(axis=1) | np.isnan(v).any(axis=1) | np.isnan(a).any(axis=1))
    if not whole.any():
        raise LogError(
            f"Log {log.name!r}: in no sample all of q, v and a are known; at its ends and beside gaps smoothing takes some away"
        )
    tau = np.zeros((int(whole.sum()), model.nv)) if known.tau is None else known.tau.values[whole].copy()
    tau[np.abs(v[whole]) < slow] = np.nan
    found = Samples(q[whole], v[whole], a[whole], tau)
    acting = bool(model.forces or model.tendons or (known.u is not None and model.actuators))
    if not acting:
        return found
    if known.u is not None:
        refuse_dynamics(model, log)
    bare = as_driven(model, known.u is not None)
    u = np.zeros((len(found), bare.nu)) if known.u is None else known.u.values[whole]
    return replace(found, tau=tau + actuation(bare, found.q, found.v, u))


def actuation(model: Model, q: np.ndarray, v: np.ndarray, u: np.ndarray) -> np.ndarray:
    """What acts on a model beside gravity, damping, friction and springs of joints, in each of some samples, (n, nv)."""
    found = np.zeros((len(q), model.nv))
    for size, rows in _pieces(len(q), CHUNK):
        given = [_padded(x[rows], size, model.dtype) for x in (q, v, u)]
        found[rows] = np.asarray(_applied(model, *given), float)[: len(found[rows])]
    return found


def as_driven(model: Model, told: bool) -> Model:
    """The model with its actuators if logs say what they are told, and else without: what they did is in tau then."""
    return model if told else without(model, "actuator")


def without_delays(model: Model) -> Model:
    """The model with actuators that act under what they are told at once, for controls that have arrived."""
    prompt = lambda thing: thing.changed(delay=None) if isinstance(thing, Actuator) else thing
    return replace(model, attached=tuple(map(prompt, model.attached)))


def as_arrived(model: Model, log: Log) -> Log:
    """The log with those controls that have arrived in each sample, each of which is held until the next."""
    delays = [one.delay for one in actuators_of(model)]
    if log.u is None or not any(delay is not None and float(delay) for delay in delays):
        return log
    t, u = log.t if log.u.t is None else log.u.t, log.u.values.copy()
    for column, delay in enumerate(delays):
        if delay is None or not float(delay):
            continue
        row = np.searchsorted(t, t - float(delay) + 1e-6 * np.median(np.diff(t)), side="right") - 1
        u[:, column] = np.where(row >= 0, log.u.values[np.maximum(row, 0), column], np.nan)
    return replace(log, u=replace(log.u, values=u))


def refuse_dynamics(model: Model, log: Log) -> None:
    """Refuse actuators whose force is not that of a sample alone."""
    if any(getattr(one, "dynamics", None) is not None for one in model.actuators):
        raise LogError(
            f"Log {log.name!r}: an actuator of model {model.name!r} has dynamics, so its force does not "
            "follow from u alone; give tau"
        )


@compiled
def _applied(model, q, v, u):
    """What acts beside gravity, damping, friction and springs of joints."""

    def one(model, q, v, u):
        motion = Motion(model, q, v)
        acting = [force.generalized_force(motion) for force in carried_forces(model, u)]
        return sum(acting, jnp.zeros(model.nv, q.dtype))

    return whole(batch_map(one, (None, 0, 0, 0))(model, q, v, u))


@compiled
def _regressors(model, coulomb, q, v, a):
    one = lambda model, *state: torque_regressor(model, *state, coulomb=coulomb)
    return whole(batch_map(one, (None, 0, 0, 0))(model, q, v, a))


def _pieces(count: int, chunk: int, begin: int = 0) -> Iterator[tuple[int, slice]]:
    """Runs of rows and the length to which each is filled up, so that few lengths are compiled."""
    for start in range(begin, count, chunk):
        left = min(chunk, count - start)
        size = chunk if left == chunk else min(chunk, max(256, 1 << (left - 1).bit_length()))
        yield size, slice(start, start + left)


def _padded(rows: np.ndarray, size: int, dtype) -> np.ndarray:
    return np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)]).astype(dtype)


def regressors(
    model: Model, samples: Samples, coulomb: bool = False, chunk: int = CHUNK, begin: int = 0
) -> Iterator[tuple[slice, np.ndarray]]:
    """Rows of samples and their regressors, (rows, nv, parameters), piece by piece."""
    for size, rows in _pieces(len(samples), chunk, begin):
        given = [_padded(x[rows], size, model.dtype) for x in (samples.q, samples.v, samples.a)]
        yield rows, np.asarray(_regressors(model, coulomb, *given), float)[: rows.stop - rows.start]


@dataclass(frozen=True, eq=False)
class Equations:
    """All equations of some samples, condensed: for every θ, `‖factors[j] [θ; -1]‖² = Σ (Y θ - τ)²` over the rows of dof j.

    - `factors`: a triangle for each degree of freedom, (nv, parameters + 1, parameters + 1).
    - `counts`: how many samples are in it.
    - `slow`: where it is not zero, friction is Coulomb's, and what was slower than this is not in it.
    - `cutoff`: of the smoothing, as it was given.

    >>> model, t = rbd.load("pendulum"), np.arange(300) / 100
    >>> q, v, a = np.sin(t)[:, None], np.cos(t)[:, None], -np.sin(t)[:, None]
    >>> tau = jax.vmap(lambda *x: rbd.inverse_dynamics(model, *x))(q, v, a)
    >>> equations = rbd.identify.Equations.of(model, rbd.identify.Log(t, q, v, a, tau))
    >>> print(equations.counts, equations.factors.shape)
    [300] (1, 15, 15)
    """

    model: Model
    factors: np.ndarray
    counts: np.ndarray
    slow: float | int = 0.0
    logs: tuple[str, ...] = field(default=())
    cutoff: float | int | None = None

    @staticmethod
    def none(model: Model, slow: float | int = 0.0) -> Equations:
        """Of no samples."""
        size = 10 * model.nb + 4 * model.nv + 1
        return Equations(model, np.zeros((model.nv, size, size)), np.zeros(model.nv, int), float(slow))

    @staticmethod
    def of(
        model: Model,
        logs: Log | Iterable[Log],
        *,
        cutoff: float | int | None = None,
        slow: float | int = 0.0,
        chunk: int = CHUNK,
        checkpoint: Checkpoint | str | os.PathLike | None = None,
    ) -> Equations:
        """Of logs, one after the other; a generator of logs that do not fit into memory together will do.

        - `cutoff`: of the smoothing where velocities or accelerations are missing, in Hz: see `with_rates`.
        - `slow`: a speed below which a joint's friction is not asked for; above it is Coulomb's. Joints that turn round
          stick for a while, which is no law of their speed. At 0 all samples are used, and friction is smoothed at rest as
          in `rbd.passive_force`.
        - `chunk`: how many samples are looked at together.
        - `checkpoint`: a file to save to on the way, and to go on from: see `rbd.Checkpoint`. More logs may follow those that
          it knows; what a generator gives must be the same logs again.
        """
        a_model("identify.Equations.of", model)
        if model.constraints:
            raise ModelError(
                f"identify: model {model.name!r} has constraints, whose forces are not known; take "
                "rbd.detach(model, 'constraint') if it "
                "moves without them, or identify the tree that is left"
            )
        chunk = whole_number("identify.Equations.of", "chunk", chunk)
        given = as_logs("identify.Equations.of", logs) if isinstance(logs, Log | list | tuple) else logs
        key = lambda: {"model": model, "cutoff": cutoff, "slow": float(slow), "chunk": chunk}
        with running("identify.Equations.of", checkpoint, key) as run:
            total, names, known, rows = Equations.none(model, slow), [], [], 0
            if run.found:
                known, rows = list(run.found["logs"]), run.found["rows"]
                total = replace(total, factors=run.found["factors"], counts=run.found["counts"])
            # Of the last log that is known, only so many rows were passed.
            through = len(known) - (rows > 0)
            for i, log in enumerate(given):
                names.append(log.name)
                if run.checkpoint is not None:
                    _look_at(run, known, i, log)
                if i < through:
                    continue
                samples = samples_of(model, log, cutoff, slow)
                for total, rows in total.growing(samples, chunk=chunk, begin=rows):  # noqa: B020
                    run.offer(lambda total=total, rows=rows: total._reached(known, rows))
                rows = 0
            if not names:
                raise LogError("identify.Equations.of: there are no logs")
            if len(names) < len(known):
                run.refuse([f"logs: {len(known)} there, {len(names)} here"])
            if run.found is None or (len(known), 0) != (len(run.found["logs"]), run.found["rows"]):
                run.save(total._reached(known, 0))
            return replace(total, logs=tuple(names), cutoff=cutoff)

    def _reached(self, known: list, rows: int) -> dict:
        """What is saved: so many rows of the last of the logs are in it, or zero for all of them."""
        return {"logs": known, "rows": rows, "factors": self.factors, "counts": self.counts}

    def with_samples(
        self,
        samples: Samples,
        weights: Callable[[np.ndarray], np.ndarray] | None = None,
        chunk: int = CHUNK,
    ) -> Equations:
        """With more samples; each row times the square root of its weight, `weights([Y, τ])`, of (nv, rows)."""
        total = self
        for total, _ in self.growing(samples, weights, chunk):  # noqa: B007
            pass
        return total

    def growing(
        self,
        samples: Samples,
        weights: Callable[[np.ndarray], np.ndarray] | None = None,
        chunk: int = CHUNK,
        begin: int = 0,
    ) -> Iterator[tuple[Equations, int]]:
        """The same piece by piece from a row on, each time with the rows that are in it now."""
        factors, counts = list(self.factors), self.counts.copy()
        for rows, regressor in regressors(self.model, samples, self.slow > 0, chunk, begin):
            tau = samples.tau[rows]
            known = ~np.isnan(tau)
            counts = counts + known.sum(axis=0)
            whole = np.empty((self.model.nv, len(tau), regressor.shape[2] + 1))
            whole[:, :, :-1], whole[:, :, -1] = np.swapaxes(regressor, 0, 1), tau.T
            if not known.all():
                whole[~known.T] = 0
            if weights is not None:
                whole *= np.sqrt(weights(whole))[..., None]
            for dof in range(self.model.nv):
                factors[dof] = condensed(factors[dof], whole[dof])
            yield replace(self, factors=np.stack(factors), counts=counts), rows.stop

    def squares(self, numbers: np.ndarray, measured: float = 1.0) -> np.ndarray:
        """The sums of the squared errors of θ, of each degree of freedom; of `Y θ` alone if none of τ is taken off."""
        return np.sum((self.factors @ np.append(numbers, -measured)) ** 2, axis=1)

    @property
    def torques(self) -> np.ndarray:
        """The root of the mean square of the forces, of each degree of freedom."""
        return np.sqrt(np.sum(self.factors[:, :, -1] ** 2, axis=1) / np.maximum(self.counts, 1))

    def errors(self, model: Model) -> np.ndarray:
        """By how much a model's forces are off from those of the samples: the root of the mean square, of each degree of
        freedom."""
        squares = self.squares(np.asarray(linear_numbers(model), float))
        return np.sqrt(squares / np.maximum(self.counts, 1))


def _look_at(run: Run, known: list, i: int, log: Log) -> None:
    """Whether a log is the one that it was; if it is new, it is noted."""
    own = {"name": log.name, "samples": fingerprint(**{f"log {log.name!r}": log})}
    if i == len(known):
        known.append(own)
    elif known[i]["name"] != own["name"]:
        run.refuse([f"logs: number {i + 1} is {known[i]['name']!r} there, {own['name']!r} here"])
    else:
        run.refuse(differences(known[i]["samples"], own["samples"]))
