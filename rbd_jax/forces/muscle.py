"""Muscles of the Hill type with rigid tendons, over two points or more (Sueda's notes, eqs. 1.38 to 1.64).

The three curves are those of the notes, which simplify Millard et al. (2013). They are kept as values and slopes at their
knots, from which the printed coefficients follow; row 3 of (1.41) is for the knot 1.7, not the printed 1.8. The tendon does
not stretch, the fibres run along it, and activation is given: its own dynamics are left to the caller.
"""

from __future__ import annotations

from jaxtyping import Array, Float

from ._curve import Curve
from ._numbers import number
from ._point import PathForce


#: f_P: the pull of the fibres at rest, over their length (eq. 1.41); beyond its last knot it rises straight on.
PASSIVE_LENGTH = Curve(
    knots=(1.0, 1.3, 1.7),
    values=(0.0, 0.126110265892917, 1.0),
    slopes=(0.0, 1.07051016402631, 2.85714285714286),
)

#: f_L: what the active fibres can pull, over their length (eq. 1.43).
ACTIVE_LENGTH = Curve(
    knots=(0.4, 0.7, 1.2, 1.81),
    values=(0.0, 0.767020368396388, 0.89, 0.0),
    slopes=(0.0, 1.524156807231304, -1.1129069941301226, 0.0),
)

#: f_V: what the active fibres can pull, over the rate at which they lengthen (eq. 1.45).
FORCE_VELOCITY = Curve(
    knots=(-1.0, -0.05, 0.05, 1.0),
    values=(0.0, 0.7847154471544715, 1.1713821138211382, 1.4),
    slopes=(0.0, 2.478048780487805, 0.7219512195121951, 0.0),
)


class Muscle(PathForce):
    """The tension `f_opt (a f_L(l̃) f_V(ṽ) + f_P(l̃))` along a path of two points or more (eqs. 1.38 and 1.59).

    The fibres have the path's length less the tendon's: `l̃ = (l_MT - l_T)/l_opt`, `ṽ = l̇_MT/(l_opt v_max)`.

    - `peak_force` f_opt: of the fully active muscle at its optimal length, held still.
    - `optimal_length` l_opt: of the fibres; the length at which they pull most.
    - `tendon_length` l_T; zero by default.
    - `maximum_velocity` v_max: in optimal lengths per second; fibres that shorten so fast pull no more.
    - `activation` a, from 0 to 1. Another one: `equinox.tree_at(lambda m: m.activation, muscle, a)`.

    The energy is that of the passive fibres. What the active ones bring in or take out is negative or positive
    `dissipation`.
    """

    peak_force: Float[Array, ""]
    optimal_length: Float[Array, ""]
    tendon_length: Float[Array, ""]
    maximum_velocity: Float[Array, ""]
    activation: Float[Array, ""]

    def __init__(
        self,
        bodies,
        points,
        peak_force,
        optimal_length,
        tendon_length=0.0,
        maximum_velocity=10.0,
        activation=0.0,
    ):
        super().__init__(bodies, points)
        self.peak_force = number("Muscle", "peak_force", peak_force, least=0)
        self.optimal_length = number("Muscle", "optimal_length", optimal_length, above=0)
        self.tendon_length = number("Muscle", "tendon_length", tendon_length, least=0)
        self.maximum_velocity = number("Muscle", "maximum_velocity", maximum_velocity, above=0)
        self.activation = number("Muscle", "activation", activation, least=0, most=1)

    def tension_at(self, length, rate):
        fibre = self._normalized(length)
        velocity = rate / (self.optimal_length * self.maximum_velocity)
        active = self.activation * ACTIVE_LENGTH(fibre) * FORCE_VELOCITY(velocity)
        return self.peak_force * (active + PASSIVE_LENGTH(fibre))

    def energy_at(self, length):
        return self.peak_force * self.optimal_length * PASSIVE_LENGTH.integral(self._normalized(length))

    def _normalized(self, length):
        return (length - self.tendon_length) / self.optimal_length
