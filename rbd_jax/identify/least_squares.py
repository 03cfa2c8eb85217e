"""Linear estimators: weighted and robust least squares, without or with physically consistent inertias.

Both estimators reduce the data to `Equations`. They alternate between the values and the noise of each degree of freedom;
the weights are the inverse square of the noise. `physical_least_squares` adds, for every estimated inertia, the divergence

    D(P ‖ P₀) = tr(P₀⁻¹ P) - log det(P₀⁻¹ P) - 4

of its pseudo-inertia P from the prior P₀, divided by the square of the relative standard deviation of the prior. D is
convex in the inertia parameters, infinite at the boundary of the physically consistent inertias, and the same in every
frame. For small changes it equals the sum of their relative squares. It is the entropic (Bregman) divergence of Lee,
Wensing & Park (2020), and also the barrier of the convex problem. Therefore there is a single minimum, which Newton's
method finds. Along unobservable directions, D determines the result.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._core.arguments import a_model
from .._core.errors import ModelError
from ..checkpoints import Checkpoint, Run, running
from ..model import Model
from ..spatial.inertia import Inertia
from ._linear import LinearProblem, Solution
from .equation_error import EquationError
from .equations import Equations, Samples, linear_numbers, regressors, samples_of
from .estimate import Estimate
from .kind import Kind
from .log import Log, LogError, as_logs, columns_of
from .parameters import Parameters, of_model
from .plausibility import look_at_forces, look_at_rest, noise_of
from .robust import huber, scatter, tukey


#: Maximum number of reweighting iterations of a robust estimate, and how many of them at most use Huber's weights.
ROBUST_TURNS, HUBER_TURNS = 40, 10


def least_squares(
    model: Model,
    logs: Log | Iterable[Log] | Equations,
    free: Kind | Sequence[Kind] | Parameters,
    *,
    robust: bool = False,
    cutoff: float | int | None = None,
    slow: float | int = 0.0,
    checkpoint: Checkpoint | str | os.PathLike | None = None,
) -> Estimate:
    """Estimates parameters by least squares of the forces, weighted by the noise of each degree of freedom.

    Bounds and priors of the parameter groups apply. Inertias may be physically inconsistent: see `physical_least_squares`.
    The estimate changes nothing along unobservable directions, which `unobservable` describes.

    Args:
      model: The initial model.
      logs: One or several runs, or their precomputed `Equations`.
      free: Parameter groups on which forces depend linearly, such as `inertias`, `masses`, `damping`, `coulomb`,
        `armature`, `stiffness`.
      robust: If True, large errors have less weight, and errors beyond 4.7 times the noise are ignored. The weights are
        Tukey's biweight, preceded by Huber's. This requires several passes over the data.
      cutoff: Cutoff frequency in Hz of the smoothing that provides missing velocities or accelerations; see `Equations.of`.
      slow: Speed below which samples are omitted because of friction; see `Equations.of`.
      checkpoint: File to save progress to and to resume from; see `Equations.of`. The saved pass over the logs is valid for
        any choice of parameters. Robust estimates are saved after each further pass and resume only with the same
        parameters.

    Returns:
      The estimate with its uncertainty.

    Raises:
      ModelError: If forces are not linear in the parameters.
      LogError: If a log does not fit the model, or the logs contain too little data.

    >>> model, t = rbd.load("pendulum"), np.arange(300) / 100
    >>> q, v, a = np.sin(t)[:, None], np.cos(t)[:, None], -np.sin(t)[:, None]
    >>> tau = jax.vmap(lambda *x: 1.5 * rbd.inverse_dynamics(model, *x) + 0.2 * x[1])(q, v, a)
    >>> log = rbd.identify.Log(t, q, v, a, tau)
    >>> found = rbd.identify.least_squares(model, log, [rbd.identify.masses(), rbd.identify.damping()])
    >>> print(found.values, found.parameters.names)
    [1.5 0.2] ('bob mass', 'swing damping')
    """
    return _estimated("least_squares", model, logs, free, robust, cutoff, slow, checkpoint, physical=False)


def physical_least_squares(
    model: Model,
    logs: Log | Iterable[Log] | Equations,
    free: Kind | Sequence[Kind] | Parameters,
    *,
    robust: bool = False,
    cutoff: float | int | None = None,
    slow: float | int = 0.0,
    checkpoint: Checkpoint | str | os.PathLike | None = None,
) -> Estimate:
    """Estimates parameters like `least_squares`, with physically consistent inertias.

    Every estimated inertia is that of a nonnegative mass distribution. Along unobservable directions the prior determines
    the result: the inertias of `model`, each within the `spread` of `identify.inertias` (100 % by default). Standard errors
    include the prior.

    Args:
      model: The initial model.
      logs: As in `least_squares`.
      free: As in `least_squares`.
      robust: As in `least_squares`.
      cutoff: As in `least_squares`.
      slow: As in `least_squares`.
      checkpoint: As in `least_squares`.

    Returns:
      The estimate with its uncertainty.

    >>> model, t = rbd.load("pendulum"), np.arange(300) / 100
    >>> q, v, a = np.sin(t)[:, None], np.cos(t)[:, None], -np.sin(t)[:, None]
    >>> tau = jax.vmap(lambda *x: 1.5 * rbd.inverse_dynamics(model, *x))(q, v, a)
    >>> log = rbd.identify.Log(t, q, v, a, tau)
    >>> found = rbd.identify.physical_least_squares(model, log, rbd.identify.inertias())
    >>> print(found.model.inertias.is_physical, found.rank)
    [ True] 3
    """
    return _estimated(
        "physical_least_squares", model, logs, free, robust, cutoff, slow, checkpoint, physical=True
    )


def made_physical(model: Model, thinnest: float = 1e-2) -> Model:
    """Returns the model with physically consistent inertias that extend in all directions; consistent inertias are unchanged.

    Mass and center of mass are preserved. The eigenvalues of the second moments about the center of mass are raised to at
    least `thinnest` times the largest one. Massless bodies are unchanged.

    Args:
      model: The model.
      thinnest: Smallest ratio of an eigenvalue to the largest one.

    >>> thin = rbd.Inertia.from_mass_com(1.0, jnp.zeros(3), jnp.diag(jnp.array([1.0, 1.0, 3.0])))
    >>> builder = rbd.ModelBuilder()
    >>> _ = builder.add_body("plate", joint=rbd.joints.Revolute(), inertia=thin)
    >>> rbd.identify.made_physical(builder.build()).inertias.is_physical
    Array([ True], dtype=bool)
    """
    a_model("identify.made_physical", model)
    own = model.inertias
    P = np.array(own.pseudo_inertia, float)
    mass, com = np.asarray(own.mass, float), np.asarray(own.com, float)
    parameters = np.array(own.parameters, float)
    for body in np.flatnonzero(mass > 0):
        central = P[body, :3, :3] - mass[body] * np.outer(com[body], com[body])
        values, axes = np.linalg.eigh(central)
        largest = max(values.max(), 1e-9 * mass[body])
        if values.min() >= thinnest * largest:
            continue
        fixed = (axes * np.maximum(values, thinnest * largest)) @ axes.T
        P[body, :3, :3] = fixed + mass[body] * np.outer(com[body], com[body])
        parameters[body] = np.asarray(Inertia.from_pseudo_inertia(jnp.asarray(P[body])).parameters)
    return replace(model, inertias=Inertia.from_parameters(jnp.asarray(parameters, model.dtype)))


def _estimated(owner, model, logs, free, robust, cutoff, slow, checkpoint, physical) -> Estimate:
    owner = f"identify.{owner}"
    a_model(owner, model)
    if checkpoint is not None and isinstance(logs, Equations):
        raise ValueError(
            f"{owner}: checkpoint saves passes over logs, but these Equations are made already. Omit checkpoint."
        )
    parameters = of_model(owner, model, free)
    for kind in parameters.kinds:
        if not kind.linear:
            raise ModelError(f"{owner}: forces are not linear in what {kind.owner} estimates; omit it here")
    given, samples = [], []
    if isinstance(logs, Equations):
        equations, cutoff, slow = logs, logs.cutoff, logs.slow
        if logs.model.body_names != model.body_names or logs.model.joint_names != model.joint_names:
            raise LogError(
                f"{owner}: the Equations are of model {logs.model.name!r}, whose bodies or joints differ from {model.name!r}."
            )
        if robust:
            raise LogError(
                f"{owner}: robust estimates need every sample. Instead of the Equations, give the logs."
            )
    elif robust:
        given = as_logs(owner, logs)
        samples = [samples_of(model, log, cutoff, slow) for log in given]
        equations = Equations.none(model, slow)
        for one in samples:
            equations = equations.with_samples(one)
    else:
        equations = Equations.of(model, logs, cutoff=cutoff, slow=slow, checkpoint=checkpoint)
    _look(owner, model, equations, parameters, physical)
    problem = LinearProblem.of(parameters, equations, physical)
    if robust:
        key = lambda: _what(model, given, parameters, cutoff, slow)
        with running(owner, checkpoint, key) as run:
            solution = _robust(problem, equations, samples, run)
    else:
        solution = problem.solved()
    bound = [name for name, at in zip(parameters.names, solution.fixed) if at]
    hidden = problem.hidden()
    errors = solution.errors
    if len(solution.lost):
        loose = np.abs(solution.lost / problem.scale).max(axis=0) > 1e-6
        errors = np.where(loose, np.inf, errors)
    if isinstance(logs, Log | list | tuple):
        noise = noise_of(as_logs(owner, logs), "tau", model.nv)
        look_at_rest(owner, _columns(model), solution.noise, equations.torques, noise)
    values = jnp.asarray(solution.values, model.dtype)
    return Estimate(
        parameters=parameters,
        model=parameters.with_values(values),
        values=solution.values,
        covariance=solution.covariance,
        standard_errors=errors,
        noise=solution.noise,
        errors=np.sqrt(problem.squares(solution.values) / np.maximum(equations.counts, 1)),
        seen=hidden,
        columns=_columns(model),
        counts=equations.counts,
        at_bounds=tuple(bound),
        iterations=solution.turns,
        converged=solution.converged,
        compare=EquationError(("tau",), cutoff=cutoff, slow=slow),
    )


def _what(model: Model, logs: Sequence[Log], parameters: Parameters, cutoff, slow) -> dict[str, Any]:
    """Returns what determines a robust estimate, as the key of its checkpoint."""
    return {
        "logs": [log.name for log in logs],
        "free": parameters.names,
        "cutoff": cutoff,
        "slow": float(slow),
        "kinds": parameters.kinds,
        "model": model,
        "log": {log.name: log for log in logs},
    }


def _robust(problem: LinearProblem, equations: Equations, samples: list[Samples], run: Run) -> Solution:
    """Computes Tukey's estimate, starting from Huber's, by iteratively reweighted least squares.

    The noise is estimated from the median of the absolute errors, scaled as for a normal distribution, with a correction
    for the fitted parameters. The state can be saved between iterations.
    """
    model, settled, turn = equations.model, False, 0
    noise, weighing, whole = np.zeros(model.nv), huber, np.ones(model.nv)
    if run.found:
        noise, whole, turn, settled = (run.found[name] for name in ("noise", "whole", "turn", "settled"))
        solution, weighing = Solution(**run.found["solution"]), tukey if run.found["tukey"] else huber
    else:
        solution = problem.solved()
    begun = turn
    reached = lambda: {
        "solution": {one.name: getattr(solution, one.name) for one in fields(solution)},
        "noise": noise,
        "whole": whole,
        "tukey": weighing is tukey,
        "turn": turn,
        "settled": settled,
    }
    while turn < ROBUST_TURNS and not settled:
        turn += 1
        numbers = np.append(problem.numbers_of(solution.values), -1.0)
        errors = np.concatenate([_errors(equations, one, numbers) for one in samples])
        last, noise = noise, np.nan_to_num(np.nanmedian(np.abs(errors), axis=0)) * 1.4826 * whole
        noise = np.maximum(noise, problem.floor)
        if weighing is huber and (turn > HUBER_TURNS or np.all(np.abs(noise - last) <= 0.1 * noise)):
            weighing = tukey
        scale = noise[:, None]
        weights = lambda whole, numbers=numbers, scale=scale, weighing=weighing: weighing(
            np.abs(whole @ numbers) / scale
        )[0]
        weighted = Equations.none(model, equations.slow)
        for one in samples:
            weighted = weighted.with_samples(one, weights)
        inner = problem.with_equations(weighted)
        moved = inner.solved(noise, solution.values)
        step, within = np.abs(moved.values - solution.values), solution.errors
        spread = np.maximum(noise * scatter(weighing, np.abs(errors) / noise), problem.floor)
        solution = replace(moved, covariance=inner.covariance(spread, moved))
        left = np.maximum(problem.counts - inner.used(solution.covariance, spread), 1)
        whole = np.sqrt(np.maximum(problem.counts, 1) / left)
        settled = weighing is tukey and bool(np.all(step <= 1e-2 * within + 1e-11 * np.abs(solution.values)))
        run.offer(reached)
    if turn != begun:
        run.save(reached())
    return replace(solution, noise=noise, turns=turn, converged=settled)


def _errors(equations: Equations, samples: Samples, numbers: np.ndarray) -> np.ndarray:
    """Returns `Y θ - τ` of each sample; NaN where τ is NaN."""
    found = regressors(equations.model, samples, equations.slow > 0)
    parts = [regressor @ numbers[:-1] - samples.tau[rows] for rows, regressor in found]
    return np.concatenate(parts)


def _look(owner: str, model: Model, equations: Equations, parameters: Parameters, physical: bool) -> None:
    """Checks the amount of data and the units of the forces."""
    count = int(equations.counts.sum())
    if not physical and count < parameters.size and not np.isfinite(np.asarray(parameters.prior()[1])).all():
        raise LogError(
            f"{owner}: there are {count} measured forces and {parameters.size} free parameters; record "
            "more, free less, or give "
            "priors for them"
        )
    predicted = equations.squares(np.asarray(linear_numbers(model), float), 0.0)
    measured = equations.torques**2 * np.maximum(equations.counts, 1)
    both = (predicted + measured - equations.squares(np.asarray(linear_numbers(model), float))) / 2
    look_at_forces(owner, _columns(model), measured, predicted, both)


def _columns(model: Model) -> tuple[str, ...]:
    return tuple(f"tau {name}" for name in columns_of(model, "tau")[0])
