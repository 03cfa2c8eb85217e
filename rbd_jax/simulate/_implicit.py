"""What implicit schemes share: the unknowns of a step, and the stage that Euler's and its relatives are made of."""

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
    """The unknowns at which the equations of a step hold, with the multipliers of its constraints the last; and a code.

    **Arguments**

    - `equations`: of all unknowns, as many vectors of residuals.
    - `guesses`: of the unknowns but the multipliers, which start at zero: velocities, the forces' own states.
    - `rows`: the number of multipliers.
    - `near`: equations with nearly the same Jacobian, cheaper to evaluate.

    >>> (v, _), code = rbd.simulate.solve_motion(lambda v, none: (v**2 - 2.0, none), [jnp.array([1.0])], rows=0)
    >>> print(v, int(code))
    [1.414] 0
    """
    starts = (*guesses, jnp.zeros(rows, guesses[0].dtype))
    ends = np.cumsum([start.size for start in starts])[:-1]

    def joined(parts):
        return lambda unknowns: jnp.concatenate(parts(*jnp.split(unknowns, ends)))

    # Loops are redundant as a rule: their multipliers are not determined, and the rest is.
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
    """The stage `ξ = displacement + span ξ̇`, `v = velocity + span v̇`, `z = own + span ż`, in the chart `q ⊕ ξ` at the state's q.

    Euler's, the backward-differentiation and the diagonally implicit Runge–Kutta formulas are made of such stages.
    **Returns** the state, its ξ, and a code.

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
