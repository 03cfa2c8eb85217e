"""Joints that move by themselves: a prescribed motion in time (the rheonomic constraints of book §3.5).

They have no freedom. Their velocity is the drift `σ`, the twist of `∂/∂t transform`, and their velocity product is
`σ̊ = dσ/dt` (eqs. 3.32 to 3.43), in successor coordinates.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._joint import Joint, body_twist, parameter


class Rheonomic(Joint):
    """A joint without freedom that is led through configurations of another as time passes."""

    joint: eqx.AbstractVar[Joint]
    time: eqx.AbstractVar[Float[Array, ""]]

    nv = 0
    rheonomic = True

    @abc.abstractmethod
    def configuration(self) -> Float[Array, " inner_nq"]:
        """The configuration of the joint within, now."""

    def transform(self, q):
        return self.joint.transform(self.configuration())

    def drift(self, q):
        return _rate_in_time(self, lambda joint: joint.transform(q), body_twist)

    def velocity_product(self, q, v):
        return _rate_in_time(self, lambda joint: joint.drift(q), lambda drift, rate: rate)

    def at_time(self, time):
        time = jnp.full_like(self.time, time)
        return eqx.tree_at(lambda it: (it.joint, it.time), self, (self.joint.at_time(time), time))


class Driven(Rheonomic):
    """A joint led along `motion`, a function of time that gives the configuration of `joint`.

    The motion may be a PyTree (an `equinox.Module` with `__call__`): its arrays are parameters like any other. Its
    first two derivatives in time are the joint's velocity and acceleration.
    """

    joint: Joint
    motion: Callable[[Any], Any]
    time: Float[Array, ""]

    def __init__(self, joint: Joint, motion: Callable, time=0.0):
        if not callable(motion):
            raise ValueError(f"Driven: motion {motion!r} is not callable; give a function of time")
        # A bare function is a leaf that is no array. In a Partial it is part of the structure instead.
        motion = jax.tree_util.Partial(motion) if jax.tree_util.all_leaves([motion]) else motion
        for leaf in jax.tree.leaves(motion):
            if not eqx.is_inexact_array_like(leaf):
                raise ValueError(f"Driven: motion holds {leaf!r}, which is no float; make it a static field")
        self.joint = joint
        self.motion = motion
        self.time = parameter(time, (), "Driven", "time")
        q = jax.eval_shape(motion, self.time)
        if getattr(q, "shape", None) != (joint.nq,):
            shape = getattr(q, "shape", q)
            raise ValueError(
                f"Driven: motion returns {shape}; a {type(joint).__name__} has {joint.nq} coordinates"
            )

    def configuration(self):
        return self.motion(self.time)


class ConstantVelocity(Rheonomic):
    """A joint that moves at a constant velocity: at time t it is at `start ⊕ t velocity`."""

    joint: Joint
    velocity: Float[Array, " inner_nv"]
    start: Float[Array, " inner_nq"]
    time: Float[Array, ""]

    def __init__(self, joint: Joint, velocity, start=None, time=0.0):
        self.joint = joint
        self.velocity = parameter(velocity, (joint.nv,), "ConstantVelocity", "velocity")
        dtype = self.velocity.dtype
        start = joint.neutral() if start is None else start
        self.start = parameter(start, (joint.nq,), "ConstantVelocity", "start", dtype)
        self.time = parameter(time, (), "ConstantVelocity", "time", dtype)

    def configuration(self):
        return self.joint.integrate(self.start, self.time * self.velocity)


def _rate_in_time(joint: Rheonomic, function, combine):
    """`combine(f, df/dt)` of a function of the joint as it is in time."""
    return combine(
        *jax.jvp(lambda time: function(joint.at_time(time)), (joint.time,), (jnp.ones_like(joint.time),))
    )
