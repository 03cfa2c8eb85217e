"""Shared parts of implicit schemes: the solver for the unknowns of a step, and the stage of Euler-like schemes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..optimize.newton import newton, solve_redundant
from .state import State
from .system import System


def solve_motion(
    equations: Callable[..., tuple[Array, ...]],
    guesses: Sequence[Float[Array, "_"]],
    rows: int,
    near: Callable[..., tuple[Array, ...]] | None = None,
) -> tuple[tuple[Array, ...], Int[Array, ""]]:
    """Solves the equations of a step for its unknowns.

    Args:
      equations: Returns the residuals for given unknowns: one vector for each unknown, the multipliers last.
      guesses: Initial guesses of the unknowns, for example velocities and internal states of forces. Multipliers start at zero.
      rows: The number of multipliers.
      near: Equations with nearly the same Jacobian that are cheaper to evaluate.

    Returns:
      The unknowns, with the multipliers of the constraints last, and a code.

    >>> (v, _), code = rbd.simulate.solve_motion(lambda v, none: (v**2 - 2.0, none), [jnp.array([1.0])], rows=0)
    >>> print(v, int(code))
    [1.414] 0
    """
    starts = (*guesses, jnp.zeros(rows, guesses[0].dtype))
    ends = np.cumsum([start.size for start in starts])[:-1]

    def joined(parts):
        return lambda unknowns: jnp.concatenate(parts(*jnp.split(unknowns, ends)))

    # Loop constraints are usually redundant: multipliers are not unique, but all other unknowns are.
    linear = solve_redundant if rows else jnp.linalg.solve
    nearly = None if near is None else joined(near)
    unknowns, code, _ = newton(joined(equations), jnp.concatenate(starts), linear_solve=linear, near=nearly)
    return tuple(jnp.split(unknowns, ends)), code


def implicit_stage(
    system: System,
    time: Float[Array, ""],
    state: State,
    displacement: Float[Array, "nv"],
    velocity: Float[Array, "nv"],
    own: Float[Array, "own"],
    span: Float[Array, ""],
) -> tuple[State, Float[Array, "nv"], Int[Array, ""]]:
    """Solves a stage of an implicit scheme in the chart `q ⊕ ξ` at `state.q`.

    The stage is `ξ = displacement + span ξ̇`, `v = velocity + span v̇`, `z = own + span ż`.

    The implicit Euler, backward-differentiation and diagonally implicit Runge–Kutta formulas consist of such stages.

    Args:
      system: The system.
      time: The time of the stage.
      state: The state whose configuration is the origin of the chart, and whose velocity is the initial guess.
      displacement: Constant part of ξ, shape (nv,).
      velocity: Constant part of v, shape (nv,).
      own: Constant part of z, the internal states of forces.
      span: The factor of the rates, a time.

    Returns:
      The state, its ξ, and a code.

    >>> system = rbd.simulate.system_of(rbd.load("pendulum"), jnp.zeros(1))
    >>> state, none = rbd.State(jnp.array([0.5]), jnp.zeros(1)), jnp.zeros(0)
    >>> h = jnp.array(0.1)
    >>> after, _, code = rbd.simulate.implicit_stage(system, h, state, jnp.zeros(1), state.v, none, h)
    >>> print(after.q, after.v, int(code))  # a step of 0.1 s of Euler's implicit scheme
    [0.457] [-0.432] 0
    """

    def placed(rate, own_end):
        step = displacement + span * rate
        return step, State(system.move(state.q, step), system.chart_velocity(state.q, step, rate), own_end)

    def equations(rate, own_end, multipliers):
        end = system.evaluate(time, placed(rate, own_end)[1]).prepared()
        return (
            end.residual((end.v - velocity) / span) - end.constraint_force(multipliers),
            own_end - own - span * end.own_rate(),
            end.constraint_gap(span, end.constraint_velocity),
        )

    (rate, own_end, _), code = solve_motion(equations, (state.v, state.internal), system.constraint_rows)
    step, end = placed(rate, own_end)
    return end, step, code
