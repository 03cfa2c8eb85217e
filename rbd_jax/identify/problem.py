"""The nonlinear identification problem: parameters, logs and a comparison; its errors and its loss.

    Σ ρ((predicted - measured) / σ) + ½ Σ ((p - mean) / deviation)² + Σ D(P ‖ P₀) / spread² + ½ Σ (gaps / γ)²

is minimized over x, the unconstrained coordinates of the parameters, and over the initial states of the simulated windows.
ρ is half of the square, or Tukey's loss. σ is the noise of each column, given or estimated. D is the divergence of inertias
from their prior, as in `physical_least_squares`, here written as a sum of squares. γ is the scale of state jumps between
joined windows.
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


#: Number of windows that are linearized together on each device.
TOGETHER = 256
#: Scale of state jumps between joined windows in each stage, relative to the motion from one sample to the next.
GAPS = (1.0, 1e-2, 1e-4)
#: Scatter of parameters in an ensemble: a tenth of a usual change.
SCATTER = 0.1


class Unknowns(NamedTuple):
    """The unknowns of a problem.

    - `x`: the unconstrained coordinates of the parameters.
    - `states`: changes of the initial states in the tangent space, (windows, states); empty if initial states are not
      estimated.

    >>> print(rbd.identify.Unknowns(jnp.array([0.1]), jnp.zeros((0, 2))).x)
    [0.1]
    """

    x: Float[Array, "free"]
    states: Float[Array, "windows states"]


class Problem:
    """An identification problem: parameters of a model, logs, and a comparison.

    `identify.solve` computes the values; `loss` supports other optimizers and samplers.

    Args:
      model: The initial model.
      logs: One or several runs.
      free: Parameter groups, or `Parameters`. Forces need not be linear in them.
      compare: `OutputError` (the default) or `EquationError`, with their options.
      noise: Standard deviations by channel, each a number or one number per column; estimated for other channels.
      robust: If True, reduce the weight of large errors, as in `least_squares`.

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
        """Checks that there are as many measurements as unknowns; parameters with a prior are not counted."""
        known = np.isfinite(np.asarray(self.parameters.prior()[1]))
        for place, _ in self.parameters.inertial():
            known[place] = True
        count, free = int(self.counts.sum()), int((~known).sum())
        joined = self.windows.goes_on.any() and self.compare.drift is None
        first = self.states * (int((~self.windows.goes_on).sum()) if joined else len(self.windows))
        if count >= free + first:
            return
        said = f"{owner}: there are {count} measured numbers, {free} free values without a prior"
        said += f", and {first} coordinates of initial states" if first else ""
        said += "; record more, free less, or give priors for them"
        if count < free:
            raise LogError(said)
        warnings.warn(said, LogWarning, stacklevel=3)

    # Parts of the problem.

    @property
    def model(self) -> Model:
        """The initial model."""
        return self.parameters.reference

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the errors."""
        return self.windows.columns

    @property
    def counts(self) -> np.ndarray:
        """Number of measurements of each column."""
        return self._by_column(self.windows.there().astype(float))

    @property
    def given_noise(self) -> np.ndarray:
        """The given noise of each column; NaN where the noise is estimated."""
        return np.concatenate(
            [
                np.broadcast_to(self.noise.get(one.channel, np.nan), len(one.columns))
                for one in self.windows.measured
            ]
        )

    @property
    def states(self) -> int:
        """Number of unknown coordinates of each window's initial state."""
        start = self.windows.start
        if start is None or self.compare.nodes == "measured":
            return 0
        return 2 * self.model.nv + start.internal.shape[-1]

    def start(self, model: Model | None = None) -> Unknowns:
        """Returns the starting point of a search: a model, with initial states as measured."""
        x = x_of(self.parameters, self.model if model is None else model)
        return Unknowns(x, zeros((len(self.windows), self.states), self.model.dtype))

    # Differentiable JAX functions.

    def errors(
        self, unknowns: Unknowns
    ) -> tuple[Float[Array, "windows numbers"], Float[Array, "windows states"]]:
        """Returns predicted minus measured values, zero where missing, and the gaps between joined windows."""
        return _errors_told(self.compare, self.parameters, self.windows, *unknowns)

    def prior(self, x: Float[Array, "free"]) -> Float[Array, "rows"]:
        """Returns the deviations from the prior, in units of their standard deviation."""
        return prior_errors(self.parameters, self.parameters.values(x))

    def loss(self, unknowns: Unknowns | Float[Array, "free"]) -> Float[Array, ""]:
        """Returns the loss: the negative logarithm of likelihood and prior, up to a constant.

        Columns without given noise use the noise that fits best.

        Args:
          unknowns: The unknowns, or x alone; initial states are then as measured.

        Raises:
          ValueError: If the problem is robust and a column has no given noise.
        """
        if not isinstance(unknowns, Unknowns):
            unknowns = self.start()._replace(x=jnp.asarray(unknowns))
        if self.robust and not np.isfinite(self.given_noise).all():
            raise ValueError(
                "Problem.loss: a robust loss requires noise; call problem.with_noise(found.noise)"
            )
        return _loss(self.compare, self.parameters, self.windows, *unknowns, self._constants(), self.robust)

    def residuals(self, unknowns: Unknowns) -> Float[Array, "rows"]:
        """Returns all errors in units of the noise, for least-squares optimizers; half of their sum of squares is the loss.

        The noise of all channels must be given, and the problem must not be robust.
        """
        if self.robust or not np.isfinite(self.given_noise).all():
            raise ValueError(
                "Problem.residuals: give the noise of every channel, by problem.with_noise(found.noise), and robust=False"
            )
        return _residuals(self.compare, self.parameters, self.windows, *unknowns, self._constants())

    def with_noise(self, noise: np.ndarray) -> Problem:
        """Returns the problem with this noise of each column, such as the noise of an estimate."""
        starts = np.cumsum([0, *(len(one.columns) for one in self.windows.measured)])
        by_channel = {
            one.channel: np.asarray(noise)[a:b]
            for one, a, b in zip(self.windows.measured, starts, starts[1:])
        }
        changed = copy.copy(self)
        changed.noise = by_channel
        return changed

    # Numerical methods for the solver.

    def drawn(self, number: int) -> Problem:
        """Returns the problem with the ensembles of this index."""
        if self.compare.ensemble is None:
            return self
        changed, size = copy.copy(self), self.states + self.parameters.size
        places = ensembles(len(self.windows), self.compare.ensemble, size, number).astype(self.model.dtype)
        changed.windows = replace(self.windows, places=places)
        return changed

    def errors_of_many(self, unknowns: Unknowns):
        """Returns the `errors` of several points; the first axis is the point."""
        return _errors_of_many(self.compare, self.parameters, self.windows, *unknowns)

    def linearized(
        self, points: Sequence[tuple[Unknowns, Any, Any]], by_values: bool = False
    ) -> list[Linear]:
        """Linearizes all windows at several points, in blocks of windows.

        Args:
          points: For each point, the unknowns, the weights of the errors, and the sizes of the gaps.
          by_values: If True, x are values, with derivatives with respect to the values. The derivatives are then exactly
            zero for errors that do not depend on a value.
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
        """Returns the loss of some windows, multiplied by `share`, plus the prior.

        Args:
          windows: The windows.
          unknowns: x, and the initial states of these windows.
          noise: The noise of each column.
          share: Factor of the windows' loss.
        """
        constants = self._constants()._replace(noise=noise)
        return _loss(self.compare, self.parameters, windows, *unknowns, constants, self.robust, share)

    def gap_unit(self) -> np.ndarray:
        """Returns the typical state change from one sample to the next, the unit of gaps."""
        start = self.windows.start
        if start is None or not self.states:
            return np.zeros(0)
        spacing = float(np.median(self.windows.given.spacing))
        speed = np.sqrt(np.mean(np.asarray(start.v, float) ** 2, axis=0))
        speed = np.maximum(speed, 1e-3 * max(speed.max(initial=0), 1e-3))
        rate = np.maximum(speed, np.std(np.asarray(start.v, float), axis=0))
        return np.concatenate([speed * spacing, rate * spacing, np.ones(start.internal.shape[-1]) * spacing])

    def _by_column(self, numbers: np.ndarray) -> np.ndarray:
        """Sums (windows, numbers) over all entries of each column."""
        return np.bincount(self.windows.column_of(), numbers.sum(axis=0), len(self.columns))

    def _constants(self) -> Constants:
        gap = (
            self.gap_unit() * GAPS[-1] if self.compare.drift is None else self.gap_unit() * self.compare.drift
        )
        return Constants(self.given_noise, self.counts, self.windows.column_of(), gap)


@eqx.filter_jit
def x_of(parameters, model):
    """Returns the unconstrained coordinates of a model.

    It is compiled, because uncompiled it would take as long as the solution of a small problem.
    """
    return parameters.x_of(model)


def usual_changes(parameters: Parameters) -> np.ndarray:
    """Returns a usual change of each value: its change at the model per unit of unconstrained coordinates."""
    x = x_of(parameters, parameters.reference)
    return np.maximum(np.abs(np.asarray(values_by_x(parameters, x)[1], float)).max(axis=1, initial=0), 1e-12)


@eqx.filter_jit
def values_by_x(parameters, x):
    """Returns values and their derivatives with respect to x."""
    x = jnp.asarray(x)
    return parameters.values(x), jax.jacfwd(lambda x: parameters.values(x))(x)


class ByValues(eqx.Module):
    """Parameters with the values themselves as coordinates."""

    parameters: Parameters

    def model(self, values):
        return self.parameters.with_values(values)


class Constants(NamedTuple):
    """Input of the loss besides the windows.

    - `noise`, `counts`: noise and number of measurements of each column.
    - `column_of`: the column of each entry.
    - `gap`: the size of gaps.
    """

    noise: np.ndarray
    counts: np.ndarray
    column_of: np.ndarray
    gap: np.ndarray


def _pieces(count: int) -> list[slice]:
    size = TOGETHER * devices_in_use()
    return [slice(i, min(i + size, count)) for i in range(0, count, size)]


def moved(model: Model, start: State | None, change: Float[Array, "states"]) -> State | None:
    """Returns a state moved in its tangent space."""
    if start is None or not change.size:
        return start
    nv = model.nv
    own = None if start.own is None else start.own + change[2 * nv :]
    return State(integrate(model, start.q, change[:nv]), start.v + change[nv : 2 * nv], own)


def _gap(model: Model, end: State | None, following: State | None):
    """Returns the tangent vector from the start of a window to the end of the preceding one."""
    assert end is not None and following is not None
    return jnp.concatenate(
        [difference(model, following.q, end.q), end.v - following.v, end.internal - following.internal]
    )


def _one(compare, parameters, x, window, after, change, following):
    """Returns the errors of one window and its gap to the next; for ensembles, their means."""
    if compare.ensemble is None or not change.size:
        return _simulated(compare, parameters, window, after, x, change, following)
    design = window.places[:, : change.size]
    one = lambda step: _simulated(
        compare, parameters, window, after, x, change + window.scatter * step, following
    )
    return jax.tree.map(lambda many: many.mean(axis=0), jax.vmap(one)(design))


def _regressed(compare, parameters, window, after, x, change, following, usual):
    """Returns the derivatives of errors and gap with respect to initial state and x, by regression over an ensemble."""
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
    """Returns points in units of their standard deviations, (windows, count, size).

    The points are in antithetic pairs, uncorrelated and of unit variance.
    """
    if count < 2 * size:
        raise ValueError(
            f"OutputError: ensemble is {count}, but for the {size} unknowns of a window it must be {2 * size} or more."
        )
    random = np.random.default_rng(number).normal(size=(windows, count // 2, size))
    half = np.linalg.qr(random)[0] * np.sqrt(count // 2)
    return np.concatenate([half, -half], axis=1)


def _simulated(compare, parameters, window, after, x, change, following):
    """Returns errors and gap of a single simulation."""
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
    """Returns the initial states of the following windows."""
    return jax.tree.map(lambda rows: jnp.roll(rows, -1, axis=0), start)


def _in_each(one, windows: Windows, after: State | None, *rows):
    """Applies `one(window, after, ...)` to each point and window in one batch, with rows (points, windows, ...)."""
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
    """Returns triangles of errors and rows of gaps for several points and windows."""

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
        end = moved(model, moved(model, after, following), gap)  # the end of this window
        gap_by_next = jax.jacfwd(lambda step: _gap(model, end, moved(model, after, step)))(following)
        gaps = jnp.concatenate([gap_by_next, gap_by_state, gap_by_x, gap[:, None]], axis=1)
        return triangle, gaps / gap_size[:, None]

    along = lambda row: jnp.broadcast_to(row[:, None], (*states.shape[:2], row.shape[1]))
    of_all = Partial(one, compare, parameters, usual)
    return _in_each(of_all, windows, after, along(x), states, following, weights, along(gap_size))


def prior_errors(parameters: Parameters, values: Float[Array, "free"]) -> Float[Array, "rows"]:
    """Returns the deviations from the prior in units of their standard deviation.

    Half of their sum of squares is the prior's part of the loss.
    """
    mean, deviation = parameters.prior()
    rows = [(values - mean) / deviation]  # zero without a prior
    thought = parameters.values_of(parameters.reference)
    for place, spread in parameters.inertial():
        rows.append(_divergence(values[place], thought[place]) / spread)
    return jnp.concatenate(rows)


def _divergence(inertia, thought):
    """Returns ten numbers with half of the sum of squares equal to the divergence `D(P ‖ P₀)`.

    With `P = L₀ M Mᵀ L₀ᵀ`, M and L₀ triangular, `D(P ‖ P₀) = |M|² - 4 - 2 Σ log Mᵢᵢ`.
    """
    P, P0 = (Inertia.from_parameters(one).pseudo_inertia for one in (inertia, thought))
    root = jnp.linalg.inv(jnp.linalg.cholesky(P0))
    M = jnp.linalg.cholesky(root @ P @ root.T)
    low = np.tril_indices(4, -1)
    return jnp.concatenate([_log_error(jnp.diagonal(M)), np.sqrt(2) * M[low]])


def _log_error(m):
    """Returns `±√(2 (m² - 1 - 2 log m))`, smooth at one, where it is `2 log m` to first order."""
    y = 2 * jnp.log(m)
    small = jnp.abs(y) < 1e-2
    far = jnp.where(small, 1.0, y)
    # (eʸ - 1 - y) = y²/2 (1 + y/3 + y²/12 + y³/60 + ...)
    near = 1 + y / 3 + y**2 / 12 + y**3 / 60 + y**4 / 360
    share = jnp.where(small, near, 2 * (jnp.expm1(far) - far) / far**2)
    return y * jnp.sqrt(share)
