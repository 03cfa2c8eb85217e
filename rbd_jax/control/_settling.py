"""Refinement after a search: minimizes squares of some rows subject to other rows, by Newton's method.

    minimize    ½ Σ w r²    over the rows to minimize
    subject to  low ≤ r ≤ high    for the held rows, and limits

An augmented Lagrangian handles the held rows, so they may be linearly dependent, as rows of closed loops often are. The
second derivative is complete: where squares do not vanish, Gauss-Newton steps converge slowly.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from .._core.array import times, vecmat
from ..optimize.bounded import at_bound, bounded_minimum
from ._configurations import At, Local, empty


#: Maximum number of steps, and of consecutive failed steps before the remaining error is attributed to rounding.
STEPS, FAILED = 200, 10
#: Values are equal if they differ by at most this multiple of their rounding error.
ROUNDING = 16
#: Initial and maximum penalty, in units of the weights; it grows if the violation did not shrink to this share.
PENALTY, LARGEST, SHRUNK = 1e2, 1e7, 0.2


class Task(NamedTuple):
    """The rows to minimize, and the rows to hold.

    - `weight`: of the square of each row; zero for rows that do not count.
    - `held`: which rows are held.
    """

    weight: Float[Array, "m"]
    held: Bool[Array, "m"]

    def apart(self, local: Local, shift: Float[Array, "m"] | float = 0.0) -> Float[Array, "m"]:
        """Returns the violation of the bounds of each held row, shifted."""
        moved = local.r + shift
        return jnp.where(self.held, moved - jnp.clip(moved, local.low, local.high), 0)


class Settled(NamedTuple):
    """The result of a refinement.

    - `stationarity`: the largest entry of the derivative of the Lagrangian along free directions.
    - `stationary`: whether it is zero to the tolerance. `broken`: the largest violation of a held row.
    """

    q: Float[Array, "nq"]
    stationarity: Float[Array, ""]
    stationary: Bool[Array, ""]
    broken: Float[Array, ""]
    iterations: Int[Array, ""]


class _Carry(NamedTuple):
    local: Local
    bent: Float[Array, "nv nv"]
    value: Float[Array, ""]
    step: Float[Array, "nv"]
    damping: Float[Array, ""]
    slope: Float[Array, "nv"]
    multiplier: Float[Array, "m"]
    penalty: Float[Array, ""]
    broken: Float[Array, ""]
    stationarity: Float[Array, ""]
    stationary: Bool[Array, ""]
    failed: Int[Array, ""]
    steps: Int[Array, ""]
    over: Bool[Array, ""]


def bending(carry: _Carry, trial: Local, force: Float[Array, "m"]) -> Float[Array, "nv nv"]:
    """Returns `Σ λ ∇²r`, from the change of `Jᵀ λ` along the last step (Dennis, Gay & Welsch 1981)."""
    step, known = carry.step, carry.bent
    change = vecmat(force, trial.jacobian - carry.local.jacobian)
    along = vecmat(force, trial.jacobian) - carry.slope
    power, own, seen = jnp.sum(along * step), jnp.sum(step * times(known, step)), jnp.sum(step * change)
    # An estimate from other points may be too large here.
    known = known * jnp.where(
        jnp.abs(own) > jnp.abs(seen), jnp.abs(seen) / jnp.where(own != 0, jnp.abs(own), 1), 1
    )
    off = change - times(known, step)
    both = off[:, None] * along[None, :]
    fresh = jnp.where(power > 0, power, 1)
    found = known + (both + both.T) / fresh - jnp.sum(off * step) * along[:, None] * along[None, :] / fresh**2
    good = (power > 0) & jnp.all(jnp.isfinite(found)) & (carry.steps > 0)
    return jnp.where(good, found, known)


def settled(
    at: At, q: Float[Array, "nq"], still: Float[Array, "nv"], task: Task, tolerance: Float[Array, ""]
) -> Settled:
    """Refines a configuration to the nearby solution of a task."""
    scale = jnp.max(task.weight, initial=0)
    return _Search(at, task, tolerance, jnp.where(scale > 0, scale, 1)).run(q, still)


class _Search(NamedTuple):
    """The iteration of `settled`; `scale` is the largest weight."""

    at: At
    task: Task
    tolerance: Float[Array, ""]
    scale: Float[Array, ""]

    def run(self, q: Float[Array, "nq"], still: Float[Array, "nv"]) -> Settled:
        number = lambda x: jnp.asarray(x, q.dtype)
        none, no = jnp.int32(0), jnp.asarray(False)
        start = _Carry(
            empty(self.at, q, still), jnp.zeros((still.size, still.size), q.dtype), number(jnp.inf), still,
            number(1e-3), still, jnp.zeros_like(self.task.weight), PENALTY * self.scale, number(jnp.inf), number(jnp.inf),
            no, none, none, no,
        )  # fmt: skip
        end = lax.while_loop(lambda carry: ~carry.over & (carry.steps < STEPS), self.advance, start)
        broken = jnp.max(jnp.abs(self.task.apart(end.local)), initial=0)
        return Settled(end.local.q, end.stationarity, end.stationary & end.over, broken, end.steps)

    def forces(self, local: Local, multiplier, penalty) -> Float[Array, "m"]:
        """Returns the derivative of the objective with respect to each row."""
        return self.task.weight * local.r + penalty * self.task.apart(local, multiplier / penalty)

    def cost(self, local: Local, multiplier, penalty) -> Float[Array, ""]:
        off = self.task.apart(local, multiplier / penalty)
        value = 0.5 * jnp.sum(self.task.weight * local.r**2) + 0.5 * penalty * jnp.sum(off**2)
        return jnp.where(jnp.isfinite(value), value, jnp.inf)

    def steepness(self, local: Local, multiplier, penalty) -> tuple[Float[Array, "nv"], Float[Array, ""]]:
        """Returns the gradient of the objective, and its largest entry among coordinates that are not at a bound."""
        slope = vecmat(self.forces(local, multiplier, penalty), local.jacobian)
        stuck = at_bound(slope, local.least, local.most)
        return slope, jnp.max(jnp.where(stuck, 0, jnp.abs(slope)), initial=0)

    def improves(self, carry: _Carry, trial: Local, after: Float[Array, ""]) -> Bool[Array, ""]:
        """Returns whether a step improves the objective, whose value at its end is `after`."""
        held = carry.multiplier, carry.penalty
        # Near the minimum values agree to rounding while gradients still differ, so a smaller gradient counts as better.
        level = after <= carry.value + ROUNDING * jnp.finfo(after.dtype).eps * jnp.abs(carry.value)
        flatter = self.steepness(trial, *held)[1] < self.steepness(carry.local, *held)[1]
        return (after < carry.value) | (level & flatter)

    def step(self, local: Local, bent, slope, multiplier, penalty, damping) -> Float[Array, "nv"]:
        """Returns the full Newton step if it is a descent direction, otherwise the Gauss-Newton step."""
        task, eps = self.task, jnp.finfo(slope.dtype).eps
        active = task.apart(local, multiplier / penalty) != 0
        weight = task.weight + jnp.where(task.held & (active | (local.low == local.high)), penalty, 0)
        squares = jnp.sum(local.jacobian[:, :, None] * (weight[:, None] * local.jacobian)[:, None, :], axis=0)
        largest = jnp.max(jnp.diagonal(squares), initial=0)
        shift = (damping + 10 * eps) * jnp.where(largest > 0, largest, 1)
        damped = shift * jnp.eye(len(slope), dtype=slope.dtype)
        whole = bounded_minimum(squares + bent + damped, slope, local.least, local.most)
        plain = bounded_minimum(squares + damped, slope, local.least, local.most)
        downhill = jnp.all(jnp.isfinite(whole)) & (jnp.sum(whole * slope) < 0)
        return jnp.where(downhill, whole, plain)

    def advance(self, carry: _Carry) -> _Carry:
        task, tolerance, stiffest = self.task, self.tolerance, LARGEST * self.scale
        trial = self.at(carry.local.q, carry.step)
        after = self.cost(trial, carry.multiplier, carry.penalty)
        better = self.improves(carry, trial, after)
        bent = bending(carry, trial, self.forces(trial, carry.multiplier, carry.penalty))
        local = jax.tree.map(lambda new, old: jnp.where(better, new, old), trial, carry.local)
        value = jnp.where(better, after, carry.value)
        damping = jnp.where(better, carry.damping / 10, 8 * jnp.maximum(carry.damping, 1e-10))
        failed = jnp.where(better, 0, carry.failed + 1)

        force = self.forces(local, carry.multiplier, carry.penalty)
        slope, stationarity = self.steepness(local, carry.multiplier, carry.penalty)
        size = jnp.max(vecmat(jnp.abs(force), jnp.abs(local.jacobian)), initial=0)
        # The measure does not depend on the scale of the weights.
        stationary = stationarity <= tolerance * jnp.maximum(size, self.scale)
        broken = jnp.max(jnp.abs(task.apart(local)), initial=0)
        settled = stationary | (failed >= FAILED)
        finished = settled & (broken <= tolerance)
        hopeless = settled & (carry.penalty >= stiffest) & (broken > SHRUNK * carry.broken)
        again = settled & ~finished & ~hopeless

        held = jnp.where(task.held, force - task.weight * local.r, 0)
        multiplier = jnp.where(again, held, carry.multiplier)
        stiffer = again & (broken > SHRUNK * carry.broken)
        penalty = jnp.where(stiffer, jnp.minimum(10 * carry.penalty, stiffest), carry.penalty)
        step = self.step(local, bent, slope, multiplier, penalty, damping)
        return _Carry(
            local,
            bent,
            jnp.where(again, jnp.inf, value),
            jnp.where(again | finished, 0, step),
            damping,
            slope,
            multiplier,
            penalty,
            jnp.where(again, broken, carry.broken),
            stationarity,
            stationary,
            jnp.where(again, 0, failed),
            carry.steps + 1,
            finished | hopeless,
        )
