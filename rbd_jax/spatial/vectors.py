"""Motion and force vectors: cross products, power, accelerations, screws (book §2.2 to §2.11).

A motion vector is `[ω; v_O]` and a force vector `[n_O; f]`, angular part first, both for the point O of the frame they
are expressed in. They are dual: their scalar product is power. All functions broadcast over leading axes.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._array import blocks, cross, dot, matmul, skew, transpose


def cross_motion(v: Float[Array, "*a 6"], m: Float[Array, "*b 6"]) -> Float[Array, "*c 6"]:
    """`v × m`, the rate of a motion vector `m` that moves with velocity `v` (eq. 2.31)."""
    angular, linear = v[..., :3], v[..., 3:]
    return jnp.concatenate(
        [cross(angular, m[..., :3]), cross(angular, m[..., 3:]) + cross(linear, m[..., :3])], axis=-1
    )


def cross_force(v: Float[Array, "*a 6"], f: Float[Array, "*b 6"]) -> Float[Array, "*c 6"]:
    """`v ×* f`, the rate of a force vector `f` that moves with velocity `v` (eq. 2.32)."""
    angular, linear = v[..., :3], v[..., 3:]
    return jnp.concatenate(
        [cross(angular, f[..., :3]) + cross(linear, f[..., 3:]), cross(angular, f[..., 3:])], axis=-1
    )


def cross_motion_matrix(v: Float[Array, "*a 6"]) -> Float[Array, "*a 6 6"]:
    """`v×`, the matrix `[[ω×, 0], [v_O×, ω×]]` (eq. 2.31)."""
    angular, linear = skew(v[..., :3]), skew(v[..., 3:])
    return blocks(angular, jnp.zeros_like(angular), linear, angular)


def cross_force_matrix(v: Float[Array, "*a 6"]) -> Float[Array, "*a 6 6"]:
    """`v×* = -(v×)ᵀ`, the matrix `[[ω×, v_O×], [0, ω×]]` (eq. 2.32)."""
    angular, linear = skew(v[..., :3]), skew(v[..., 3:])
    return blocks(angular, linear, jnp.zeros_like(angular), angular)


def cross_force_operand_matrix(f: Float[Array, "*a 6"]) -> Float[Array, "*a 6 6"]:
    """`f ×̄*`, the matrix that takes `m` to `m ×* f`: the force cross product as a map of its first operand."""
    moment, linear = skew(f[..., :3]), skew(f[..., 3:])
    return -blocks(moment, linear, linear, jnp.zeros_like(moment))


def power(motion: Float[Array, "*a 6"], force: Float[Array, "*b 6"]) -> Float[Array, "*c"]:
    """The scalar product of a motion with a force: the power of the force on that velocity (eq. 2.12)."""
    return dot(motion, force)


def classical_acceleration(v: Float[Array, "*a 6"], a: Float[Array, "*b 6"]) -> Float[Array, "*c 6"]:
    """`[ω̇; r̈]` of the body point at O, from its spatial velocity and spatial acceleration (eq. 2.50)."""
    return a + _centripetal(v)


def spatial_acceleration(v: Float[Array, "*a 6"], classical: Float[Array, "*b 6"]) -> Float[Array, "*c 6"]:
    """The spatial acceleration `[ω̇; r̈ - ω × ṙ]`, from spatial velocity and `[ω̇; r̈]` (eq. 2.48)."""
    return classical - _centripetal(v)


def _centripetal(v):
    turn = cross(v[..., :3], v[..., 3:])
    return jnp.concatenate([jnp.zeros_like(turn), turn], axis=-1)


class Screw(eqx.Module):
    """A motion as a turn about an axis in space and a slide along it (eq. 2.10).

    `point` is the point of the axis nearest the origin, `direction` a unit vector, `magnitude` the length of the
    angular part (of the linear part for a pure slide) and `pitch` the slide for each radian of turn. A pure slide has
    an infinite pitch and no axis of its own: its `point` is the origin. The zero vector has the direction zero.
    """

    point: Float[Array, "*batch 3"]
    direction: Float[Array, "*batch 3"]
    pitch: Float[Array, "*batch"]
    magnitude: Float[Array, "*batch"]

    @staticmethod
    def of_motion(motion: Float[Array, "*batch 6"]) -> "Screw":
        """The screw of a motion vector. For a force vector (a wrench) see `of_force`."""
        angular, linear = motion[..., :3], motion[..., 3:]
        turn, slide = dot(angular, angular), dot(linear, linear)
        turns, slides = turn > 0, slide > 0
        safe_turn = jnp.where(turns, turn, 1)
        point = cross(angular, linear) / safe_turn[..., None]
        pitch = jnp.where(turns, dot(angular, linear) / safe_turn, jnp.where(slides, jnp.inf, 0))
        square = jnp.where(turns, turn, slide)
        magnitude = jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)
        direction = jnp.where(turns[..., None], angular, linear)
        direction = direction / jnp.where(magnitude > 0, magnitude, 1)[..., None]
        return Screw(point, direction, pitch, magnitude)

    @staticmethod
    def of_force(force: Float[Array, "*batch 6"]) -> "Screw":
        """The screw of a force vector: its line of action, and the couple for each newton as the pitch."""
        return Screw.of_motion(jnp.concatenate([force[..., 3:], force[..., :3]], axis=-1))


# Vectors and inertias about another point, the axes unchanged.


def moment_shift(force: Float[Array, "*a 6"], by: Float[Array, "*b 3"]) -> Float[Array, "*c 6"]:
    """A force vector given for the origin, for the point at `by` instead: `n - by × f`."""
    moment, linear = force[..., :3], force[..., 3:]
    return jnp.concatenate([moment - cross(by, linear), linear], axis=-1)


def motion_shift(motion: Float[Array, "*a 6"], by: Float[Array, "*b 3"]) -> Float[Array, "*c 6"]:
    """A motion vector given for the origin, for the point at `by` instead: `v - by × ω`."""
    angular, linear = motion[..., :3], motion[..., 3:]
    return jnp.concatenate([angular, linear - cross(by, angular)], axis=-1)


def inertia_shift(inertia: Float[Array, "6 6"], by: Float[Array, "3"]) -> Float[Array, "6 6"]:
    """An articulated-body inertia about the point at `by`, about the origin instead: table A.4, without a turn."""
    arm = skew(by)
    coupling, linear = inertia[:3, 3:], inertia[3:, 3:]
    shifted = coupling + matmul(arm, linear)
    moved = inertia[:3, :3] + matmul(arm, transpose(coupling)) - matmul(shifted, arm)
    return blocks(moved, shifted, transpose(shifted), linear)
