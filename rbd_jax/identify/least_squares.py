"""Estimators that are linear in what is free: least squares, weighted and robust, and the same with bodies that can be.

Both see the data as `Equations` alone. The noise of each degree of freedom is found with the values, by turns: weights are
its inverse square. `physical_least_squares` adds, for every free inertia, the distance

    D(P ‖ P₀) = tr(P₀⁻¹ P) - log det(P₀⁻¹ P) - 4

of its pseudo-inertia to what was thought before, over the square of the relative deviation of that. D is convex in the inertia
parameters, infinite where a body ceases to be possible, the same in every frame, and for small changes the sum of their
relative squares: it is the entropic (Bregman) divergence of Lee, Wensing & Park (2020), and the barrier of the convex
problem at once. So there is one minimum, which Newton's method finds, and along what data do not see it is where D is least.
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


#: The most times that a robust estimate weighs the data anew, and how many of them at most in Huber's way.
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
    """The values with which the model's forces are nearest to those measured, each degree of freedom weighted by its noise.

    Bounds and priors of the kinds hold. Bodies need not be possible: see `physical_least_squares`. Along what the data do
    not see nothing is changed, and `unobservable` says what that is.

    **Arguments**

    - `logs`: one or several runs, or their `Equations`, made before.
    - `free`: what is free: kinds on which forces depend linearly, such as `inertias`, `masses`, `damping`, `coulomb`, `armature`,
      `stiffness`.
    - `robust`: let errors count the less the larger they are beside the noise, and beyond 4.7 times the noise not at all (Tukey's
      biweight, begun by Huber's), so that outliers do not count. The data are passed several times.
    - `cutoff`, `slow`: of the smoothing where velocities or accelerations are missing, in Hz, and the speed below which
      friction is not asked for: see `Equations.of`.
    - `checkpoint`: a file to which the pass over the logs is saved on the way, and from which it goes on: see `Equations.of`.
      Whatever is free, the same file will do. Robust estimates are saved after each pass but the first, and go on with the
      same that is free.

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
    """`least_squares` with bodies that can be: every free inertia is that of a mass that is nowhere negative.

    What the data do not see is decided by what was known before: the inertias of `model`, each within the `spread` of
    `identify.inertias` (100 % by default). Standard errors include that. The arguments are those of `least_squares`.

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
    """The model with inertias that bodies can have, and that extend in all directions: the others are changed.

    Mass and centre of mass stay. The second moments about that are given the eigenvalues that they have, but none below
    `thinnest` of the largest. Bodies without mass stay as they are.

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
            f"{owner}: checkpoint is for passes over logs, and these Equations are made already, so leave it out"
        )
    parameters = of_model(owner, model, free)
    for kind in parameters.kinds:
        if not kind.linear:
            raise ModelError(f"{owner}: forces are not linear in what {kind.owner} frees; leave it out here")
    given, samples = [], []
    if isinstance(logs, Equations):
        equations, cutoff, slow = logs, logs.cutoff, logs.slow
        if logs.model.body_names != model.body_names or logs.model.joint_names != model.joint_names:
            raise LogError(
                f"{owner}: the Equations are of model {logs.model.name!r}, which has other bodies or joints than {model.name!r}"
            )
        if robust:
            raise LogError(
                f"{owner}: robust estimates look at every sample again; give the logs, not their Equations"
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
    """What decides on the numbers of a robust estimate, beside who asks."""
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
    """Tukey's estimate from one of Huber's, by weighted least squares in turns. The noise is the median of the errors' sizes,
    as that of a normal one, with what fitting has taken from them. It is saved between turns."""
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
    """`Y θ - τ` of each sample; NaN where τ is."""
    found = regressors(equations.model, samples, equations.slow > 0)
    parts = [regressor @ numbers[:-1] - samples.tau[rows] for rows, regressor in found]
    return np.concatenate(parts)


def _look(owner: str, model: Model, equations: Equations, parameters: Parameters, physical: bool) -> None:
    """Whether there is enough, and in the units meant."""
    count = int(equations.counts.sum())
    if not physical and count < parameters.size and not np.isfinite(np.asarray(parameters.prior()[1])).all():
        raise LogError(
            f"{owner}: there are {count} measured forces and {parameters.size} free parameters; record "
            "more, free less, or say what is known "
            "of them by priors"
        )
    predicted = equations.squares(np.asarray(linear_numbers(model), float), 0.0)
    measured = equations.torques**2 * np.maximum(equations.counts, 1)
    both = (predicted + measured - equations.squares(np.asarray(linear_numbers(model), float))) / 2
    look_at_forces(owner, _columns(model), measured, predicted, both)


def _columns(model: Model) -> tuple[str, ...]:
    return tuple(f"tau {name}" for name in columns_of(model, "tau")[0])
