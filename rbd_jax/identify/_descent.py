"""The nonlinear solver: Gauss-Newton steps with Levenberg-Marquardt damping, and noise estimated along the way.

Each iteration linearizes the windows with errors in units of the noise, eliminates the initial states, and computes the
damped least-squares step in x. It accepts the step if the loss at the same noise decreases. Robust losses use weights that
are updated in each iteration: Huber's until convergence, then Tukey's. The gaps between joined windows may be wide at first
and are closed in three stages.

A search is a generator that yields requests for errors or linearizations. This way, the requests of several searches are
evaluated together.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ._elimination import eliminated
from .log import LogError
from .problem import GAPS, Problem, Unknowns, prior_errors
from .robust import huber, huber_loss, scatter, tukey, tukey_loss


#: Initial damping, its growth factor after a rejected step, its minimum, and its maximum, at which the search cannot
#: continue.
FIRST, GROWTH, LESS, MOST = 1e-3, 8.0, 1e-12, 1e10
#: Longest step in each unconstrained coordinate, where one is a usual change; and the largest magnitude of coordinates with
#: bounds. There the value is at its bound up to a millionth of a usual change.
LONGEST, FARTHEST = 5.0, 14.0
#: Smallest relevant decrease of the loss in the last stage and in earlier stages; one half is one standard deviation.
LEAST, ROUGHLY = 1e-4, 1e-1
#: Minimum and maximum damping for ensembles, whose derivatives are never exact; and the number of further ensembles with
#: which a search continues after it has converged.
CROOKED, DRAWS = (1e-3, 1e2), 2
#: A search ends after this number of consecutive iterations without a relevant decrease, at any damping.
IDLE = 3
#: Index of the last stage of gaps.
LAST = len(GAPS) - 1
#: Noise below this value counts as rounding error, in units of the precision and of the size of the measurements.
ROUNDING = 100.0


@dataclass(frozen=True, eq=False)
class Ask:
    """A request of a search at a point: errors and gaps or, with weights, the linearized windows."""

    unknowns: Unknowns
    weights: np.ndarray | None = None
    gap_size: np.ndarray | None = None
    draw: int = 0


@dataclass(eq=False)
class Descent:
    """A search and its current iterate.

    - `x`, `states`: the iterate.
    - `noise`: the current noise estimate of each column.
    - `stage`: the index of the current gap size.
    - `idle`: number of consecutive iterations without a relevant decrease.
    - `draw`: index of the ensemble of the simulations.
    - `leaves_out`: whether a robust search has switched from Huber's loss to Tukey's.
    """

    problem: Problem
    x: np.ndarray
    states: np.ndarray
    noise: np.ndarray = field(default_factory=lambda: np.zeros(0))
    damping: float = FIRST
    stage: int = 0
    leaves_out: bool = False
    turn: int = 0
    done: bool = False
    converged: bool = False
    loss: float = np.inf
    idle: int = 0
    draw: int = 0

    def __post_init__(self):
        compare, windows = self.problem.compare, self.problem.windows
        if compare.nodes != "joined" or compare.drift is not None or not windows.goes_on.any():
            self.stage = LAST
        self.rounding = ROUNDING * float(np.finfo(self.problem.model.dtype).eps) * _sizes(self.problem)
        self.least, self.most = (LESS, MOST) if compare.ensemble is None else CROOKED
        self.column_of, self.there = windows.column_of(), windows.there()
        below, above = (np.isfinite(np.asarray(end)) for end in self.problem.parameters.bounds())
        self.lowest = np.where(below | above, -FARTHEST, -np.inf)
        self.highest = np.where(below & above, FARTHEST, np.inf)

    def advance(self, turns: int) -> Generator[Ask, Any, None]:
        """Yields requests until the search is done or has made this number of iterations in total."""
        if self.done:
            return
        errors, gaps = yield Ask(self.unknowns(), draw=self.draw)
        if not np.isfinite(errors).all():
            self.done = True
            return
        if not self.noise.size:
            self.noise = self._found_noise(errors)
        while self.turn < turns and not self.done:
            # A search can be saved here: its fields determine how it continues.
            linear = yield Ask(self.unknowns(), self.weights(errors), self.gap_size, self.draw)
            self.turn += 1
            prior, before = self.prior(), self._loss(errors, gaps, self.x)
            while True:
                left = eliminated(linear, self.damping)
                step = _step(np.concatenate([left.triangle, prior]), self.damping)
                x = self._within(self.x + np.clip(step, -LONGEST, LONGEST))
                states = self.states + left.states_of(x - self.x)
                new_errors, new_gaps = yield Ask(self.unknowns(x, states), draw=self.draw)
                new = self._loss(new_errors, new_gaps, x) if np.isfinite(new_errors).all() else np.inf
                if new <= before + 1e-12 * abs(before):
                    long = bool(np.abs(x - self.x).max(initial=0) >= 1)
                    self.x, self.states, errors, gaps = x, states, new_errors, new_gaps
                    self.damping = max(self.damping / GROWTH, self.least)
                    break
                self.damping *= GROWTH
                if self.damping > self.most:
                    new, long = before, False
                    break
            slow = self.damping > FIRST
            promised = _promised(np.concatenate([eliminated(linear, 0.0).triangle, prior])) if slow else 0.0
            draw = self.draw
            self._settle(before, new, self._found_noise(errors), long, promised)
            if self.draw != draw:
                errors, gaps = yield Ask(self.unknowns(), draw=self.draw)

    def _settle(self, before: float, after: float, noise: np.ndarray, long: bool, promised: float) -> None:
        """Updates the noise and decides whether this iteration was the last one of its stage or of the search.

        A search never ends after a long step.

        Args:
          before: The loss before the step.
          after: The loss after the step, at the same noise.
          noise: The new noise estimate.
          long: True if a coordinate changed by one or more.
          promised: The decrease that an undamped step would achieve if the errors were linear; zero if the damping was
            small.
        """
        last, stuck = self.stage == LAST, self.damping > self.most
        rounding = bool(np.all(noise <= 2 * self.rounding))
        same = rounding or bool(np.all(np.abs(noise - self.noise) <= (1e-3 if last else 3e-2) * self.noise))
        least = 1e-2 * before if rounding else LEAST if last else ROUGHLY
        nothing = same and not long and before - after <= least
        self.noise, self.loss, self.idle = noise, after, self.idle + 1 if nothing else 0
        if not (stuck or self.idle >= IDLE or (nothing and self.damping <= FIRST)):
            return
        self.idle = 0
        # Means over an ensemble have small jumps, at which a search ends; other ensembles have jumps elsewhere.
        smooth = self.problem.compare.ensemble is None
        if last and self.problem.robust and not self.leaves_out:
            self.leaves_out, self.damping = True, FIRST
        elif last and not smooth and self.draw < DRAWS:
            self.draw, self.damping = self.draw + 1, FIRST
        elif last:
            self.done = True
            self.converged = same and (rounding or not smooth or promised <= max(LEAST, 1e-6 * before))
        else:
            self.stage, self.damping = self.stage + 1, FIRST

    def state(self) -> dict[str, Any]:
        """Returns all fields that change between iterations."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "problem"}

    @staticmethod
    def restored(problem: Problem, state: dict[str, Any]) -> Descent:
        """Returns a search with this state."""
        search = Descent(problem, state["x"], state["states"])
        for name in search.state():
            setattr(search, name, state[name])
        return search

    # Parts.

    def _within(self, x: np.ndarray) -> np.ndarray:
        return np.clip(x, np.minimum(self.lowest, self.x), np.maximum(self.highest, self.x))

    @property
    def gap_size(self) -> np.ndarray:
        drift = self.problem.compare.drift
        return self.problem.gap_unit() * (GAPS[self.stage] if drift is None else drift)

    def unknowns(self, x=None, states=None) -> Unknowns:
        dtype = self.problem.model.dtype
        x, states = self.x if x is None else x, self.states if states is None else states
        return Unknowns(jnp.asarray(x, dtype), jnp.asarray(states, dtype))

    def prior(self) -> np.ndarray:
        """Returns the prior, linearized at x: rows in (x, 1)."""
        rows, slopes = (np.asarray(y, float) for y in _prior(self.problem.parameters, self.unknowns().x))
        return np.concatenate([slopes, rows[:, None]], axis=1)

    def weights(self, errors) -> np.ndarray:
        """Returns the factors that multiply the errors."""
        weights = self.there / self.noise[self.column_of]
        if self.problem.robust:
            weighing = tukey if self.leaves_out else huber
            weights = weights * np.sqrt(weighing(np.abs(errors / self.noise[self.column_of]))[0])
        return weights.astype(self.problem.model.dtype)

    def spread(self, errors) -> np.ndarray:
        """Returns the factor of each column by which the scatter of the values differs from the noise."""
        if not self.problem.robust:
            return np.ones(len(self.noise))
        sizes = np.where(self.there, np.abs(errors / self.noise[self.column_of]), np.nan)
        of = [sizes[:, self.column_of == i].reshape(-1, 1) for i in range(len(self.noise))]
        return np.array([scatter(tukey, one)[0] if np.isfinite(one).any() else 1.0 for one in of])

    def _loss(self, errors, gaps, x) -> float:
        sizes = np.abs(errors / self.noise[self.column_of])
        if self.problem.robust:
            total = float(np.sum((tukey_loss if self.leaves_out else huber_loss)(sizes)))
        else:
            total = float(np.sum(sizes**2) / 2)
        if gaps.size:
            total += float(np.sum((gaps / self.gap_size) ** 2) / 2)
        prior = np.asarray(_prior(self.problem.parameters, self.unknowns(x).x)[0], float)
        return total + float(np.sum(prior**2) / 2)

    def _found_noise(self, errors) -> np.ndarray:
        return np.maximum(found_noise(self.problem, errors), self.rounding)


def answered(searches: Sequence[Generator[Ask, Any, None]], problem: Problem) -> Generator[bool, None, None]:
    """Runs all searches to their ends and evaluates their requests together.

    Yields after each evaluation whether all searches are between iterations. Each search has a fixed place in the batch, so
    its results do not depend on the other searches, to the last bit. The batch size stays constant, so nothing is
    recompiled when a search ends.
    """
    waiting = _following(searches, {i: None for i in range(len(searches))})
    while waiting:
        linearize = all(ask.weights is not None for ask in waiting.values())
        group = {i: ask for i, ask in waiting.items() if (ask.weights is not None) == linearize}
        other = next(iter(group.values()))
        asks = [group.get(i, other) for i in range(len(searches))]
        found = _linearized(problem, asks) if linearize else _errors(problem, asks)
        kept = {i: ask for i, ask in waiting.items() if i not in group}
        waiting = kept | _following(searches, {i: found[i] for i in group})
        yield all(ask.weights is not None for ask in waiting.values())


def _following(searches, replies: dict[int, Any]) -> dict[int, Ask]:
    """Returns the next requests of the searches that are not done."""
    asks = {}
    for i, reply in replies.items():
        try:
            asks[i] = searches[i].send(reply)
        except StopIteration:
            continue
    return asks


def _errors(problem: Problem, asks: Sequence[Ask]):
    if len(asks) == 1 or problem.compare.ensemble is not None:
        told = lambda ask: problem.drawn(ask.draw).errors(ask.unknowns)
        return _each(asks, lambda ask: tuple(np.asarray(x, float) for x in told(ask)))
    many = jax.tree.map(lambda *rows: np.stack(rows), *(ask.unknowns for ask in asks))
    errors, gaps = (np.asarray(x, float) for x in problem.errors_of_many(many))
    return list(zip(errors, gaps))


def _linearized(problem: Problem, asks: Sequence[Ask]):
    point = lambda ask: (ask.unknowns, ask.weights, ask.gap_size)
    if problem.compare.ensemble is not None:
        return _each(asks, lambda ask: problem.drawn(ask.draw).linearized([point(ask)])[0])
    return problem.linearized([point(ask) for ask in asks])


def _each(asks: Sequence[Ask], answer) -> list:
    """Evaluates requests separately.

    The places of searches without a request contain another search's request, which is evaluated once.
    """
    known = {id(ask): answer(ask) for ask in {id(ask): ask for ask in asks}.values()}
    return [known[id(ask)] for ask in asks]


def root_mean_square(problem: Problem, errors: np.ndarray) -> np.ndarray:
    """Returns the root mean square of the errors of each column."""
    squares = np.bincount(problem.windows.column_of(), (errors**2).sum(axis=0), len(problem.columns))
    return np.sqrt(squares / np.maximum(problem.counts, 1))


def found_noise(problem: Problem, errors: np.ndarray) -> np.ndarray:
    """Returns the noise of each column.

    It is the given noise or the root mean square of the errors; robust problems use the median.
    """
    if problem.robust:
        there, of = problem.windows.there(), problem.windows.column_of()
        sizes = [np.abs(errors[:, of == i][there[:, of == i]]) for i in range(len(problem.columns))]
        found = np.array([1.4826 * np.median(one) if len(one) else 0.0 for one in sizes])
    else:
        found = root_mean_square(problem, errors)
    return np.where(np.isfinite(problem.given_noise), problem.given_noise, np.maximum(found, 1e-300))


def refuse_failed(problem: Problem, unknowns: Unknowns) -> None:
    """Raises an error that names the first window that cannot be simulated with the initial model."""
    errors = np.asarray(problem.errors(unknowns)[0])
    bad = np.flatnonzero(~np.isfinite(errors).all(axis=1))
    if len(bad):
        log = problem.logs[int(problem.windows.log[bad[0]])]
        raise LogError(
            f"identify.solve: with the initial model, {len(bad)} of {len(errors)} windows cannot be simulated, the first from "
            f"t = {problem.windows.begins[bad[0]]:.6g} s of log {log.name!r}; take shorter steps (OutputError(dt=...)), another "
            "scheme, or a better initial model"
        )


def _sizes(problem: Problem) -> np.ndarray:
    """Returns the root mean square of the measurements of each column."""
    found = []
    for one in problem.windows.measured:
        size = np.sqrt(np.mean(np.asarray(one.values, float) ** 2, axis=(0, 1)))
        same = len(size) == len(one.columns)
        found.append(size if same else np.full(len(one.columns), size.max(initial=0)))
    return np.maximum(np.concatenate(found), 1e-3)


def _step(rows: np.ndarray, damping: float) -> np.ndarray:
    """Returns the damped least-squares solution of rows in (x, 1); it is zero along unobservable directions."""
    if rows.shape[1] == 1:
        return np.zeros(0)
    norms = np.sqrt(np.sum(rows[:, :-1] ** 2, axis=0))
    scale = np.where(norms > 1e-12 * norms.max(initial=0), norms, 1.0)
    u, sizes, vt = np.linalg.svd(rows[:, :-1] / scale, full_matrices=False)
    seen = sizes > 1e-10 * sizes.max(initial=0)
    shrink = np.where(seen, sizes / np.where(seen, sizes**2 + damping, 1), 0)
    return -(vt.T @ (shrink * (u.T @ rows[:, -1]))) / scale


def _promised(rows: np.ndarray) -> float:
    """Returns by how much the undamped least-squares step reduces half of the sum of squares."""
    step = _step(rows, 0.0)
    return float(np.sum(rows[:, -1] ** 2) - np.sum((rows[:, :-1] @ step + rows[:, -1]) ** 2)) / 2


@eqx.filter_jit
def _prior(parameters, x):
    x = jnp.asarray(x)
    through = lambda x: prior_errors(parameters, parameters.values(x))
    return through(x), jax.jacfwd(through)(x)
