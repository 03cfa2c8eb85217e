"""Muscles of the Hill type with rigid tendons, over two points or more (Sueda's notes, eqs. 1.38 to 1.64).

The three curves are from the notes, which simplify Millard et al. (2013). They are stored as values and slopes at their knots,
from which the printed coefficients follow; row 3 of (1.41) is for the knot 1.7, not the printed 1.8. The tendon does not
stretch, and the fibers are parallel to it. Activation is given, or follows an excitation with a first-order delay.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import number
from ._curve import Curve
from ._one_sided import rises
from ._point import PathForce
from .own_state import relaxed


PASSIVE_LENGTH = Curve(
    knots=(1.0, 1.3, 1.7),
    values=(0.0, 0.126110265892917, 1.0),
    slopes=(0.0, 1.07051016402631, 2.85714285714286),
)
"""f_P: the passive force of the fibers as a function of their length (eq. 1.41); linear beyond the last knot.

>>> print(jax.vmap(rbd.forces.PASSIVE_LENGTH)(jnp.array([0.9, 1.3, 1.7, 2.0])))
[0.    0.126 1.    1.857]
"""

ACTIVE_LENGTH = Curve(
    knots=(0.4, 0.7, 1.2, 1.81),
    values=(0.0, 0.767020368396388, 0.89, 0.0),
    slopes=(0.0, 1.524156807231304, -1.1129069941301226, 0.0),
)
"""f_L: the active force of the fibers as a function of their length (eq. 1.43).

>>> print(jax.vmap(rbd.forces.ACTIVE_LENGTH)(jnp.array([0.3, 0.7, 1.0, 1.81])))
[0.    0.767 1.    0.   ]
"""

FORCE_VELOCITY = Curve(
    knots=(-1.0, -0.05, 0.05, 1.0),
    values=(0.0, 0.7847154471544715, 1.1713821138211382, 1.4),
    slopes=(0.0, 2.478048780487805, 0.7219512195121951, 0.0),
)
"""f_V: the active force of the fibers as a function of the rate of their length (eq. 1.45).

>>> print(jax.vmap(rbd.forces.FORCE_VELOCITY)(jnp.array([-1.0, 0.0, 0.5, 1.0])))
[0.    1.    1.367 1.4  ]
"""


class Muscle(PathForce):
    """The tension `f_opt (a f_L(l̃) f_V(ṽ) + f_P(l̃))` along a path of two points or more (eqs. 1.38 and 1.59).

    The fibers have the path's length minus the tendon's: `l̃ = (l_MT - l_T)/l_opt`, `ṽ = l̇_MT/(l_opt v_max)`.

    - `peak_force` f_opt: the isometric force of the fully active muscle at its optimal length.
    - `optimal_length` l_opt: the fiber length with the maximum force.
    - `tendon_length` l_T; zero by default.
    - `maximum_velocity` v_max: in optimal lengths per second; fibers that shorten at this velocity have no active force.
    - `activation` a, from 0 to 1. To change it: `equinox.tree_at(lambda m: m.activation, muscle, a)`.

    The energy is that of the passive fibers. The work of the active fibers appears in `dissipation`: negative if they add
    energy, positive if they remove it.

    >>> biceps = rbd.forces.Muscle(["upper", "lower"], [(0.0, 0.0, -0.2), (0.1, 0.0, -0.3)], 500.0, 1.1, activation=0.5)
    >>> print(biceps(rbd.load("double_pendulum"), jnp.zeros(2), jnp.zeros(2)))
    [ 0.    -18.107]
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


class ActivatedMuscle(Muscle):
    """A `Muscle` whose activation is an internal state that follows the excitation u: `ȧ = (u - a)/τ`.

    The time constant τ is that of activation if u > a, and that of deactivation if u < a, since calcium is released faster
    than it is taken up again. For constant u, `a = u + (a₀ - u) exp(-t/τ)`.

    - `excitation` u, from 0 to 1: a number, or a function of time that returns one; it may be an `equinox.Module`, whose
      arrays are parameters of the force.
    - `activation_time`, `deactivation_time`: in seconds.
    - `activation`: the initial activation.

    >>> points = [(0.0, 0.0, -0.2), (0.1, 0.0, -0.3)]
    >>> biceps = rbd.forces.ActivatedMuscle(["upper", "lower"], points, 500.0, 1.1, excitation=1.0)
    >>> model = rbd.add_forces(rbd.load("double_pendulum"), biceps)
    >>> path = rbd.rollout(model, rbd.State(jnp.zeros(2), jnp.zeros(2)), dt=0.001, steps=20)
    >>> print(path.own[::10, 0])  # the activation rises with a time constant of 10 ms
    [0.    0.632 0.865]
    """

    excitation: Callable | Float[Array, ""]
    activation_time: Float[Array, ""]
    deactivation_time: Float[Array, ""]

    def __init__(
        self,
        bodies,
        points,
        peak_force,
        optimal_length,
        tendon_length=0.0,
        maximum_velocity=10.0,
        activation=0.0,
        *,
        excitation,
        activation_time=0.01,
        deactivation_time=0.04,
    ):
        super().__init__(
            bodies, points, peak_force, optimal_length, tendon_length, maximum_velocity, activation
        )
        if callable(excitation):
            # A bare function is not a valid leaf. A Partial makes it a part of the structure.
            bare = jax.tree_util.all_leaves([excitation])
            self.excitation = jax.tree_util.Partial(excitation) if bare else excitation
        else:
            self.excitation = number("ActivatedMuscle", "excitation", excitation, least=0, most=1)
        self.activation_time = number("ActivatedMuscle", "activation_time", activation_time, above=0)
        self.deactivation_time = number("ActivatedMuscle", "deactivation_time", deactivation_time, above=0)

    @property
    def own(self):
        return self.activation[None]

    def holding(self, own):
        return self.changed(activation=own[0])

    coupled = False

    def own_rate(self, motion):
        return self._rate(motion)(self.own)

    def own_after(self, motion, v, step):
        return relaxed(self._rate(motion), self.own, step)

    def _rate(self, motion):
        """Returns the rate as a function of the activation."""
        wanted = self.excitation(motion.time) if callable(self.excitation) else self.excitation

        def rate(activation):
            missing = jnp.asarray(wanted, motion.q.dtype) - activation
            rising = rises(missing, activation)
            return missing / jnp.where(rising, self.activation_time, self.deactivation_time)

        return rate
