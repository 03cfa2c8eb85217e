"""Solving a problem of identification, and what is then known of the values."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._core.arguments import accuracy, instance, number, whole_number
from .._core.errors import ModelError
from ..checkpoints import Checkpoint, Run, plain_leaves, running, with_leaves
from ..model import Model
from ._basis import basis_of
from ._descent import LAST, Descent, answered, found_noise, refuse_failed, root_mean_square
from ._elimination import Eliminated, eliminated
from .estimate import Estimate, Unseen, ends_first, unseen
from .log import LogError
from .plausibility import look_at_forces, look_at_order, look_at_rest, look_at_sensor, noise_of
from .problem import Problem, Unknowns, prior_errors, usual_changes, values_by_x


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
    checkpoint: Checkpoint | str | os.PathLike | None = None,
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
    - `checkpoint`: a file to save to on the way and to go on from, with the same result to the last bit: see `rbd.Checkpoint`.
      With more `turns` or `steps` than before it goes on where it had ended. Not for optimistix, whose searches are one call.

    >>> model, t = rbd.load("pendulum"), np.arange(300) / 100
    >>> q, v, a = np.sin(t)[:, None], np.cos(t)[:, None], -np.sin(t)[:, None]
    >>> tau = jax.vmap(lambda *x: 1.5 * rbd.inverse_dynamics(model, *x))(q, v, a)
    >>> log = rbd.identify.Log(t, q, v, a, tau)
    >>> problem = rbd.identify.Problem(model, log, rbd.identify.masses(), rbd.identify.EquationError())
    >>> print(rbd.identify.solve(problem).values)
    [1.5]
    """
    instance("identify.solve", "problem", problem, Problem, "an identify.Problem")
    starts = whole_number("identify.solve", "starts", starts)
    turns = whole_number("identify.solve", "turns", turns)
    steps = whole_number("identify.solve", "steps", steps)
    if start is not None and (start.nq, start.body_names) != (problem.model.nq, problem.model.body_names):
        raise ModelError(
            f"identify.solve: start is a model {start.name!r} with other bodies or joints than {problem.model.name!r}"
        )
    by_optax = _is_of_optax(solver)
    if solver is not None:
        if starts > 1:
            raise ValueError(
                "identify.solve: starts is for the library's own solver; give the others a start each"
            )
        if checkpoint is not None and not by_optax:
            raise ValueError(
                "identify.solve: a search of optimistix is one call, with nothing to save on the way; leave checkpoint out, or "
                "take the library's own solver or one of optax"
            )
    began = problem.start(start)
    scatter, limit = (
        float(number("identify.solve", "scatter", scatter, least=0)),
        steps if by_optax else turns,
    )
    if key is None and (by_optax or starts > 1):
        key = jax.random.key(0)
    what = lambda: (
        _what(problem, began)
        | (
            {"solver": solver, "windows": windows, "key": key}
            if by_optax
            else {"starts": starts} | ({"scatter": scatter, "key": key} if starts > 1 else {})
        )
    )
    with running("identify.solve", checkpoint, what) as run:
        if run.found:
            there = run.found["limit"]
            if there > limit:
                run.refuse([f"{'steps' if by_optax else 'turns'}: {there} there, {limit} here"])
            if run.found["estimate"] and (there == limit or run.found["done"]):
                found = _known(problem, run.found["estimate"])
                look_after(problem, found.noise)
                return found
        else:
            refuse_failed(problem, began)
            look_before(problem, began)
        if by_optax:
            search, reached = _by_optax(problem, solver, began, steps, windows, key, run)
        elif solver is not None:
            search, reached = _by_optimistix(problem, solver, began, turns), {}
        else:
            search, reached = _searched(problem, began, starts, scatter, key, turns, on_turn, run)
        found = outcome(problem, search, None if solver is None else SETTLED)
        run.save(reached | {"estimate": _numbers(found)})
        return found


def _what(problem: Problem, began: Unknowns) -> dict[str, Any]:
    """What decides on the numbers of a search. Of logs their names are first: they say most."""
    return {
        "logs": [log.name for log in problem.logs],
        "free": problem.parameters.names,
        "noise": dict(problem.noise),
        "robust": problem.robust,
        "compare": problem.compare,
        "kinds": problem.parameters.kinds,
        "model": problem.model,
        "start": began.x,
        "log": {log.name: log for log in problem.logs},
    }


def _numbers(found: Estimate) -> dict[str, Any]:
    """An estimate as it is saved: what does not follow from the problem."""
    names = (
        "values",
        "covariance",
        "standard_errors",
        "noise",
        "errors",
        "at_bounds",
        "iterations",
        "converged",
        "states",
    )
    unknowns = {name: np.asarray(value) for name, value in found.unknowns._asdict().items()}
    return {name: getattr(found, name) for name in names} | {
        "seen": found.seen._asdict(),
        "unknowns": unknowns,
    }


def _known(problem: Problem, saved: dict[str, Any]) -> Estimate:
    """The estimate that was saved."""
    parameters, seen = problem.parameters, saved["seen"]
    given = saved | {
        "seen": Unseen(**seen | {"kept": tuple(seen["kept"])}),
        "at_bounds": tuple(saved["at_bounds"]),
        "unknowns": Unknowns(**saved["unknowns"]),
        "model": parameters.with_values(jnp.asarray(saved["values"], problem.model.dtype)),
    }
    whose = {"columns": problem.columns, "counts": problem.counts, "compare": problem.compare}
    return Estimate(parameters=parameters, **whose, **given)


def _searched(problem, began, starts, scatter, key, turns, on_turn, run: Run) -> tuple[Descent, dict]:
    """The best of some searches, and all of them as they are saved."""
    if run.found:
        searches = [Descent.restored(problem, state) for state in run.found["searches"]]
    else:
        places = np.repeat(np.asarray(began.x, float)[None], starts, axis=0)
        if starts > 1:
            places[1:] += scatter * np.asarray(jax.random.normal(key, (starts - 1, len(began.x))))
        searches = [Descent(problem, x, np.asarray(began.states, float)) for x in places]
    reached = lambda: {
        "searches": [search.state() for search in searches],
        "limit": turns,
        "done": all(search.done for search in searches),
        "estimate": None,
    }
    told = max(search.turn for search in searches)
    for between in answered([search.advance(turns) for search in searches], problem):
        turn = max(search.turn for search in searches)
        if not between or turn == told:
            continue
        told = turn
        run.offer(reached)
        if on_turn is not None:
            on_turn(turn, min(search.loss for search in searches))
    found = [search for search in searches if np.isfinite(search.loss)]
    if not found:
        raise LogError("identify.solve: no search has found a place where all windows can be simulated")
    # Losses are in units of the noise that each search has found.
    best = min(found, key=lambda search: search.loss + float(problem.counts @ np.log(search.noise)))
    return best, reached()


def _is_of_optax(solver) -> bool:
    return hasattr(solver, "init") and hasattr(solver, "update") and not hasattr(solver, "step")


def _ended(problem: Problem, unknowns: Unknowns) -> Descent:
    """A search that is where another solver has come to."""
    search = Descent(problem, np.asarray(unknowns.x, float), np.asarray(unknowns.states, float))
    search.stage, search.leaves_out = LAST, True
    for _ in answered([search.advance(0)], problem):  # which finds the noise
        pass
    return search


def _by_optimistix(problem: Problem, solver, began: Unknowns, turns: int) -> Descent:
    import optimistix

    if isinstance(solver, optimistix.AbstractMinimiser):
        found = optimistix.minimise(
            lambda unknowns, _: problem.loss(unknowns), solver, began, max_steps=turns, throw=False
        )
        return _ended(problem, found.value)
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
    return _ended(problem, unknowns)


def _by_optax(
    problem: Problem, solver: Any, began: Unknowns, steps: int, windows: int | None, key, run: Run
) -> tuple[Descent, dict]:
    """Stochastic gradients, each of some windows. The device holds no others. And where they have come to, as it is saved."""
    import optax

    count = len(problem.windows)
    size = count if windows is None else min(count, whole_number("identify.solve", "windows", windows))
    if problem.states and problem.compare.nodes == "joined" and size < count:
        raise ValueError(
            "identify.solve: windows that are joined are not drawn one by one; take nodes='free' or 'measured', or all windows"
        )
    random = np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())

    @eqx.filter_jit
    def stepped(some, rows, noise, unknowns, memory):
        def loss(unknowns):
            part = unknowns._replace(states=unknowns.states[rows])
            return problem.loss_of(some, part, noise, count / size)

        value, slope = jax.value_and_grad(loss)(unknowns)
        updates, memory = solver.update(slope, memory, unknowns)
        return *_strong((optax.apply_updates(unknowns, updates), memory)), value

    moving: Any = _strong((began, solver.init(began)))
    begin, noise = 0, problem.given_noise
    if run.found:
        moving, noise = with_leaves(moving, run.found["moving"]), run.found["noise"]
        begin, random.bit_generator.state = run.found["step"], run.found["random"]
    unknowns, memory = moving
    reached = lambda step: {
        "moving": plain_leaves((unknowns, memory)),
        "noise": noise,
        "step": step,
        "random": random.bit_generator.state,
        "limit": steps,
        "done": False,
        "estimate": None,
    }
    for done in range(begin, steps):
        if done % (PASSES * max(1, count // size)) == 0:
            noise = _noise(problem, unknowns)
        rows = np.arange(count) if size == count else random.choice(count, size, replace=False)
        some = jax.tree.map(lambda x, rows=rows: x[rows], problem.windows)
        unknowns, memory, value = stepped(some, rows, noise, unknowns, memory)
        if not np.isfinite(float(value)):
            raise FloatingPointError(
                f"identify.solve: the loss is {value} after {done} steps; take smaller ones"
            )
        run.offer(lambda done=done: reached(done + 1))
    return _ended(problem, unknowns), reached(steps)


def _strong(tree):
    """Arrays of types that do not give way to others: as they are once they have been saved."""
    return jax.tree.map(lambda x: jax.lax.convert_element_type(x, x.dtype), tree)


def _noise(problem: Problem, unknowns: Unknowns) -> np.ndarray:
    return found_noise(problem, np.asarray(problem.errors(unknowns)[0], float))


def outcome(problem: Problem, search: Descent, settled: float | None = None) -> Estimate:
    """The estimate at the end of a search; with `settled` it has converged if there is no more than that to gain."""
    problem = problem.drawn(search.draw)
    parameters, unknowns = problem.parameters, search.unknowns()
    errors = np.asarray(problem.errors(unknowns)[0], float)
    values, slopes = (np.asarray(y, float) for y in values_by_x(parameters, unknowns.x))
    at = Unknowns(jnp.asarray(values, problem.model.dtype), unknowns.states)
    rest, known = (np.asarray(y, float) for y in _prior_by_values(parameters, at.x))
    usual = usual_changes(parameters)
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
        """Least squares in the values: their scale, what is seen of them, what is left to gain, and a root of the covariance."""
        data = left.triangle
        norms = np.sqrt(np.sum(data[:, :-1] ** 2, axis=0))
        shows = norms > tolerance * norms.max(initial=0)
        scale = np.where(shows, 1 / np.where(shows, norms, 1), np.maximum(np.abs(values), usual))
        right = np.concatenate([data[:, -1], rest])
        basis = basis_of(data[:, :-1], known, scale, ~fixed, tolerance)
        best = basis.least_squares(data[:, :-1], known, right)
        gain = best.gain
        if fixed.any():
            # Bounds are no measurements: what is held by one is as uncertain as if it were not, and so are the others.
            basis = basis_of(data[:, :-1], known, scale, np.ones(len(values), bool), tolerance)
            best = basis.least_squares(data[:, :-1], known, right)
        return scale, basis, gain, best.root

    left = eliminated(about(search.noise), 0.0)
    scale, basis, gain, root = least(left)
    noise = _whole_noise(problem, search.noise, left, root @ root.T, about)
    if not np.array_equal(noise, search.noise):
        scale, basis, gain, root = least(eliminated(about(noise), 0.0))
    covariance = root @ root.T
    deviations = np.where(basis.loose(scale), np.inf, np.sqrt(np.diag(covariance)))
    found = jnp.asarray(values, problem.model.dtype)
    look_after(problem, search.noise)
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
        seen=unseen(basis.hidden / scale, scale, ends_first(parameters)),
        at_bounds=tuple(name for name, at in zip(parameters.names, fixed) if at),
        iterations=search.turn,
        converged=search.converged if settled is None else gain < settled,
        compare=problem.compare,
        unknowns=unknowns,
        states=problem.states * (len(problem.windows) - int(np.sum(problem.windows.goes_on))),
    )


def look_before(problem: Problem, began: Unknowns) -> None:
    """Whether forces and readings have to do with what the model predicts, as it is."""
    errors = np.asarray(problem.errors(began)[0], float)
    start, owner = 0, "identify.solve"
    for one in problem.windows.measured:
        values, there = np.asarray(one.values, float), np.asarray(one.there)
        size = there[0].size
        left = errors[:, start : start + size].reshape(there.shape)
        start += size
        if one.channel in ("q", "v") or values.shape != there.shape:
            continue
        measured = np.where(there, values, 0).reshape(-1, there.shape[-1])
        predicted = np.where(there, values + left, 0).reshape(measured.shape)
        squares, thought = np.sum(measured**2, axis=0), np.sum(predicted**2, axis=0)
        both = measured.T @ predicted
        if one.channel == "tau":
            names = [f"tau {name}" for name in one.columns]
            look_at_forces(owner, names, squares, thought, np.diag(both))
            look_at_order(owner, names, squares, thought, both)
        else:
            look_at_sensor(owner, one.channel, squares.sum(), thought.sum(), float(np.trace(both)))


def look_after(problem: Problem, left: np.ndarray) -> None:
    """Whether what is left is noise, or small."""
    varies, noise = [], []
    for one in problem.windows.measured:
        values, there = np.asarray(one.values, float), np.asarray(one.there)
        size = there.shape[-1]
        if values.shape != there.shape:
            varies, noise = [*varies, *np.zeros(size)], [*noise, *np.zeros(size)]
            continue
        rows = np.where(there, values, np.nan).reshape(-1, size)
        known = np.maximum(np.isfinite(rows).sum(axis=0), 1)
        middle = 0.0 if one.channel == "tau" else np.nansum(rows, axis=0) / known
        varies += list(np.sqrt(np.nansum((rows - middle) ** 2, axis=0) / known))
        noise += list(noise_of(problem.logs, one.channel, size))
    look_at_rest("identify.solve", problem.columns, left, np.array(varies), np.array(noise))


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


@eqx.filter_jit
def _prior_by_values(parameters, values):
    through = lambda values: prior_errors(parameters, values)
    return through(jnp.asarray(values)), jax.jacfwd(through)(jnp.asarray(values))
