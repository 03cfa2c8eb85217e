"""Frames that do not twist: Bishop's frame along a curve on the sphere (Gebhardt & Romero 2020, §2.3, eqs. 18-26).

A frame is a rotation matrix with the directors `d₁ d₂ d₃` as columns. It moves without twist if `ḋ₁·d₂ = 0`. Then parallel
transport along the curve that `d₃` follows on the sphere determines `d₁` and `d₂`. (Eq.
24 of the paper misprints the second director: it ends with `cos ψ d₂`.)
"""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .._core.arguments import accuracy, as_array, rotation
from .._core.array import cross, dot, is_known
from ..lie import S2


def non_twisting_frames(
    directors: Float[Array, "n 3"], initial: Float[Array, "3 3"]
) -> Float[Array, "n 3 3"]:
    """Returns the frame that moves along a sampled curve `d₃` without twist, at each sample.

    Between samples the curve is taken as the shortest geodesic, along which parallel transport has a closed form. The result
    is exact for curves made of geodesics between the samples, and second-order accurate in the sample distance for others.
    To use a curve given as a function of time, sample it: `non_twisting_frames(jax.vmap(curve)(times), initial)`.

    Args:
      directors: Unit vectors, the curve `d₃`, shape (n, 3). Neighbors must not be antipodes, which have no unique shortest
        geodesic.
      initial: The frame at the first sample; its third column is `directors[0]`.

    Returns:
      The frames, shape (n, 3, 3).

    >>> corner = jnp.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])  # around an eighth of the sphere
    >>> turned = rbd.body.non_twisting_frames(corner, jnp.eye(3))[-1]
    >>> print(rbd.body.twist_angle(turned, jnp.eye(3)).round(3))  # its solid angle
    1.571
    """
    directors = as_array("non_twisting_frames", "directors", directors, "unit vectors, a row each")
    if directors.ndim != 2 or directors.shape[1] != 3 or directors.shape[0] == 0:
        raise ValueError(
            f"non_twisting_frames: directors has shape {directors.shape}; n samples have shape (n, 3)"
        )
    initial = rotation("non_twisting_frames", "initial", initial)
    if is_known((directors, initial)):
        _check_curve(np.asarray(directors, np.float64), np.asarray(initial), accuracy(directors.dtype))

    def carry(state, after):
        before, first = state
        first = S2.transport(before, S2.log(before, after), first)
        return (after, first), first

    _, rest = lax.scan(carry, (directors[0], initial[:, 0]), directors[1:])
    first = jnp.concatenate([initial[None, :, 0], rest])
    return jnp.stack([first, cross(directors, first), directors], axis=-1)


def darboux_vector(
    director: Float[Array, "3"], rate: Float[Array, "3"], twist_rate: Float[Array, ""] | float = 0.0
) -> Float[Array, "3"]:
    """Returns `d₃ × ḋ₃ + ψ̇ d₃`, the angular velocity of the frame with third director `d₃` and twist rate `ψ̇` (eqs. 20, 25).

    At zero twist rate it is the angular velocity of the non-twisting frame.

    >>> print(rbd.body.darboux_vector(jnp.array([0.0, 0.0, 1.0]), jnp.array([1.0, 0.0, 0.0]), 0.5))
    [0.  1.  0.5]
    """
    return cross(director, rate) + twist_rate * director


def twisted(frame: Float[Array, "3 3"], angle: Float[Array, ""]) -> Float[Array, "3 3"]:
    """Returns `exp(ψ d₃×)` times the frame: the first two directors turned about the third (eq. 24).

    >>> print(rbd.body.twisted(jnp.eye(3), jnp.array(jnp.pi / 2)))
    [[ 0. -1.  0.]
     [ 1.  0.  0.]
     [ 0.  0.  1.]]
    """
    first, second, third = frame.T
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    return jnp.stack([cosine * first + sine * second, cosine * second - sine * first, third], axis=-1)


def twist_angle(frame: Float[Array, "3 3"], reference: Float[Array, "3 3"]) -> Float[Array, ""]:
    """Returns the angle ψ in (-π, π] with `frame = twisted(reference, ψ)`; both frames have the same third director.

    >>> print(rbd.body.twist_angle(rbd.body.twisted(jnp.eye(3), jnp.array(0.5)), jnp.eye(3)))
    0.5
    """
    return jnp.arctan2(dot(frame[:, 0], reference[:, 1]), dot(frame[:, 0], reference[:, 0]))


def twist_rate(frame: Float[Array, "3 3"], rates: Float[Array, "3 3"]) -> Float[Array, ""]:
    """Returns `ḋ₁·d₂`, the component of the angular velocity along `d₃`; zero for a non-twisting frame.

    (Eqs. 18, 26, 47.)

    >>> print(rbd.body.twist_rate(jnp.eye(3), rbd.body.director_rates(jnp.eye(3), jnp.array([1.0, 2.0, 3.0]))))
    3.0
    """
    return dot(rates[:, 0], frame[:, 1])


def _check_curve(directors: np.ndarray, initial: np.ndarray, tolerance: float):
    lengths = np.linalg.norm(directors, axis=1)
    wrong = np.flatnonzero(~(np.abs(lengths - 1) <= tolerance))
    if len(wrong):
        i = wrong[0]
        raise ValueError(
            f"non_twisting_frames: directors[{i}] has length {lengths[i]:.6g}; directors are unit vectors"
        )
    if np.max(np.abs(initial[:, 2] - directors[0])) > tolerance:
        raise ValueError("non_twisting_frames: the third column of initial is not directors[0]")
    opposite = np.flatnonzero(np.linalg.norm(directors[1:] + directors[:-1], axis=1) <= tolerance)
    if len(opposite):
        i = opposite[0]
        raise ValueError(
            f"non_twisting_frames: directors[{i}] and directors[{i + 1}] are antipodes; sample the curve more densely"
        )
