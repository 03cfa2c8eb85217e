"""The solution of a nonlinear identification problem, and its uncertainty."""

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


#: Other solvers have converged if a Gauss-Newton step would decrease the loss by less; one half is one standard deviation.
SETTLED = 0.1
#: Number of passes over the data between noise updates of a stochastic search.
PASSES = 10
#: A value is at a bound if its derivative with respect to its coordinate is below this, in units of a usual change.
AT_BOUND = 1e-4
#: Ratio of unknowns to measurements below which unknowns are attributed to columns in proportion to their lengths.
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
    """Computes the parameter values that fit the logs of a problem best, with their uncertainty.

    Args:
      problem: The problem.
      solver: By default the library's own solver: Gauss-Newton steps with Levenberg-Marquardt damping. It processes the
        windows in blocks and never stores all derivatives at once. Alternatively a least-squares solver or minimizer of
        `optimistix`, or a gradient transformation of `optax`. The latter takes `steps` steps, each on `windows` randomly
        drawn windows. These solvers have converged if another Gauss-Newton step would not decrease the loss.
      start: The initial model, if it is not the problem's.
      starts: Number of simultaneous searches. All but the first start at random points, and the best result is returned.
      scatter: Standard deviation of the random starting points, in unconstrained coordinates.
      key: Random key of `jax.random`.
      turns: Maximum number of linearizations of the own solver, or of iterations of an optimistix solver.
      steps: Number of steps of an optax solver.
      windows: Number of windows per step of an optax solver; by default all.
      on_turn: Called with the number of iterations so far and the smallest loss.
      checkpoint: File to save progress to and to resume from, with the same result to the last bit: see `rbd.Checkpoint`.
        With more `turns` or `steps` than before, the search continues from its last iterate. Not available for optimistix,
        whose searches are a single call.

    Returns:
      The estimate with its uncertainty.

    Raises:
      LogError: If a window cannot be simulated with the initial model, or measurements have a wrong unit.
      ValueError: If options do not apply to the solver.

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
            f"identify.solve: start is a model {start.name!r} with other bodies or joints than {problem.model.name!r}."
        )
    by_optax = _is_of_optax(solver)
    if solver is not None:
        if starts > 1:
            raise ValueError(
                "identify.solve: starts requires the library's own solver. Pass start to other solvers."
            )
        if checkpoint is not None and not by_optax:
            raise ValueError(
                "identify.solve: a search of optimistix is one call, with nothing to save on the way. Omit checkpoint, or "
                "use the library's own solver or one of optax."
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
    """Returns what determines the result of a search; names of logs come first, since they are the most informative."""
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
    """Returns the part of an estimate that is saved because it does not follow from the problem."""
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
    """Returns the saved estimate."""
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
    """Runs one or several searches; returns the best one and the state to save."""
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
        raise LogError("identify.solve: no search has reached a point where all windows can be simulated")
    # Losses are in units of each search's own noise estimate.
    best = min(found, key=lambda search: search.loss + float(problem.counts @ np.log(search.noise)))
    return best, reached()


def _is_of_optax(solver) -> bool:
    return hasattr(solver, "init") and hasattr(solver, "update") and not hasattr(solver, "step")


def _ended(problem: Problem, unknowns: Unknowns) -> Descent:
    """Returns a search at the final iterate of another solver."""
    search = Descent(problem, np.asarray(unknowns.x, float), np.asarray(unknowns.states, float))
    search.stage, search.leaves_out = LAST, True
    for _ in answered([search.advance(0)], problem):  # estimates the noise
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
            f"identify.solve: solver is {solver!r}; it must be a gradient transformation of optax, or a least-squares solver or "
            "minimizer of optimistix."
        )
    if problem.robust:
        raise ValueError(
            "identify.solve: least-squares solvers do not support robust problems; use a minimizer or solver=None"
        )
    unknowns = began
    # Each search uses the noise of the residuals of the preceding one.
    for _ in range(1 if np.isfinite(problem.given_noise).all() else 3):
        weighted = problem.with_noise(_noise(problem, unknowns))
        residuals = lambda unknowns, _, weighted=weighted: weighted.residuals(unknowns)
        unknowns = optimistix.least_squares(residuals, solver, unknowns, max_steps=turns, throw=False).value
    return _ended(problem, unknowns)


def _by_optax(
    problem: Problem, solver: Any, began: Unknowns, steps: int, windows: int | None, key, run: Run
) -> tuple[Descent, dict]:
    """Minimizes the loss by stochastic gradients, each of some windows; only these windows are on the device.

    Returns the search at the final iterate, and the state to save.
    """
    import optax

    count = len(problem.windows)
    size = count if windows is None else min(count, whole_number("identify.solve", "windows", windows))
    if problem.states and problem.compare.nodes == "joined" and size < count:
        raise ValueError(
            "identify.solve: joined windows cannot be drawn separately. Use nodes='free' or 'measured', or all windows."
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
                f"identify.solve: the loss is {value} after {done} steps. Reduce the step size."
            )
        run.offer(lambda done=done: reached(done + 1))
    return _ended(problem, unknowns), reached(steps)


def _strong(tree):
    """Returns arrays without weak types, like arrays restored from a checkpoint."""
    return jax.tree.map(lambda x: jax.lax.convert_element_type(x, x.dtype), tree)


def _noise(problem: Problem, unknowns: Unknowns) -> np.ndarray:
    return found_noise(problem, np.asarray(problem.errors(unknowns)[0], float))


def outcome(problem: Problem, search: Descent, settled: float | None = None) -> Estimate:
    """Returns the estimate at the end of a search.

    Args:
      problem: The problem.
      search: The search.
      settled: If given, the search has converged if the possible decrease of the loss is smaller.
    """
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
        """Linearizes the windows with this noise, for some columns only."""
        size = np.full(len(noise), np.inf)
        size[columns] = (spread * noise / search.noise)[columns]
        weights = (search.weights(errors) / size[column_of]).astype(problem.model.dtype)
        return problem.linearized([(at, weights, search.gap_size)], by_values=True)[0]

    def least(left):
        """Solves least squares in the values; returns their scale, basis, possible decrease and a root of the covariance."""
        data = left.triangle
        norms = np.sqrt(np.sum(data[:, :-1] ** 2, axis=0))
        shows = norms > tolerance * norms.max(initial=0)
        scale = np.where(shows, 1 / np.where(shows, norms, 1), np.maximum(np.abs(values), usual))
        right = np.concatenate([data[:, -1], rest])
        basis = basis_of(data[:, :-1], known, scale, ~fixed, tolerance)
        best = basis.least_squares(data[:, :-1], known, right)
        gain = best.gain
        if fixed.any():
            # Bounds are not measurements, so the covariance ignores them.
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
    """Checks that forces and readings agree with the predictions of the initial model."""
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
    """Warns if the residuals are neither noise nor small."""
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
    """Returns the noise corrected for the fitted parameters: its square times `n / (n - used)` for each column.

    `used` is the trace of the column's block of the projection onto the fitted space. The sum over all columns is the
    number of unknowns that the data determine.
    """
    counts, find = problem.counts, np.isnan(problem.given_noise)
    if not find.any():
        return noise
    covariances = left.covariances(of_values)
    share = lambda linear: float(np.sum((linear.own[..., :-1] @ covariances) * linear.own[..., :-1]))
    used = share(about(noise)) * counts / max(counts.sum(), 1)
    # This costs a pass over the data for each column, so it is skipped where the correction is negligible.
    if len(counts) > 1 and (used > SLIGHT * counts).any():
        used = np.array([share(about(noise, i)) for i in range(len(counts))])
    whole = noise * np.sqrt(counts / np.maximum(counts - used, 1))
    return np.where(find & (counts > 0), whole, noise)


@eqx.filter_jit
def _prior_by_values(parameters, values):
    through = lambda values: prior_errors(parameters, values)
    return through(jnp.asarray(values)), jax.jacfwd(through)(jnp.asarray(values))
