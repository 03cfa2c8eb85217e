"""The equations of motion of logs, linear in the parameters of joints and bodies, condensed into triangles.

In each sample, `τ = Y θ` with θ of `linear_numbers`: inertia parameters, armature, damping, friction, stiffness. Only the
triangular factors of `[Y, τ]` over all samples are stored, one for each degree of freedom. They solve any least-squares
problem about these samples, with any weights of the degrees of freedom and any choice of estimated parameters. The factors
are computed in blocks in double precision, so memory does not grow with the log. The normal equations, which halve the
number of significant digits, are not formed.
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


#: Maximum number of samples per block.
CHUNK = 4096


def linear_numbers(model: Model) -> Float[Array, "parameters"]:
    """Returns θ: inertia parameters of all bodies, then armature, damping, friction and stiffness of all joints.

    >>> print(rbd.identify.linear_numbers(rbd.load("pendulum")))
    [ 1.     0.     0.    -1.     1.001  0.     1.001  0.     0.     0.001
      0.     0.     0.     0.   ]
    """
    own = model.armature, model.damping, model.friction, model.stiffness
    row = lambda xp, inertias, *own: xp.concatenate([inertias.reshape(-1), *own])
    return by_numpy(row, model.inertias.parameters, *own)


def with_linear_numbers(model: Model, numbers: Float[Array, "parameters"]) -> Model:
    """Returns the model with these linear parameters.

    Args:
      model: The model.
      numbers: θ in the order of `linear_numbers`.

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
    """Returns Y with `Y θ = inverse_dynamics(model, q, v, a) - passive_force(model, q, v)` for θ = `linear_numbers(model)`.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      a: Acceleration, shape (nv,).
      coulomb: If True, friction is Coulomb's, proportional to the sign of v. By default it is smoothed at rest as in
        `passive_force`.

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
    """Samples of motions with the generalized forces: (n, nq), (n, nv), ...; unknown entries of tau are NaN.

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
    """Returns the samples of a log with known motion, and their generalized forces.

    The forces are the sum of `tau`, the actuator forces under `u`, and the forces of the model's force elements, which are
    not estimated.

    Args:
      model: The model.
      log: The log; it needs `tau` or `u`.
      cutoff: Cutoff frequency in Hz of the smoothing that provides missing velocities or accelerations; see `with_rates`.
      slow: Forces at degrees of freedom below this speed are treated as unknown.

    Raises:
      LogError: If the log does not fit the model, or contains too little data.

    >>> model, t = rbd.load("pendulum"), np.arange(300) / 100
    >>> q, v, a = np.sin(t)[:, None], np.cos(t)[:, None], -np.sin(t)[:, None]
    >>> samples = rbd.identify.samples_of(model, rbd.identify.Log(t, q, v, a, np.zeros((300, 1))))
    >>> print(samples.q.shape, samples.tau.shape)
    (300, 1) (300, 1)
    """
    check_log(model, log)
    log = as_arrived(model, log)
    if log.tau is None and log.u is None:
        raise LogError(f"Log {log.name!r} has neither tau nor u. The driving forces must be known.")
    known = with_rates(model, log, cutoff)
    q, v, a = known.q.values, known.v.values, known.a.values
    whole = ~(np.isnan(q).any(axis=1) | np.isnan(v).any(axis=1) | np.isnan(a).any(axis=1))
    if not whole.any():
        raise LogError(
            f"Log {log.name!r}: no sample has all of q, v and a. Smoothing leaves samples near the ends and near gaps unknown."
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
    """Returns the forces of actuators and force elements in each sample, (n, nv).

    Gravity and the damping, friction and springs of joints are not included.
    """
    found = np.zeros((len(q), model.nv))
    for size, rows in _pieces(len(q), CHUNK):
        given = [_padded(x[rows], size, model.dtype) for x in (q, v, u)]
        found[rows] = np.asarray(_applied(model, *given), float)[: len(found[rows])]
    return found


def as_driven(model: Model, told: bool) -> Model:
    """Returns the model with its actuators if the logs contain their controls, and otherwise without.

    Without controls in the logs, tau includes the actuator forces.
    """
    return model if told else without(model, "actuator")


def without_delays(model: Model) -> Model:
    """Returns the model with undelayed actuators, for controls that already include the delays."""
    prompt = lambda thing: thing.changed(delay=None) if isinstance(thing, Actuator) else thing
    return replace(model, attached=tuple(map(prompt, model.attached)))


def as_arrived(model: Model, log: Log) -> Log:
    """Returns the log with the controls that have arrived at the actuators in each sample; each is held until the next."""
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
    """Raises an error if the force of an actuator depends on more than the current sample."""
    if any(getattr(one, "dynamics", None) is not None for one in model.actuators):
        raise LogError(
            f"Log {log.name!r}: an actuator of model {model.name!r} has dynamics, so its force does not "
            "follow from u alone; give tau"
        )


@compiled
def _applied(model, q, v, u):
    """Returns the generalized forces other than gravity and the damping, friction and springs of joints."""

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
    """Yields blocks of rows and their padded lengths; there are few different lengths, to limit compilation."""
    for start in range(begin, count, chunk):
        left = min(chunk, count - start)
        size = chunk if left == chunk else min(chunk, max(256, 1 << (left - 1).bit_length()))
        yield size, slice(start, start + left)


def _padded(rows: np.ndarray, size: int, dtype) -> np.ndarray:
    return np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)]).astype(dtype)


def regressors(
    model: Model, samples: Samples, coulomb: bool = False, chunk: int = CHUNK, begin: int = 0
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yields blocks of rows of samples with their regressors, (rows, nv, parameters)."""
    for size, rows in _pieces(len(samples), chunk, begin):
        given = [_padded(x[rows], size, model.dtype) for x in (samples.q, samples.v, samples.a)]
        yield rows, np.asarray(_regressors(model, coulomb, *given), float)[: rows.stop - rows.start]


@dataclass(frozen=True, eq=False)
class Equations:
    """All equations of motion of some samples in condensed form.

    For every θ, `‖factors[j] [θ; -1]‖² = Σ (Y θ - τ)²` over the rows of degree of freedom j.

    - `model`: the model.
    - `factors`: a triangle for each degree of freedom, (nv, parameters + 1, parameters + 1).
    - `counts`: number of samples in each triangle.
    - `slow`: the speed limit; if it is positive, friction is Coulomb's, and slower samples are omitted.
    - `logs`: names of the logs.
    - `cutoff`: the cutoff frequency of the smoothing.

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
        """Returns the equations of zero samples."""
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
        """Returns the equations of logs, which are processed sequentially.

        A generator can supply logs that do not fit into memory together.

        Args:
          model: The model; it must not have constraints.
          logs: One or several logs.
          cutoff: Cutoff frequency in Hz of the smoothing that provides missing velocities or accelerations; see
            `with_rates`.
          slow: Samples of a joint below this speed are omitted, and friction is Coulomb's. A joint that reverses sticks for
            a while, and its friction is then not a function of its speed. At 0, all samples are used, and friction is
            smoothed at rest as in `rbd.passive_force`.
          chunk: Number of samples per block.
          checkpoint: File to save progress to and to resume from; see `rbd.Checkpoint`. Further logs may follow the saved
            ones; a generator must supply the same logs again.

        Returns:
          The condensed equations of all logs.

        Raises:
          ModelError: If the model has constraints.
          LogError: If there are no logs, or a log does not fit the model.
        """
        a_model("identify.Equations.of", model)
        if model.constraints:
            raise ModelError(
                f"identify: model {model.name!r} has constraints, whose forces are not known. Pass "
                "rbd.detach(model, 'constraint') if the robot "
                "moves without them, or identify the unconstrained tree."
            )
        chunk = whole_number("identify.Equations.of", "chunk", chunk)
        given = as_logs("identify.Equations.of", logs) if isinstance(logs, Log | list | tuple) else logs
        key = lambda: {"model": model, "cutoff": cutoff, "slow": float(slow), "chunk": chunk}
        with running("identify.Equations.of", checkpoint, key) as run:
            total, names, known, rows = Equations.none(model, slow), [], [], 0
            if run.found:
                known, rows = list(run.found["logs"]), run.found["rows"]
                total = replace(total, factors=run.found["factors"], counts=run.found["counts"])
            # The last known log may have been processed only in part.
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
                raise LogError("identify.Equations.of: there are no logs.")
            if len(names) < len(known):
                run.refuse([f"logs: {len(known)} there, {len(names)} here"])
            if run.found is None or (len(known), 0) != (len(run.found["logs"]), run.found["rows"]):
                run.save(total._reached(known, 0))
            return replace(total, logs=tuple(names), cutoff=cutoff)

    def _reached(self, known: list, rows: int) -> dict:
        """Returns the state to save; `rows` rows of the last log are included, or all if it is zero."""
        return {"logs": known, "rows": rows, "factors": self.factors, "counts": self.counts}

    def with_samples(
        self,
        samples: Samples,
        weights: Callable[[np.ndarray], np.ndarray] | None = None,
        chunk: int = CHUNK,
    ) -> Equations:
        """Returns the equations with additional samples.

        Args:
          samples: The additional samples.
          weights: A function of `[Y, τ]` that returns the weights of the rows, (nv, rows). The rows are multiplied by their
            square roots.
          chunk: Number of samples per block.
        """
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
        """Adds samples as `with_samples` does, and yields the equations and the number of processed rows after each block.

        Args:
          samples: The additional samples.
          weights: As in `with_samples`.
          chunk: Number of samples per block.
          begin: The first row to process.
        """
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
        """Returns the sum of squared errors of θ for each degree of freedom.

        Args:
          numbers: θ in the order of `linear_numbers`.
          measured: Factor of τ; at zero, the result is the sum of squares of `Y θ`.
        """
        return np.sum((self.factors @ np.append(numbers, -measured)) ** 2, axis=1)

    @property
    def torques(self) -> np.ndarray:
        """The root mean square of the generalized forces of each degree of freedom."""
        return np.sqrt(np.sum(self.factors[:, :, -1] ** 2, axis=1) / np.maximum(self.counts, 1))

    def errors(self, model: Model) -> np.ndarray:
        """Returns the root mean square error of a model's forces for each degree of freedom."""
        squares = self.squares(np.asarray(linear_numbers(model), float))
        return np.sqrt(squares / np.maximum(self.counts, 1))


def _look_at(run: Run, known: list, i: int, log: Log) -> None:
    """Checks that a log is the same as in the saved run, and records a new log."""
    own = {"name": log.name, "samples": fingerprint(**{f"log {log.name!r}": log})}
    if i == len(known):
        known.append(own)
    elif known[i]["name"] != own["name"]:
        run.refuse([f"logs: number {i + 1} is {known[i]['name']!r} there, {own['name']!r} here"])
    else:
        run.refuse(differences(known[i]["samples"], own["samples"]))
