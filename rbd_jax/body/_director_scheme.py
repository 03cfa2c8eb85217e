"""Common part of the time-stepping schemes for directors: the equations of one step, and Newton's method for them.

The schemes of Gebhardt & Romero 2020 (§5 and §6.4) are symmetric two-point formulas: with `D₀` and `D₁` the directors
at the ends of a step of length h, and the momenta P at its start, both solve

    (D₁ - D₀) 𝒥 / h = P + (h/2) F(½(D₀ + D₁)) - (constraint forces)
    ½ (D₁ᵀ D₁ - I) = 0        G(½(D₀ + D₁)) (D₁ - D₀) = 0

They differ in where the constraint forces act and in the state that they pass to the next step.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._core.array import matmul, transpose
from ..optimize.newton import newton
from .directors import (
    DirectorConstraints,
    DirectorState,
    director_load,
    director_momenta,
    orthonormality,
    pack,
    unpack,
)
from .rotating_body import RotatingBody


#: A moment in space, as a function of the time and of the matrix of the directors. At the midpoint of a step this matrix
#: is the mean of two frames, whose columns are shorter than one by O(h²).
Moment: TypeAlias = Callable[[Float[Array, ""], Float[Array, "3 3"]], Float[Array, "3"]]


class DirectorScheme(eqx.Module):
    """An integration scheme for directors.

    - `tolerance`: Newton's method stops after a step shorter than this. The unknowns are of order one, and the error after the
      last step is of the order of its square. The default is `ε^(2/3)` for the precision: 4e-11 in float64, 2e-5 in float32.
    - `max_steps`: Maximum number of Newton iterations per time step.

    >>> print(isinstance(rbd.body.DirectorEnergyMomentum(), rbd.body.DirectorScheme))
    True
    """

    tolerance: float | None = eqx.field(default=None, kw_only=True)
    max_steps: int = eqx.field(default=20, kw_only=True, static=True)

    @abstractmethod
    def step(
        self,
        body: RotatingBody,
        constraints: DirectorConstraints,
        moment: Moment,
        time: Float[Array, ""],
        state: DirectorState,
        dt: Float[Array, ""],
    ) -> tuple[DirectorState, Int[Array, ""], Int[Array, ""]]:
        """Returns the state at `time + dt`, the code of Newton's method, and its number of iterations."""

    def _next_frame(self, body, constraints, moment, time, state, dt, reacting):
        """Returns `D₁` and the code of Newton's method; `reacting(D₀, ½(D₀ + D₁))` is the frame of the constraint forces."""
        # The equations are divided by the inertia and multiplied by h. The unknown multipliers are then of the order of the
        # squared angle of a step.
        scale = dt / jnp.trace(body.euler_inertia)
        known = scale * state.momenta

        def residual(x):
            end, multipliers = unpack(x)
            middle, change = (state.frame + end) / 2, end - state.frame
            load = director_load(middle, moment(time + dt / 2, middle))
            balance = scale / dt * director_momenta(body, change) - known - scale * dt / 2 * load
            balance = balance + constraints.reaction(reacting(state.frame, middle), multipliers)
            gram = matmul(transpose(end), end) - jnp.eye(3, dtype=end.dtype)
            return pack(balance, orthonormality(gram), constraints.velocity_rows(middle, change))

        dtype = state.frame.dtype
        tolerance = float(jnp.finfo(dtype).eps) ** (2 / 3) if self.tolerance is None else self.tolerance
        guess = pack(state.frame + dt * state.rates, jnp.zeros(constraints.size, dtype))
        x, code, iterations = newton(residual, guess, tolerance, self.max_steps)
        return unpack(x)[0], code, iterations
