"""The non-twisting rigid body (Gebhardt & Romero 2020, §4.1, eqs. 69-79).

The body must not turn about its third director: `w·d₃ = 0`, a nonholonomic constraint with a reaction moment `-μ d₃`.
Then `d₁`, `d₂` and the momentum are transported in parallel along the curve of `d₃`. The momentum components `Π₁ Π₂` in
the body's axes change only by the components of the moment. Without a moment they and the kinetic energy are constant; the
momentum in space is not. This is a different mechanical system from the standard rigid body, not another description of it.
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
    """A frame and the angular momentum `(Π₁, Π₂)` along its first two directors, or the rates of both.

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> print(rbd.body.non_twisting_state(top, jnp.eye(3), jnp.array([1.0, 1.0, 5.0])).momentum)
    [1. 2.]
    """

    frame: Float[Array, "3 3"]
    momentum: Float[Array, "2"]


def non_twisting_state(
    body: RotatingBody, frame: Float[Array, "3 3"], velocity: Float[Array, "3"]
) -> NonTwistingState:
    """Returns the state with the angular velocity `w` in space, without its part along `d₃` (eqs. 40, 70).

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
    """Returns the angular velocity `w = w_⊥`, in space.

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> print(rbd.body.non_twisting_velocity(top, rbd.body.NonTwistingState(jnp.eye(3), jnp.array([1.0, 1.0]))))
    [1.  0.5 0. ]
    """
    return matvec(state.frame, body.velocity(_material(state)))


def non_twisting_energy(body: RotatingBody, state: NonTwistingState) -> Float[Array, ""]:
    """Returns `½ Π·J_⊥⁻¹Π`, the kinetic energy (eq. 74a).

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> print(rbd.body.non_twisting_energy(top, rbd.body.NonTwistingState(jnp.eye(3), jnp.array([1.0, 1.0]))))
    0.75
    """
    return body.kinetic_energy(_material(state))


def non_twisting_rates(
    body: RotatingBody, state: NonTwistingState, moment: Float[Array, "3"]
) -> NonTwistingState:
    """Returns the equations of motion in the reduced momenta: `Λ̇ = w× Λ`, `Π̇ₐ = m·dₐ` for a = 1, 2 (eqs. 71a, 78, 79).

    The moment `m` is in space. Its part along `d₃` has no effect, since the reaction balances it.

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
    """Returns `μ = m·d₃ + π_⊥·ḋ₃`: the moment `-μ d₃` prevents the body from twisting.

    (Eq. 71b, with the sign that follows from eq. 53.)

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> print(rbd.body.twist_reaction(top, rbd.body.NonTwistingState(jnp.eye(3), jnp.zeros(2)), jnp.array([0.0, 0.0, 9.0])))
    9.0
    """
    director = state.frame[:, 2]
    momentum = matvec(state.frame, _material(state))
    return dot(moment, director) + dot(momentum, cross(non_twisting_velocity(body, state), director))


def free_motion(body: RotatingBody, state: NonTwistingState, time: Float[Array, ""]) -> NonTwistingState:
    """Returns the exact state after `time` without a moment.

    The angular velocity in the body's axes is constant, as is the momentum. So the body turns about an axis that
    is fixed in the body and in space, and `d₃` moves along a great circle.

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> state = rbd.body.non_twisting_state(top, jnp.eye(3), jnp.array([0.0, jnp.pi / 2, 0.0]))
    >>> print(rbd.body.free_motion(top, state, jnp.array(1.0)).frame[:, 2])  # the third director after a quarter turn
    [1. 0. 0.]
    """
    turn = SO3.exp(time * body.velocity(_material(state)))
    return NonTwistingState(matmul(state.frame, turn), state.momentum)


def _material(state):
    """Returns the angular momentum in the body's axes."""
    return jnp.concatenate([state.momentum, jnp.zeros_like(state.momentum[:1])])
