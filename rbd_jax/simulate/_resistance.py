"""Implicit treatment of passive joint forces: damping, springs and soft joint limits, dry friction.

Over a step of length h from the velocity v to `v⁺ = v + h a`,

    (M + h D + ½ h² K - h C B) a = f - φ(v⁺),    φ_i(v⁺) = offset_i + clip(bias_i + slope_i v⁺_i, ±limit_i),

where f is all forces at the start of the step except friction. D and K are diagonal, so they cost almost nothing: they are
added to the armature. Damping takes its value at the end of the step, which is stable for any strength. The term of the springs
makes them as soft as the step can resolve, `k / (1 + ½ h² k/m)`. The scheme stays symplectic and stable for every k, and springs
dissipate no energy, in contrast to a spring force at the end of the step.

The friction φ has an entry for each joint and for each force with friction there (`forces.JointFriction`). The joints' friction
is Coulomb's law with a steep slope: a joint sticks without creep as long as the load stays below the limit. Bristles
(`forces.BristleFriction`) bend before they slip.

`C B` comes from forces with an internal state z that follows the velocity. Over the step, z changes the force by
`C (ż + h B a)` (see `Force.own_response`). C has a column for each such state. The articulated-body algorithm runs once more
for each column, and a small system is solved (Woodbury's formula).

Each entry of the friction sticks or slides in one of two directions. The search for these modes is a linear complementarity
problem with bounds and a positive definite matrix. Block principal pivoting (Júdice & Pires 1994) solves it: it changes all wrong
assumptions at once, and one at a time if that does not terminate. Entries seldom change their mode between steps, so one pass
usually suffices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from .._core.array import is_known, matmul, matvec, transpose
from .._core.derivatives import custom_jvp
from ..forces import JointFriction
from ..optimize.implicit import moving_arguments


#: Number of passes that change all wrong assumptions; later passes change only the first one.
BLOCKS = 8

#: Maps known quantities, forces and added armature to the solution and the accelerations of the degrees of freedom.
Solve = Callable[[Any, Float[Array, "nv"], Float[Array, "nv"]], tuple[Any, Float[Array, "nv"]]]


def sticking_speed(dtype) -> float:
    """Returns the speed below which a joint with dry friction sticks, held by a damper of `friction / speed`."""
    return float(jnp.finfo(dtype).eps) ** (2 / 3)


class Coupling(NamedTuple):
    """The joint-space effect of forces with internal states during a step: `C (ż + B (v⁺ - v))`."""

    along: Float[Array, "nv own"]
    rate: Float[Array, "own"]
    by_velocity: Float[Array, "own nv"]


class Resistance(eqx.Module):
    """Damping, stiffness, friction and forces along each degree of freedom of the tree during a step.

    - `velocity`: the velocity at the start of the step.
    - `force`: f at the start of the step, without friction and without the contribution of `coupling`.
    - `damping`, `stiffness`: D and K.
    - `friction`: φ.
    - `step`: h.
    - `coupling`: the effect of forces with internal states; None without such forces.
    """

    velocity: Float[Array, "nv"]
    force: Float[Array, "nv"]
    damping: Float[Array, "nv"]
    stiffness: Float[Array, "nv"]
    friction: JointFriction
    step: Float[Array, ""]
    coupling: Coupling | None = None

    @property
    def added(self) -> Float[Array, "nv"]:
        """The inertia that damping and springs add: `h D + ½ h² K`."""
        return self.step * self.damping + 0.5 * self.step**2 * self.stiffness

    @property
    def frictional(self) -> bool:
        """Returns whether a limit of dry friction may be nonzero."""
        limit = self.friction.limit
        return limit.size > 0 and not (is_known(limit) and not np.any(np.asarray(limit)))

    def under(self, control: Float[Array, "nv"]) -> Resistance:
        """Returns the resistance with a control added to the forces."""
        return replace(self, force=self.force + control)

    def first_guess(self) -> Float[Array, "n"]:
        """Returns the modes at the initial velocity: 1 and -1 for sliding in either direction, 0 for sticking."""
        friction = self.friction
        elastic = friction.bias + friction.slope * friction.at(self.velocity)
        return jnp.where(jnp.abs(elastic) > friction.limit, jnp.sign(elastic), 0)

    def acting(self, sliding: Float[Array, "n"]) -> tuple[Float[Array, "nv"], Float[Array, "nv"]]:
        """Returns the forces and the added armature for given modes."""
        h, friction = self.step, self.friction
        sticks = sliding == 0
        held = jnp.where(sticks, friction.bias + friction.slope * friction.at(self.velocity), 0)
        along = lambda x: friction.onto(x, self.velocity.size)
        force = self.force - along(friction.offset + held + sliding * friction.limit)
        if self.coupling is not None:
            force = force + matvec(self.coupling.along, self.coupling.rate)
        return force, self.added + h * along(jnp.where(sticks, friction.slope, 0))

    def judged(self, sliding: Float[Array, "n"], a: Float[Array, "nv"]) -> Float[Array, "n"]:
        """Returns the modes that follow from the velocities of an assumption."""
        friction, eps = self.friction, jnp.finfo(a.dtype).eps
        before, change = friction.at(self.velocity), self.step * friction.at(a)
        after = before + change
        slope = jnp.where(friction.slope > 0, friction.slope, 1)
        upper, lower = (friction.limit - friction.bias) / slope, (-friction.limit - friction.bias) / slope
        # A difference of large numbers is zero only up to rounding.
        rounding = (
            8 * eps * (jnp.abs(before) + jnp.abs(change) + (friction.limit + jnp.abs(friction.bias)) / slope)
        )
        of_sticking = jnp.where(after > upper + rounding, 1.0, jnp.where(after < lower - rounding, -1.0, 0.0))
        goes_on = jnp.where(sliding > 0, after >= upper - friction.slack, after <= lower + friction.slack)
        of_sliding = jnp.where(goes_on, sliding, 0)
        found = jnp.where(sliding == 0, of_sticking.astype(a.dtype), of_sliding)
        return jnp.where(friction.limit > 0, found, jnp.sign(after))

    def responding(self, solve: Solve) -> Solve:
        """Returns `solve` extended by the response of the forces' internal states."""
        if self.coupling is None:
            return solve
        along, _, by_velocity = self.coupling
        h = self.step

        def coupled(known, force, added):
            found, a = solve(known, force, added)
            respond = lambda change: jax.jvp(lambda f: solve(known, f, added), (force,), (change,))[1]
            found_by, a_by = jax.vmap(respond)(transpose(along))
            # Solves `a = a₀ + h A⁻¹ C B a` for h B a.
            unit = jnp.eye(along.shape[1], dtype=a.dtype)
            share = h * jnp.linalg.solve(
                unit - h * matmul(by_velocity, transpose(a_by)), matvec(by_velocity, a)
            )
            more = lambda x, by: x + jnp.tensordot(share, by, 1, precision="highest")
            return jax.tree.map(more, found, found_by), more(a, a_by)

        return coupled


def resisted(solve: Solve, known, resistance: Resistance):
    """Returns the result of `solve(known, force, added)` with the resistance of the joints at the end of the step.

    Its derivative is the derivative of the motion with the stick and slip modes fixed.
    """
    if not resistance.frictional:
        return found_under(solve, known, resistance)[0]
    return _solution(solve)(known, resistance)


def found_under(solve: Solve, known, resistance: Resistance):
    """Returns the result of `resisted`, and the modes: 0 for sticking, ±1 for sliding. Not differentiable."""
    if resistance.frictional:
        return _search(solve, known, resistance)
    sliding = jnp.zeros_like(resistance.friction.limit)
    return resistance.responding(solve)(known, *resistance.acting(sliding))[0], sliding


def _solution(solve: Solve):
    """Returns `resisted` for joints that may have friction; the search for the modes is not differentiated."""

    @custom_jvp
    def solution(known, resistance):
        return _search(solve, known, resistance)[0]

    def rule(primals, tangents):
        known, resistance = primals
        sliding = _search(solve, known, resistance)[1]
        moving = moving_arguments(primals, tangents)
        at = lambda known, resistance: resistance.responding(solve)(known, *resistance.acting(sliding))[0]
        if moving is None:
            x = at(known, resistance)
            return x, jax.tree.map(jnp.zeros_like, x)
        function, values, changes = moving
        return jax.jvp(lambda *values: at(*function(*values)), values, changes)

    solution.defjvp(rule, symbolic_zeros=True)
    return solution


def _search(solve: Solve, known, resistance: Resistance):
    """Returns the solution and its modes: 0 for sticking, ±1 for sliding."""

    def attempt(sliding):
        found, a = resistance.responding(solve)(known, *resistance.acting(sliding))
        return found, resistance.judged(sliding, a)

    # The sliding direction of a joint without friction affects only the derivative with respect to its friction.
    counts = resistance.friction.limit > 0

    def refuted(state) -> Bool[Array, ""]:
        sliding, better, _, passes = state
        return (passes == 0) | jnp.any((sliding != better) & counts) & (passes < BLOCKS + 4 * sliding.size)

    def another(state):
        sliding, better, _, passes = state
        wrong = (sliding != better) & counts
        first = wrong & (jnp.cumsum(wrong) == 1)
        sliding = jnp.where(jnp.where(passes < BLOCKS, wrong, first), better, sliding)
        found, better = attempt(sliding)
        return sliding, better, found, passes + 1

    guess = resistance.first_guess()
    shape = jax.eval_shape(lambda: attempt(guess)[0])
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shape)
    # The loop includes the first pass, so that the function is compiled once.
    sliding, better, found, _ = lax.while_loop(refuted, another, (guess, guess, nothing, jnp.int32(0)))
    # The solution is unique and the search converges to it; if rounding prevents this, the step has failed.
    known = ~jnp.any((sliding != better) & counts)
    found = jax.tree.map(lambda x: jnp.where(known, x, jnp.nan), found)
    return found, jnp.where(counts, sliding, better)
