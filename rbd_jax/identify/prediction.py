"""Predictions of a model next to the measurements of logs: each column over time.

The predictions are those of a comparison: torques by the equations of motion and sensor readings (`EquationError`), or
simulations under the measured controls (`OutputError`). Simulations need initial states. These are estimated for the
unchanged model, so that the simulations fit the log best. Joined windows have one such state per run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._core.arguments import a_model, instance
from .._core.array import zeros
from .._core.jit import compiled
from ..lie import quaternion
from ..model import Model, difference, neutral
from ._elimination import eliminated
from .comparison import Comparison, Measured, Windows
from .equation_error import EquationError
from .equations import actuation, as_driven
from .kinds import numbers
from .log import Log, as_logs
from .problem import GAPS, Problem, Unknowns
from .robust import huber, huber_loss


#: Estimation of initial states: iterations per gap width, initial damping and its growth factor.
TURNS, FIRST, GROWTH = 20, 1e-3, 10.0
#: Gap widths before those of the solver. At the first width, windows estimate their initial states independently, because
#: velocities that were not measured are hardly known.
WIDE = (1e6, 1e3)
#: An iteration with a smaller relative decrease than this is the last one.
SETTLED = 1e-3


@dataclass(frozen=True, eq=False)
class Prediction:
    """One column of one log, predicted and measured at the times of measurement.

    - `log`: name of the log.
    - `column`: name of the column, such as "tau elbow".
    - `unit`: unit of the column.
    - `t`, `measured`, `predicted`: (n,), ordered by time. For configurations and orientations that are not plain
      coordinates, these are coordinates in the tangent space. If actuators have controls, torques are the sum of tau and
      the actuator forces of the model.
    - `errors`: predicted minus measured.

    >>> t = np.arange(3) / 100
    >>> one = rbd.identify.Prediction("run 1", "tau elbow", "N m", t, np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.0, -0.1]))
    >>> print(one, one.predicted)
    Prediction('tau elbow' of 'run 1': 3 samples, off by 0.0816 N m) [1.1 2.  2.9]
    """

    log: str
    column: str
    unit: str
    t: np.ndarray
    measured: np.ndarray
    errors: np.ndarray

    @property
    def predicted(self) -> np.ndarray:
        """The predicted values."""
        return self.measured + self.errors

    @property
    def spacing(self) -> float:
        """Median time between neighboring samples, in s."""
        return float(np.median(np.diff(self.t))) if len(self.t) > 1 else np.nan

    def even(self) -> np.ndarray:
        """Returns the errors at equally spaced times, NaN where missing."""
        if len(self.t) < 2:
            return self.errors
        place = np.round((self.t - self.t[0]) / self.spacing).astype(int)
        found = np.full(place[-1] + 1, np.nan)
        found[place] = self.errors
        return found

    def __repr__(self) -> str:
        error = np.sqrt(np.mean(self.errors**2)) if len(self.errors) else np.nan
        return f"Prediction({self.column!r} of {self.log!r}: {len(self.t)} samples, off by {error:.3g} {self.unit})"


def predictions(
    model: Model, logs: Log | Iterable[Log], compare: Comparison | None = None
) -> tuple[Prediction, ...]:
    """Returns the predictions of a model for every measured column of every log.

    Args:
      model: The model.
      logs: One or several logs.
      compare: What to predict and how: `EquationError` (the default) or `OutputError`.

    >>> model, t = rbd.load("pendulum"), np.arange(300) / 100
    >>> q, v, a = np.sin(t)[:, None], np.cos(t)[:, None], -np.sin(t)[:, None]
    >>> tau = jax.vmap(lambda *x: rbd.inverse_dynamics(model, *x) + 0.2)(q, v, a)
    >>> rbd.identify.predictions(model, rbd.identify.Log(t, q, v, a, tau))
    (Prediction('tau swing' of 'log': 300 samples, off by 0.2 N m),)
    """
    owner = "identify.predictions"
    a_model(owner, model)
    given = as_logs(owner, logs)
    compare = EquationError() if compare is None else compare
    instance(owner, "compare", compare, Comparison, "an identify.EquationError or an identify.OutputError")
    # No parameter is estimated; the group is a placeholder.
    problem = Problem(model, given, numbers("gravity", _gravity), compare)
    problem.parameters = _Fixed(model)  # pyright: ignore[reportAttributeAccessIssue]
    errors = np.asarray(problem.errors(_with_states(problem))[0], float)
    return _by_log(model, given, problem.windows, errors)


def _gravity(model: Model):
    """Returns the gravity; a named function is the same in all calls, which avoids recompilation."""
    return model.gravity


class _Fixed(eqx.Module):
    """Parameters without any estimated parameter."""

    reference: Model
    size: int = eqx.field(static=True, default=0)

    def model(self, x):
        return self.reference


def _by_log(model: Model, logs, windows: Windows, errors: np.ndarray) -> tuple[Prediction, ...]:
    found, start = [[] for _ in logs], 0
    of, begins = np.asarray(windows.log), np.asarray(windows.begins, float)
    for one in windows.measured:
        rows, width = one.t.shape[1], len(one.columns)
        own = errors[:, start : start + rows * width].reshape(len(of), rows, width)
        start += rows * width
        t, there = begins[:, None] + np.asarray(one.t, float), np.asarray(one.there)
        shown = _shown(model, one, windows)
        for i, log in enumerate(logs):
            mine = of == i
            order = np.argsort(t[mine].reshape(-1), kind="stable")
            flat = lambda x, mine=mine, order=order: x[mine].reshape(len(order), *x.shape[2:])[order]
            times, known, values, off = map(flat, (t, there, shown, own))
            for k, (name, unit) in enumerate(zip(one.columns, one.units)):
                some = known[:, k]
                if some.any():
                    column = f"{one.channel} {name}".strip()
                    found[i].append(
                        Prediction(log.name, column, unit, times[some], values[some, k], off[some, k])
                    )
    return tuple(prediction for group in found for prediction in group)


def _shown(model: Model, one: Measured, windows: Windows) -> np.ndarray:
    """Returns the measurements in the columns of the errors."""
    values = np.asarray(one.values, float)
    flat = values.reshape(-1, values.shape[-1]).astype(model.dtype)
    if one.channel == "q":
        values = np.asarray(_from_neutral(model, flat), float).reshape(*values.shape[:2], model.nv)
    elif values.shape[-1] == 4 and len(one.columns) == 3:
        values = np.asarray(_turns(flat), float).reshape(*values.shape[:2], 3)
    elif one.channel == "tau" and windows.given.u is not None:
        q, v, u = (
            np.asarray(x).reshape(len(flat), -1) for x in (windows.given.q, windows.given.v, windows.given.u)
        )
        values = values + actuation(as_driven(model, True), q, v, u).reshape(values.shape)
    return values


@compiled
def _from_neutral(model: Model, q):
    return jax.vmap(lambda q: difference(model, neutral(model), q))(q)


@compiled
def _turns(rows):
    return jax.vmap(lambda q: quaternion.log(jnp.where(q[0] < 0, -q, q)))(rows)


# Initial states.


def _with_states(problem: Problem) -> Unknowns:
    """Estimates the initial states that fit the logs best, by damped Gauss-Newton steps with Huber's loss."""
    x, dtype = zeros((0,), problem.model.dtype), problem.model.dtype
    states = np.zeros((len(problem.windows), problem.states))
    if not problem.states:
        return Unknowns(x, jnp.asarray(states, dtype))
    compare, there, column_of = problem.compare, problem.windows.there(), problem.windows.column_of()
    joined = compare.nodes == "joined" and compare.drift is None and problem.windows.goes_on.any()
    at = lambda states: Unknowns(x, jnp.asarray(states, dtype))
    told = lambda states: tuple(np.asarray(y, float) for y in problem.errors(at(states)))
    errors, gaps = told(states)
    for width in (*WIDE, *GAPS) if joined else GAPS[-1:]:
        gap_size = problem.gap_unit() * (width if compare.drift is None else compare.drift)
        damping = FIRST
        for _ in range(TURNS):
            if not np.isfinite(errors).all():
                return at(states)
            noise = _noise(errors, there, column_of)[column_of]
            loss = lambda errors, gaps, noise=noise, gap_size=gap_size: float(
                np.sum(huber_loss(np.abs(errors / noise))) + np.sum((gaps / gap_size) ** 2) / 2
            )
            weights = there * np.sqrt(huber(np.abs(errors / noise))[0]) / noise
            (linear,) = problem.linearized([(at(states), weights.astype(dtype), gap_size)])
            before, gain = loss(errors, gaps), 0.0
            while damping < 1e8:
                step = eliminated(linear, damping).states_of(np.zeros(0))
                new = told(states + step)
                after = loss(*new) if np.isfinite(new[0]).all() else np.inf
                if after <= before:
                    states, (errors, gaps), gain = states + step, new, before - after
                    damping = max(damping / GROWTH, 1e-12)
                    break
                damping *= GROWTH
            if gain <= SETTLED * before:
                break
    return at(states)


def _noise(errors: np.ndarray, there: np.ndarray, column_of: np.ndarray) -> np.ndarray:
    """Returns the typical error of each column: from the median, but at least a tenth of the root mean square."""
    found = np.ones(int(column_of.max()) + 1)
    for column in range(len(found)):
        rows = np.abs(errors[:, column_of == column][there[:, column_of == column]])
        if len(rows):
            found[column] = max(1.4826 * np.median(rows), 0.1 * np.sqrt(np.mean(rows**2)), 1e-12)
    return found
