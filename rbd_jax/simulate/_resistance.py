"""What the joints do of themselves, taken implicitly: damping, springs and soft stops, dry friction.

Over a step of length h from the velocity v to `v⁺ = v + h a`,

    (M + h D + ½ h² K) a = f - φ,    φ_i ∈ friction_i Sgn(v⁺_i),

f being all forces at the start of the step but for friction. D, K and friction are diagonal, so they cost next to nothing: what
they add is armature. Damping is that at the end of the step, and stable however strong. The share of the springs makes
them as soft as the step can follow, `k / (1 + ½ h² k/m)`: the scheme stays symplectic, stable for every k, and loses no energy to
them, which a spring force at the end of the step would. Friction is Coulomb's law itself: a joint sticks, and does not
creep, as long as less than `friction_i` holds it.

Each degree of freedom sticks or slides in one of two directions. Which, is a linear complementarity problem with bounds and a
positive definite matrix. It is solved by principal pivoting in blocks (Júdice & Pires 1994): all assumptions that are refuted
are changed at once, and one at a time where that does not come to an end. What slides goes on sliding as a rule and what sticks
sticks, so one pass is the usual number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from .._core.array import is_known
from .._core.derivatives import custom_jvp
from .._core.implicit import moving_arguments


#: So many passes change all that is refuted; the next ones only the first.
BLOCKS = 8

#: Of the forces `f`, and of what is added to the armature, what is sought and the accelerations of the degrees of freedom.
Solve = Callable[[Any, Float[Array, "nv"], Float[Array, "nv"]], tuple[Any, Float[Array, "nv"]]]


class Resistance(eqx.Module):
    """What resists along each degree of freedom of the tree during a step.

    - `velocity`: at its start.
    - `force`: f, at its start, without friction.
    - `damping`, `stiffness`: D and K.
    - `friction`: its size when sliding.
    - `step`: h. Where time runs backwards nothing is taken implicitly.
    """

    velocity: Float[Array, "nv"]
    force: Float[Array, "nv"]
    damping: Float[Array, "nv"]
    stiffness: Float[Array, "nv"]
    friction: Float[Array, "nv"]
    step: Float[Array, ""]

    @property
    def ahead(self) -> Float[Array, ""]:
        return jnp.maximum(self.step, 0)

    @property
    def added(self) -> Float[Array, "nv"]:
        """What damping and springs add to the inertia: `h D + ½ h² K`."""
        return self.ahead * self.damping + 0.5 * self.ahead**2 * self.stiffness

    @property
    def still(self) -> float:
        """The speed up to which a joint counts as sticking: it is held by a damper, the friction over this speed."""
        return float(jnp.finfo(self.velocity.dtype).eps) ** (2 / 3)

    @property
    def frictional(self) -> bool:
        """Whether there may be friction somewhere."""
        return self.friction.size > 0 and not (
            is_known(self.friction) and not np.any(np.asarray(self.friction))
        )

    def under(self, control: Float[Array, "nv"]) -> Resistance:
        """With a control beside the other forces."""
        return replace(self, force=self.force + control)

    def first_guess(self) -> Float[Array, "nv"]:
        """As it was before: 1 and -1 for sliding, 0 for sticking."""
        return jnp.where(jnp.abs(self.velocity) > self.still, jnp.sign(self.velocity), 0)

    def acting(self, sliding: Float[Array, "nv"]) -> tuple[Float[Array, "nv"], Float[Array, "nv"]]:
        """The forces, and what is added to the armature."""
        h = self.ahead
        holding = jnp.where((sliding == 0) & (h > 0), self.friction / self.still, 0)
        force = self.force - holding * self.velocity - sliding * self.friction
        return force, self.added + h * holding

    def judged(self, sliding: Float[Array, "nv"], a: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """What sticks and slides by the velocities that come of an assumption."""
        after = self.velocity + self.step * a
        # A difference of large numbers is zero to rounding only.
        rounding = 8 * jnp.finfo(after.dtype).eps * (jnp.abs(self.velocity) + jnp.abs(self.step * a))
        direction = jnp.sign(after)
        broken = jnp.abs(after) > self.still + rounding
        of_sticking = jnp.where(broken, direction, 0)
        of_sliding = jnp.where(direction * sliding < 0, 0, sliding)
        found = jnp.where(self.friction > 0, jnp.where(sliding == 0, of_sticking, of_sliding), direction)
        return jnp.where(self.ahead > 0, found, sliding)


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
    sliding = jnp.zeros_like(resistance.velocity)
    return solve(known, *resistance.acting(sliding))[0], sliding


def _solution(solve: Solve):
    """`resisted` where there may be friction: a search for what sticks and slides, which is not differentiated."""

    @custom_jvp
    def solution(known, resistance):
        return _search(solve, known, resistance)[0]

    def rule(primals, tangents):
        known, resistance = primals
        sliding = _search(solve, known, resistance)[1]
        moving = moving_arguments(primals, tangents)
        at = lambda known, resistance: solve(known, *resistance.acting(sliding))[0]
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
        found, a = solve(known, *resistance.acting(sliding))
        return found, resistance.judged(sliding, a)

    # Which way a joint without friction slides matters to the derivative by its friction alone.
    counts = resistance.friction > 0

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
