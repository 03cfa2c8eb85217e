"""Draws from the posterior distribution of the parameters.

`laplace` approximates the log-posterior by a parabola at its maximum. This is cheap, and accurate if the data are
informative. `hmc` draws from the exact posterior by Hamiltonian Monte Carlo (the No-U-Turn sampler of `blackjax`),
including the initial states of simulations. It uses coordinates in which the parabola is a sphere,

    (x, δ) = (x̂, δ̂) + R⁻¹ z,    p(z) ∝ exp(-loss(x, δ)) |∂values / ∂x|,

with initial states δ and the triangle R of all errors, linearized at the estimate, so that one step size fits all
directions. The noise is that of the estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._core.arguments import instance, whole_number
from ..model import Model
from ._descent import LAST, Descent
from ._elimination import Eliminated, eliminated
from .estimate import Estimate
from .log import LogError
from .parameters import Parameters
from .problem import Problem, Unknowns


#: Ignore directions whose weight is below this fraction of the largest one.
UNSEEN = 1e-9
#: Initial step size, in standard deviations, and the target acceptance rate of its tuning.
STEP, ACCEPTED = 0.5, 0.8


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of the values of estimated parameters.

    - `parameters`: the estimated parameters.
    - `values`: the draws, (draws, values), in the order, with the names and in the units of `parameters`.
    - `chains`: number of chains, each with the same number of draws, stored consecutively.
    - `divergences`: number of draws with a diverging energy; if there are many, the chains do not reach narrow regions of
      the posterior.
    - `accepted`: the mean acceptance probability.

    >>> parameters = rbd.identify.Parameters(rbd.load("pendulum"), rbd.identify.damping())
    >>> draws = rbd.identify.Posterior(parameters, 0.3 + 0.01 * np.random.default_rng(0).normal(size=(500, 1)))
    >>> print(draws, draws.mean, draws.models(2).damping[:, 0])
    Posterior(500 draws of swing damping) [0.3] [0.301 0.299]
    """

    parameters: Parameters
    values: np.ndarray
    chains: int = 1
    divergences: int = 0
    accepted: float = 1.0

    @property
    def mean(self) -> np.ndarray:
        """Mean of each value."""
        return self.values.mean(axis=0)

    @property
    def covariance(self) -> np.ndarray:
        """Covariance of the values."""
        return np.atleast_2d(np.cov(self.values.T))

    @property
    def standard_errors(self) -> np.ndarray:
        """Standard deviation of each value."""
        return self.values.std(axis=0, ddof=1)

    def intervals(self, level: float | int = 0.95) -> np.ndarray:
        """Returns the central credible interval of each value, (n, 2).

        Args:
          level: Probability of the interval; the rest is equally split below and above.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1, got {level}.")
        return np.quantile(self.values, [0.5 - level / 2, 0.5 + level / 2], axis=0).T

    @property
    def convergence(self) -> np.ndarray:
        """Gelman-Rubin R̂ of each value, from split chains: near one if all chains agree; below 1.01 is good."""
        parts = self._by_chain()
        half = parts.shape[1] // 2
        parts = np.concatenate([parts[:, :half], parts[:, half : 2 * half]])
        within = parts.var(axis=1, ddof=1).mean(axis=0)
        between = parts.mean(axis=1).var(axis=0, ddof=1)
        return np.sqrt((half - 1) / half + between / np.where(within > 0, within, 1))

    @property
    def effective_draws(self) -> np.ndarray:
        """Effective sample size for the mean of each value, from autocorrelations summed by Geyer's pairs."""
        parts = self._by_chain()
        chains, count, size = parts.shape
        away = parts - parts.mean(axis=1, keepdims=True)
        spectrum = np.fft.rfft(away, 2 * count, axis=1)
        along = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :count].mean(axis=0) / count
        own = along[0] * count / (count - 1)
        total = own * (count - 1) / count + (parts.mean(axis=1).var(axis=0, ddof=1) if chains > 1 else 0)
        found = np.full(size, float(chains * count))
        for i in np.flatnonzero(own > 0):
            correlation = 1 - (own[i] - along[:, i]) / total[i]
            pairs = correlation[: count // 2 * 2].reshape(-1, 2).sum(axis=1)
            ends = np.flatnonzero(pairs <= 0)
            pairs = np.minimum.accumulate(pairs[: ends[0] if len(ends) else None])
            found[i] = min(
                chains * count / max(2 * pairs.sum() - 1, 1e-3), found[i] * np.log10(max(found[i], 10))
            )
        return found

    def models(self, count: int | None = None) -> Model:
        """Returns models of the first draws as one model with an additional leading axis, for `jax.vmap`.

        Args:
          count: Number of draws; by default all.
        """
        count = len(self.values) if count is None else whole_number("Posterior.models", "count", count)
        return _models(self.parameters, jnp.asarray(self.values[:count], self.parameters.reference.dtype))

    def table(self, level: float | int = 0.95) -> str:
        """Returns a text table of all values with means, standard deviations, intervals and units."""
        names, units = self.parameters.names, self.parameters.units
        width = max(map(len, names), default=0)
        ends = f"{100 * level:g} % between"
        lines = [f"{'':{width}}  {'mean':>11}  {'deviation':>10}  {ends:>25}  unit"]
        for name, unit, mean, error, (low, high) in zip(
            names, units, self.mean, self.standard_errors, self.intervals(level)
        ):
            lines.append(f"{name:{width}}  {mean:11.5g}  {error:10.3g}  {low:12.5g} {high:12.5g}  {unit}")
        return "\n".join(lines)

    def _by_chain(self) -> np.ndarray:
        return self.values.reshape(self.chains, -1, self.values.shape[1])

    def __repr__(self) -> str:
        of = "" if self.chains == 1 else f" of {self.chains} chains"
        more = ", ..." if self.parameters.size > 6 else ""
        return f"Posterior({len(self.values)} draws{of} of {', '.join(self.parameters.names[:6])}{more})"


def laplace(found: Estimate, draws: int = 1000, *, key: Any = None) -> Posterior:
    """Draws from the normal distribution with the mean and covariance of an estimate.

    Every draw is a physically consistent model: inertias are drawn in unconstrained coordinates
    (`Inertia.to_log_cholesky`), and values beyond a bound are moved to the bound. Values are constant along unobservable
    directions without a prior.

    Args:
      found: The estimate of any estimator.
      draws: Number of draws.
      key: Random key of `jax.random`.

    >>> model, t = rbd.load("pendulum"), np.arange(300) / 100
    >>> truth = rbd.identify.Parameters(model, rbd.identify.damping()).with_values(jnp.array([0.3]))
    >>> swing = rbd.rollout(truth, rbd.State(jnp.array([1.0]), jnp.zeros(1)), dt=0.01, steps=299)
    >>> log = rbd.identify.Log(t, swing.q + 1e-3 * jax.random.normal(jax.random.key(0), (300, 1)), tau=np.zeros((300, 1)))
    >>> found = rbd.identify.solve(rbd.identify.Problem(model, log, rbd.identify.damping()))
    >>> draws = rbd.identify.laplace(found, 500)
    >>> draws
    Posterior(500 draws of swing damping)
    >>> bool(np.allclose(draws.standard_errors, found.standard_errors, rtol=0.1))
    True
    """
    instance("identify.laplace", "found", found, Estimate, "what an estimator returns")
    draws = whole_number("identify.laplace", "draws", draws)
    key = jax.random.key(0) if key is None else key
    root = _root(found.covariance)
    steps = np.asarray(jax.random.normal(key, (draws, root.shape[1])), float) @ root.T
    values = _moved(found.parameters, jnp.asarray(found.values), jnp.asarray(steps))
    return Posterior(found.parameters, np.asarray(values, float))


def hmc(
    problem: Problem,
    found: Estimate,
    draws: int = 500,
    *,
    chains: int = 4,
    warmup: int = 200,
    key: Any = None,
    on_draw: Callable[[int, int], Any] | None = None,
) -> Posterior:
    """Draws from the posterior by Hamiltonian Monte Carlo, starting near an estimate; requires `blackjax`.

    The density of the values, within their bounds, and of the initial states is `exp(-problem.loss)` at the noise of the
    estimate. The prior is uniform, except for parameters with a `prior`. Directions that neither data nor prior determine
    have no distribution and cause an error.

    Args:
      problem: The problem.
      found: The estimate of `identify.solve` for this problem.
      draws: Number of draws per chain.
      chains: Number of chains, which run in parallel from starting points drawn as in `laplace`.
      warmup: Number of preceding draws, which tune the step size.
      key: Random key of `jax.random`.
      on_draw: Called with the number of draws of each chain so far and in total, including warmup.

    Returns:
      The draws of all chains.

    Raises:
      ValueError: If `found` is not an estimate of this problem.
      LogError: If neither data nor prior determine some parameters.
      ImportError: If `blackjax` is not installed.

    >>> model, t = rbd.load("pendulum"), np.arange(40) / 20
    >>> truth = rbd.identify.Parameters(model, rbd.identify.damping()).with_values(jnp.array([0.3]))
    >>> swing = rbd.rollout(truth, rbd.State(jnp.array([1.0]), jnp.zeros(1)), dt=0.05, steps=39)
    >>> log = rbd.identify.Log(t, swing.q + 1e-2 * jax.random.normal(jax.random.key(0), (40, 1)), tau=np.zeros((40, 1)))
    >>> problem = rbd.identify.Problem(model, log, rbd.identify.damping(), rbd.identify.OutputError(window=None))
    >>> found = rbd.identify.solve(problem)
    >>> rbd.identify.hmc(problem, found, draws=100, chains=2, warmup=50)
    Posterior(200 draws of 2 chains of swing damping)
    """
    owner = "identify.hmc"
    instance(owner, "problem", problem, Problem, "an identify.Problem")
    instance(owner, "found", found, Estimate, "what identify.solve returns")
    draws, chains, warmup = (
        whole_number(owner, name, value)
        for name, value in (("draws", draws), ("chains", chains), ("warmup", warmup))
    )
    if found.unknowns is None or found.parameters.names != problem.parameters.names:
        raise ValueError(f"{owner}: found is no estimate of identify.solve for this problem.")
    if found.unknowns.states.shape != (len(problem.windows), problem.states):
        raise ValueError(
            f"{owner}: found has initial states of {len(found.unknowns.states)} windows, but the problem has "
            f"{len(problem.windows)}. Solve this problem first."
        )
    kernel = _kernel()
    known = problem.with_noise(found.noise)
    map_from = _sphere(known, found)
    key = jax.random.key(0) if key is None else key
    keys = jax.random.split(key, 1 + warmup + draws)
    size = map_from.x.shape[1]
    logdensity = lambda z: _log_density(known, map_from(z))
    begin, stepped, told = kernel(logdensity, size)
    states = begin(jax.random.normal(keys[0], (chains, size), problem.model.dtype))
    tuning, kept, astray, accepted = _Tuning.at(STEP), [], 0, []
    for i in range(warmup + draws):
        step = tuning.step if i < warmup else tuning.averaged
        states, info = stepped(
            jax.random.split(keys[i + 1], chains), states, jnp.asarray(step, problem.model.dtype)
        )
        share, wild = (np.asarray(y) for y in told(info))
        if i < warmup:
            tuning = tuning.after(float(np.mean(share)))
        else:
            kept.append(np.asarray(states.position))
            accepted.append(share.mean())
            astray += int(wild.sum())
        if on_draw is not None:
            on_draw(i + 1, warmup + draws)
    z = np.stack(kept, axis=1).reshape(chains * draws, size)
    values = np.asarray(_values(problem.parameters, map_from, jnp.asarray(z)), float)
    return Posterior(problem.parameters, values, chains, astray, float(np.mean(accepted)))


def _log_density(problem: Problem, unknowns: Unknowns):
    """Returns the log-density of the values, transformed to unconstrained coordinates."""
    _, turned = jnp.linalg.slogdet(jax.jacfwd(problem.parameters.values)(unknowns.x))
    return turned - problem.loss(unknowns)


class _Sphere(eqx.Module):
    """The map from z to unknowns: the estimate, and its derivatives with respect to z."""

    unknowns: Unknowns
    x: Any
    states: Any

    def __call__(self, z) -> Unknowns:
        return Unknowns(self.unknowns.x + self.x @ z, self.unknowns.states + self.states @ z)


def _sphere(problem: Problem, found: Estimate) -> _Sphere:
    """Returns coordinates in which all errors, linearized at the estimate, form a unit sphere."""
    unknowns = found.unknowns
    assert unknowns is not None
    search = Descent(
        problem, np.asarray(unknowns.x, float), np.asarray(unknowns.states, float), problem.given_noise
    )
    search.stage, search.leaves_out = LAST, True
    errors = np.asarray(problem.errors(unknowns)[0], float)
    (linear,) = problem.linearized([(unknowns, search.weights(errors), search.gap_size)])
    left = eliminated(linear, 0.0)
    rows = np.concatenate([left.triangle[:, :-1], search.prior()[:, :-1]])
    _, sizes, ways = np.linalg.svd(rows, full_matrices=True)
    sizes = np.concatenate([sizes, np.zeros(len(ways) - len(sizes))])
    loose = sizes <= UNSEEN * sizes.max(initial=0)
    if loose.any():
        names = np.array(problem.parameters.names)[np.abs(ways[loose]).max(axis=0) > 0.1]
        raise LogError(
            f"identify.hmc: neither data nor prior determine {', '.join(names[:6])}"
            f"{' and others' if len(names) > 6 else ''}, so they have no distribution; give a prior, or do not estimate "
            "them."
        )
    moves = ways.T / sizes
    states = _following(left, moves)
    dtype = problem.model.dtype
    free = np.concatenate([moves, np.zeros((len(moves), states.shape[-1] - moves.shape[1]))], axis=1)
    return _Sphere(unknowns, jnp.asarray(free, dtype), jnp.asarray(states, dtype))


def _following(left: Eliminated, moves: np.ndarray) -> np.ndarray:
    """Returns the derivatives of initial states with respect to z, (windows, states, z).

    They depend on x, on the preceding state, and on their own part of z.
    """
    count, size = len(left.backs), left.states
    free = moves.shape[1]
    whole = np.zeros((count, size, free + count * size))
    for k, rows in enumerate(left.backs):
        right = np.zeros((size, free + count * size))
        right[:, :free] = rows[:, 2 * size : -1] @ moves
        if k > 0 and left.goes_on[k - 1]:
            right += rows[:, size : 2 * size] @ whole[k - 1]
        right[:, free + k * size : free + (k + 1) * size] -= np.eye(size)
        whole[k] = -np.linalg.solve(rows[:, :size], right)
    return whole


@dataclass(frozen=True)
class _Tuning:
    """Nesterov's dual averaging of the step size (Hoffman and Gelman, 2014)."""

    target: float
    log_step: float
    log_averaged: float
    off: float
    count: int

    @staticmethod
    def at(step: float) -> _Tuning:
        return _Tuning(np.log(10 * step), np.log(step), np.log(step), 0.0, 0)

    @property
    def step(self) -> float:
        return float(np.exp(self.log_step))

    @property
    def averaged(self) -> float:
        return float(np.exp(self.log_averaged))

    def after(self, accepted: float) -> _Tuning:
        count = self.count + 1
        share = 1 / (count + 10)
        off = (1 - share) * self.off + share * (ACCEPTED - accepted)
        log_step = self.target - np.sqrt(count) / 0.05 * off
        weight = count**-0.75
        averaged = weight * log_step + (1 - weight) * self.log_averaged
        return _Tuning(self.target, float(log_step), float(averaged), float(off), count)


def _kernel():
    """Returns the No-U-Turn sampler as functions of a density: initialization, one step of each chain, and step statistics."""
    try:
        from blackjax.mcmc import nuts
    except ImportError:
        raise ImportError(
            "identify.hmc requires blackjax, which is not installed: pip install blackjax"
        ) from None
    own = nuts.build_kernel()

    def of(logdensity, size):
        begin = eqx.filter_jit(jax.vmap(lambda z: nuts.init(z, logdensity)))

        @eqx.filter_jit
        def stepped(keys, states, step):
            metric = jnp.ones(size, step.dtype)
            return jax.vmap(lambda key, state: own(key, state, logdensity, step, metric))(keys, states)

        return begin, stepped, lambda info: (info.acceptance_rate, info.is_divergent)

    return of


def _root(covariance: np.ndarray) -> np.ndarray:
    sizes, ways = np.linalg.eigh((covariance + covariance.T) / 2)
    return ways * np.sqrt(np.maximum(sizes, 0))


@eqx.filter_jit
def _moved(parameters: Parameters, values, steps):
    """Returns values after steps: inertias in unconstrained coordinates, other values clipped to their bounds."""
    dtype = parameters.reference.dtype
    values, steps = values.astype(dtype), steps.astype(dtype)
    low, high = parameters.bounds()
    low, high = jnp.minimum(low, values), jnp.maximum(high, values)
    inertial = parameters.inertial()
    at, slope = (
        (parameters.unbounded(values), jax.jacfwd(parameters.unbounded)(values)) if inertial else (None, None)
    )

    def one(step):
        straight = jnp.clip(values + step, low, high)
        if inertial:
            curved = parameters.values(at + slope @ step)
            for place, _ in inertial:
                straight = straight.at[place].set(curved[place])
        return straight

    return jax.vmap(one)(steps)


@eqx.filter_jit
def _values(parameters: Parameters, map_from, z):
    return jax.lax.map(lambda z: parameters.values(map_from(z).x), z)


@eqx.filter_jit
def _models(parameters: Parameters, values):
    return jax.vmap(parameters.with_values)(values)
