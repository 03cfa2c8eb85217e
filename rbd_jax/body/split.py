"""Euler's equations split along the third director (Gebhardt & Romero 2020, §3.1-3.4, eqs. 27-55).

A vector `a` of space is `a_⊥ + a_∥ d₃` with `a_⊥` in the tangent plane of the sphere at `d₃`. The split angular momentum
satisfies

    ∇_ḋ₃ π_⊥ + π_∥ ḋ₃ = m_⊥        π̇_∥ - π_⊥·ḋ₃ = m_∥

with the covariant derivative of the sphere. The paper prints `+ π_⊥·ḋ₃` in the second (eq. 51b); its own proof (eq.
53) has `π̇_⊥·d₃`, which is `-π_⊥·ḋ₃`. Rotation matrices have the directors as columns. Vectors are spatial unless
noted otherwise.
"""

from __future__ import annotations

import equinox as eqx
from jaxtyping import Array, Float

from .._core.arguments import rotation, vector
from .._core.array import cross, dot, matmul, matvec, skew, vecmat
from ..lie import S2
from .rotating_body import RotatingBody


class SplitState(eqx.Module):
    """A frame and the split angular momentum `π_⊥ + π_∥ d₃`, or the rates of both.

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> state = rbd.body.split_state(top, jnp.eye(3), jnp.array([1.0, 0.0, 1.0]))
    >>> print(state.perpendicular, state.parallel)
    [1. 0. 0.] 3.0
    """

    frame: Float[Array, "3 3"]
    perpendicular: Float[Array, "3"]
    parallel: Float[Array, ""]


def split_vector(
    director: Float[Array, "3"], vector: Float[Array, "3"]
) -> tuple[Float[Array, "3"], Float[Array, ""]]:
    """Returns `a_⊥` and `a_∥` with `a = a_⊥ + a_∥ d₃` (eqs. 30, 39).

    >>> print(*rbd.body.split_vector(jnp.array([0.0, 0.0, 1.0]), jnp.array([1.0, 2.0, 3.0])))
    [1. 2. 0.] 3.0
    """
    return S2.project(director, vector), dot(director, vector)


def split_state(body: RotatingBody, frame: Float[Array, "3 3"], velocity: Float[Array, "3"]) -> SplitState:
    """Returns the state with the angular velocity `w`: its momentum is `Λ J Λᵀ w`, split (eqs. 34, 37, 40).

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> print(rbd.body.split_state(top, jnp.eye(3), jnp.array([0.0, 1.0, 0.0])).perpendicular)
    [0. 2. 0.]
    """
    frame, velocity = rotation("split_state", "frame", frame), vector("split_state", "velocity", velocity)
    momentum = matvec(frame, body.momentum(vecmat(velocity, frame)))
    return SplitState(frame, *split_vector(frame[:, 2], momentum))


def split_velocity(body: RotatingBody, state: SplitState) -> Float[Array, "3"]:
    """Returns the angular velocity `w = w_⊥ + w_∥ d₃`. Each part depends only on the same part of the momentum (eq. 40).

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> print(rbd.body.split_velocity(top, rbd.body.split_state(top, jnp.eye(3), jnp.array([1.0, 2.0, 3.0]))))
    [1. 2. 3.]
    """
    return matvec(state.frame, body.velocity(vecmat(split_angular_momentum(state), state.frame)))


def split_angular_momentum(state: SplitState) -> Float[Array, "3"]:
    """Returns `π = π_⊥ + π_∥ d₃`, which is constant without a moment (eq. 54b).

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> print(rbd.body.split_angular_momentum(rbd.body.split_state(top, jnp.eye(3), jnp.array([1.0, 1.0, 1.0]))))
    [1. 2. 3.]
    """
    return state.perpendicular + state.parallel * state.frame[:, 2]


def split_energy(body: RotatingBody, state: SplitState) -> Float[Array, ""]:
    """Returns `½ π_⊥·j_⊥⁻¹π_⊥ + ½ π_∥²/j_∥`, which is constant without a moment (eqs. 36, 54a).

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> print(rbd.body.split_energy(top, rbd.body.split_state(top, jnp.eye(3), jnp.array([1.0, 1.0, 1.0]))))
    3.0
    """
    return body.kinetic_energy(vecmat(split_angular_momentum(state), state.frame))


def split_rates(body: RotatingBody, state: SplitState, moment: Float[Array, "3"]) -> SplitState:
    """Returns the right-hand side of the split equations under a moment `m` (eqs. 29, 51, 55).

    The rate of `π_⊥` is a vector of space. Its tangent part is the covariant derivative `m_⊥ - π_∥ ḋ₃`. Its part
    along `d₃`, which keeps `π_⊥` tangent, is `-π_⊥·ḋ₃`.

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> state = rbd.body.split_state(top, jnp.eye(3), jnp.array([0.0, 0.0, 1.0]))
    >>> print(rbd.body.split_rates(top, state, jnp.array([0.5, 0.0, 0.0])).perpendicular)
    [0.5 0.  0. ]
    """
    director = state.frame[:, 2]
    velocity = split_velocity(body, state)
    director_rate = cross(velocity, director)
    across, along = split_vector(director, moment)
    turning = dot(state.perpendicular, director_rate)
    covariant = across - state.parallel * director_rate
    return SplitState(matmul(skew(velocity), state.frame), covariant - turning * director, along + turning)
