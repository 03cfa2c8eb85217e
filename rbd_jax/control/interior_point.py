"""A primal-dual interior-point method for programs on stages, after Wächter & Biegler (2006), with Riccati's recursion.

Rows within bounds have slacks s with a logarithmic barrier of weight μ. Steps come from Newton's method on the perturbed
optimality conditions. They are shortened to stay inside the bounds, and until a filter accepts them because they reduce the
cost or the infeasibility. A small dual regularization softens the rows, so that rows may repeat or be linearly dependent.
Multipliers and slacks are eliminated row by row, and next points by their steps. The remaining problem is linear-quadratic.

If no step is accepted, the method temporarily drops the cost. It minimizes the squared infeasibility of the rows under the
same steps and bounds until the infeasibility has decreased. A nonzero minimum of these squares shows that the problem is
infeasible.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from .._core.arguments import choice, whole_number
from .._core.array import is_known, matvec, vecmat
from ..optimize.outcome import Code
from ._stages import Hessian, Stages
from .lqr import LinearQuadratic, Policy, followed, riccati
from .parallel_lqr import parallel_followed, parallel_riccati
from .solution import Solution
from .solver import Solver, Start
from .transcription import Expanded, Transcription, Values, condensed


class Multipliers(eqx.Module):
    """The multipliers of a program on stages, for the unscaled cost.

    - `costates`: of the defects, (N, nx).
    - `rows`: of the rows, (N + 1, m + nx + nw).
    - `low`, `high`: of the lower and upper bounds of the slacks.
    """

    costates: Float[Array, "*batch N nx"]
    rows: Float[Array, "*batch M rows"]
    low: Float[Array, "*batch M rows"]
    high: Float[Array, "*batch M rows"]


class InteriorPoint(Solver):
    """A primal-dual interior-point method. The subclasses `Shooting` and `Collocation` define the program.

    - `tolerance`: of the optimality conditions and the infeasibility; by default 1e-8, in float32 1e-4.
    - `max_iterations`: maximum number of steps.
    - `hessian`: "full", or "gauss-newton": without second derivatives of residuals, steps and constraints.
    - `barrier`: the initial weight of the barrier.
    - `parallel`: solves the linear-quadratic problems by an associative scan, as `lqr` does: for long horizons on a GPU.
    """

    tolerance: float | None
    barrier: float
    hessian: Hessian = eqx.field(static=True)
    max_iterations: int = eqx.field(static=True)
    parallel: bool = eqx.field(static=True)

    def __init__(
        self,
        *,
        hessian: Hessian = "full",
        max_iterations: int = 500,
        tolerance: float | None = None,
        barrier: float = 0.1,
        parallel: bool = False,
    ):
        owner = f"control.{type(self).__name__}"
        choice(owner, "hessian", hessian, ("gauss-newton", "full"))
        self.hessian = hessian
        self.max_iterations = whole_number(owner, "max_iterations", max_iterations)
        self.tolerance = None if tolerance is None else positive(owner, "tolerance", tolerance)
        self.parallel = bool(parallel)
        self.barrier = positive(owner, "barrier", barrier)

    @abc.abstractmethod
    def transcribed(self, stages: Stages) -> Transcription:
        """Returns the problem as a program on stages."""

    def begin(self, stages: Stages, start: Start) -> Progress:
        return self._method(stages).begun(start)

    def going_on(self, search: Progress) -> Bool[Array, ""]:
        return (search.code == RUNNING) & (search.iteration < self.max_iterations)

    def iterate(self, stages: Stages, search: Progress) -> Progress:
        return self._method(stages).iterate(search)

    def finish(self, stages: Stages, search: Progress) -> Solution:
        return self._method(stages).solution(search)

    def _method(self, stages: Stages) -> Method:
        return Method(self.transcribed(stages), self)


# Constants of Wächter & Biegler, with their names in the paper.
KAPPA_EPSILON, KAPPA_MU, THETA_MU = 10.0, 0.2, 1.5
GAMMA_THETA, GAMMA_PHI, DELTA, S_THETA, S_PHI, ETA_PHI = 1e-5, 1e-5, 1.0, 1.1, 2.3, 1e-4
KAPPA_SIGMA, S_MAX, TAU_MIN = 1e10, 100.0, 0.99
PUSH = 1e-2
#: Steeper costs are scaled to this largest slope.
STEEP = 100.0
#: Factor on the initial barrier weight for a warm start with multipliers.
WARM = 1e-3
#: Maximum number of halvings of a step.
HALVINGS = 25
#: Number of entries of the filter.
FILTERED = 64
#: Primal regularization: first, least and largest value; growth factors at first and later; shrink factor.
FIRST, LEAST, LARGEST, FASTER, GROWN, SHRUNK = 1e-4, 1e-20, 1e10, 100.0, 8.0, 1 / 3

#: Regularization without the cost, relative to the barrier weight. It bounds steps along undetermined directions.
SOFTLY = 1e-2
#: Relative tolerance of a minimum of the infeasibility.
SURELY = 1e-5

#: Not a `Code`: the search continues.
RUNNING = -1


class Place(NamedTuple):
    """An iterate: a motion with slacks and multipliers."""

    points: Any
    inputs: Float[Array, "N nw"]
    slacks: Float[Array, "M rows"]
    costates: Float[Array, "N nx"]
    rows: Float[Array, "M rows"]
    low: Float[Array, "M rows"]
    high: Float[Array, "M rows"]


class Filter(NamedTuple):
    """Pairs of infeasibility and merit that later iterates must improve on."""

    missed: Float[Array, "FILTERED"]
    merit: Float[Array, "FILTERED"]
    next: Int[Array, ""]

    @staticmethod
    def empty(dtype):
        return Filter(jnp.full(FILTERED, jnp.inf, dtype), jnp.full(FILTERED, jnp.inf, dtype), jnp.int32(0))

    def added(self, missed, merit) -> Filter:
        at = self.next % FILTERED
        return Filter(self.missed.at[at].set(missed), self.merit.at[at].set(merit), self.next + 1)

    def accepts(self, missed, merit):
        return ~jnp.any((missed >= self.missed) & (merit >= self.merit))


class Progress(NamedTuple):
    """The state of a search between iterations."""

    place: Place
    values: Values
    filter: Filter
    mu: Float[Array, ""]
    regular: Float[Array, ""]  # the last primal regularization that was needed
    soft: Bool[Array, ""]  # whether the cost is dropped
    hard: tuple[
        Filter, Float[Array, ""], Float[Array, ""]
    ]  # filter, μ and infeasibility when the cost was dropped
    policy: Policy
    stationarity: Float[Array, ""]
    code: Int[Array, ""]
    iteration: Int[Array, ""]
    share: Float[Array, ""]
    scale: Float[Array, ""]  # of the cost
    most: Float[Array, ""]  # the initial infeasibility


class Direction(NamedTuple):
    """A step of Newton's method; the multipliers are the values after the step."""

    points: Float[Array, "M nx"]
    inputs: Float[Array, "N nw"]
    slacks: Float[Array, "M rows"]
    costates: Float[Array, "N nx"]
    rows: Float[Array, "M rows"]
    low: Float[Array, "M rows"]
    high: Float[Array, "M rows"]
    policy: Policy
    positive: Bool[Array, ""]


class Level(NamedTuple):
    """Reference values of the line search.

    These are the barrier parameter, the scale of the cost, and infeasibility (theta) and merit (phi) at the start of the
    step.
    """

    mu: Float[Array, ""]
    soft: Bool[Array, ""]
    scale: Float[Array, ""]
    most: Float[Array, ""]
    theta: Float[Array, ""]
    phi: Float[Array, ""]

    @property
    def barred(self) -> tuple[Array, Array]:
        """The filter entry that this iterate adds."""
        return (1 - GAMMA_THETA) * self.theta, self.phi - GAMMA_PHI * self.theta


class Method:
    """The method for one program."""

    def __init__(self, program: Transcription, options: InteriorPoint):
        self.program, self.options, self.dtype = program, options, program.dtype
        eps = float(jnp.finfo(self.dtype).eps)
        usual = 1e-8 if eps < 1e-12 else 1e-4
        tolerance = usual if options.tolerance is None else options.tolerance
        self.tolerance = jnp.asarray(tolerance, self.dtype)
        self.eps, self.dual = eps, eps**0.5
        self.lower, self.upper = program.bounds()
        self.equal = self.lower == self.upper
        self.has_low = jnp.isfinite(self.lower) & ~self.equal
        self.has_high = jnp.isfinite(self.upper) & ~self.equal
        self.within = self.has_low | self.has_high
        self.held = self.within | self.equal
        # The box is not softened: bounds such as that of the step length must hold exactly.
        self.softened = jnp.arange(self.lower.shape[1]) < program.m
        self.softened = (self.softened[None] | self.equal).astype(self.dtype)

    # Rows.

    def gaps(self, slacks):
        """Returns the distances of slacks from their bounds; one without a bound."""
        low = jnp.where(self.has_low, slacks - jnp.where(self.has_low, self.lower, 0), 1)
        high = jnp.where(self.has_high, jnp.where(self.has_high, self.upper, 0) - slacks, 1)
        return low, high

    def missing(self, values: Values, slacks):
        """Returns the values of rows minus their slacks."""
        return jnp.where(self.held, values.rows - slacks, 0)

    def inside(self, rows, mu):
        """Returns rows moved inside their bounds, by less for a small barrier; equalities are set to their values."""
        low = jnp.where(self.has_low, self.lower, 0)
        high = jnp.where(self.has_high, self.upper, 0)
        width = jnp.where(self.has_low & self.has_high, high - low, jnp.inf)
        share = jnp.minimum(PUSH, 10 * mu)
        push = lambda side: share * jnp.minimum(jnp.maximum(1, jnp.abs(side)), width)
        rows = jnp.where(self.has_low, jnp.maximum(rows, low + push(low)), rows)
        rows = jnp.where(self.has_high, jnp.minimum(rows, high - push(high)), rows)
        return jnp.where(self.equal, self.lower, rows)

    def barrier(self, slacks, mu):
        """Returns the logarithmic barrier."""
        low, high = self.gaps(slacks)
        logs = jnp.where(self.has_low, jnp.log(low), 0) + jnp.where(self.has_high, jnp.log(high), 0)
        return -mu * jnp.sum(logs)

    def pull(self, slacks, mu):
        """Returns the derivative of the barrier with respect to the slacks."""
        low, high = self.gaps(slacks)
        return mu * (jnp.where(self.has_high, 1 / high, 0) - jnp.where(self.has_low, 1 / low, 0))

    def pushed(self, expanded: Expanded, pushes):
        """Returns the derivative of the rows with respect to point and input, times their multipliers."""
        m = self.program.m
        return vecmat(pushes[:, :m], expanded.rows) + pushes[:, m:]

    def along(self, expanded: Expanded, changes):
        """Returns the change of rows with points and inputs."""
        return jnp.concatenate([matvec(expanded.rows, changes), changes], axis=1)

    # The start.

    def begun(self, start: Start) -> Progress:
        """Returns the state before the first iteration, which evaluates the motion, so that the evaluation compiles once."""
        program, dtype, m = self.program, self.dtype, self.program.m
        N, nx, nw = program.steps, program.nx, program.nw
        zeros = lambda *shape: jnp.zeros(shape, dtype)
        rows = jnp.zeros_like(self.lower)
        known = self.fitting(start.multipliers)
        if known is None:
            costates, pushes, below, above = zeros(N, nx), rows, rows, rows
        else:
            costates, pushes, below, above = known.costates, known.rows, known.low, known.high
        mu = jnp.asarray(self.options.barrier, dtype) * (1 if known is None else WARM)
        # Directly bounded entries of points and inputs start within their bounds.
        points, inputs = program.begun(start)
        box = program.boxed(points, inputs)
        change = self.inside(jnp.concatenate([zeros(N + 1, m), box], axis=1), mu)[:, m:] - box
        change = change.at[:, :nx].set(jnp.where(program.alike, change[-1:, :nx], change[:, :nx]))
        points = jax.vmap(program.move)(points, change[:, :nx])
        inputs = inputs + change[:-1, nx:]
        policy = Policy(
            zeros(N, nw, nx), zeros(N, nw), zeros(N + 1, nx, nx), zeros(N + 1, nx), jnp.ones((), bool)
        )
        filter = Filter.empty(dtype)
        return Progress(
            place=Place(points, inputs, self.inside(rows, mu), costates, pushes, below, above),
            values=Values(zeros(N + 1), zeros(N, nx), rows),
            filter=filter,
            mu=mu,
            regular=zeros(),
            soft=jnp.zeros((), bool),
            hard=(filter, mu, zeros()),
            policy=policy,
            stationarity=jnp.full((), jnp.inf, dtype),
            code=jnp.int32(RUNNING),
            iteration=jnp.int32(-1),
            share=zeros(),
            scale=jnp.ones((), dtype),
            most=zeros(),
        )

    def fitting(self, given: Any) -> Multipliers | None:
        """Returns multipliers of an earlier solution, if their shapes fit this program."""
        if not isinstance(given, Multipliers):
            return None
        sizes = (self.program.steps, self.program.nx), self.lower.shape
        return given if (given.costates.shape, given.rows.shape) == sizes else None

    def first(self, progress: Progress, expanded: Expanded) -> Progress:
        """Returns the state after the first iteration: slacks, multipliers, and the scale of the cost."""
        values, mu = progress.values, progress.mu
        slacks = jnp.where(self.held, self.inside(values.rows, mu), 0)
        low, high = self.gaps(slacks)
        steepest = jnp.maximum(_largest(expanded.slope), _largest(expanded.end_slope))
        scale = jnp.where(steepest > STEEP, STEEP / steepest, 1)
        # Given multipliers identify the active bounds. Without them, steps would run towards these bounds and be cut short.
        given = progress.place
        low = jnp.where(self.has_low, jnp.maximum(scale * given.low, mu / low), 0)
        high = jnp.where(self.has_high, jnp.maximum(scale * given.high, mu / high), 0)
        rows = jnp.where(self.equal, scale * progress.place.rows, high - low)
        costates = scale * progress.place.costates
        place = progress.place._replace(slacks=slacks, costates=costates, rows=rows, low=low, high=high)
        theta, phi = self.merit(place, values, mu, jnp.zeros((), bool), scale)
        finite = jnp.isfinite(theta) & jnp.isfinite(phi) & jnp.isfinite(steepest)
        crossed = jnp.any(self.lower > self.upper)  # known bounds were checked before
        return progress._replace(
            place=place,
            code=jnp.where(crossed, Code.INFEASIBLE, jnp.where(finite, RUNNING, Code.NOT_FINITE)).astype(
                jnp.int32
            ),
            scale=scale,
            most=theta,
        )

    # Merit and optimality conditions.

    def merit(self, place: Place, values: Values, mu, soft, scale):
        """Returns the infeasibility, and the cost with the barrier."""
        missing = self.missing(values, place.slacks)
        defects = jnp.sum(jnp.abs(values.defects))
        squares = 0.5 * jnp.sum((missing * self.softened) ** 2)
        cost = jnp.where(soft, squares, scale * jnp.sum(values.costs)) + self.barrier(place.slacks, mu)
        counted = jnp.where(soft, missing * (1 - self.softened), missing)
        return defects + jnp.sum(jnp.abs(counted)), cost

    def conditions(self, place: Place, values: Values, expanded: Expanded, soft, scale):
        """Returns the slopes of the Lagrangian with respect to points and inputs, and the residuals of the rows."""
        program = self.program
        nx, nz = program.nx, program.nz
        scale = jnp.where(soft, 0, scale)
        slope = scale * expanded.slope + vecmat(place.costates, expanded.defects)
        pushed = self.pushed(expanded, place.rows)
        own = jnp.concatenate([slope[:, :nz], jnp.zeros_like(slope[:1, :nz])]) + pushed
        by_points = own[:, :nx].at[1:].add(slope[:, nz:]).at[-1].add(scale * expanded.end_slope)
        by_points = by_points.at[0].set(jnp.where(program.free, by_points[0], 0))
        missing = self.missing(values, place.slacks)
        missing = jnp.where(soft & self.held, missing - self.softened * place.rows, missing)
        return by_points, own[:-1, nx:], missing

    def error(self, place: Place, values: Values, expanded: Expanded, soft, scale):
        """Returns the optimality error as a function of the barrier weight, and the steepest slope.

        The error is relative to the size of the multipliers.
        """
        by_points, by_inputs, missing = self.conditions(place, values, expanded, soft, scale)
        of_slacks = jnp.where(self.within, place.high - place.low - place.rows, 0)
        steepest = jnp.maximum(jnp.maximum(_largest(by_points), _largest(by_inputs)), _largest(of_slacks))
        number = lambda which: jnp.sum(which).astype(self.dtype)
        sizes = jnp.sum(place.low) + jnp.sum(place.high)
        bounds = number(self.has_low) + number(self.has_high)
        all_sizes = sizes + jnp.sum(jnp.abs(place.costates)) + jnp.sum(jnp.abs(place.rows))
        count = bounds + place.costates.size + number(self.held)
        s_d = jnp.maximum(S_MAX, all_sizes / jnp.maximum(count, 1)) / S_MAX
        s_c = jnp.maximum(S_MAX, sizes / jnp.maximum(bounds, 1)) / S_MAX
        missed = jnp.maximum(_largest(values.defects), _largest(missing))
        others = jnp.maximum(steepest / s_d, missed)
        low, high = self.gaps(place.slacks)

        def largest(mu):
            below = _largest(jnp.where(self.has_low, place.low * low - mu, 0))
            above = _largest(jnp.where(self.has_high, place.high * high - mu, 0))
            return jnp.maximum(others, jnp.maximum(below, above) / s_c)

        return largest, steepest

    # Steps.

    def direction(
        self, place: Place, values: Values, expanded: Expanded, mu, soft, scale, regular
    ) -> Direction:
        """Returns the Newton step, with a multiple of the unit matrix added to the second derivatives."""
        program = self.program
        nx, nz, m = program.nx, program.nz, program.m
        scale = jnp.where(soft, 0, scale)
        low, high = self.gaps(place.slacks)
        stiff = place.low / low + place.high / high
        missing = self.missing(values, place.slacks)
        pull = self.pull(place.slacks, mu)
        # For each row: y⁺ = weight (J δ) + push, from δs = J δ + r - s - give (y⁺ - center) and y⁺ = pull + stiff δs.
        give = self.softened * jnp.where(soft, 1, self.dual)
        center = jnp.where(soft, 0, place.rows)
        bounded = jnp.where(self.within, 1 / (1 + stiff * give), 0)
        equal = jnp.where(self.equal, 1 / jnp.where(self.equal, give, 1), 0)
        weight = jnp.where(self.equal, equal, bounded * stiff)
        push = jnp.where(
            self.equal,
            jnp.where(self.equal, center, 0) + equal * missing,
            bounded * (pull + stiff * (give * center + missing)),
        )

        steps = program.steps_of(expanded, values.defects)
        pushed = self.pushed(expanded, push)
        unit = jnp.eye(nz, dtype=self.dtype)[None]
        stiffness = (
            jnp.einsum("kri,kr,krj->kij", expanded.rows, weight[:, :m], expanded.rows, precision="highest")
            + (weight[:, m:, None] + regular + jnp.where(soft, SOFTLY * mu, 0)) * unit
        )
        curvature = expanded.curvature.at[:, :nz, :nz].add(stiffness[:-1])
        slope = (scale * expanded.slope).at[:, :nz].add(pushed[:-1])
        quadratic = condensed(
            steps,
            curvature,
            slope,
            expanded.end_curvature + stiffness[-1, :nx, :nx],
            scale * expanded.end_slope + pushed[-1, :nx],
        )
        x, w, policy, positive = solved(quadratic, program.free, self.options.parallel)
        ahead = matvec(policy.P[1:], x[1:]) + policy.p[1:]
        z = jnp.concatenate([x[:-1], w, x[1:]], axis=1)
        ahead = ahead + matvec(expanded.curvature[:, nz:], z) + slope[:, nz:]
        costates = program.costates_of(steps, ahead)
        changes = jnp.concatenate([x, jnp.concatenate([w, jnp.zeros_like(w, shape=(1, nz - nx))])], axis=1)
        along = self.along(expanded, changes)
        rows = weight * along + push
        slacks = jnp.where(self.within, along + missing - give * (rows - center), 0)
        return Direction(
            x,
            w,
            slacks,
            costates,
            rows,
            jnp.where(self.has_low, (mu - place.low * slacks) / low, 0),
            jnp.where(self.has_high, (mu + place.high * slacks) / high, 0),
            policy,
            positive & jnp.all(jnp.isfinite(x)),
        )

    def convex_direction(
        self, place, values, expanded, mu, soft, scale, last, wanted
    ) -> tuple[Direction, Array]:
        """Returns the step with the least of the tried regularizations that makes the quadratic model convex."""
        first = jnp.where(last > 0, jnp.maximum(LEAST, SHRUNK * last), FIRST)
        growth = jnp.where(last > 0, GROWN, FASTER)

        def again(carry):
            direction, regular = carry
            return ~direction.positive & (regular < LARGEST) & (wanted | (regular < 0))

        def regularized(carry):
            _, regular = carry
            regular = jnp.where(regular < 0, 0, jnp.where(regular > 0, growth * regular, first))
            regular = regular.astype(self.dtype)
            return self.direction(place, values, expanded, mu, soft, scale, regular), regular

        # A placeholder for the first iteration, so that the loop body compiles once.
        untried = jax.tree.map(
            lambda like: jnp.zeros(like.shape, like.dtype),
            jax.eval_shape(regularized, (None, jnp.zeros((), self.dtype)))[0],
        )
        direction, regular = lax.while_loop(again, regularized, (untried, -jnp.ones((), self.dtype)))
        return direction, jnp.where(regular > 0, regular, last)

    def moved(self, place: Place, direction: Direction, share) -> Place:
        """Returns the iterate after a share of a step, with unchanged multipliers."""
        points = jax.vmap(self.program.move)(place.points, share * direction.points)
        return place._replace(
            points=points,
            inputs=place.inputs + share * direction.inputs,
            slacks=place.slacks + share * direction.slacks,
        )

    def longest(self, gaps, changes, tau):
        """Returns the largest share of a step that leaves at least `1 - tau` of each gap."""
        shares = jnp.where(changes < 0, -tau * gaps / jnp.where(changes < 0, changes, 1), 1)
        return jnp.minimum(1, jnp.min(shares, initial=1.0))

    def descent(self, place: Place, values, expanded, direction: Direction, mu, soft, scale):
        """Returns the derivative of the cost with the barrier along a step."""
        program = self.program
        x, w = direction.points, direction.inputs
        z = jnp.concatenate([x[:-1], w, x[1:]], axis=1)
        cost = scale * (jnp.sum(expanded.slope * z) + jnp.sum(expanded.end_slope * x[-1]))
        changes = jnp.concatenate([x, jnp.concatenate([w, jnp.zeros_like(w, shape=(1, program.nw))])], axis=1)
        along = jnp.where(self.held, self.along(expanded, changes) - direction.slacks, 0)
        squares = jnp.sum(self.missing(values, place.slacks) * along * self.softened)
        return jnp.where(soft, squares, cost) + jnp.sum(self.pull(place.slacks, mu) * direction.slacks)

    def iterate(self, progress: Progress) -> Progress:
        """Performs one iteration."""
        program, options, scale, most = self.program, self.options, progress.scale, progress.most
        place, values, soft = progress.place, progress.values, progress.soft
        m, first = program.m, progress.iteration < 0
        expanded = program.expand(
            place.points,
            place.inputs,
            place.costates,
            place.rows[:, :m],
            jnp.where(soft, 0, scale),
            options.hessian,
        )
        error, steepest = self.error(place, values, expanded, soft, scale)
        missed_rows = _largest(self.missing(values, place.slacks))
        final = error(0)
        enough = jnp.where(soft, jnp.maximum(self.tolerance, SURELY * missed_rows), self.tolerance)
        done = (final <= enough) & ~first
        code = jnp.where(done, jnp.where(soft, Code.INFEASIBLE, Code.CONVERGED), RUNNING)

        mu, filter = self.lowered(progress, error, first)
        direction, regular = self.convex_direction(
            place, values, expanded, mu, soft, scale, progress.regular, ~first
        )
        longest, dual = self.longest_shares(place, direction, mu)
        level = Level(mu, soft, scale, most, *self.merit(place, values, mu, soft, scale))
        slope = self.descent(place, values, expanded, direction, mu, soft, scale)
        new, new_values, taken, by_cost, share = self.searched(
            place, values, direction, level, slope, filter, jnp.where(first, 0, longest), first
        )
        taken &= direction.positive | first
        barred = _where(by_cost, filter, filter.added(*level.barred))
        new = new._replace(
            costates=place.costates + share * (direction.costates - place.costates),
            rows=place.rows + share * (direction.rows - place.rows),
            low=place.low + dual * (direction.low - place.low),
            high=place.high + dual * (direction.high - place.high),
        )
        new = self.kept_near(new, mu)
        goes = taken & ~done
        after = progress._replace(
            place=_where(goes, new, place),
            values=_where(goes, new_values, values),
            filter=_where(goes, barred, filter),
            mu=mu,
            regular=jnp.where(direction.positive, regular, 0),
            policy=direction.policy,
            stationarity=steepest / scale,
            iteration=progress.iteration + 1,
            share=share,
        )
        stuck = ~taken & ~done
        code = jnp.where(stuck & soft, Code.STALLED, code)
        after = self.with_or_without_cost(after, stuck, scale, level.theta, level.phi)
        begun = self.first(progress._replace(values=new_values, iteration=progress.iteration + 1), expanded)
        return _where(first, begun, after._replace(code=code.astype(jnp.int32)))

    def lowered(self, progress: Progress, error: Callable, first: Bool[Array, ""]):
        """Returns the barrier parameter, decreased as far as its subproblem is solved, and the filter, reset if it decreased."""
        mu, filter = progress.mu, progress.filter
        for _ in range(3):
            lower = jnp.maximum(self.tolerance / KAPPA_EPSILON, jnp.minimum(KAPPA_MU * mu, mu**THETA_MU))
            lowered = (error(mu) <= KAPPA_EPSILON * mu) & (lower < mu) & ~first
            mu = jnp.where(lowered, lower, mu)
            filter = _where(lowered, Filter.empty(self.dtype), filter)
        return mu, filter

    def longest_shares(self, place: Place, direction: Direction, mu):
        """Returns the largest shares of a direction that keep slacks, and multipliers, positive."""
        tau = jnp.maximum(TAU_MIN, 1 - mu)
        gaps_low, gaps_high = self.gaps(place.slacks)
        primal = jnp.minimum(
            self.longest(gaps_low, jnp.where(self.has_low, direction.slacks, 0), tau),
            self.longest(gaps_high, jnp.where(self.has_high, -direction.slacks, 0), tau),
        )
        dual = jnp.minimum(
            self.longest(place.low, direction.low - place.low, tau),
            self.longest(place.high, direction.high - place.high, tau),
        )
        return primal, dual

    def searched(
        self, place: Place, values, direction: Direction, level: Level, slope, filter, longest, first
    ):
        """Backtracks until the filter accepts a step.

        Returns:
          The iterate, its values, whether the step was accepted, whether by the Armijo condition, and its share of the direction.
        """
        mu, soft, scale, most, theta, phi = level
        least_theta, most_theta = 1e-4 * jnp.maximum(1, most), 1e4 * jnp.maximum(1, most)
        rounding = 10 * self.eps * jnp.abs(phi)
        tiny = (
            jnp.maximum(_largest(direction.points), _largest(direction.inputs / (1 + jnp.abs(place.inputs))))
            < 10 * self.eps
        )

        def trial(share):
            new = _where(first, place, self.moved(place, direction, share))
            new_values = self.program.evaluate(new.points, new.inputs)
            new_theta, new_phi = self.merit(new, new_values, mu, soft, scale)
            downhill = (slope < 0) & (theta <= least_theta)
            downhill &= share * jnp.maximum(-slope, 0) ** S_PHI > DELTA * theta**S_THETA
            armijo = new_phi <= phi + ETA_PHI * share * slope + rounding
            less = (new_theta <= (1 - GAMMA_THETA) * theta) | (new_phi <= phi - GAMMA_PHI * theta + rounding)
            finite = jnp.isfinite(new_phi) & jnp.isfinite(new_theta)
            taken = finite & (new_theta <= most_theta) & filter.accepts(new_theta, new_phi)
            taken &= jnp.where(downhill, armijo, less)
            taken |= (tiny & finite) | first
            return new, new_values, taken, downhill & armijo

        def again(carry):
            _, _, taken, _, _, halvings = carry
            return ~taken & (halvings <= HALVINGS)

        def shorter(carry):
            *_, share, halvings = carry
            share = jnp.where(halvings > 0, 0.5 * share, share)
            return (*trial(share), share, halvings + 1)

        nothing = jnp.zeros((), bool)
        start = place, values, nothing, nothing, longest, jnp.int32(0)
        return lax.while_loop(again, shorter, start)[:5]

    def kept_near(self, place: Place, mu) -> Place:
        """Returns multipliers of slacks clipped to within a large factor of the barrier's values."""
        low, high = self.gaps(place.slacks)
        near = lambda z, gap: jnp.clip(z, mu / (KAPPA_SIGMA * gap), KAPPA_SIGMA * mu / gap)
        return place._replace(
            low=jnp.where(self.has_low, near(place.low, low), 0),
            high=jnp.where(self.has_high, near(place.high, high), 0),
        )

    def with_or_without_cost(self, progress: Progress, stuck, scale, theta, phi) -> Progress:
        """Drops the cost if no step was accepted, and restores it once the infeasibility has decreased."""
        place, values, soft = progress.place, progress.values, progress.soft
        missing = self.missing(values, place.slacks)
        filter, mu, missed = progress.hard
        leaves = stuck & ~soft
        barred = progress.filter.added((1 - GAMMA_THETA) * theta, phi - GAMMA_PHI * theta)
        hard = _where(leaves, (barred, progress.mu, theta), progress.hard)
        large = jnp.maximum(progress.mu, jnp.minimum(_largest(missing), 1))
        now, cost = self.merit(place, values, mu, jnp.zeros((), bool), scale)
        returns = soft & (now <= 0.9 * missed) & filter.accepts(now, cost)
        start = Filter.empty(self.dtype)
        rows = jnp.where(leaves, jnp.where(self.equal, missing, place.high - place.low), place.rows)
        rows = jnp.where(returns, jnp.where(self.equal, 0, place.high - place.low), rows)
        reset = leaves | returns
        return progress._replace(
            place=place._replace(rows=rows, costates=jnp.where(reset, 0, place.costates)),
            soft=(soft | leaves) & ~returns,
            hard=hard,
            filter=_where(leaves, start, _where(returns, filter, progress.filter)),
            mu=jnp.where(leaves, large, jnp.where(returns, mu, progress.mu)),
            regular=jnp.where(reset, 0, progress.regular),
        )

    def solution(self, end: Progress) -> Solution:
        """Returns the solution of the problem at the end of a search."""
        program, place, values, scale = self.program, end.place, end.values, end.scale
        stages, points = program.stages, program.states(place.points)
        control, nodes = program.controls(place.points, place.inputs)
        indices = jnp.arange(stages.steps + 1, dtype=jnp.int32)
        beyond = values.rows - jnp.clip(values.rows, self.lower, self.upper)
        return Solution(
            t=jax.vmap(stages.time)(indices, points),
            q=points.state.q,
            v=points.state.v,
            own=points.state.own,
            control=control,
            control_nodes=nodes,
            dt=points.dt[0],
            cost=jnp.sum(values.costs),
            code=jnp.where(end.code == RUNNING, Code.NOT_CONVERGED, end.code).astype(jnp.int32),
            iterations=end.iteration,
            violation=jnp.maximum(_largest(values.defects), _largest(beyond)),
            stationarity=end.stationarity,
            gains=program.feedback(end.policy)[..., : stages.nx],
            costates=end.policy.p[..., : stages.nx] / scale,
            multipliers=Multipliers(
                place.costates / scale, place.rows / scale, place.low / scale, place.high / scale
            ),
        )


def solved(quadratic: LinearQuadratic, free, parallel: bool) -> tuple[Array, Array, Policy, Array]:
    """Returns the optimal changes of points and inputs, the policy, and whether a minimum exists.

    Free entries of the first point are optimized, too.
    """
    policy = (parallel_riccati if parallel else riccati)(quadratic)
    first, positive = jnp.zeros_like(policy.p[0]), policy.positive
    if free.any():
        at = free.nonzero()[0]
        factor = jnp.linalg.cholesky(policy.P[0][at][:, at])
        first = first.at[at].set(-jax.scipy.linalg.cho_solve((factor, True), policy.p[0][at]))
        positive &= jnp.all(jnp.isfinite(factor))
    x, w = (parallel_followed if parallel else followed)(quadratic, policy, first)
    return x, w, policy, positive


def _largest(x):
    return jnp.max(jnp.abs(x), initial=0.0)


def _where(condition, yes, no):
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def positive(owner: str, name: str, value):
    """Checks that a number is positive, and returns it unchanged."""
    if is_known(value) and not 0 < value < np.inf:
        raise ValueError(f"{owner}: {name} is {value!r}; it is a positive number")
    return value
