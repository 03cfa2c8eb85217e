"""All actuators of a model as one force, with the activations as its internal state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._core.arguments import configuration, takes, velocity
from ..._core.array import at_least, by_numpy, clamped, gather, sum_rows, transpose
from ...dynamics import Motion
from ...model import Model
from ..force import Force
from ..own_state import relaxed
from ..tendon import with_tendons
from .activation import Filter
from .actuator import Actuator
from .transmission import OnJoint, OnTendon, Transmissions


class Drive(Force):
    """Actuators under controls.

    - `controls`: one per actuator, by default zero.
    - `activations`: the internal state: one per actuator with dynamics, by default the initial activations.

    >>> model = rbd.attach(rbd.load("pendulum"), rbd.actuators.Motor("motor", "swing", gear=50.0))
    >>> drive = rbd.actuators.Drive(model.actuators, jnp.array([0.1]))
    >>> print(drive(model, jnp.zeros(1), jnp.zeros(1)))
    [5.]
    """

    actuators: tuple[Actuator, ...]
    controls: Float[Array, "nu"]
    activations: Float[Array, "na"]

    def __init__(self, actuators: Sequence[Actuator], controls=None, activations=None):
        self.actuators = tuple(actuators)
        starts = [one.activation for one in self.actuators if one.activation is not None]
        self.controls = by_numpy(lambda xp: xp.zeros(len(self.actuators))) if controls is None else controls
        if activations is None:
            activations = by_numpy(lambda xp, *starts: xp.stack(starts) if starts else xp.zeros(0), *starts)
        self.activations = activations

    @property
    def own(self):
        return self.activations

    def holding(self, own):
        return self.changed(activations=own)

    coupled = False

    def own_rate(self, motion):
        return self._rate(motion)(self.activations.astype(motion.q.dtype))

    def own_after(self, motion, v, step):
        return relaxed(self._rate(motion), self.activations.astype(motion.q.dtype), step)

    def own_after_explicitly(self, motion, step):
        now, chosen = self.activations.astype(motion.q.dtype), self._active
        active = [self.actuators[i] for i in chosen]
        exact = np.array([isinstance(one.dynamics, Filter) and one.dynamics.exact for one in active])
        rate = self._rate(motion)
        after = jnp.where(exact, relaxed(rate, now, step), now + step * rate(now))
        return clamped(after, *self._ranges(active, "activation_range", motion))

    def _rate(self, motion: Motion) -> Callable[[Float[Array, "na"]], Float[Array, "na"]]:
        """Returns the rates as a function of the activations; each rate depends on its own activation only."""
        chosen = self._active
        if not len(chosen):
            return lambda activations: jnp.zeros(0, motion.q.dtype)
        active = [self.actuators[i] for i in chosen]
        controls = gather(self._controls(motion), chosen)
        low, high = self._ranges(active, "activation_range", motion)
        dynamics = [one.dynamics for one in active]

        def rate(activations):
            rates = _each(dynamics, lambda one, u, a: one.rate(u, a), controls, activations)
            leaves = ((activations >= high) & (rates > 0)) | ((activations <= low) & (rates < 0))
            return jnp.where(leaves, 0, rates)

        return rate

    def forces(self, motion: Motion) -> Float[Array, "nu"]:
        """Returns the force of each actuator along its length."""
        return self._forces(motion, Transmissions(motion, self.actuators))[0]

    def placed(self, motion):
        kinds = {type(one.transmission) for one in self.actuators}
        motion = motion if kinds <= {OnJoint} else motion.computed("twists")
        return with_tendons(motion) if OnTendon in kinds else motion

    def generalized_force(self, motion):
        known = Transmissions(motion, self.actuators)
        total = known.generalized_force(self._forces(motion, known)[0])
        most = motion.model.effort_limit.astype(total.dtype)
        return clamped(total, -most, most)

    def body_wrenches_in(self, motion):
        """Returns the wrenches of tendons under actuation; actuators on joints and sites count as joint forces, as in MuJoCo."""
        known = Transmissions(motion, self.actuators)
        return known.body_wrenches(self._forces(motion, known)[0])

    def stored_energy(self, motion):
        return jnp.zeros((), motion.q.dtype)

    def joint_resistance(self, motion):
        """Returns damping and stiffness of actuators on joints with one degree of freedom, unless a limit clips the force."""
        known = Transmissions(motion, self.actuators)
        chosen, gears = known.scalar
        if not chosen or not self._resists(chosen):
            return None
        forces, exerted = self._forces(motion, known)
        lengths, rates = known.lengths, known.rates
        one, none = jnp.ones_like(lengths), jnp.zeros_like(lengths)
        force, by_length = jax.jvp(exerted, (lengths, rates), (one, none))
        by_rate = jax.jvp(exerted, (lengths, rates), (none, one))[1]
        whole = jnp.where(forces == force, jnp.ones_like(force), 0)
        most = motion.model.effort_limit.astype(forces.dtype)
        free = jnp.abs(known.generalized_force(forces)) < most
        square = gather(whole, np.array(chosen)) * gears**2
        joints = known.scalar_joints()

        def along(slope):
            own = motion.resistance_along(joints, -square * gather(slope, np.array(chosen)))
            return jnp.where(free, at_least(own, 0), 0)

        return along(by_rate), along(by_length)

    def velocity_response(self, motion):
        known = Transmissions(motion, self.actuators)
        chosen = [i for i in range(len(self.actuators)) if i not in known.scalar[0]]
        if not self._resists(chosen):
            return None
        forces, exerted = self._forces(motion, known)
        lengths, rates = known.lengths, known.rates
        force, slope = jax.jvp(lambda rates: exerted(lengths, rates), (rates,), (jnp.ones_like(rates),))
        slope = jnp.where(forces == force, slope, 0)
        moments = gather(jax.vmap(known.generalized_force)(jnp.eye(len(forces), dtype=force.dtype)), chosen)
        return transpose(moments), gather(slope, chosen)[:, None] * moments

    @property
    def _active(self) -> np.ndarray:
        return np.array([i for i, one in enumerate(self.actuators) if one.dynamics is not None], int)

    def _resists(self, chosen: Sequence[int]) -> bool:
        """Returns whether one of these actuators depends on its length or rate, according to its laws."""
        return any(self.actuators[i].resists for i in chosen)

    def _controls(self, motion: Motion) -> Float[Array, "nu"]:
        low, high = self._ranges(self.actuators, "control_range", motion)
        return clamped(self.controls.astype(motion.q.dtype), low, high)

    def _inputs(self, motion: Motion) -> Float[Array, "nu"]:
        """Returns the input of each actuator: its control, or its activation within its range."""
        controls, chosen = self._controls(motion), self._active
        if not len(chosen):
            return controls
        low, high = self._ranges([self.actuators[i] for i in chosen], "activation_range", motion)
        activations = clamped(self.activations.astype(motion.q.dtype), low, high)
        place = np.full(len(self.actuators), -1)
        place[chosen] = np.arange(len(chosen))
        return jnp.where(place >= 0, gather(activations, np.maximum(place, 0)), controls)

    def _forces(self, motion: Motion, known: Transmissions) -> tuple[Float[Array, "nu"], Callable]:
        """Returns the force of each actuator, and the force without clipping as a function of lengths and rates."""
        inputs = self._nearest(self._inputs(motion), known)

        def exerted(lengths, rates):
            gain = _each([one.gain for one in self.actuators], lambda law, *at: law(*at), lengths, rates)
            bias = _each([one.bias for one in self.actuators], lambda law, *at: law(*at), lengths, rates)
            return gain * inputs + bias

        low, high = self._ranges(self.actuators, "force_range", motion)
        return clamped(exerted(known.lengths, known.rates), low, high), exerted

    def _nearest(self, inputs: Float[Array, "nu"], known: Transmissions) -> Float[Array, "nu"]:
        """Returns the inputs shifted by full turns for servos on circles, so that they take the shorter way, as in MuJoCo."""
        servos = {i: self.actuators[i].servo for i in known.circular}
        chosen = {i: servo for i, servo in servos.items() if servo is not None}
        if not chosen:
            return inputs
        place, turns = np.array(list(chosen)), known.turns(list(chosen))
        gains, stiffness = (jnp.stack(pair).astype(inputs.dtype) for pair in zip(*chosen.values()))
        there = (turns > 0) & (gains == stiffness)
        error = gather(inputs, place) - gather(known.lengths, place)
        back = jnp.where(there, turns * jnp.round(error / jnp.where(there, turns, 1)), 0)
        return inputs - sum_rows(back, place, len(inputs))

    def _ranges(self, actuators: Sequence[Actuator], name: str, motion: Motion):
        """Returns the lower and the upper bounds of a range of each actuator."""
        given = [getattr(one, name) for one in actuators]
        open_ended = jnp.array([-jnp.inf, jnp.inf])
        pairs = jnp.concatenate([open_ended if pair is None else pair for pair in given]).reshape(-1, 2)
        return pairs.astype(motion.q.dtype).T


def _each(things: Sequence[Any], value: Callable, *arguments: Float[Array, "n"]) -> Float[Array, "n"]:
    """Evaluates `value(thing, ...)` for each object, equal kinds at once; zero for None."""
    groups: dict[Any, list[int]] = {}
    for index, thing in enumerate(things):
        if thing is not None:
            groups.setdefault(jax.tree.structure(thing), []).append(index)
    if not groups:
        return jnp.zeros_like(arguments[0])
    parts = []
    for members in groups.values():
        stacked = jax.tree.map(
            lambda *x: jnp.stack(x).astype(arguments[0].dtype), *(things[i] for i in members)
        )
        parts.append(jax.vmap(value)(stacked, *(gather(x, np.array(members)) for x in arguments)))
    rows = np.concatenate([np.array(members) for members in groups.values()])
    return sum_rows(jnp.concatenate(parts), rows, len(things))


@takes(q=configuration)
def actuator_lengths(model: Model, q: Float[Array, "nq"]) -> Float[Array, "nu"]:
    """Returns the length of every actuator, in the order of `model.actuators`.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.actuators.Motor("motor", "elbow", gear=50.0))
    >>> print(rbd.actuators.actuator_lengths(model, jnp.array([0.5, 1.0])))
    [50.]
    """
    return Transmissions(Motion(model, q), actuators_of(model)).lengths


@takes(q=configuration, v=velocity)
def actuator_velocities(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "nu"]:
    """Returns the rate of the length of every actuator.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.actuators.Motor("motor", "elbow", gear=50.0))
    >>> print(rbd.actuators.actuator_velocities(model, jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])))
    [100.]
    """
    return Transmissions(Motion(model, q, v), actuators_of(model)).rates


@takes(q=configuration)
def actuator_moments(model: Model, q: Float[Array, "nq"]) -> Float[Array, "nu nv"]:
    """Returns the moment arms J of all actuators: `J v` are the rates of their lengths, `Jᵀ f` the effect of forces f.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.actuators.Motor("motor", "elbow", gear=50.0))
    >>> print(rbd.actuators.actuator_moments(model, jnp.array([0.5, 1.0])))
    [[ 0. 50.]]
    """
    known = Transmissions(Motion(model, q), actuators_of(model))
    return jax.vmap(known.generalized_force)(jnp.eye(known.count, dtype=q.dtype))


def actuators_of(model: Model) -> tuple[Actuator, ...]:
    """Returns the actuators of a model, in the order of its controls."""
    return model.actuators  # pyright: ignore[reportReturnType]
