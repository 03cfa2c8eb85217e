"""The problem of identification with nonlinear dependence: what is free, logs, a comparison; its errors, its loss.

    Σ ρ((predicted - measured) / σ) + ½ Σ ((p - mean) / deviation)² + Σ D(P ‖ P₀) / spread² + ½ Σ (gaps / γ)²

over x, the free numbers in coordinates without bounds, and the first states of the windows that are simulated. ρ is a half of
the square, or Tukey's; σ the noise of each column, given or found; D the divergence that keeps inertias near what was thought,
as in `physical_least_squares`, here as a sum of squares; γ, for joined windows, what a state may jump by between them.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float

from .._core.arguments import a_model, instance
from .._core.array import zeros
from .._core.errors import UnknownNameError, suggest
from ..model import Model, difference, integrate
from ..parallel.batch import batch_map, devices_in_use, whole
from ..simulate.state import State
from ..spatial.inertia import Inertia
from ._elimination import Linear
from .comparison import Comparison, Windows
from .kind import Kind
from .log import Log, LogError, LogWarning, as_logs
from .output_error import OutputError
from .parameters import Parameters, of_model
from .robust import tukey_loss


#: So many windows are linearized together, on each device.
TOGETHER = 256
#: How much of a motion from one sample to the next a state may jump by between joined windows, stage by stage.
GAPS = (1.0, 1e-2, 1e-4)
#: How far free numbers scatter in an ensemble: a tenth of a usual change.
SCATTER = 0.1


class Unknowns(NamedTuple):
    """What a problem is solved for: `x`, the free numbers without bounds, and changes of the first states of windows, (windows,
    states), on the tangent space: empty where they are not free.

    >>> print(rbd.identify.Unknowns(jnp.array([0.1]), jnp.zeros((0, 2))).x)
    [0.1]
    """

    x: Float[Array, "free"]
    states: Float[Array, "windows states"]


class Problem:
    """Free numbers of a model, logs, and how they are compared.

    `identify.solve` finds the values; `loss` is for optimizers and samplers of your own.

    **Arguments**

    - `logs`: one or several runs.
    - `free`: what is free: kinds, or `Parameters`. Forces need not be linear in them.
    - `compare`: `EquationError` or `OutputError`, with what they need to know.
    - `noise`: standard deviations by channel, a number or one for each column; of channels that are left out they are found.
    - `robust`: let errors count the less the larger they are, as in `least_squares`.

    >>> model, t = rbd.load("pendulum"), np.arange(200) / 100
    >>> truth = rbd.identify.Parameters(model, rbd.identify.damping()).with_values(jnp.array([0.3]))
    >>> swing = rbd.rollout(truth, rbd.State(jnp.array([1.0]), jnp.zeros(1)), dt=0.01, steps=199, scheme=rbd.RungeKutta4())
    >>> log = rbd.identify.Log(t, swing.q, tau=np.zeros((200, 1)))  # positions alone, and nothing drives it
    >>> compare = rbd.identify.OutputError(scheme=rbd.RungeKutta4())
    >>> problem = rbd.identify.Problem(model, log, rbd.identify.damping(), compare)
    >>> print(f"{rbd.identify.solve(problem).value('swing damping'):.4f}")
    0.3000
    """

    def __init__(
        self,
        model: Model,
        logs: Log | Iterable[Log],
        free: Kind | Sequence[Kind] | Parameters,
        compare: Comparison | None = None,
        *,
        noise: Mapping[str, Any] | None = None,
        robust: bool = False,
    ):
        owner = "identify.Problem"
        a_model(owner, model)
        compare = OutputError() if compare is None else compare
        instance(owner, "compare", compare, Comparison, "an identify.OutputError or identify.EquationError")
        self.logs = tuple(as_logs(owner, logs))
        self.parameters = of_model(owner, model, free)
        self.compare, self.robust = compare, bool(robust)
        self.windows = compare.windows(model, self.logs)
        self.windows = self.drawn(0).windows
        self._refuse_too_few(owner)
        channels = [one.channel for one in self.windows.measured]
        self.noise = {name: np.asarray(value, float) for name, value in (noise or {}).items()}
        for name, value in self.noise.items():
            if name not in channels:
                raise UnknownNameError(f"{owner}: noise has {name!r}{suggest(name, channels)}")
            if not (np.isfinite(value) & (value > 0)).all():
                raise ValueError(f"{owner}: noise[{name!r}] is {value}; standard deviations are positive")

    def _refuse_too_few(self, owner: str) -> None:
        """Whether there are as many numbers as unknowns; what is known beforehand stands for some."""
        known = np.isfinite(np.asarray(self.parameters.prior()[1]))
        for place, _ in self.parameters.inertial():
            known[place] = True
        count, free = int(self.counts.sum()), int((~known).sum())
        joined = self.windows.goes_on.any() and self.compare.drift is None
        first = self.states * (int((~self.windows.goes_on).sum()) if joined else len(self.windows))
        if count >= free + first:
            return
        said = f"{owner}: there are {count} measured numbers, {free} free values of which nothing is known beforehand"
        said += f", and {first} numbers of first states" if first else ""
        said += "; record more, free less, or say what is known of them by priors"
        if count < free:
            raise LogError(said)
        warnings.warn(said, LogWarning, stacklevel=3)

    # What it consists of.

    @property
    def model(self) -> Model:
        """The model as it was thought to be."""
        return self.parameters.reference

    @property
    def columns(self) -> tuple[str, ...]:
        """What each column of the errors is called."""
        return self.windows.columns

    @property
    def counts(self) -> np.ndarray:
        """How many numbers were measured, of each column."""
        return self._by_column(self.windows.there().astype(float))

    @property
    def given_noise(self) -> np.ndarray:
        """The noise of each column as it was given; NaN where it is to be found."""
        return np.concatenate(
            [
                np.broadcast_to(self.noise.get(one.channel, np.nan), len(one.columns))
                for one in self.windows.measured
            ]
        )

    @property
    def states(self) -> int:
        """How many numbers of the first state of each window are unknown."""
        start = self.windows.start
        if start is None or self.compare.nodes == "measured":
            return 0
        return 2 * self.model.nv + start.internal.shape[-1]

    def start(self, model: Model | None = None) -> Unknowns:
        """Where a search begins: at the model, with first states as measured."""
        x = x_of(self.parameters, self.model if model is None else model)
        return Unknowns(x, zeros((len(self.windows), self.states), self.model.dtype))

    # What it is made of, as functions that JAX differentiates.

    def errors(
        self, unknowns: Unknowns
    ) -> tuple[Float[Array, "windows numbers"], Float[Array, "windows states"]]:
        """Predicted less measured, zero where nothing was measured; and the gaps between windows that are joined."""
        return _errors_told(self.compare, self.parameters, self.windows, *unknowns)

    def prior(self, x: Float[Array, "free"]) -> Float[Array, "rows"]:
        """What is known beforehand, as errors in units of their deviation."""
        return prior_errors(self.parameters, self.parameters.values(x))

    def loss(self, unknowns: Unknowns | Float[Array, "free"]) -> Float[Array, ""]:
        """What is the least at the estimate, as a differentiable function: the negative logarithm of the likelihood and of what
        is known beforehand, but for a constant.

        Of columns whose noise was not given it is that of the noise that fits best. Of x alone, first states are as measured.
        """
        if not isinstance(unknowns, Unknowns):
            unknowns = self.start()._replace(x=jnp.asarray(unknowns))
        if self.robust and not np.isfinite(self.given_noise).all():
            raise ValueError(
                "Problem.loss: which errors are large, noise says; problem.with_noise(found.noise)"
            )
        return _loss(self.compare, self.parameters, self.windows, *unknowns, self._constants(), self.robust)

    def residuals(self, unknowns: Unknowns) -> Float[Array, "rows"]:
        """All errors in units of the noise, one after the other, for optimizers of least squares: a half of the sum of their
        squares is the loss. The noise must have been given, and loss be least squares."""
        if self.robust or not np.isfinite(self.given_noise).all():
            raise ValueError(
                "Problem.residuals: give the noise of every channel, and robust=False; problem.with_noise(found.noise)"
            )
        return _residuals(self.compare, self.parameters, self.windows, *unknowns, self._constants())

    def with_noise(self, noise: np.ndarray) -> Problem:
        """The problem with noise of every column, as an estimate has found it."""
        starts = np.cumsum([0, *(len(one.columns) for one in self.windows.measured)])
        by_channel = {
            one.channel: np.asarray(noise)[a:b]
            for one, a, b in zip(self.windows.measured, starts, starts[1:])
        }
        changed = copy.copy(self)
        changed.noise = by_channel
        return changed

    # For the solver: numbers.

    def drawn(self, number: int) -> Problem:
        """The same with other ensembles, the n-th that are drawn."""
        if self.compare.ensemble is None:
            return self
        changed, size = copy.copy(self), self.states + self.parameters.size
        places = ensembles(len(self.windows), self.compare.ensemble, size, number).astype(self.model.dtype)
        changed.windows = replace(self.windows, places=places)
        return changed

    def errors_of_many(self, unknowns: Unknowns):
        """`errors` of several unknowns at once, with an axis of its own."""
        return _errors_of_many(self.compare, self.parameters, self.windows, *unknowns)

    def linearized(
        self, points: Sequence[tuple[Unknowns, Any, Any]], by_values: bool = False
    ) -> list[Linear]:
        """All windows about each of some points, errors times weights, gaps over their sizes; some windows together.

        - `by_values`: x are values, and derivatives by those: what depends on none of them is then exactly zero.
        """
        parameters = ByValues(self.parameters) if by_values else self.parameters
        x, nodes, weights, sizes = (
            np.stack([np.asarray(part) for part in parts])
            for parts in zip(*((point.x, point.states, weight, size) for point, weight, size in points))
        )
        following, start = np.concatenate([nodes[:, 1:], nodes[:, :1]], axis=1), self.windows.start
        after = (
            None if start is None else jax.tree.map(lambda rows: np.concatenate([rows[1:], rows[:1]]), start)
        )
        usual = usual_changes(self.parameters) if by_values else np.ones(self.parameters.size)
        usual = usual.astype(self.model.dtype)
        parts = []
        for rows in _pieces(len(self.windows)):
            window, then = (jax.tree.map(lambda x, rows=rows: x[rows], one) for one in (self.windows, after))
            given = window, then, x, nodes[:, rows], following[:, rows], weights[:, rows], sizes, usual
            parts.append([np.asarray(part, float) for part in _linearized(self.compare, parameters, *given)])
        own, gaps = (np.concatenate([part[i] for part in parts], axis=1) for i in (0, 1))
        goes_on = np.asarray(self.windows.goes_on) & (self.states > 0)
        return [Linear(*one, goes_on, self.states) for one in zip(own, gaps)]

    def loss_of(self, windows: Windows, unknowns: Unknowns, noise, share) -> Float[Array, ""]:
        """The loss of some windows alone, `share` times theirs, for noise of each column; the states are theirs."""
        constants = self._constants()._replace(noise=noise)
        return _loss(self.compare, self.parameters, windows, *unknowns, constants, self.robust, share)

    def gap_unit(self) -> np.ndarray:
        """What states move by from one sample to the next: the unit of gaps."""
        start = self.windows.start
        if start is None or not self.states:
            return np.zeros(0)
        spacing = float(np.median(self.windows.given.spacing))
        speed = np.sqrt(np.mean(np.asarray(start.v, float) ** 2, axis=0))
        speed = np.maximum(speed, 1e-3 * max(speed.max(initial=0), 1e-3))
        rate = np.maximum(speed, np.std(np.asarray(start.v, float), axis=0))
        return np.concatenate([speed * spacing, rate * spacing, np.ones(start.internal.shape[-1]) * spacing])

    def _by_column(self, numbers: np.ndarray) -> np.ndarray:
        """Sums over all numbers of each column, of (windows, numbers)."""
        return np.bincount(self.windows.column_of(), numbers.sum(axis=0), len(self.columns))

    def _constants(self) -> Constants:
        gap = (
            self.gap_unit() * GAPS[-1] if self.compare.drift is None else self.gap_unit() * self.compare.drift
        )
        return Constants(self.given_noise, self.counts, self.windows.column_of(), gap)


@eqx.filter_jit
def x_of(parameters, model):
    """Where a model is, in one program: step by step the charts take as long as a solution of a small problem."""
    return parameters.x_of(model)


def usual_changes(parameters: Parameters) -> np.ndarray:
    """A usual change of each value: what one unit without bounds is, at the model."""
    x = x_of(parameters, parameters.reference)
    return np.maximum(np.abs(np.asarray(values_by_x(parameters, x)[1], float)).max(axis=1, initial=0), 1e-12)


@eqx.filter_jit
def values_by_x(parameters, x):
    """Values, and their derivatives by x."""
    x = jnp.asarray(x)
    return parameters.values(x), jax.jacfwd(lambda x: parameters.values(x))(x)


class ByValues(eqx.Module):
    """Parameters whose values are themselves the numbers that models are made of."""

    parameters: Parameters

    def model(self, values):
        return self.parameters.with_values(values)


class Constants(NamedTuple):
    """What the loss needs beside the windows: noise and counts of columns, the column of each number, the size of gaps."""

    noise: np.ndarray
    counts: np.ndarray
    column_of: np.ndarray
    gap: np.ndarray


def _pieces(count: int) -> list[slice]:
    size = TOGETHER * devices_in_use()
    return [slice(i, min(i + size, count)) for i in range(0, count, size)]


def moved(model: Model, start: State | None, change: Float[Array, "states"]) -> State | None:
    """A state moved on its tangent space."""
    if start is None or not change.size:
        return start
    nv = model.nv
    own = None if start.own is None else start.own + change[2 * nv :]
    return State(integrate(model, start.q, change[:nv]), start.v + change[nv : 2 * nv], own)


def _gap(model: Model, end: State | None, following: State | None):
    """From where a window begins to where the one before ends."""
    assert end is not None and following is not None
    return jnp.concatenate(
        [difference(model, following.q, end.q), end.v - following.v, end.internal - following.internal]
    )


def _one(compare, parameters, x, window, after, change, following):
    """Errors of one window, and its gap to the next; of an ensemble their means over first states."""
    if compare.ensemble is None or not change.size:
        return _simulated(compare, parameters, window, after, x, change, following)
    design = window.places[:, : change.size]
    one = lambda step: _simulated(
        compare, parameters, window, after, x, change + window.scatter * step, following
    )
    return jax.tree.map(lambda many: many.mean(axis=0), jax.vmap(one)(design))


def _regressed(compare, parameters, window, after, x, change, following, usual):
    """Derivatives of errors and gap by first states and x, by regression over an ensemble in which all of them scatter."""
    count = change.size
    design = window.places[:, : count + x.size]
    size = jnp.concatenate([window.scatter, SCATTER * usual])

    def one(step):
        step = size * step
        return _simulated(
            compare, parameters, window, after, x + step[count:], change + step[:count], following
        )

    slopes = jax.tree.map(lambda many: many.T @ design / (len(design) * size[None]), jax.vmap(one)(design))
    return [(slope[:, :count], slope[:, count:]) for slope in slopes]


@functools.lru_cache(maxsize=4)
def ensembles(windows: int, count: int, size: int, number: int = 0) -> np.ndarray:
    """Places in units of their standard deviations, (windows, count, size): in pairs on either side, uncorrelated, of unit
    variance."""
    if count < 2 * size:
        raise ValueError(
            f"OutputError: ensemble is {count}, and for the {size} numbers that a window depends on it takes {2 * size} or more"
        )
    random = np.random.default_rng(number).normal(size=(windows, count // 2, size))
    half = np.linalg.qr(random)[0] * np.sqrt(count // 2)
    return np.concatenate([half, -half], axis=1)


def _simulated(compare, parameters, window, after, x, change, following):
    """Of one simulation."""
    model = parameters.model(x)
    errors, end = compare.errors(model, window, moved(model, window.start, change))
    if not change.size:
        return errors, jnp.zeros(0, x.dtype)
    gap = _gap(model, end, moved(model, after, following))
    return errors, jnp.where(window.goes_on, gap, 0)


def _errors(compare, parameters, windows, x, states):
    def one(compare, parameters, x, *rows):
        return jax.checkpoint(lambda *rows: _one(compare, parameters, x, *rows))(*rows)

    rows = windows, _next(windows.start), states, jnp.roll(states, -1, axis=0)
    return batch_map(Partial(one, compare, parameters, x))(*rows)


@eqx.filter_jit
def _errors_told(*problem):
    return whole(_errors(*problem))


@eqx.filter_jit
def _errors_of_many(compare, parameters, windows, x, states):
    def one(compare, parameters, window, after, x, change, following):
        return _one(compare, parameters, x, window, after, change, following)

    along = jnp.broadcast_to(x[:, None], (*states.shape[:2], x.shape[1]))
    rows = along, states, jnp.roll(states, -1, axis=1)
    return _in_each(Partial(one, compare, parameters), windows, _next(windows.start), *rows)


def _next(start: State | None) -> State | None:
    """The first states of the windows that follow."""
    return jax.tree.map(lambda rows: jnp.roll(rows, -1, axis=0), start)


def _in_each(one, windows: Windows, after: State | None, *rows):
    """`one(window, after, ...)` of each point and window, which are one batch: of rows (points, windows, ...)."""
    points, count = rows[0].shape[:2]

    def pair(one, windows, number, *row):
        window, then = jax.tree.map(lambda rows: jnp.asarray(rows)[number], windows)
        return one(window, then, *row)

    numbers = jnp.tile(jnp.arange(count), points)
    flat = (jnp.asarray(x).reshape(points * count, *x.shape[2:]) for x in rows)
    found = batch_map(Partial(pair, one, (windows, after)))(numbers, *flat)
    return whole(jax.tree.map(lambda y: y.reshape(points, count, *y.shape[1:]), found))


@eqx.filter_jit
def _loss(compare, parameters, windows, x, states, constants, robust, share=1.0):
    errors, gaps = _errors(compare, parameters, windows, x, states)
    noise, counts, column_of, gap = (jnp.asarray(part) for part in constants)
    noise, counts = noise.astype(errors.dtype), counts.astype(errors.dtype)
    if robust:
        sizes = jnp.abs(errors / noise[column_of][None])
        total = jnp.sum(tukey_loss(sizes))
    else:
        of = (column_of[:, None] == jnp.arange(len(noise))[None]).astype(errors.dtype)
        squares, known = jnp.sum(errors**2, axis=0) @ of, jnp.isfinite(noise)
        mean = jnp.maximum(squares / jnp.maximum(counts, 1), jnp.finfo(errors.dtype).tiny)
        found = counts / 2 * jnp.log(jnp.where(known, 1, mean))
        total = jnp.sum(jnp.where(known, squares / jnp.where(known, noise, 1) ** 2 / 2, found))
    if gaps.size:
        total = total + jnp.sum((gaps / gap.astype(gaps.dtype)[None]) ** 2) / 2
    return share * total + jnp.sum(prior_errors(parameters, parameters.values(x)) ** 2) / 2


@eqx.filter_jit
def _residuals(compare, parameters, windows, x, states, constants):
    errors, gaps = _errors(compare, parameters, windows, x, states)
    noise = jnp.asarray(constants.noise, errors.dtype)[constants.column_of][None]
    parts = [(errors / noise).reshape(-1), prior_errors(parameters, parameters.values(x))]
    if gaps.size:
        parts.append((gaps / jnp.asarray(constants.gap, gaps.dtype)[None]).reshape(-1))
    return jnp.concatenate(parts)


@eqx.filter_jit
def _linearized(compare, parameters, windows, after, x, states, following, weights, gap_size, usual):
    """Of several points, an axis of its own, and windows: triangles of errors, and rows of gaps."""

    def one(compare, parameters, usual, window, after, x, change, following, weight, gap_size):
        def through(change, x):
            found = _one(compare, parameters, x, window, after, change, following)
            return found, found

        if compare.ensemble is None or not change.size:
            slopes, (errors, gap) = jax.jacfwd(through, argnums=(0, 1), has_aux=True)(change, x)
        else:
            errors, gap = through(change, x)[0]
            slopes = _regressed(compare, parameters, window, after, x, change, following, usual)
        (errors_by_state, errors_by_x), (gap_by_state, gap_by_x) = slopes
        rows = jnp.concatenate([errors_by_state, errors_by_x, errors[:, None]], axis=1) * weight[:, None]
        size = rows.shape[1]
        triangle = jnp.linalg.qr(rows, mode="r")
        triangle = jnp.concatenate([triangle, jnp.zeros((max(size - triangle.shape[0], 0), size), x.dtype)])
        if not change.size:
            return triangle, jnp.zeros((0, size), x.dtype)
        model = parameters.model(x)
        end = moved(model, moved(model, after, following), gap)  # where this one ends
        gap_by_next = jax.jacfwd(lambda step: _gap(model, end, moved(model, after, step)))(following)
        gaps = jnp.concatenate([gap_by_next, gap_by_state, gap_by_x, gap[:, None]], axis=1)
        return triangle, gaps / gap_size[:, None]

    along = lambda row: jnp.broadcast_to(row[:, None], (*states.shape[:2], row.shape[1]))
    of_all = Partial(one, compare, parameters, usual)
    return _in_each(of_all, windows, after, along(x), states, following, weights, along(gap_size))


def prior_errors(parameters: Parameters, values: Float[Array, "free"]) -> Float[Array, "rows"]:
    """What is known beforehand as errors in units of their deviation, half of whose squares is its part of the loss."""
    mean, deviation = parameters.prior()
    rows = [(values - mean) / deviation]  # zero where nothing is known
    thought = parameters.values_of(parameters.reference)
    for place, spread in parameters.inertial():
        rows.append(_divergence(values[place], thought[place]) / spread)
    return jnp.concatenate(rows)


def _divergence(inertia, thought):
    """Ten numbers, half of whose squares is `D(P ‖ P₀) = |M|² - 4 - 2 Σ log Mᵢᵢ` of `P = L₀ M Mᵀ L₀ᵀ`, M and L₀ triangular."""
    P, P0 = (Inertia.from_parameters(one).pseudo_inertia for one in (inertia, thought))
    root = jnp.linalg.inv(jnp.linalg.cholesky(P0))
    M = jnp.linalg.cholesky(root @ P @ root.T)
    low = np.tril_indices(4, -1)
    return jnp.concatenate([_log_error(jnp.diagonal(M)), np.sqrt(2) * M[low]])


def _log_error(m):
    """`±√(2 (m² - 1 - 2 log m))`, smooth at one, where it is `2 log m`."""
    y = 2 * jnp.log(m)
    small = jnp.abs(y) < 1e-2
    far = jnp.where(small, 1.0, y)
    # (eʸ - 1 - y) = y²/2 (1 + y/3 + y²/12 + y³/60 + ...)
    near = 1 + y / 3 + y**2 / 12 + y**3 / 60 + y**4 / 360
    share = jnp.where(small, near, 2 * (jnp.expm1(far) - far) / far**2)
    return y * jnp.sqrt(share)
