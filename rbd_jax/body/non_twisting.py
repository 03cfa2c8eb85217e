"""The rigid body that does not twist (Gebhardt & Romero 2020, §4.1, eqs. 69-79).

The body must not turn about its third director: `w·d₃ = 0`, a nonholonomic constraint with a reaction moment `-μ d₃`.
Then `d₁` and `d₂` are carried in parallel along the curve of `d₃`, and so is the momentum: its components `Π₁ Π₂` in
the body's axes change by the moment's components alone, and are constant with the kinetic energy where none acts. The
momentum in space is not. It is another mechanical system than the standard rigid body, not another description of it.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import rotation, vector
from .._core.array import cross, dot, matmul, matvec, skew, vecmat
from ..lie import SO3
from .rotating_body import RotatingBody


class NonTwistingState(eqx.Module):
    """A frame and the angular momentum `(Π₁, Π₂)` along its first two directors; or the rates of these.

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> print(rbd.body.non_twisting_state(top, jnp.eye(3), jnp.array([1.0, 1.0, 5.0])).momentum)
    [1. 2.]
    """

    frame: Float[Array, "3 3"]
    momentum: Float[Array, "2"]


def non_twisting_state(
    body: RotatingBody, frame: Float[Array, "3 3"], velocity: Float[Array, "3"]
) -> NonTwistingState:
    """The state with the angular velocity `w` in space, whose part along `d₃` is left out (eqs. 40, 70).

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> state = rbd.body.non_twisting_state(top, jnp.eye(3), jnp.array([1.0, 1.0, 5.0]))
    >>> print(rbd.body.non_twisting_velocity(top, state))
    [1. 1. 0.]
    """
    frame, velocity = (
        rotation("non_twisting_state", "frame", frame),
        vector("non_twisting_state", "velocity", velocity),
    )
    return NonTwistingState(frame, body.momentum(vecmat(velocity, frame))[:2])


def non_twisting_velocity(body: RotatingBody, state: NonTwistingState) -> Float[Array, "3"]:
    """The angular velocity `w = w_⊥`, in space.

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> print(rbd.body.non_twisting_velocity(top, rbd.body.NonTwistingState(jnp.eye(3), jnp.array([1.0, 1.0]))))
    [1.  0.5 0. ]
    """
    return matvec(state.frame, body.velocity(_material(state)))


def non_twisting_energy(body: RotatingBody, state: NonTwistingState) -> Float[Array, ""]:
    """`½ Π·J_⊥⁻¹Π`, the kinetic energy (eq. 74a).

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> print(rbd.body.non_twisting_energy(top, rbd.body.NonTwistingState(jnp.eye(3), jnp.array([1.0, 1.0]))))
    0.75
    """
    return body.kinetic_energy(_material(state))


def non_twisting_rates(
    body: RotatingBody, state: NonTwistingState, moment: Float[Array, "3"]
) -> NonTwistingState:
    """The equations of motion in the momenta that matter: `Λ̇ = w× Λ`, `Π̇ₐ = m·dₐ` for a = 1, 2 (eqs. 71a, 78, 79).

    The moment `m` is in space; its part along `d₃` does nothing, since the reaction balances it.

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> state = rbd.body.NonTwistingState(jnp.eye(3), jnp.array([1.0, 1.0]))
    >>> print(rbd.body.non_twisting_rates(top, state, jnp.array([0.3, 0.0, 9.0])).momentum)
    [0.3 0. ]
    """
    rates = matmul(skew(non_twisting_velocity(body, state)), state.frame)
    return NonTwistingState(rates, vecmat(moment, state.frame)[:2])


def twist_reaction(
    body: RotatingBody, state: NonTwistingState, moment: Float[Array, "3"]
) -> Float[Array, ""]:
    """`μ = m·d₃ + π_⊥·ḋ₃`: the moment `-μ d₃` keeps the body from twisting.

    (Eq. 71b, with the sign that follows from eq. 53.)

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> print(rbd.body.twist_reaction(top, rbd.body.NonTwistingState(jnp.eye(3), jnp.zeros(2)), jnp.array([0.0, 0.0, 9.0])))
    9.0
    """
    director = state.frame[:, 2]
    momentum = matvec(state.frame, _material(state))
    return dot(moment, director) + dot(momentum, cross(non_twisting_velocity(body, state), director))


def free_motion(body: RotatingBody, state: NonTwistingState, time: Float[Array, ""]) -> NonTwistingState:
    """The state after `time` without a moment, exactly.

    The angular velocity in the body's axes is constant with the momentum, so that the body turns about an axis that
    is fixed in it and in space, and `d₃` runs along a great circle.

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> state = rbd.body.non_twisting_state(top, jnp.eye(3), jnp.array([0.0, jnp.pi / 2, 0.0]))
    >>> print(rbd.body.free_motion(top, state, jnp.array(1.0)).frame[:, 2])  # the third director after a quarter turn
    [1. 0. 0.]
    """
    turn = SO3.exp(time * body.velocity(_material(state)))
    return NonTwistingState(matmul(state.frame, turn), state.momentum)


def _material(state):
    """The angular momentum in the body's axes."""
    return jnp.concatenate([state.momentum, jnp.zeros_like(state.momentum[:1])])
