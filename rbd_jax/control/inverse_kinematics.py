"""Inverse kinematics: configurations in which residuals vanish, or are as small as limits and constraints let them be.

Damped Gauss–Newton steps (Levenberg and Marquardt) on the tangent space, each within the limits of the joints, from many starts.
What cannot be reached is gone as near to as possible, and what is left free is used for what else is wanted, both by Newton's
method with an augmented Lagrangian.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, SupportsIndex

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._arguments import a_model, configuration, instance, names, number, whole_number
from .._array import with_precision
from .._compile import compiled
from ..model import Model, neutral, random_configuration
from ..simulate import Simulated
from ._bounded import at_bound, bounded_minimum
from ._configurations import Aims, Local, Rows, own_constraints
from .constraint import Bounds, Constraint
from .residual import Cost, Residual, residual_of
from .solution import Code


class InverseKinematics(eqx.Module):
    """A configuration found, and how near it comes to what was asked.

    - `q`: within the limits.
    - `code`: a `Code`: `CONVERGED` if the targets are reached, `INFEASIBLE` if they are out of reach, and q is as near as it gets.
    - `error`: the largest of the targets' numbers (m, rad), whatever their weights; `errors`: of each target.
    - `violation`: the most by which a constraint is broken, closures of loops included.
    - `stationarity`: the most by which the derivative of what was minimized last is not zero, along what can still move.
    - `iterations`: how many times the residuals were linearized, all starts together; `start`: from which of them it was found.
    """

    q: Float[Array, "*batch nq"]
    code: Int[Array, "*batch"]
    error: Float[Array, "*batch"]
    errors: Float[Array, "*batch targets"]
    violation: Float[Array, "*batch"]
    stationarity: Float[Array, "*batch"]
    iterations: Int[Array, "*batch"]
    start: Int[Array, "*batch"]

    @property
    def converged(self) -> Bool[Array, "*batch"]:
        """Whether all targets are reached."""
        return self.code == Code.CONVERGED


#: Of a start: it is given up after so many steps in succession that gain less than a share.
SLOW_STEPS, SLOW = 4, 0.05
#: How damping begins, as a share of the largest curvature.
DAMPING = 1e-3
#: Steps of what follows the search.
SETTLING_STEPS = 200


def inverse_kinematics(
    model: Simulated,
    targets: Sequence[Cost | Residual | Callable[..., Any]] | Cost | Residual,
    q: Float[Array, "nq"] | None = None,
    *,
    constraints: Sequence[Constraint] = (),
    secondary: Sequence[Cost | Residual | Callable[..., Any]] = (),
    bounds: Bounds | None = None,
    hold: Sequence[str] = (),
    starts: SupportsIndex = 16,
    at_once: SupportsIndex | None = None,
    key: PRNGKeyArray | None = None,
    tolerance: float | None = None,
    max_steps: SupportsIndex = 50,
    time: float | Float[Array, ""] = 0.0,
) -> InverseKinematics:
    """A configuration in which the targets are zero; if there is none, where `½ Σ w r²` of them is least."""
    owner = "inverse_kinematics"
    aims, q, key, tolerance = _checked(
        owner, model, targets, q, constraints, secondary, bounds, hold, key, tolerance, time
    )
    starts = whole_number(owner, "starts", starts)
    at_once = _at_once(starts) if at_once is None else whole_number(owner, "at_once", at_once)
    max_steps = whole_number(owner, "max_steps", max_steps)
    return _solved(aims, q, key, tolerance, starts, min(at_once, starts), max_steps)


def _at_once(starts: int) -> int:
    return 1 if jax.default_backend() == "cpu" else starts


def _checked(owner, model, targets, q, constraints, secondary, bounds, hold, key, tolerance, time):
    a_model(owner, model)
    targets = _costs(owner, "targets", targets)
    if not targets:
        raise ValueError(f"{owner}: targets is empty; it takes residuals: [control.Pose('tool', target)]")
    secondary = _costs(owner, "secondary", secondary)
    constraints = (constraints,) if isinstance(constraints, Constraint) else tuple(constraints)
    for one in constraints:
        instance(owner, "constraints", one, Constraint, "control.Constraints")
    constraints = (*constraints, *own_constraints(model))
    given = q is not None
    if given:
        q = configuration(owner, model, "q", q)
    dtype = np.promote_types(q.dtype, model.dtype) if given else model.dtype
    start = q if given else neutral(model) if isinstance(model, Model) else jnp.zeros(model.nq)
    lower, upper = _limits(owner, model, bounds, dtype)
    hold = () if not len(hold) else names(owner, "hold", hold)
    time = number(owner, "time", time, dtype=dtype)
    aims = Aims(model, targets, constraints, secondary, lower, upper, time, hold)
    aims = with_precision(aims, dtype)
    aims.system.dof(hold)
    if tolerance is None:
        tolerance = 1e-8 if dtype == np.float64 else 1e-5
    tolerance = number(owner, "tolerance", tolerance, dtype=dtype, above=0)
    key = jax.random.key(0) if key is None else key
    return aims, start.astype(dtype), key, tolerance


def _costs(owner: str, name: str, given) -> tuple[Cost, ...]:
    given = (given,) if isinstance(given, Cost | Residual) else given
    if not isinstance(given, tuple | list):
        raise TypeError(
            f"{owner}: {name} is {given!r}; it takes a list of residuals, or of weights times residuals"
        )
    return tuple(
        one if isinstance(one, Cost) else Cost(residual_of(f"{owner}: {name}[{i}]", one))
        for i, one in enumerate(given)
    )


def _limits(owner: str, model: Simulated, bounds: Bounds | None, dtype):
    """The limits for each entry of q."""
    if bounds is not None:
        instance(owner, "bounds", bounds, Bounds, "control.Bounds, or None for the limits of the model")
    pair = (
        bounds.q if bounds is not None else (model.lower, model.upper) if isinstance(model, Model) else None
    )
    if pair is None:
        pair = jnp.asarray(-jnp.inf, dtype), jnp.asarray(jnp.inf, dtype)
    lower, upper = (jnp.broadcast_to(side, (model.nq,)).astype(dtype) for side in pair)
    return lower, upper


@compiled
def _solved(
    aims: Aims,
    q: Float[Array, "nq"],
    key: PRNGKeyArray,
    tolerance: Float[Array, ""],
    starts: int,
    at_once: int,
    max_steps: int,
) -> InverseKinematics:
    """`inverse_kinematics` of arguments that have been checked."""
    rows = aims.rows()
    table = jax.vmap(lambda start: drawn(aims, q, key, start))(jnp.arange(starts + 1, dtype=jnp.int32))
    search = Search(aims.at, rows, tolerance, lambda start: table[start], starts, max_steps)
    lanes, iterations = search.run(aims.model.nv, q, at_once)
    local, start, reached = search.chosen(lanes)
    off = jnp.abs(apart(local))
    counted = jnp.where(local.weight > 0, off, 0)
    largest = lambda part: jnp.max(counted[part], initial=0)
    slope, _ = normal(local, rows)
    free = ~at_bound(slope, local.least, local.most)
    return InverseKinematics(
        local.q,
        jnp.where(reached, Code.CONVERGED, Code.NOT_CONVERGED).astype(jnp.int32),
        largest(rows.targets),
        jnp.stack([largest(part) for part in rows.each[: len(aims.targets)]]),
        largest(rows.constraints),
        jnp.max(jnp.where(free, jnp.abs(slope), 0), initial=0),
        iterations,
        start,
    )


def drawn(aims: Aims, q: Float[Array, "nq"], key: PRNGKeyArray, start: Int[Array, ""]) -> Float[Array, "nq"]:
    """Where a search starts: at first in the configuration given, then in random ones; what is held stays as given."""
    model = aims.model
    own = jax.random.fold_in(key, start)
    if isinstance(model, Model):
        other = random_configuration(model, own).astype(q.dtype)
    else:
        other = jax.random.uniform(own, q.shape, q.dtype, -jnp.pi, jnp.pi)
    limited = jnp.isfinite(aims.lower) & jnp.isfinite(aims.upper)
    share = jax.random.uniform(jax.random.fold_in(own, 1), q.shape, q.dtype)
    lower, upper = (jnp.where(limited, side, 0) for side in (aims.lower, aims.upper))
    other = jnp.where(limited, lower + share * (upper - lower), other)
    if aims.hold:
        kept = np.zeros(model.nq, bool)
        for joint in aims.hold:
            kept[model.q_slice(joint)] = True
        other = jnp.where(kept, q, other)
    return jnp.clip(jnp.where(start == 0, q, other), aims.lower, aims.upper)


class Lane(NamedTuple):
    """One search: where it is, and what it tries next.

    - `local`, `value`: the best of the present start, and what it costs; `step`: where to look next.
    - `damping`, `growth`; `steps`, `slow`: of the present start, how many and how many in succession that gained little.
    - `start`: the present one; `best`, `least`, `best_start`: of those given up.
    """

    local: Local
    value: Float[Array, ""]
    step: Float[Array, "nv"]
    damping: Float[Array, ""]
    growth: Float[Array, ""]
    steps: Int[Array, ""]
    slow: Int[Array, ""]
    start: Int[Array, ""]
    reached: Bool[Array, ""]
    best: Float[Array, "nq"]
    least: Float[Array, ""]
    best_start: Int[Array, ""]


class Search(NamedTuple):
    """The search for a configuration in which all rows vanish."""

    at: Callable[[Float[Array, "nq"], Float[Array, "nv"]], Local]
    rows: Rows
    tolerance: Float[Array, ""]
    draw: Callable[[Int[Array, ""]], Float[Array, "nq"]]
    starts: int
    max_steps: int

    def run(self, nv, q, at_once: int):
        def begin(start):
            here = self.draw(start)
            still = jnp.zeros(nv, q.dtype)
            local = self.at(here, still)
            endless, none = jnp.asarray(jnp.inf, q.dtype), jnp.int32(0)
            damping = jnp.asarray(DAMPING, q.dtype)
            return Lane(
                local,
                endless,
                still,
                damping,
                jnp.asarray(2, q.dtype),
                none,
                none,
                start,
                jnp.asarray(False),
                here,
                endless,
                start,
            )

        def going_on(carry):
            lanes, _ = carry
            return ~jnp.any(lanes.reached) & jnp.any(lanes.start < self.starts)

        ask = lambda lane: self.advance(lane, at_once)
        if at_once == 1:
            lanes = begin(jnp.int32(0))
        else:
            lanes = jax.vmap(begin)(jnp.arange(at_once, dtype=jnp.int32))
            ask = jax.vmap(ask)
        lanes, steps = lax.while_loop(
            going_on, lambda carry: (ask(carry[0]), carry[1] + at_once), (lanes, jnp.int32(0))
        )
        return lanes, steps

    def chosen(self, lanes: Lane) -> tuple[Local, Int[Array, ""], Bool[Array, ""]]:
        """The first that has reached everything, else the best that was given up; from which start, and which of both it is."""
        if lanes.start.ndim:
            place = jnp.where(jnp.any(lanes.reached), jnp.argmax(lanes.reached), jnp.argmin(lanes.least))
            lanes = jax.tree.map(lambda x: x[place], lanes)
        q = jnp.where(lanes.reached, lanes.local.q, lanes.best)
        local = self.at(q, jnp.zeros_like(lanes.step))
        return local, jnp.where(lanes.reached, lanes.start, lanes.best_start), lanes.reached

    def advance(self, lane: Lane, stride: int) -> Lane:
        trial = self.at(lane.local.q, lane.step)
        value = cost_of_rows(trial, self.rows)
        promised = lane.value
        better = value < lane.value
        local = jax.tree.map(lambda new, old: jnp.where(better, new, old), trial, lane.local)
        gain = jnp.where(better, (lane.value - value) / jnp.where(lane.value > 0, lane.value, 1), 0)
        gain = jnp.where(jnp.isinf(lane.value), 1, gain)
        damping = jnp.where(better, lane.damping / 5, lane.damping * lane.growth)
        growth = jnp.where(better, 2.0, 2 * lane.growth).astype(value.dtype)
        slow = jnp.where(gain < SLOW, lane.slow + 1, 0)
        steps = lane.steps + 1
        value = jnp.where(better, value, lane.value)
        reached = within(local, self.rows, self.tolerance)
        over = ~reached & ((slow >= SLOW_STEPS) | (steps >= self.max_steps))
        record = over & (value < lane.least)
        best = jnp.where(record, local.q, lane.best)
        least = jnp.where(record, value, lane.least)
        best_start = jnp.where(record, lane.start, lane.best_start)
        start = jnp.where(over, lane.start + stride, lane.start)
        q = jnp.where(over, self.draw(start), local.q)
        local = local._replace(q=q)
        slope, curvature = normal(local, self.rows)
        shift = damping * jnp.max(jnp.diagonal(curvature)) + jnp.finfo(value.dtype).tiny
        eye = jnp.eye(len(slope), dtype=value.dtype)
        step = bounded_minimum(curvature + shift * eye, slope, local.least, local.most)
        fresh = lambda new, old: jnp.where(over, new, old)
        return Lane(
            local,
            fresh(jnp.inf, value).astype(value.dtype),
            fresh(0.0, step).astype(value.dtype),
            fresh(DAMPING, damping).astype(value.dtype),
            fresh(2.0, growth).astype(value.dtype),
            fresh(0, steps),
            fresh(0, slow),
            start,
            reached,
            best,
            least,
            best_start,
        )


def apart(local: Local) -> Float[Array, "m"]:
    """By how much each row is not between its bounds."""
    return local.r - jnp.clip(local.r, local.low, local.high)


def searched(rows: Rows) -> slice:
    """The rows that a search makes zero: those of targets and constraints."""
    return slice(0, rows.constraints.stop)


def cost_of_rows(local: Local, rows: Rows) -> Float[Array, ""]:
    own = searched(rows)
    return 0.5 * jnp.sum(local.weight[own] * apart(local)[own] ** 2)


def within(local: Local, rows: Rows, tolerance) -> Bool[Array, ""]:
    own = searched(rows)
    return jnp.all((jnp.abs(apart(local)[own]) <= tolerance) | (local.weight[own] == 0))


def normal(local: Local, rows: Rows):
    """Slope and curvature of the sum of squares, after Gauss and Newton."""
    own = searched(rows)
    off = apart(local)[own]
    jacobian = local.jacobian[own]
    weight = jnp.where((off != 0) | (local.low == local.high)[own], local.weight[own], 0)
    slope = jnp.sum(jacobian * (weight * off)[:, None], axis=0)
    curvature = jnp.sum(jacobian[:, :, None] * (weight[:, None] * jacobian)[:, None, :], axis=0)
    return slope, curvature
