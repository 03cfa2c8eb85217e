"""Solving a problem of identification, and what is then known of the values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._arguments import accuracy, instance, number, whole_number
from ..model import Model
from ._basis import basis_of
from ._descent import Descent, answered, found_noise, refuse_failed, root_mean_square
from ._elimination import Eliminated, eliminated
from .estimate import Estimate, ends_first, unseen
from .log import LogError
from .problem import GAPS, Problem, Unknowns, prior_errors, x_of


#: What a last step of Gauss and Newton may still gain where another solver has converged: a half is one standard deviation.
SETTLED = 0.1
#: With so few steps between, the noise of a stochastic search is found anew, in passes over the data.
PASSES = 10
#: A value is at a bound where it hardly moves with its coordinate any more, in units of a usual change.
AT_BOUND = 1e-4
#: Where fewer unknowns than this share of the numbers are fitted, columns are taken to share them by how long they are.
SLIGHT = 0.01


def solve(
    problem: Problem,
    solver: Any = None,
    *,
    start: Model | None = None,
    starts: int = 1,
    scatter: float = 0.5,
    key: Any = None,
    turns: int = 100,
    steps: int = 1000,
    windows: int | None = None,
    on_turn: Callable[[int, float], Any] | None = None,
) -> Estimate:
    """The values that fit the logs of a problem best, with their errors and what the data do not see.

    **Arguments**

    - `solver`: by default the library's own, Gauss and Newton's steps with Levenberg and Marquardt's damping, which passes over
      the windows one by one and never holds all of their derivatives. Or one of `optimistix` for least squares or minimization;
      or a gradient transformation of `optax`, which takes `steps` steps, each on `windows` windows drawn at random. Those have
      converged if another step of Gauss and Newton would gain nothing.
    - `start`: the model to start from, if not the problem's.
    - `starts`: how many searches at once, all but the first from places drawn at random: normal deviates of size `scatter` in
      coordinates without bounds, from `key`. The best is returned.
    - `turns`: the most linearizations of the own solver and iterations of optimistix's.
    - `on_turn`: called with the number of turns so far, and the least loss.
    """
    instance("identify.solve", "problem", problem, Problem, "an identify.Problem")
    starts = whole_number("identify.solve", "starts", starts)
    turns = whole_number("identify.solve", "turns", turns)
    began = problem.start(start)
    refuse_failed(problem, began)
    if solver is not None:
        if starts > 1:
            raise ValueError(
                "identify.solve: starts is for the library's own solver; give the others a start each"
            )
        return outcome(problem, _by_others(problem, solver, began, turns, steps, windows, key), SETTLED)
    return outcome(problem, _searched(problem, began, starts, scatter, key, turns, on_turn))


def _searched(problem, began, starts, scatter, key, turns, on_turn) -> Descent:
    """The best of some searches."""
    places = np.repeat(np.asarray(began.x, float)[None], starts, axis=0)
    if starts > 1:
        scatter = number("identify.solve", "scatter", scatter, least=0)
        key = jax.random.key(0) if key is None else key
        places[1:] += float(scatter) * np.asarray(jax.random.normal(key, (starts - 1, len(began.x))))
    searches = [Descent(problem, x, np.asarray(began.states, float)) for x in places]
    told = 0
    for _ in answered([search.advance(turns) for search in searches], problem):
        turn = max(search.turn for search in searches)
        if on_turn is not None and turn > told:
            told = turn
            on_turn(turn, min(search.loss for search in searches))
    found = [search for search in searches if np.isfinite(search.loss)]
    if not found:
        raise LogError("identify.solve: no search has found a place where all windows can be simulated")
    # Losses are in units of the noise that each search has found.
    return min(found, key=lambda search: search.loss + float(problem.counts @ np.log(search.noise)))


def _by_others(problem, solver, began: Unknowns, turns, steps, windows, key) -> Descent:
    """By a solver of optax or optimistix."""
    if hasattr(solver, "init") and hasattr(solver, "update") and not hasattr(solver, "step"):
        unknowns = _by_optax(problem, solver, began, steps, windows, key)
    else:
        unknowns = _by_optimistix(problem, solver, began, turns)
    search = Descent(problem, np.asarray(unknowns.x, float), np.asarray(unknowns.states, float))
    search.stage, search.leaves_out = len(GAPS) - 1, True
    for _ in answered([search.advance(0)], problem):  # which finds the noise
        pass
    return search


def _by_optimistix(problem: Problem, solver, began: Unknowns, turns: int) -> Unknowns:
    import optimistix

    if isinstance(solver, optimistix.AbstractMinimiser):
        return optimistix.minimise(
            lambda unknowns, _: problem.loss(unknowns), solver, began, max_steps=turns, throw=False
        ).value
    if not isinstance(solver, optimistix.AbstractLeastSquaresSolver):
        raise TypeError(
            f"identify.solve: solver is {solver!r}; it is a gradient transformation of optax, or one of optimistix's for least "
            "squares or minimization"
        )
    if problem.robust:
        raise ValueError(
            "identify.solve: residuals are for least squares; robust problems are for minimizers, or solver=None"
        )
    unknowns = began
    # The noise of one search is that of the errors which the one before has left.
    for _ in range(1 if np.isfinite(problem.given_noise).all() else 3):
        weighted = problem.with_noise(_noise(problem, unknowns))
        residuals = lambda unknowns, _, weighted=weighted: weighted.residuals(unknowns)
        unknowns = optimistix.least_squares(residuals, solver, unknowns, max_steps=turns, throw=False).value
    return unknowns


def _by_optax(
    problem: Problem, solver: Any, began: Unknowns, steps: int, windows: int | None, key
) -> Unknowns:
    """Stochastic gradients, each of some windows. The device holds no others."""
    import optax

    steps = whole_number("identify.solve", "steps", steps)
    count = len(problem.windows)
    size = count if windows is None else min(count, whole_number("identify.solve", "windows", windows))
    if problem.states and problem.compare.nodes == "joined" and size < count:
        raise ValueError(
            "identify.solve: windows that are joined are not drawn one by one; take nodes='free' or 'measured', or all windows"
        )
    random = np.random.default_rng(0 if key is None else np.asarray(jax.random.key_data(key)).tolist())

    @eqx.filter_jit
    def stepped(some, rows, noise, unknowns, memory):
        def loss(unknowns):
            part = unknowns._replace(states=unknowns.states[rows])
            return problem.loss_of(some, part, noise, count / size)

        value, slope = jax.value_and_grad(loss)(unknowns)
        updates, memory = solver.update(slope, memory, unknowns)
        return optax.apply_updates(unknowns, updates), memory, value

    unknowns: Any = began
    memory, noise = solver.init(began), problem.given_noise
    for done in range(steps):
        if done % (PASSES * max(1, count // size)) == 0:
            noise = _noise(problem, unknowns)
        rows = np.arange(count) if size == count else random.choice(count, size, replace=False)
        some = jax.tree.map(lambda x, rows=rows: x[rows], problem.windows)
        unknowns, memory, value = stepped(some, rows, noise, unknowns, memory)
        if not np.isfinite(float(value)):
            raise FloatingPointError(
                f"identify.solve: the loss is {value} after {done} steps; take smaller ones"
            )
    return unknowns


def _noise(problem: Problem, unknowns: Unknowns) -> np.ndarray:
    return found_noise(problem, np.asarray(problem.errors(unknowns)[0], float))


def outcome(problem: Problem, search: Descent, settled: float | None = None) -> Estimate:
    """The estimate at the end of a search; with `settled` it has converged if there is no more than that to gain."""
    parameters, unknowns = problem.parameters, search.unknowns()
    errors = np.asarray(problem.errors(unknowns)[0], float)
    values, slopes = (np.asarray(y, float) for y in _values(parameters, unknowns.x))
    at = Unknowns(jnp.asarray(values, problem.model.dtype), unknowns.states)
    rest, known = (np.asarray(y, float) for y in _prior_by_values(parameters, at.x))
    usual = _usual(parameters)
    fixed = np.abs(slopes).max(axis=1, initial=0) < AT_BOUND * usual
    tolerance, column_of = accuracy(problem.model.dtype), problem.windows.column_of()
    spread = search.spread(errors)

    def about(noise, columns=slice(None)):
        """The windows in units of this noise, of some columns alone."""
        size = np.full(len(noise), np.inf)
        size[columns] = (spread * noise / search.noise)[columns]
        weights = (search.weights(errors) / size[column_of]).astype(problem.model.dtype)
        return problem.linearized([(at, weights, search.gap_size)], by_values=True)[0]

    def least(left):
        """Least squares in the values."""
        data = left.triangle
        norms = np.sqrt(np.sum(data[:, :-1] ** 2, axis=0))
        shows = norms > tolerance * norms.max(initial=0)
        scale = np.where(shows, 1 / np.where(shows, norms, 1), np.maximum(np.abs(values), usual))
        basis = basis_of(data[:, :-1], known, scale, ~fixed, tolerance)
        return scale, basis, basis.least_squares(data[:, :-1], known, np.concatenate([data[:, -1], rest]))

    left = eliminated(about(search.noise), 0.0)
    scale, basis, best = least(left)
    noise = _whole_noise(problem, search.noise, left, best.root @ best.root.T, about)
    if not np.array_equal(noise, search.noise):
        scale, basis, best = least(eliminated(about(noise), 0.0))
    covariance = best.root @ best.root.T
    deviations = np.where(basis.loose(scale), np.inf, np.sqrt(np.diag(covariance)))
    found = jnp.asarray(values, problem.model.dtype)
    return Estimate(
        parameters=parameters,
        model=parameters.with_values(found),
        values=values,
        covariance=covariance,
        standard_errors=deviations,
        columns=problem.columns,
        counts=problem.counts,
        noise=noise,
        errors=root_mean_square(problem, errors),
        seen=unseen(
            np.concatenate([basis.hidden / scale, np.eye(len(values))[fixed]]), scale, ends_first(parameters)
        ),
        at_bounds=tuple(name for name, at in zip(parameters.names, fixed) if at),
        iterations=search.turn,
        converged=search.converged if settled is None else best.gain < settled,
        states=problem.states * (len(problem.windows) - int(np.sum(problem.windows.goes_on))),
    )


def _whole_noise(problem: Problem, noise, left: Eliminated, of_values, about) -> np.ndarray:
    """The noise that was found, with what fitting has taken from the errors: of each column, `n / (n - used)` times its square.

    `used` is the trace of the part of the projection on what is fitted that is the column's. All columns together use as many
    as there are unknowns that data decide.
    """
    counts, find = problem.counts, np.isnan(problem.given_noise)
    if not find.any():
        return noise
    covariances = left.covariances(of_values)
    share = lambda linear: float(np.sum((linear.own[..., :-1] @ covariances) * linear.own[..., :-1]))
    used = share(about(noise)) * counts / max(counts.sum(), 1)
    # Only where it says something it is worth a pass over the data for each column.
    if len(counts) > 1 and (used > SLIGHT * counts).any():
        used = np.array([share(about(noise, i)) for i in range(len(counts))])
    whole = noise * np.sqrt(counts / np.maximum(counts - used, 1))
    return np.where(find & (counts > 0), whole, noise)


def _usual(parameters) -> np.ndarray:
    """A usual change of each value: what one unit without bounds is, at the model."""
    x = x_of(parameters, parameters.reference)
    return np.maximum(np.abs(np.asarray(_values(parameters, x)[1], float)).max(axis=1, initial=0), 1e-12)


@eqx.filter_jit
def _prior_by_values(parameters, values):
    through = lambda values: prior_errors(parameters, values)
    return through(jnp.asarray(values)), jax.jacfwd(through)(jnp.asarray(values))


@eqx.filter_jit
def _values(parameters, x):
    x = jnp.asarray(x)
    return parameters.values(x), jax.jacfwd(lambda x: parameters.values(x))(x)
