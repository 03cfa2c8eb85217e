"""Joints with prescribed motion in time (the rheonomic constraints of book §3.5).

They have no degree of freedom. Their velocity is the drift `σ`, the twist of `∂/∂t transform`, and their velocity product is
`σ̊`, its rate in the successor frame (eqs. 3.32 to 3.43).
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import instance, number
from .._core.array import matvec
from ._joint import Joint


class Rheonomic(Joint):
    """A joint without degrees of freedom that moves through the configurations of another joint as time passes."""

    joint: eqx.AbstractVar[Joint]
    time: eqx.AbstractVar[Float[Array, ""]]

    nv = 0
    rheonomic = True

    @abc.abstractmethod
    def configuration(self) -> Float[Array, " inner_nq"]:
        """Returns the configuration of the wrapped joint at the current time."""

    def transform(self, q):
        return self.joint.transform(self.configuration())

    def at_time(self, time):
        time = jnp.asarray(time, self.time.dtype)
        inner = self.joint.at_time(time)
        return eqx.tree_at(lambda it: (it.joint, it.time), self, (inner, jnp.full_like(self.time, time)))


class Driven(Rheonomic):
    """A joint with the prescribed motion `motion`, a function of time that returns the configuration of `joint`.

    The motion may be a PyTree (an `equinox.Module` with `__call__`); its arrays are then model parameters. Its
    first two time derivatives give the velocity and the acceleration.

    >>> builder = rbd.ModelBuilder()
    >>> motor = rbd.joints.Driven(rbd.joints.Revolute(axis=(0, 0, 1)), lambda t: jnp.stack([jnp.sin(t)]))
    >>> rotor = builder.add_body("rotor", joint=motor, inertia=rbd.Inertia.sphere(1.0, 0.1))
    >>> model = rbd.at_time(builder.build(), jnp.pi / 2)
    >>> print(model.nv, rbd.forward_kinematics(model, jnp.zeros(0)).rotation[0, :2, 0])
    0 [0.54  0.841]
    """

    joint: Joint
    motion: Callable[[Any], Any]
    time: Float[Array, ""]

    def __init__(self, joint: Joint, motion: Callable, time=0.0):
        instance("Driven", "joint", joint, Joint, "an instance of rbd.joints.Joint")
        # A bare function is a leaf that is not an array. In a Partial it is part of the structure instead.
        motion = jax.tree_util.Partial(motion) if jax.tree_util.all_leaves([motion]) else motion
        for leaf in jax.tree.leaves(motion):
            if not (isinstance(leaf, float) or eqx.is_inexact_array(leaf)):
                raise ValueError(f"Driven: motion holds {leaf!r}, which is no float; make it a static field")
        self.joint = joint
        self.motion = motion
        self.time = number("Driven", "time", time)
        shape = jnp.shape(jax.eval_shape(lambda: motion(self.time)))
        if shape != (joint.nq,):
            raise ValueError(
                f"Driven: motion returns an array of shape {shape}; expected {(joint.nq,)}, the coordinates of "
                f"a {type(joint).__name__} joint"
            )

    def configuration(self):
        return self.motion(self.time)


class ConstantVelocity(Rheonomic):
    """A joint that moves at a constant velocity: at time t its configuration is `start ⊕ t velocity`.

    >>> belt = rbd.joints.ConstantVelocity(rbd.joints.Prismatic(axis=(1, 0, 0)), velocity=jnp.array([0.5]), time=4.0)
    >>> print(belt.transform(jnp.zeros(0)).position)
    [2. 0. 0.]
    """

    joint: Joint
    velocity: Float[Array, " inner_nv"]
    start: Float[Array, " inner_nq"]
    time: Float[Array, ""]

    def __init__(self, joint: Joint, velocity, start=None, time=0.0):
        instance("ConstantVelocity", "joint", joint, Joint, "an instance of rbd.joints.Joint")
        self.joint = joint
        self.velocity = number("ConstantVelocity", "velocity", velocity, (joint.nv,))
        dtype = self.velocity.dtype
        start = joint.neutral() if start is None else start
        self.start = number("ConstantVelocity", "start", start, (joint.nq,), dtype=dtype)
        self.time = number("ConstantVelocity", "time", time, dtype=dtype)

    def configuration(self):
        return self.joint.integrate(self.start, self.time * self.velocity)

    def drift(self, q):
        inner = self.configuration()
        return matvec(self.joint.motion_subspace(inner), self.velocity) + self.joint.drift(inner)

    def velocity_product(self, q, v):
        return self.joint.velocity_product(self.configuration(), self.velocity)
