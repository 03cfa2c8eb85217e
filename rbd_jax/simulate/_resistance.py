"""What the joints do of themselves, taken implicitly: damping, springs and soft stops, dry friction.

Over a step of length h from the velocity v to `v⁺ = v + h a`,

    (M + h D + ½ h² K - h C B) a = f - φ(v⁺),    φ_i(v⁺) = offset_i + clip(bias_i + slope_i v⁺_i, ±limit_i),

f being all forces at the start of the step but for friction. D and K are diagonal, so they cost next to nothing: what
they add is armature. Damping is that at the end of the step, and stable however strong. The share of the springs makes
them as soft as the step can follow, `k / (1 + ½ h² k/m)`: the scheme stays symplectic, stable for every k, and loses no energy to
them, which a spring force at the end of the step would.

The friction φ has an entry for each joint and each force that has some there (`forces.JointFriction`). The joints' own is
Coulomb's law: its slope is so steep that a joint sticks, and does not creep, as long as less than the limit holds it. Bristles
(`forces.BristleFriction`) bend before they slip.

`C B` comes from forces with a state z of their own that follows the velocity. Over the step z changes the force by
`C (ż + h B a)` (see `Force.own_response`). C has a column for each such state, so the articulated-body algorithm runs once more
for each of them, and a small system is solved (Woodbury's formula).

Each entry of the friction sticks or slides in one of two directions. Which, is a linear complementarity problem with bounds and a
positive definite matrix. It is solved by principal pivoting in blocks (Júdice & Pires 1994): all assumptions that are refuted
are changed at once, and one at a time where that does not come to an end. What slides goes on sliding as a rule and what sticks
sticks, so one pass is the usual number.
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


#: So many passes change all that is refuted; the next ones only the first.
BLOCKS = 8

#: Of the forces `f`, and of what is added to the armature, what is sought and the accelerations of the degrees of freedom.
Solve = Callable[[Any, Float[Array, "nv"], Float[Array, "nv"]], tuple[Any, Float[Array, "nv"]]]


def sticking_speed(dtype) -> float:
    """The speed up to which a joint with dry friction counts as sticking. A damper, the friction over this speed, holds it."""
    return float(jnp.finfo(dtype).eps) ** (2 / 3)


class Coupling(NamedTuple):
    """What the forces do along the joints with their own states during a step: `C (ż + B (v⁺ - v))`."""

    along: Float[Array, "nv own"]
    rate: Float[Array, "own"]
    by_velocity: Float[Array, "own nv"]


class Resistance(eqx.Module):
    """What resists along each degree of freedom of the tree during a step.

    - `velocity`: at its start.
    - `force`: f, at its start, without friction and without what the `coupling` adds.
    - `damping`, `stiffness`: D and K.
    - `friction`: φ.
    - `step`: h.
    - `coupling`: of forces with states of their own; None without any.
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
        """What damping and springs add to the inertia: `h D + ½ h² K`."""
        return self.step * self.damping + 0.5 * self.step**2 * self.stiffness

    @property
    def frictional(self) -> bool:
        """Whether there may be friction somewhere."""
        limit = self.friction.limit
        return limit.size > 0 and not (is_known(limit) and not np.any(np.asarray(limit)))

    def under(self, control: Float[Array, "nv"]) -> Resistance:
        """With a control beside the other forces."""
        return replace(self, force=self.force + control)

    def first_guess(self) -> Float[Array, "n"]:
        """What slides at the velocity of the start (1 and -1, by the direction) and what sticks (0)."""
        friction = self.friction
        elastic = friction.bias + friction.slope * friction.at(self.velocity)
        return jnp.where(jnp.abs(elastic) > friction.limit, jnp.sign(elastic), 0)

    def acting(self, sliding: Float[Array, "n"]) -> tuple[Float[Array, "nv"], Float[Array, "nv"]]:
        """The forces, and what is added to the armature."""
        h, friction = self.step, self.friction
        sticks = sliding == 0
        held = jnp.where(sticks, friction.bias + friction.slope * friction.at(self.velocity), 0)
        along = lambda x: friction.onto(x, self.velocity.size)
        force = self.force - along(friction.offset + held + sliding * friction.limit)
        if self.coupling is not None:
            force = force + matvec(self.coupling.along, self.coupling.rate)
        return force, self.added + h * along(jnp.where(sticks, friction.slope, 0))

    def judged(self, sliding: Float[Array, "n"], a: Float[Array, "nv"]) -> Float[Array, "n"]:
        """What sticks and slides by the velocities that come of an assumption."""
        friction, eps = self.friction, jnp.finfo(a.dtype).eps
        before, change = friction.at(self.velocity), self.step * friction.at(a)
        after = before + change
        slope = jnp.where(friction.slope > 0, friction.slope, 1)
        upper, lower = (friction.limit - friction.bias) / slope, (-friction.limit - friction.bias) / slope
        # A difference of large numbers is zero to rounding only.
        rounding = (
            8 * eps * (jnp.abs(before) + jnp.abs(change) + (friction.limit + jnp.abs(friction.bias)) / slope)
        )
        of_sticking = jnp.where(after > upper + rounding, 1.0, jnp.where(after < lower - rounding, -1.0, 0.0))
        goes_on = jnp.where(sliding > 0, after >= upper - friction.slack, after <= lower + friction.slack)
        of_sliding = jnp.where(goes_on, sliding, 0)
        found = jnp.where(sliding == 0, of_sticking.astype(a.dtype), of_sliding)
        return jnp.where(friction.limit > 0, found, jnp.sign(after))

    def responding(self, solve: Solve) -> Solve:
        """`solve`, with what the forces' own states do besides."""
        if self.coupling is None:
            return solve
        along, _, by_velocity = self.coupling
        h = self.step

        def coupled(known, force, added):
            found, a = solve(known, force, added)
            respond = lambda change: jax.jvp(lambda f: solve(known, f, added), (force,), (change,))[1]
            found_by, a_by = jax.vmap(respond)(transpose(along))
            # B a of `a = a₀ + h A⁻¹ C B a`.
            unit = jnp.eye(along.shape[1], dtype=a.dtype)
            share = h * jnp.linalg.solve(
                unit - h * matmul(by_velocity, transpose(a_by)), matvec(by_velocity, a)
            )
            more = lambda x, by: x + jnp.tensordot(share, by, 1, precision="highest")
            return jax.tree.map(more, found, found_by), more(a, a_by)

        return coupled


def resisted(solve: Solve, known, resistance: Resistance):
    """What `solve(known, force, added)` finds under the resistance of the joints, at the end of the step.

    Its derivative is that of the motion with what sticks and slides as it does.
    """
    if not resistance.frictional:
        return found_under(solve, known, resistance)[0]
    return _solution(solve)(known, resistance)


def found_under(solve: Solve, known, resistance: Resistance):
    """What `resisted` finds, and what sticks (0) and slides (±1) then. Not to be differentiated."""
    if resistance.frictional:
        return _search(solve, known, resistance)
    sliding = jnp.zeros_like(resistance.friction.limit)
    return resistance.responding(solve)(known, *resistance.acting(sliding))[0], sliding


def _solution(solve: Solve):
    """`resisted` where there may be friction: a search for what sticks and slides, which is not differentiated."""

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
    """What is sought, and what sticks (0) and slides (±1) then."""

    def attempt(sliding):
        found, a = resistance.responding(solve)(known, *resistance.acting(sliding))
        return found, resistance.judged(sliding, a)

    # Which way a joint without friction slides matters to the derivative by its friction alone.
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
    # The first pass is within the loop as well, so that it is compiled once.
    sliding, better, found, _ = lax.while_loop(refuted, another, (guess, guess, nothing, jnp.int32(0)))
    # The law has one solution and the search comes to it; where rounding should keep it from that, the step has failed.
    known = ~jnp.any((sliding != better) & counts)
    found = jax.tree.map(lambda x: jnp.where(known, x, jnp.nan), found)
    return found, jnp.where(counts, sliding, better)
