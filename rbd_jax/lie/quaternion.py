"""Rotations as quaternions: arrays `(w, x, y, z)`, scalar first.

A unit quaternion `(cos(θ/2), sin(θ/2) a)` is the rotation by `θ` about the unit vector `a`. Functions that treat a quaternion
as a rotation normalize it first, so its length does not matter. Rotations map coordinates of the moving frame to the fixed
frame, as `Transform.rotation` does. All functions broadcast over leading axes, which must be the same for all arguments. Here
`q` and `-q` are the same rotation; in the group `S3` they are two elements.
"""

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from .._core.array import cross, dot, matrix
from .._core.jit import compiled
from ._series import arctan_ratio, stumpff


@compiled
def multiply(a: Float[Array, "*batch 4"], b: Float[Array, "*batch 4"]) -> Float[Array, "*batch 4"]:
    """Returns the product `a ∘ b`: the rotation `b`, then `a`, both about fixed axes. It does not normalize.

    >>> quarter = rbd.lie.quaternion.exp(jnp.array([0.0, 0.0, jnp.pi / 2]))
    >>> print(rbd.lie.quaternion.multiply(quarter, quarter))
    [0. 0. 0. 1.]
    """
    (aw, av), (bw, bv) = _split(a), _split(b)
    scalar = aw * bw - dot(av, bv)[..., None]
    return jnp.concatenate([scalar, aw * bv + bw * av + cross(av, bv)], axis=-1)


@compiled
def conjugate(q: Float[Array, "*batch 4"]) -> Float[Array, "*batch 4"]:
    """Returns `(w, -x, -y, -z)`: the inverse rotation.

    >>> print(rbd.lie.quaternion.conjugate(jnp.array([0.6, 0.0, 0.0, 0.8])))
    [ 0.6  0.   0.  -0.8]
    """
    w, v = _split(q)
    return jnp.concatenate([w, -v], axis=-1)


@compiled
def normalize(q: Float[Array, "*batch 4"]) -> Float[Array, "*batch 4"]:
    """Returns `q / |q|`. Zero, which is no rotation, becomes the identity, with derivative zero.

    >>> print(rbd.lie.quaternion.normalize(jnp.array([3.0, 0.0, 0.0, 4.0])), rbd.lie.quaternion.normalize(jnp.zeros(4)))
    [0.6 0.  0.  0.8] [1. 0. 0. 0.]
    """
    unit, null = _unit(q)
    w, v = _split(unit)
    return jnp.concatenate([jnp.where(null, 1, w), v], axis=-1)


@compiled
def rotate(q: Float[Array, "*batch 4"], vector: Float[Array, "*batch 3"]) -> Float[Array, "*batch 3"]:
    """Returns the vector part of `q ∘ (0, vector) ∘ q⁻¹`: a vector of the moving frame in the fixed frame.

    >>> quarter = jnp.array([1.0, 0.0, 0.0, 1.0])  # about z; any length will do
    >>> print(rbd.lie.quaternion.rotate(quarter, jnp.array([1.0, 0.0, 0.0])))
    [0. 1. 0.]
    """
    w, v = _split(normalize(q))
    turn = 2 * cross(v, vector)
    return vector + w * turn + cross(v, turn)


@compiled
def to_matrix(q: Float[Array, "*batch 4"]) -> Float[Array, "*batch 3 3"]:
    """Returns the rotation matrix, the transpose of the book's E (eq. 4.12).

    >>> print(rbd.lie.quaternion.to_matrix(jnp.array([1.0, 0.0, 0.0, 1.0])))
    [[ 0. -1.  0.]
     [ 1.  0.  0.]
     [ 0.  0.  1.]]
    """
    q = normalize(q)
    w, x, y, z = (q[..., i] for i in range(4))
    return matrix(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


@compiled
def from_matrix(rotation: Float[Array, "*batch 3 3"]) -> Float[Array, "*batch 4"]:
    """Returns the unit quaternion of a rotation matrix, with the sign of `shortest`.

    The entries of the matrix give all products `4 q_i q_j`. The row of these products with the largest diagonal entry is `q`
    up to its length (Shepperd 1978). That entry is at least 1, so no rotation has a small divisor.

    >>> print(rbd.lie.quaternion.from_matrix(jnp.diag(jnp.array([1.0, -1.0, -1.0]))))
    [0. 1. 0. 0.]
    """
    r = [[rotation[..., i, j] for j in range(3)] for i in range(3)]
    wx, wy, wz = r[2][1] - r[1][2], r[0][2] - r[2][0], r[1][0] - r[0][1]
    xy, xz, yz = r[0][1] + r[1][0], r[0][2] + r[2][0], r[1][2] + r[2][1]
    ww = 1 + r[0][0] + r[1][1] + r[2][2]
    xx = 1 + r[0][0] - r[1][1] - r[2][2]
    yy = 1 - r[0][0] + r[1][1] - r[2][2]
    zz = 1 - r[0][0] - r[1][1] + r[2][2]
    products = matrix([[ww, wx, wy, wz], [wx, xx, xy, xz], [wy, xy, yy, yz], [wz, xz, yz, zz]])
    largest = jnp.argmax(jnp.stack([ww, xx, yy, zz], axis=-1), axis=-1)
    row = jnp.take_along_axis(products, largest[..., None, None], axis=-2)[..., 0, :]
    return shortest(normalize(row))


@compiled
def shortest(q: Float[Array, "*batch 4"]) -> Float[Array, "*batch 4"]:
    """Returns `q` or `-q`, with the first nonzero entry positive: a rotation by at most half a turn.

    >>> print(rbd.lie.quaternion.shortest(jnp.array([-0.6, 0.0, 0.0, 0.8])))
    [ 0.6  0.   0.  -0.8]
    """
    first = q[..., 3]
    for i in (2, 1, 0):
        first = jnp.where(q[..., i] == 0, first, q[..., i])
    return jnp.where(first[..., None] < 0, -q, q)


@compiled
def exp(x: Float[Array, "*batch 3"]) -> Float[Array, "*batch 4"]:
    """Returns the unit quaternion `(cos(θ/2), sin(θ/2)/θ x)` of a rotation vector `x` of length `θ`.

    >>> print(rbd.lie.quaternion.exp(jnp.array([jnp.pi / 2, 0.0, 0.0])))
    [0.707 0.707 0.    0.   ]
    """
    half = dot(x, x)[..., None] / 4
    return jnp.concatenate([stumpff(0, half), stumpff(1, half) * x / 2], axis=-1)


@compiled
def log(q: Float[Array, "*batch 4"]) -> Float[Array, "*batch 3"]:
    """Returns the shortest rotation vector, of length at most π. `q` and `-q` give the same vector.

    At exactly half a turn, opposite vectors are the same rotation. The result is the vector whose first nonzero entry is
    positive, and derivatives are one-sided, from the side on which that vector is the shortest.

    >>> print(rbd.lie.quaternion.log(jnp.array([1.0, 1.0, 0.0, 0.0])))
    [1.571 0.    0.   ]
    """
    w, v = _split(shortest(normalize(q)))
    square = dot(v, v)[..., None]
    # The vector is 2 arctan(|v|/w)/|v| v. The square root of a unit quaternion lies along q + 1, so adding the
    # length to w halves the angle. After three halvings, none of which is singular, a short series for the
    # arctangent is accurate.
    for _ in range(3):
        w = w + jnp.sqrt(w * w + square)
    return 16 * arctan_ratio(square / (w * w)) / w * v


@compiled
def from_axis_angle(
    axis: Float[Array, "*batch 3"], angle: Float[Array, "*batch"]
) -> Float[Array, "*batch 4"]:
    """Returns the rotation by `angle` (rad) about an axis of any length. About the zero axis it is the identity.

    >>> print(rbd.lie.quaternion.from_axis_angle(jnp.array([0.0, 0.0, 5.0]), jnp.array(jnp.pi)))
    [0. 0. 0. 1.]
    """
    axis, null = _unit(axis)
    half = jnp.where(null, 0, angle[..., None] / 2)
    return jnp.concatenate([jnp.cos(half), jnp.sin(half) * axis], axis=-1)


@compiled
def derivative(q: Float[Array, "*batch 4"], angular: Float[Array, "*batch 3"]) -> Float[Array, "*batch 4"]:
    """Returns `q̇ = ½ q ∘ (0, ω)`, with `ω` in the moving frame (book eq. 4.13). It does not normalize `q`.

    >>> print(rbd.lie.quaternion.derivative(jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.array([0.0, 0.0, 2.0])))
    [0. 0. 0. 1.]
    """
    return multiply(q, jnp.concatenate([jnp.zeros_like(angular[..., :1]), angular / 2], axis=-1))


@compiled
def angular_velocity(q: Float[Array, "*batch 4"], rate: Float[Array, "*batch 4"]) -> Float[Array, "*batch 3"]:
    """Returns the angular velocity in the moving frame, `2 q⁻¹ ∘ q̇`, of the rotation `q` with the derivative `rate`.

    >>> q = jnp.array([1.0, 0.0, 0.0, 0.0])
    >>> print(rbd.lie.quaternion.angular_velocity(q, jnp.array([0.0, 0.0, 0.0, 1.0])))
    [0. 0. 2.]
    """
    unit, change = jax.jvp(normalize, (q,), (rate,))
    return 2 * multiply(conjugate(unit), change)[..., 1:]


def random(key: PRNGKeyArray | Shaped[Array, "2"], dtype=None) -> Float[Array, "4"]:
    """Returns a unit quaternion, uniformly distributed over all rotations: the direction of a normal sample.

    >>> q = rbd.lie.quaternion.random(jax.random.key(0))
    >>> print(jnp.linalg.norm(q).round(3))
    1.0
    """
    return normalize(jax.random.normal(key, (4,), dtype))


def _split(q):
    """Returns the scalar part, as an array of one entry, and the vector part."""
    return q[..., :1], q[..., 1:]


def _unit(x):
    """Returns `x / |x|`, or zero at zero, and whether x is zero. It neither overflows nor underflows at any scale."""
    scale = stop_gradient(jnp.max(jnp.abs(x), axis=-1, keepdims=True))
    null = scale == 0
    # Scaling does not change the direction, so the scale is treated as a constant.
    x = x / jnp.where(null, 1, scale)
    length = jnp.sqrt(jnp.where(null, 1, dot(x, x)[..., None]))
    return jnp.where(null, 0, x / length), null
