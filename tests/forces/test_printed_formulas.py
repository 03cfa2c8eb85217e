"""Stiffness and damping in body twists against the formulas of Sueda's notes, with signs verified by differences."""

import jax
import numpy as np
import pytest
from acting import BOX, ROD, points, state
from support import assert_close

import rbd_jax as rbd
from rbd_jax import forces
from rbd_jax.forces.muscle import ACTIVE_LENGTH, FORCE_VELOCITY, PASSIVE_LENGTH


def floating_bodies():
    builder = rbd.ModelBuilder(name="floating bodies")
    for name, inertia in (("a", BOX), ("b", ROD), ("c", BOX)):
        builder.add_body(name, joint=rbd.joints.Free(), inertia=inertia)
    return builder.build()


MODEL = floating_bodies()
Q, V = map(np.asarray, state(MODEL))
V = 0.2 * V
POINTS = points(0, 3) + np.array([[0.0, 0, 0], [1.0, 0, 0], [0.3, 1, 0]])
PATH = ("a", "b", "c")
OPTIMAL, TENDON = 1.1, 0.8
SPRING = forces.SpringDamper(PATH[:2], POINTS[:2], 0.8, 40.0, 3.0)
MUSCLE = forces.Muscle(PATH, POINTS, 30.0, OPTIMAL, TENDON, 4.0, 0.6)
FORCES = {
    "directional": forces.DirectionalForce("a", POINTS[0], (1.0, 2.0, -3.0)),
    "point to point": forces.PointToPoint(PATH[:2], POINTS[:2], 7.0),
    "spring": SPRING,
    "muscle": MUSCLE,
}


def skew(x):
    return np.array([[0, -x[2], x[1]], [x[2], 0, -x[0]], [-x[1], x[0], 0]])


@pytest.fixture(scope="module")
def found():
    @jax.jit
    def ask(q, v):
        matrices = {
            name: (f.body_stiffness(MODEL, q, v), f.body_damping(MODEL, q, v)) for name, f in FORCES.items()
        }
        along = {
            name: (f.length(MODEL, q), f.tension(MODEL, q, v))
            for name, f in FORCES.items()
            if name in ("spring", "muscle")
        }
        frames = rbd.forward_kinematics(MODEL, q)
        return matrices, along, frames, rbd.body_velocities(MODEL, q, v, "body")

    matrices, along, frames, twists = ask(Q, V)
    return matrices, along, np.asarray(frames.rotation), np.asarray(frames.position), np.asarray(twists)


def printed_2(R, p, x, x0):
    """Returns the matrix of (1.37) without its constant, for two bodies."""
    R12 = R[0].T @ R[1]
    S = [skew(x[0]), skew(x[1])]
    a, b = skew(R[0].T @ (p[0] - x0[1])), skew(R[1].T @ (p[1] - x0[0]))
    one = np.eye(3)
    return np.block(
        [
            [S[0] @ a, S[0], S[0] @ R12 @ S[1], -S[0] @ R12],
            [a, one, R12 @ S[1], -R12],
            [S[1] @ R12.T @ S[0], -S[1] @ R12.T, S[1] @ b, S[1]],
            [R12.T @ S[0], -R12.T, b, one],
        ]
    )


def segments(found, count):
    """Yields per segment of a path: its length, `Γᵀ Rᵀ Δx` on all bodies, and (1.37) for all bodies."""
    _, _, R, p, _ = found
    x0 = p + np.einsum("kij,kj->ki", R, POINTS)
    for k in range(count - 1):
        pair = slice(k, k + 2)
        delta = x0[k + 1] - x0[k]
        n = np.zeros(6 * count)
        for sign, i in ((1, k), (-1, k + 1)):
            gamma = np.hstack([skew(POINTS[i]).T, np.eye(3)])
            n[6 * i : 6 * i + 6] = sign * gamma.T @ R[i].T @ delta
        K2 = np.zeros((6 * count, 6 * count))
        K2[6 * k : 6 * k + 12, 6 * k : 6 * k + 12] = printed_2(R[pair], p[pair], POINTS[pair], x0[pair])
        yield np.linalg.norm(delta), n, K2


def path_matrices(found, count, tension, by_length, by_rate):
    """Returns `∂f/∂E` and `-∂f/∂φ` of a tension along a path: (1.61) with K2 subtracted, and (1.64) with the opposite
    sign.
    """
    parts = list(segments(found, count))
    # The lengthening by a step of the bodies is -n/l for each segment: (1.63) and (1.64) are its multiples.
    lengthening = -sum(n / l for l, n, _ in parts)
    pull = sum(n / l for l, n, _ in parts)
    K = np.outer(pull, by_length * lengthening)
    for l, n, K2 in parts:
        K += tension * (np.outer(n, n) / l**3 - K2 / l)
    return K, -np.outer(pull, by_rate * lengthening)


def test_directional_force(found):
    """(1.33) as printed."""
    matrices, _, R, _, _ = found
    turned = skew(R[0].T @ np.array([1.0, 2.0, -3.0]))
    K = np.block([[skew(POINTS[0]) @ turned, np.zeros((3, 3))], [turned, np.zeros((3, 3))]])
    assert_close(matrices["directional"][0], K, 1e-12)


def test_point_to_point(found):
    """(1.37) is minus the stiffness."""
    ((_, _, K2),) = segments(found, 2)
    assert_close(found[0]["point to point"][0], -7.0 * K2, 1e-12)
    assert_close(found[0]["point to point"][1], np.zeros((12, 12)), 1e-14)


def test_spring_damper(found):
    """(1.66) to (1.68) with the opposite sign of `f_n`, so that a stretched spring pulls and a damper dissipates."""
    matrices, along, R, p, twists = found
    ((l, n, _),) = segments(found, 2)
    rate = -(n / l) @ twists[:2].reshape(-1)
    tension = 40.0 * (l - 0.8) + 3.0 * rate
    assert_close(along["spring"][0], l, 1e-14)
    assert_close(along["spring"][1], tension, 1e-13)
    K, D = path_matrices(found, 2, tension, 40.0, 3.0)
    # The rate of the length depends on the bodies too: `l̇ = -(n/l) · φ`. The notes omit this derivative.
    unit_K, _ = path_matrices(found, 2, 1.0, 0.0, 0.0)
    K += np.outer(n / l, -3.0 * twists[:2].reshape(-1) @ unit_K)
    assert_close(matrices["spring"][0], K, 1e-12)
    assert_close(matrices["spring"][1], D, 1e-12)
    assert np.linalg.eigvalsh(D).min() > -1e-12 and np.linalg.eigvalsh(D).max() > 1


def test_muscle_over_three_points(found):
    """(1.57) to (1.64), with K2 subtracted; the printed D has the opposite sign, and f_L' in place of f_L in (1.56)."""
    matrices, along, R, p, twists = found
    parts = list(segments(found, 3))
    length, speed = sum(l for l, _, _ in parts), -sum(n / l for l, n, _ in parts) @ twists.reshape(-1)
    fibre, velocity = (length - TENDON) / OPTIMAL, speed / (OPTIMAL * 4.0)

    def values(curve, x):
        """Returns the curve's value and slope, by differences that are exact for cubics."""
        h = 1e-4
        at = np.asarray(jax.jit(jax.vmap(curve))(x + h * np.arange(-2, 3)))
        return at[2], (8 * (at[3] - at[1]) - (at[4] - at[0])) / (12 * h)

    (fL, fL1), (fP, fP1), (fV, fV1) = (
        values(ACTIVE_LENGTH, fibre),
        values(PASSIVE_LENGTH, fibre),
        values(FORCE_VELOCITY, velocity),
    )
    assert fL > 0.05 and abs(velocity) < 1
    tension = 30.0 * (0.6 * fL * fV + fP)
    assert_close(along["muscle"][0], length, 1e-14)
    assert_close(along["muscle"][1], tension, 1e-12)
    by_length, by_rate = 30.0 * (0.6 * fL1 * fV + fP1) / OPTIMAL, 30.0 * 0.6 * fL * fV1 / (OPTIMAL * 4.0)
    K, D = path_matrices(found, 3, tension, by_length, by_rate)
    unit_K, _ = path_matrices(found, 3, 1.0, 0.0, 0.0)
    pull = sum(n / l for l, n, _ in parts)
    K += np.outer(pull, -by_rate * twists.reshape(-1) @ unit_K)
    assert_close(matrices["muscle"][0], K, 1e-9)
    assert_close(matrices["muscle"][1], D, 1e-9)
