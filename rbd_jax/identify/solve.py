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
from ._descent import Descent, answered, refuse_failed, root_mean_square
from ._elimination import eliminated
from .estimate import Estimate, ends_first, unseen
from .log import LogError
from .problem import Problem, Unknowns, prior_errors


#: A value is at a bound where it hardly moves with its coordinate any more, in units of a usual change.
AT_BOUND = 1e-4


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
      or a gradient transformation of `optax`, which takes `steps` steps, each on `windows` windows drawn at random.
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
        search = _by_others(problem, solver, began, turns, steps, windows, key)
    else:
        search = _searched(problem, began, starts, scatter, key, turns, on_turn)
    return outcome(problem, search)


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
    """By a solver of optax or optimistix. Noise that is not given is that at the start of each pass."""
    if hasattr(solver, "init") and hasattr(solver, "update"):
        unknowns = _by_optax(problem, solver, began, steps, windows, key)
    else:
        unknowns = _by_optimistix(problem, solver, began, turns)
    search = Descent(problem, np.asarray(unknowns.x, float), np.asarray(unknowns.states, float))
    search.stage = 2
    for _ in answered([search.advance(0)], problem):
        pass
    search.converged = bool(np.isfinite(search.x).all())
    return search


def _by_optimistix(problem: Problem, solver, began: Unknowns, turns: int) -> Unknowns:
    import optimistix

    given = np.isfinite(problem.given_noise).all() and not problem.robust
    if isinstance(solver, optimistix.AbstractMinimiser):
        loss = lambda unknowns, _: problem.loss(unknowns)
        return optimistix.minimise(loss, solver, began, max_steps=turns, throw=False).value
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
    for _ in range(1 if given else 3):
        noise = problem.given_noise
        if not given:
            errors = np.asarray(problem.errors(unknowns)[0], float)
            noise = np.where(np.isfinite(noise), noise, np.maximum(root_mean_square(problem, errors), 1e-12))
        weighted = problem.with_noise(noise)
        residuals = lambda unknowns, _, weighted=weighted: weighted.residuals(unknowns)
        unknowns = optimistix.least_squares(residuals, solver, unknowns, max_steps=turns, throw=False).value
    return unknowns


def _by_optax(
    problem: Problem, solver: Any, began: Unknowns, steps: int, windows: int | None, key
) -> Unknowns:
    """Stochastic gradients: each step on some windows, the noise that of a first pass and then of each pass."""
    import optax

    steps = whole_number("identify.solve", "steps", steps)
    count = len(problem.windows)
    size = count if windows is None else min(count, whole_number("identify.solve", "windows", windows))
    if problem.states and problem.compare.nodes == "joined" and size < count:
        raise ValueError(
            "identify.solve: windows that are joined are not drawn one by one; take nodes='free' or 'measured', or all windows"
        )
    random = np.random.default_rng(0 if key is None else np.asarray(jax.random.key_data(key)).tolist())
    unknowns: Any = began
    memory = solver.init(began)
    each, weighted = max(1, count // size), problem

    @eqx.filter_jit
    def stepped(weighted, rows, share, unknowns, memory):
        def loss(unknowns):
            part = unknowns._replace(states=unknowns.states[rows])
            return weighted.loss_of(rows, part, share)

        value, slope = jax.value_and_grad(loss)(unknowns)
        updates, memory = solver.update(slope, memory, unknowns)
        return optax.apply_updates(unknowns, updates), memory, value

    for number_ in range(steps):
        if number_ % each == 0 and not np.isfinite(problem.given_noise).all() and number_ % (10 * each) == 0:
            errors = np.asarray(problem.errors(unknowns)[0], float)
            noise = np.maximum(root_mean_square(problem, errors), 1e-12)
            weighted = problem.with_noise(
                np.where(np.isfinite(problem.given_noise), problem.given_noise, noise)
            )
        rows = np.arange(count) if size == count else random.choice(count, size, replace=False)
        unknowns, memory, value = stepped(weighted, rows, count / size, unknowns, memory)
        if not np.isfinite(float(value)):
            raise FloatingPointError(
                f"identify.solve: the loss is {value} after {number_} steps; take smaller ones"
            )
    return unknowns


def outcome(problem: Problem, search: Descent) -> Estimate:
    """The estimate at the end of a search."""
    parameters, unknowns = problem.parameters, search.unknowns()
    errors = np.asarray(problem.errors(unknowns)[0], float)
    values, slopes = (np.asarray(y, float) for y in _values(parameters, unknowns.x))
    at = Unknowns(jnp.asarray(values, problem.model.dtype), unknowns.states)
    (linear,) = problem.linearized([(at, search.weights(errors), search.gap_size)], by_values=True)
    size, usual = len(values), _usual(parameters)
    fixed = np.abs(slopes).max(axis=1, initial=0) < AT_BOUND * usual
    free = np.flatnonzero(~fixed)
    data = eliminated(linear, 0.0).triangle[:, free]
    prior = np.asarray(_prior_by_values(parameters, at.x), float)[:, free]
    norms = np.sqrt(np.sum(data**2, axis=0))
    tolerance = accuracy(problem.model.dtype)
    shows = norms > tolerance * norms.max(initial=0) if len(free) else np.zeros(0, bool)
    scale = np.where(shows, 1 / np.where(shows, norms, 1), np.maximum(np.abs(values[free]), usual[free]))
    _, sizes, ways = np.linalg.svd(
        np.concatenate([data * scale, np.zeros((len(free),) * 2)]), full_matrices=False
    )
    rank = int(np.sum(sizes > tolerance * sizes.max(initial=0)))
    hidden = np.zeros((len(free) - rank + int(fixed.sum()), size))
    hidden[: len(free) - rank, free] = ways[rank:]
    hidden[len(free) - rank + np.arange(int(fixed.sum())), np.flatnonzero(fixed)] = 1
    whole_scale = np.maximum(np.abs(values), usual)
    whole_scale[free] = scale
    covariance, lost = _covariance(data, prior, scale, ways, rank)
    full = np.zeros((size, size))
    full[np.ix_(free, free)] = covariance
    deviations = np.sqrt(np.maximum(np.diag(full), 0))
    deviations[free[lost]] = np.inf
    found = jnp.asarray(values, problem.model.dtype)
    return Estimate(
        parameters=parameters,
        model=parameters.with_values(found),
        values=values,
        covariance=full,
        standard_errors=deviations,
        columns=problem.columns,
        counts=problem.counts,
        noise=search.noise,
        errors=root_mean_square(problem, errors),
        seen=unseen(hidden, whole_scale, ends_first(parameters)),
        at_bounds=tuple(name for name, at in zip(parameters.names, fixed) if at),
        iterations=search.turn,
        converged=search.converged,
    )


def _covariance(data, prior, scale, ways, rank):
    """Of the values, with the data for what they see and what was known beforehand for all; and which nothing holds."""
    seen, hidden = ways[:rank].T * scale[:, None], ways[rank:].T * scale[:, None]
    held = prior[:, :-1] @ hidden if prior.shape[1] > data.shape[1] else prior @ hidden
    _, sizes, turns = np.linalg.svd(
        np.concatenate([held, np.zeros((hidden.shape[1],) * 2)]), full_matrices=False
    )
    count = int(np.sum(sizes > 1e-9 * sizes.max(initial=0))) if sizes.size and sizes.max() > 0 else 0
    kept, lost = hidden @ turns[:count].T, hidden @ turns[count:].T
    change = np.concatenate([seen, kept], axis=1)
    by_data = data @ change
    by_data[:, rank:] = 0.0
    rows = np.concatenate([by_data, prior @ change])
    r = np.linalg.qr(rows, mode="r")
    root = change @ np.linalg.solve(r, np.eye(len(r))) if len(r) else change
    loose = np.abs(lost / scale[:, None]).max(axis=1, initial=0) > 1e-6
    return root @ root.T, loose


def _usual(parameters) -> np.ndarray:
    """A usual change of each value: what one unit without bounds is, at the model."""
    x = parameters.x_of(parameters.reference)
    return np.maximum(np.abs(np.asarray(_values(parameters, x)[1], float)).max(axis=1, initial=0), 1e-12)


@eqx.filter_jit
def _prior_by_values(parameters, values):
    return jax.jacfwd(lambda values: prior_errors(parameters, values))(jnp.asarray(values))


@eqx.filter_jit
def _values(parameters, x):
    x = jnp.asarray(x)
    return parameters.values(x), jax.jacfwd(lambda x: parameters.values(x))(x)
