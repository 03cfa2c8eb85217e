"""Gains and biases of actuators, as functions of length and rate.

The effort of an actuator is `gain(length, rate) * input + bias(length, rate)`. The muscle models are MuJoCo's.
"""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._core.arguments import number
from ..._core.array import by_numpy, is_known
from ..._core.errors import ModelError


class Law(eqx.Module):
    """A gain or bias as a function of the length of an actuator and of its rate.

    >>> class Saturating(rbd.actuators.Law):
    ...     def __call__(self, length, rate):
    ...         return -jnp.tanh(length)
    >>> print(Saturating()(jnp.array(0.5), jnp.array(0.0)).round(3))
    -0.462
    """

    @abc.abstractmethod
    def __call__(self, length: Float[Array, ""], rate: Float[Array, ""]) -> Float[Array, ""]:
        """Returns the value."""


class Constant(Law):
    """A constant gain or bias.

    >>> print(rbd.actuators.Constant(3.0)(jnp.array(0.2), jnp.array(0.0)))
    3.0
    """

    value: Float[Array, ""]

    def __init__(self, value: Any):
        self.value = number("Constant", "value", value)

    def __call__(self, length, rate):
        return self.value


class Affine(Law):
    """The gain or bias `c[0] + c[1] length + c[2] rate`.

    >>> print(rbd.actuators.Affine(1.0, -10.0, -2.0)(jnp.array(0.2), jnp.array(0.5)))
    -2.0
    """

    coefficients: Float[Array, "3"]

    def __init__(self, constant: Any = 0.0, by_length: Any = 0.0, by_rate: Any = 0.0):
        given = {"constant": constant, "by_length": by_length, "by_rate": by_rate}
        coefficients = [number("Affine", name, value) for name, value in given.items()]
        self.coefficients = by_numpy(lambda xp, *coefficients: xp.stack(coefficients), *coefficients)

    def __call__(self, length, rate):
        c = self.coefficients
        return c[0] + c[1] * length + c[2] * rate


class MuscleCurves(eqx.Module):
    """The parameters of a muscle's curves: `MuscleGain` is its active force, `MuscleBias` its passive force.

    Lengths are normalized by the optimal length: at the ends of `length_range`, the muscle has the lengths of
    `operating_range` in optimal lengths.

    - `peak_force`: the isometric force at the optimal length, in N.
    - `shortest`, `longest`: the range of lengths with active force.
    - `fastest`: the velocity of shortening with zero active force, in optimal lengths per second.
    - `passive`: the passive force at `longest`, in peak forces.
    - `eccentric`: the maximum active force during lengthening, in peak forces.

    >>> curves = rbd.actuators.MuscleCurves(peak_force=100.0, length_range=(0.2, 0.5))
    >>> print(curves.scaled(jnp.array(0.2), jnp.array(0.0))[0])  # in optimal lengths
    0.75
    """

    numbers: Float[Array, "10"]

    def __init__(
        self,
        peak_force: Any,
        length_range: Any,
        operating_range: Any = (0.75, 1.05),
        shortest: Any = 0.5,
        longest: Any = 1.6,
        fastest: Any = 1.5,
        passive: Any = 1.3,
        eccentric: Any = 1.2,
    ):
        owner = "MuscleCurves"
        peak_force = number(owner, "peak_force", peak_force, least=0)
        lengths = number(owner, "length_range", length_range, (2,))
        operating = number(owner, "operating_range", operating_range, (2,))
        for name, pair in (("length_range", lengths), ("operating_range", operating)):
            _rising(f"{owner}: {name}", pair)
        fastest = number(owner, "fastest", fastest, above=0)
        shape = (
            number(owner, "shortest", shortest),
            number(owner, "longest", longest),
            fastest,
            number(owner, "passive", passive),
            number(owner, "eccentric", eccentric),
        )
        self.numbers = jnp.stack([peak_force, *lengths, *operating, *shape])

    def scaled(self, length: Float[Array, ""], rate: Float[Array, ""]):
        """Returns the length in optimal lengths, and the rate relative to `fastest`."""
        _, start, end, low, high, _, _, fastest = self.numbers[:8]
        optimal = (end - start) / (high - low)
        return low + (length - start) / optimal, rate / (optimal * fastest)


class MuscleGain(Law):
    """The active force of a fully activated muscle, negative since it pulls: length factor times velocity factor.

    >>> curves = rbd.actuators.MuscleCurves(peak_force=100.0, length_range=(0.2, 0.5))
    >>> print(rbd.actuators.MuscleGain(curves)(jnp.array(0.45), jnp.array(0.0)))
    -100.0
    """

    curves: MuscleCurves

    def __call__(self, length, rate):
        numbers = self.curves.numbers
        peak, shortest, longest, most = numbers[0], numbers[5], numbers[6], numbers[9]
        length, rate = self.curves.scaled(length, rate)
        lower, upper = (shortest + 1) / 2, (1 + longest) / 2
        rising = 0.5 * _square((length - shortest) / _positive(lower - shortest))
        before = 1 - 0.5 * _square((1 - length) / _positive(1 - lower))
        after = 1 - 0.5 * _square((length - 1) / _positive(upper - 1))
        falling = 0.5 * _square((longest - length) / _positive(longest - upper))
        by_length = jnp.where(length <= 1, jnp.where(length <= lower, rising, before), 0)
        by_length = jnp.where(length > 1, jnp.where(length <= upper, after, falling), by_length)
        by_length = jnp.where((length >= shortest) & (length <= longest), by_length, 0)
        drawn = most - 1
        shortening = jnp.where(rate > -1, _square(rate + 1), 0)
        lengthening = jnp.where(rate <= drawn, most - _square(drawn - rate) / _positive(drawn), most)
        return -peak * by_length * jnp.where(rate <= 0, shortening, lengthening)


class MuscleBias(Law):
    """The passive force of a muscle beyond its optimal length, negative since it pulls.

    >>> curves = rbd.actuators.MuscleCurves(peak_force=100.0, length_range=(0.2, 0.5))
    >>> print(rbd.actuators.MuscleBias(curves)(jnp.array(0.6), jnp.array(0.0)).round(2))
    -16.25
    """

    curves: MuscleCurves

    def __call__(self, length, rate):
        peak, longest, passive = self.curves.numbers[0], self.curves.numbers[6], self.curves.numbers[8]
        length, _ = self.curves.scaled(length, rate)
        upper = (1 + longest) / 2
        width = _positive(upper - 1)
        bent = 0.5 * _square((length - 1) / width)
        straight = 0.5 + (length - upper) / width
        return -peak * passive * jnp.where(length <= 1, 0, jnp.where(length <= upper, bent, straight))


def _rising(owner: str, pair) -> None:
    if is_known(pair) and not pair[0] < pair[1]:
        raise ModelError(f"{owner} is {pair.tolist()}; it must rise from the first number to the second")


def _square(x):
    return x * x


def _positive(x):
    """Returns a positive divisor, also for a range without width."""
    return jnp.maximum(x, 1e-15)
