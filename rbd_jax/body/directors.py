"""The rigid body as three constrained directors (Gebhardt & Romero 2020, §3.5 and §4.2, eqs. 56-68 and 80-84).

The unknowns are the directors `d₁ d₂ d₃`, nine numbers, as columns of a matrix D. Its mass is Euler's
tensor 𝒥: the momenta of the directors are the columns of `Ḋ 𝒥`, and the equations of motion are

    D̈ 𝒥 + (constraint forces) = F        h(D) = ½ (Dᵀ D - I) = 0        G(D) Ḋ = 0

The paper prints the three constraints of orthogonality; the unit lengths of the directors are constraints as well, so
there are six multipliers. The last equation applies to the non-twisting body.
"""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import number, rotation, vector
from .._core.array import cross, matmul, matrix, skew, transpose, vecmat
from ..optimize.newton import solve_dense
from .rotating_body import RotatingBody


class DirectorState(eqx.Module):
    """Directors, their rates, and their momenta: matrices with one column per director, at one time or many.

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> state = rbd.body.director_state(top, jnp.eye(3), jnp.array([0.0, 0.0, 1.0]))
    >>> print(state.rates)
    [[ 0. -1.  0.]
     [ 1.  0.  0.]
     [ 0.  0.  0.]]
    """

    frame: Float[Array, "*times 3 3"]
    rates: Float[Array, "*times 3 3"]
    momenta: Float[Array, "*times 3 3"]


class DirectorConstraints(eqx.Module):
    """The constraints on the directors: orthonormality, and further constraints of a type of body.

    >>> print(isinstance(rbd.body.NonTwisting(), rbd.body.DirectorConstraints))
    True
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of constraints, equal to the number of multipliers."""

    @abstractmethod
    def reaction(self, frame: Float[Array, "3 3"], multipliers: Float[Array, "size"]) -> Float[Array, "3 3"]:
        """Returns `Hᵀλ + Gᵀμ`, one column per director (eqs. 64, 81)."""

    @abstractmethod
    def velocity_rows(self, frame: Float[Array, "3 3"], rates: Float[Array, "3 3"]) -> Float[Array, "rows"]:
        """Returns `G(D) Ḋ`, linear in both: the velocity constraints beside orthonormality."""

    @abstractmethod
    def admissible_momentum(self, momentum: Float[Array, "3"]) -> Float[Array, "3"]:
        """Returns the part of an angular momentum in the body's axes that the constraints admit."""


class Orthonormal(DirectorConstraints):
    """The standard rigid body: its directors are orthonormal, `½ (Dᵀ D - I) = 0` (eq. 63 and the unit lengths).

    >>> print(rbd.body.Orthonormal().size)
    6
    """

    @property
    def size(self) -> int:
        return 6

    def reaction(self, frame, multipliers):
        return _orthonormal_reaction(frame, multipliers)

    def velocity_rows(self, frame, rates):
        return jnp.zeros(0, frame.dtype)

    def admissible_momentum(self, momentum):
        return momentum


class NonTwisting(DirectorConstraints):
    """A body that cannot turn about its third director; its directors are a non-twisting frame (eqs. 80-83).

    The constraint is `(1 - a) ḋ₁·d₂ - a ḋ₂·d₁ = 0`. As the directors are orthonormal, the motion does not depend on `a`,
    neither in the continuous nor in the discrete equations of this package; only the multipliers do. `a` is in [0, 1].

    >>> print(rbd.body.NonTwisting().size)  # one more: it does not twist
    7
    """

    a: float | Float[Array, ""] = 0.5

    def __check_init__(self):
        number("NonTwisting", "a", self.a, np.shape(self.a), least=0, most=1)

    @property
    def size(self) -> int:
        return 7

    def reaction(self, frame, multipliers):
        return _orthonormal_reaction(frame, multipliers[:6]) + multipliers[6] * self._gradient(frame)

    def velocity_rows(self, frame, rates):
        return jnp.sum(self._gradient(frame) * rates)[None]

    def admissible_momentum(self, momentum):
        return jnp.concatenate([momentum[:2], jnp.zeros_like(momentum[2:])])

    def _gradient(self, frame):
        """Returns `G`, the coefficients of the rates."""
        first, second, third = frame.T
        return jnp.stack([(1 - self.a) * second, -self.a * first, jnp.zeros_like(third)], axis=-1)


def director_rates(frame: Float[Array, "3 3"], velocity: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """Returns `ḋᵢ = w × dᵢ` (eq. 57).

    >>> print(rbd.body.director_rates(jnp.eye(3), jnp.array([0.0, 0.0, 1.0])))
    [[ 0. -1.  0.]
     [ 1.  0.  0.]
     [ 0.  0.  0.]]
    """
    return matmul(skew(velocity), frame)


def director_velocity(frame: Float[Array, "3 3"], rates: Float[Array, "3 3"]) -> Float[Array, "3"]:
    """Returns the angular velocity `w = ½ Σ dᵢ × ḋᵢ` of rates that are `w × dᵢ`.

    >>> rates = rbd.body.director_rates(jnp.eye(3), jnp.array([1.0, 2.0, 3.0]))
    >>> print(rbd.body.director_velocity(jnp.eye(3), rates))
    [1. 2. 3.]
    """
    return _moment_of(frame, rates) / 2


def director_state(
    body: RotatingBody, frame: Float[Array, "3 3"], velocity: Float[Array, "3"]
) -> DirectorState:
    """Returns the state with the angular velocity `w` (eqs. 57, 65, 67).

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> state = rbd.body.director_state(top, jnp.eye(3), jnp.array([0.0, 0.0, 1.0]))
    >>> print(rbd.body.director_angular_momentum(state))
    [0. 0. 3.]
    """
    frame, velocity = (
        rotation("director_state", "frame", frame),
        vector("director_state", "velocity", velocity),
    )
    rates = director_rates(frame, velocity)
    return DirectorState(frame, rates, director_momenta(body, rates))


def director_momenta(body: RotatingBody, rates: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """Returns `πⁱ = Σⱼ 𝒥ⁱʲ ḋⱼ`, one column per director (eq. 65).

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> print(rbd.body.director_momenta(top, rbd.body.director_rates(jnp.eye(3), jnp.array([0.0, 0.0, 1.0]))))
    [[ 0. -1.  0.]
     [ 2.  0.  0.]
     [ 0.  0.  0.]]
    """
    return matmul(rates, body.euler_inertia)


def director_mass_matrix(body: RotatingBody) -> Float[Array, "9 9"]:
    """Returns `M = 𝒥 ⊗ I`, for the nine coordinates `(d₁, d₂, d₃)` in this order (eq. 88).

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> print(jnp.diag(rbd.body.director_mass_matrix(top)))
    [2. 2. 2. 1. 1. 1. 0. 0. 0.]
    """
    return jnp.kron(body.euler_inertia, jnp.eye(3, dtype=body.inertia.dtype))


def director_angular_momentum(state: DirectorState) -> Float[Array, "3"]:
    """Returns `π = Σ dᵢ × πⁱ`, in space (eq. 109); `Dᵀ π` is the angular momentum in the body's axes.

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> print(rbd.body.director_angular_momentum(rbd.body.director_state(top, jnp.eye(3), jnp.array([1.0, 1.0, 1.0]))))
    [1. 2. 3.]
    """
    return _moment_of(state.frame, state.momenta)


def director_energy(body: RotatingBody, rates: Float[Array, "3 3"]) -> Float[Array, ""]:
    """Returns `½ Σ 𝒥ⁱʲ ḋᵢ·ḋⱼ`, the kinetic energy (eq. 61).

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> print(rbd.body.director_energy(top, rbd.body.director_rates(jnp.eye(3), jnp.array([1.0, 1.0, 1.0]))))
    3.0
    """
    return jnp.sum(rates * director_momenta(body, rates)) / 2


def director_hamiltonian(
    body: RotatingBody, constraints: DirectorConstraints, state: DirectorState
) -> Float[Array, ""]:
    """Returns the kinetic energy of the angular momentum that the constraints admit: `½ Π·J⁻¹Π`.

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> state = rbd.body.director_state(top, jnp.eye(3), jnp.array([1.0, 1.0, 1.0]))
    >>> for body in (rbd.body.Orthonormal(), rbd.body.NonTwisting()):
    ...     print(rbd.body.director_hamiltonian(top, body, state))
    3.0
    1.5
    """
    momentum = vecmat(director_angular_momentum(state), state.frame)
    return body.kinetic_energy(constraints.admissible_momentum(momentum))


def director_load(frame: Float[Array, "3 3"], moment: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """Returns `fⁱ = ½ m × dᵢ`, the forces on the directors with the virtual work of the moment `m` (eqs. 68, 84).

    >>> print(rbd.body.director_load(jnp.eye(3), jnp.array([0.0, 0.0, 1.0])))
    [[ 0.  -0.5  0. ]
     [ 0.5  0.   0. ]
     [ 0.   0.   0. ]]
    """
    return matmul(skew(moment), frame) / 2


def orthonormality(gram: Float[Array, "3 3"]) -> Float[Array, "6"]:
    """Returns six entries of a symmetric matrix, as in `h`: the pairs 23, 13, 12, and halves of 11, 22, 33 (eq. 63)."""
    return jnp.stack([gram[1, 2], gram[0, 2], gram[0, 1], gram[0, 0] / 2, gram[1, 1] / 2, gram[2, 2] / 2])


def director_acceleration(
    body: RotatingBody,
    constraints: DirectorConstraints,
    frame: Float[Array, "3 3"],
    rates: Float[Array, "3 3"],
    moment: Float[Array, "3"],
) -> tuple[Float[Array, "3 3"], Float[Array, "size"]]:
    """Returns the accelerations of the directors under a moment `m`, and the multipliers (eqs. 64, 81).

    The multipliers are λ₂₃, λ₁₃, λ₁₂, λ₁₁, λ₂₂, λ₃₃, and μ for the non-twisting body. They come from the
    equations of motion together with the second derivatives of the constraints (the first derivative of `G Ḋ`).

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> rates = rbd.body.director_rates(jnp.eye(3), jnp.array([0.0, 0.0, 2.0]))
    >>> accelerations, _ = rbd.body.director_acceleration(top, rbd.body.Orthonormal(), jnp.eye(3), rates, jnp.zeros(3))
    >>> print(accelerations)  # a steady spin: towards the axis
    [[-4.  0.  0.]
     [ 0. -4.  0.]
     [ 0.  0.  0.]]
    """

    def equations(x):
        acceleration, multipliers = unpack(x)
        forces = director_momenta(body, acceleration) + constraints.reaction(frame, multipliers)
        product = matmul(transpose(frame), acceleration)
        rows = constraints.velocity_rows(frame, acceleration)
        return pack(forces, orthonormality(product + transpose(product)), rows)

    known = pack(
        director_load(frame, moment),
        -2 * orthonormality(matmul(transpose(rates), rates)),
        -constraints.velocity_rows(rates, rates),
    )
    return unpack(solve_dense(equations, known))


def pack(directors: Float[Array, "3 3"], *rest: Float[Array, "_"]) -> Float[Array, "n"]:
    """Concatenates the nine numbers of the directors and the rest to one vector."""
    return jnp.concatenate([directors.reshape(9), *rest])


def unpack(x: Float[Array, "n"]) -> tuple[Float[Array, "3 3"], Float[Array, "m"]]:
    """Returns the directors, and the rest as one vector."""
    return x[:9].reshape(3, 3), x[9:]


def _orthonormal_reaction(frame, multipliers):
    """Returns `Hᵀλ = D S` with the symmetric matrix S of the multipliers."""
    a, b, c, p, q, r = multipliers
    return matmul(frame, matrix([[p, c, b], [c, q, a], [b, a, r]]))


def _moment_of(frame, columns):
    """Returns `Σ dᵢ × cᵢ`."""
    return jnp.sum(cross(transpose(frame), transpose(columns)), axis=-2)
