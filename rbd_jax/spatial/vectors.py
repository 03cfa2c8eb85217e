"""Motion and force vectors: cross products, power, accelerations, screws (book §2.2 to §2.11).

A motion vector is `[ω; v_O]` and a force vector `[n_O; f]`, angular part first, both for the point O of the frame they
are expressed in. They are dual: their scalar product is power. All functions broadcast over leading axes.

Functions of vectors with d entries take spatial vectors (three angular and three linear entries) and planar vectors (one and
two, §2.16). The formulas are the same for both; only the cross product of the parts differs.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import blocks, cross, dot, matmul, skew, transpose


def parts(v: Float[Array, "*a d"]) -> tuple[Float[Array, "*a n"], Float[Array, "*a k"]]:
    """Returns the angular and the linear part: three and three entries of a spatial vector, one and two of a planar one.

    >>> angular, linear = rbd.spatial.parts(jnp.arange(6.0))
    >>> print(angular, linear)
    [0. 1. 2.] [3. 4. 5.]
    """
    angular = v.shape[-1] // 2
    return v[..., :angular], v[..., angular:]


def cross_motion(v: Float[Array, "*a d"], m: Float[Array, "*b d"]) -> Float[Array, "*c d"]:
    """Returns `v × m`, the rate of a motion vector `m` that moves with velocity `v` (eq. 2.31).

    >>> spin, slide = jnp.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0]), jnp.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0])
    >>> print(rbd.spatial.cross_motion(spin, slide))
    [0. 0. 0. 0. 1. 0.]
    """
    (angular, linear), (turning, moving) = parts(v), parts(m)
    return jnp.concatenate(
        [cross(angular, turning), cross(angular, moving) + cross(linear, turning)], axis=-1
    )


def cross_force(v: Float[Array, "*a d"], f: Float[Array, "*b d"]) -> Float[Array, "*c d"]:
    """Returns `v ×* f`, the rate of a force vector `f` that moves with velocity `v` (eq. 2.32).

    >>> spin, push = jnp.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0]), jnp.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0])
    >>> print(rbd.spatial.cross_force(spin, push))
    [0. 0. 0. 0. 1. 0.]
    """
    (angular, linear), (moment, push) = parts(v), parts(f)
    return jnp.concatenate([cross(angular, moment) + cross(linear, push), cross(angular, push)], axis=-1)


def cross_motion_matrix(v: Float[Array, "*a 6"]) -> Float[Array, "*a 6 6"]:
    """Returns `v×`, the matrix `[[ω×, 0], [v_O×, ω×]]` (eq. 2.31).

    >>> v, m = jnp.arange(6.0), jnp.ones(6)
    >>> print(rbd.spatial.cross_motion_matrix(v) @ m - rbd.spatial.cross_motion(v, m))
    [0. 0. 0. 0. 0. 0.]
    """
    angular, linear = skew(v[..., :3]), skew(v[..., 3:])
    return blocks(angular, jnp.zeros_like(angular), linear, angular)


def cross_force_matrix(v: Float[Array, "*a 6"]) -> Float[Array, "*a 6 6"]:
    """Returns `v×* = -(v×)ᵀ`, the matrix `[[ω×, v_O×], [0, ω×]]` (eq. 2.32).

    >>> v, f = jnp.arange(6.0), jnp.ones(6)
    >>> print(rbd.spatial.cross_force_matrix(v) @ f - rbd.spatial.cross_force(v, f))
    [0. 0. 0. 0. 0. 0.]
    """
    angular, linear = skew(v[..., :3]), skew(v[..., 3:])
    return blocks(angular, linear, jnp.zeros_like(angular), angular)


def cross_force_operand_matrix(f: Float[Array, "*a 6"]) -> Float[Array, "*a 6 6"]:
    """Returns `f ×̄*`, the matrix that maps `m` to `m ×* f`: the force cross product as a map of its first operand.

    >>> m, f = jnp.arange(6.0), jnp.ones(6)
    >>> print(rbd.spatial.cross_force_operand_matrix(f) @ m - rbd.spatial.cross_force(m, f))
    [0. 0. 0. 0. 0. 0.]
    """
    moment, linear = skew(f[..., :3]), skew(f[..., 3:])
    return -blocks(moment, linear, linear, jnp.zeros_like(moment))


def power(motion: Float[Array, "*a d"], force: Float[Array, "*b d"]) -> Float[Array, "*c"]:
    """Returns the scalar product of a motion and a force: the power of the force at that velocity (eq. 2.12).

    >>> velocity, wrench = jnp.array([0.0, 0.0, 2.0, 0.0, 0.0, 0.0]), jnp.array([0.0, 0.0, 3.0, 1.0, 0.0, 0.0])
    >>> print(rbd.spatial.power(velocity, wrench))
    6.0
    """
    return dot(motion, force)


def classical_acceleration(v: Float[Array, "*a d"], a: Float[Array, "*b d"]) -> Float[Array, "*c d"]:
    """Returns `[ω̇; r̈]` of the body point at O, from its spatial velocity and spatial acceleration (eq. 2.50).

    >>> v = jnp.array([0.0, 0.0, 2.0, 0.0, 1.0, 0.0])
    >>> print(rbd.spatial.classical_acceleration(v, jnp.zeros(6)))  # a steady spin: O accelerates towards the axis
    [ 0.  0.  0. -2.  0.  0.]
    """
    return a + _centripetal(v)


def spatial_acceleration(v: Float[Array, "*a d"], classical: Float[Array, "*b d"]) -> Float[Array, "*c d"]:
    """Returns the spatial acceleration `[ω̇; r̈ - ω × ṙ]`, from spatial velocity and `[ω̇; r̈]` (eq. 2.48).

    >>> v = jnp.array([0.0, 0.0, 2.0, 0.0, 1.0, 0.0])  # O moves on a circle of radius 0.5, towards whose centre it accelerates
    >>> print(rbd.spatial.spatial_acceleration(v, jnp.array([0.0, 0.0, 0.0, -2.0, 0.0, 0.0])))
    [0. 0. 0. 0. 0. 0.]
    """
    return classical - _centripetal(v)


def _centripetal(v):
    angular, linear = parts(v)
    turn = cross(angular, linear)
    return jnp.concatenate([jnp.zeros_like(angular), turn], axis=-1)


class Screw(eqx.Module):
    """A motion as a turn about an axis in space and a slide along it (eq. 2.10).

    `point` is the point of the axis nearest the origin and `direction` a unit vector. `magnitude` is the length of the angular
    part, or of the linear part for a pure slide. `pitch` is the slide per radian of turn. A pure slide has an infinite pitch and
    no definite axis: its `point` is the origin. The zero vector has the direction zero.

    >>> screw = rbd.spatial.Screw.of_motion(jnp.array([0.0, 0.0, 2.0, 0.0, -2.0, 1.0]))
    >>> print(screw.point, screw.direction, screw.pitch, screw.magnitude)
    [ 1.  0.  0.] [0. 0. 1.] 0.5 2.0
    """

    point: Float[Array, "*batch 3"]
    direction: Float[Array, "*batch 3"]
    pitch: Float[Array, "*batch"]
    magnitude: Float[Array, "*batch"]

    @staticmethod
    def of_motion(motion: Float[Array, "*batch 6"]) -> "Screw":
        """Returns the screw of a motion vector. For a force vector (a wrench) see `of_force`."""
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
        """Returns the screw of a force vector: its line of action, with the couple per newton as the pitch."""
        return Screw.of_motion(jnp.concatenate([force[..., 3:], force[..., :3]], axis=-1))


# Vectors and inertias about another point, with the same axes.


def moment_shift(force: Float[Array, "*a d"], by: Float[Array, "*b k"]) -> Float[Array, "*c d"]:
    """Converts a force vector about the origin to one about the point `by`: `n - by × f`.

    >>> weight = jnp.array([0.0, 0.0, 0.0, 0.0, 0.0, -9.81])
    >>> print(rbd.spatial.moment_shift(weight, jnp.array([1.0, 0.0, 0.0])))
    [ 0.   -9.81  0.    0.    0.   -9.81]
    """
    moment, linear = parts(force)
    return jnp.concatenate([moment - cross(by, linear), linear], axis=-1)


def motion_shift(motion: Float[Array, "*a d"], by: Float[Array, "*b k"]) -> Float[Array, "*c d"]:
    """Converts a motion vector for the origin to one for the point `by`: `v - by × ω`.

    >>> spin = jnp.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    >>> print(rbd.spatial.motion_shift(spin, jnp.array([1.0, 0.0, 0.0])))  # a point beside the axis moves
    [0. 0. 1. 0. 1. 0.]
    """
    angular, linear = parts(motion)
    return jnp.concatenate([angular, linear - cross(by, angular)], axis=-1)


def inertia_shift(inertia: Float[Array, "d d"], by: Float[Array, "k"]) -> Float[Array, "d d"]:
    """Converts an articulated-body inertia about the point `by` to one about the origin: table A.4, without a turn.

    >>> ball = rbd.Inertia.from_mass_com(2.0, (0.0, 0.0, 0.0), jnp.eye(3)).matrix
    >>> print(jnp.diag(rbd.spatial.inertia_shift(ball, jnp.array([1.0, 0.0, 0.0]))))
    [1. 3. 3. 2. 2. 2.]
    """
    arm = skew(by)
    k = arm.shape[0]
    coupling, linear = inertia[:k, k:], inertia[k:, k:]
    shifted = coupling + matmul(arm, linear)
    moved = inertia[:k, :k] + matmul(arm, transpose(coupling)) + matmul(shifted, transpose(arm))
    return blocks(moved, shifted, transpose(shifted), linear)
